"""Twins of the compiled functions of the writer of models: fractions and Python's own formats."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from odmtool.io import _powers, _print
from twins.making import Twin, table


def product(a, b):
    return a * b, float(Fraction(a) * Fraction(b) - Fraction(a * b))


def product_cases(generator):
    for size in (0, 30, -200):
        for a, b in generator.normal(size=(20, 2)).tolist():
            yield a * 10.0**size, b


# ---- digits ------------------------------------------------------------------------------------


def of_format(size: float) -> tuple[int, int]:
    significand, _, exponent = f"{size:.16e}".partition("e")
    return int(significand.replace(".", "")), int(exponent)


def is_hard(size: float) -> bool:
    """Whether a power is not at hand, or 17 digits end about halfway between two integers."""
    if not 1e-230 < size < 1e230:
        return size > 0
    exponent = of_format(size)[1]
    exponent -= Fraction(size) < Fraction(10) ** exponent
    scaled = Fraction(size) * Fraction(10) ** (16 - exponent)
    return abs(scaled % 1 - Fraction(1, 2)) < Fraction(1, 2**30)


def digits_of(numbers, powers, digits, exponents, deferred):
    late = 0
    for item, number in enumerate(numbers.tolist()):
        digits[item], exponents[item] = of_format(abs(number))
        if is_hard(abs(number)):
            deferred[late], late = item, late + 1
    return late


def digits_found(result, arguments):
    """A number that is left to do may be anything so far."""
    numbers, _powers, digits, exponents, deferred = arguments
    done = np.setdiff1d(np.arange(len(numbers)), deferred[:result])
    return result, digits[done], exponents[done], deferred[:result]


def numbers_for(generator) -> list[np.ndarray]:
    tens = 10.0 ** np.arange(-300.0, 300.0, 7.0)
    return [
        np.array([0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 2.5, 100.0, 123456.0, 5e-324, 1.7e308, 1e16,
                  1e17, 12345678901234567890.0, 9.9999e-5, 1e-4, 0.00012345, -1e-5]),
        # Halfway between two numbers of 17 digits.
        np.array([2.0**54 * 5 + 2.0**4, 2.0**-25 * 3, (2.0**53 - 1) * 2.0**-4, 0.5 + 2.0**-18]),
        tens, np.nextafter(tens, 0.0), np.nextafter(tens, np.inf),
        generator.normal(size=50) * 10.0 ** generator.integers(-250, 250, 50), np.empty(0),
    ]  # fmt: skip


def digit_cases(generator):
    for numbers in numbers_for(generator):
        room = np.full((3, len(numbers)), -7)
        yield numbers, _powers.powers_of_ten(), *room


# ---- text --------------------------------------------------------------------------------------


def text_of(numbers, digits, exponents, indices, ends, text):
    parts = [
        (b"%d:" % index if index >= 0 else b"") + b"%.17g " % number + b"\n" * int(end)
        for number, index, end in zip(numbers, indices, ends, strict=True)
    ]
    start = len(text) - len(b"".join(parts))
    text[start:] = np.frombuffer(b"".join(parts), np.uint8)
    return start


def text_cases(generator):
    for numbers in numbers_for(generator):
        found = np.array([of_format(size) for size in np.abs(numbers).tolist()]).reshape(-1, 2)
        indices = np.resize([-1, 0, 9, 10, 2**31 - 1, -1], len(numbers))
        ends = generator.random(len(numbers)) < 0.3
        room = np.zeros(37 * len(numbers), np.uint8)
        yield numbers, *np.ascontiguousarray(found.T), indices, ends, room


TWINS = table(
    Twin(_powers.exact_product, product, product_cases),
    Twin(_print._digits, digits_of, digit_cases, digits_found),
    Twin(_print._text, text_of, text_cases),
)
