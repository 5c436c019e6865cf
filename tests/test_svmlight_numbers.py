"""Numbers of data files are the doubles that Python's float gives, bit by bit."""

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odmtool.io import _plain, _scan
from odmtool.io._line import Grammar
from odmtool.io._powers import powers_of_ten

READ_BLOCK = {"plain": _plain.read_block, "compiled": _scan.read_block}
ANY = settings(deadline=None, derandomize=True)


def values_of(reader: str, texts: list[str]) -> np.ndarray:
    """The texts read as values; texts whose value is zero must not be among them."""
    block = "".join(f"1 1:{text}\n" for text in texts).encode()
    part = READ_BLOCK[reader](block, Grammar())
    assert len(part.values) == len(texts)
    return part.values


def assert_exact(texts: list[str]) -> None:
    texts = [text for text in texts if float(text) != 0 and math.isfinite(float(text))]
    expected = np.array([float(text) for text in texts])
    for reader in READ_BLOCK:
        wrong = np.flatnonzero(values_of(reader, texts).view(np.int64) != expected.view(np.int64))
        assert [texts[k] for k in wrong[:5]] == [], reader


def random_doubles(count: int, seed: int) -> np.ndarray:
    """Doubles of every exponent, denormals among them."""
    bits = np.random.default_rng(seed).integers(0, 0x7FF0000000000000, count, dtype=np.int64)
    return bits.view(np.float64)


@pytest.mark.parametrize("form", ["{!r}", "{:.17g}", "{:.16g}", "{:.18e}", "{:.6g}", "{:.25e}"])
def test_doubles_of_every_size(form):
    assert_exact([form.format(x) for x in random_doubles(5000, 1).tolist()])


@pytest.mark.parametrize("form", ["{:.17g}", "{:.18e}", "{:.19f}", "{:.6f}", "{!r}", "{:.0f}"])
@pytest.mark.parametrize("scale", [1.0, 1e-7, 1e3, 1e15, 1e25])
def test_doubles_of_common_sizes(form, scale):
    numbers = np.random.default_rng(2).standard_normal(2000) * scale
    assert_exact([form.format(x) for x in numbers.tolist()])


def test_short_texts():
    """All of up to four characters."""
    digits = ["0", "5", "9", "12", "90", "123", "1234", "0001", "9999"]
    fractions = ["1.", ".5", "0.5", "1.25", "12.5", "9.99", "123.", ".125", "0.07"]
    texts = [sign + text for text in digits + fractions for sign in ("", "+", "-")]
    assert_exact([text for text in texts if len(text) <= 4])
    rng = np.random.default_rng(6)
    assert_exact([f"{x:.2f}" for x in rng.random(500)] + [str(n) for n in range(1, 1000, 7)])


def test_decimal_texts_of_every_length():
    """Not the texts of doubles: random digits, so roundings fall anywhere."""
    rng = np.random.default_rng(3)
    texts = []
    for length in range(1, 26):
        for exponent in rng.integers(-330, 310, 200).tolist():
            digits = "".join(map(str, rng.integers(0, 10, length)))
            place = rng.integers(0, length + 1)
            texts.append(f"{digits[:place]}.{digits[place:]}e{exponent}")
    assert_exact(texts)


def test_texts_without_exponents_of_every_length():
    """The plain reader joins words of eight digits, to which leading zeros belong."""
    rng = np.random.default_rng(7)
    texts = []
    for length in range(1, 28):
        for zeros in (0, 1, 7, 16):
            digits = "0" * zeros + "".join(map(str, rng.integers(0, 10, length)))
            places = rng.integers(0, len(digits), 5).tolist()
            texts += [digits, *(f"-{digits[:place]}.{digits[place:]}" for place in places)]
    assert_exact(texts)


def test_halfway_cases():
    """Between two doubles, exactly and as nearly as 19 and more digits can be."""
    texts = []
    for x in [*random_doubles(300, 4).tolist(), 1.0, 2.0**53, 2.0**60, 0.5, 1e22, 5e-324]:
        middle = (Fraction(x) + Fraction(math.nextafter(x, math.inf))) / 2
        scale = 17 - math.floor(math.log10(x) if x > 1e-320 else -324)
        for extra in (0, 1, 2, 10):
            whole = math.floor(middle * Fraction(10) ** (scale + extra))
            texts += [f"{whole + k}e{-scale - extra}" for k in (-1, 0, 1)]
    for bits in (53, 54, 60, 63):
        texts += [str(2**bits + k) for k in range(-3, 4)]
    assert_exact(texts)


def test_edges():
    assert_exact(
        ["5e-324", "3e-324", "2.5e-324", "2.4703282292062328e-324", "4.9406564584124654e-324"]
        + ["2.2250738585072014e-308", "2.2250738585072011e-308", "1.7976931348623157e308"]
        + ["9007199254740992", "9007199254740993", "9007199254740992e22", "9007199254740991e-22"]
        + ["1e22", "1e23", "8.5e22", "1e-22", "1e-23", "123456789012345678e-250", "1e250", "1e251"]
        + ["9999999999999999999", "99999999999999999999", "18446744073709551615", "0.1e-249"]
        + ["9999999999999999999e-250", "9999999999999999999e250"]
        + ["1" + "0" * 30, "." + "0" * 30 + "1"]
        + ["5.", "+5.", "-5.e3", "5.E-3", "12345678901234567890."]
    )


@ANY
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False).filter(bool), min_size=1))
def test_any_double_comes_back(numbers):
    for reader in READ_BLOCK:
        for form in ("{!r}", "{:.17g}"):
            values = values_of(reader, [form.format(x) for x in numbers])
            assert values.tobytes() == np.array(numbers).tobytes()


@ANY
@given(
    st.lists(
        st.from_regex(
            r"[+-]?([0-9]{1,22}(\.[0-9]{0,22})?|\.[0-9]{1,22})([eE][+-]?[0-9]{1,3})?",
            fullmatch=True,
        ),
        min_size=1,
    )
)
def test_any_text_of_the_grammar(texts):
    assert_exact(texts)


def test_python_reads_few_of_them(monkeypatch):
    """The two compiled ways are enough for what programs write, except at extreme sizes."""

    class NoHelp:
        def match(self, *arguments):
            raise AssertionError(arguments)

    monkeypatch.setattr(_scan, "NUMBER", NoHelp())
    rng = np.random.default_rng(5)
    numbers = rng.standard_normal(20000) * 10.0 ** rng.integers(-200, 200, 20000)
    values = values_of("compiled", [f"{x:.18e}" for x in numbers])
    assert values.tobytes() == numbers.tobytes()


def test_powers_of_ten():
    """As sums of two doubles they are right to 2**-106, on which the rounding test relies."""
    table = powers_of_ten()
    assert struct.pack("d", table[250 + 22, 0]) == struct.pack("d", 1e22)
    for exponent in range(-250, 251):
        high, low = map(Fraction, table[250 + exponent].tolist())
        power = Fraction(10) ** exponent
        assert abs(high + low - power) <= power / 2**106
        assert float(power) == high
