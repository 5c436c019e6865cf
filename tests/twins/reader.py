"""Twins of the compiled functions of the svmlight reader: regular expressions and fractions."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np

from odmtool.io import _scan
from twins.making import Twin, table

END = rb"[ \t\r\n#]"
QID = re.compile(rb"qid:[0-9]+(?=" + END + rb")")
SIGNED = re.compile(rb"([+-]?)([0-9]+)")
NUMBER = re.compile(rb"[+-]?(?P<digits>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE](?P<e>[+-]?[0-9]+))?")
LINE = re.compile(
    rb"[ \t]*(?P<label>[^ \t\r\n#]*)[ \t]*(?P<qid>q[^ \t\r\n#]*)?"
    rb"(?P<pairs>(?:[ \t]*[^ \t\r\n#]+)*)[ \t]*(?P<end>#[^\n\0]*|\r)?\n"
)


def text_of(content: bytes) -> np.ndarray:
    return np.frombuffer(content, np.uint8)


def in_token(character):
    return re.fullmatch(END, bytes([character])) is None


def character_cases(generator):
    for character in range(256):
        yield (np.uint8(character),)


def after_qid(text, position):
    found = QID.match(text.tobytes(), position)
    return found.end() if found else -1


def qid_cases(generator):
    for token in ("qid:1", "qid:0123456789", "qid:", "qid", "q", "qid:1x", "qid:x", "qjd:", "Q"):
        for end in " \t\r\n#:":
            yield text_of(f"1 {token}{end}\n".encode()), 2


# ---- lines -------------------------------------------------------------------------------------


def cut(text, first_index, largest_index, labels, counts, indices, values):
    """A line by one expression, a pair by another."""
    content, position, rows, pairs = text.tobytes(), 0, 0, 0
    while position < len(content):
        line = LINE.match(content, position)
        if not line or (line["qid"] and not QID.match(line["qid"] + b" ")):
            return -1, 0
        before, last = pairs, first_index - 1
        for token in re.finditer(rb"[^ \t]+", line["pairs"]):
            pair = re.match(rb"([0-9]+):", token[0])
            if not pair or not last < int(pair[1]) <= largest_index:
                return -1, 0
            last = indices[pairs] = int(pair[1])
            values[pairs] = line.start("pairs") + token.start() + pair.end()
            pairs += 1
        labels[rows], counts[rows] = line.start("label"), pairs - before
        rows += line["label"] != b""
        position = line.end()
    return rows, pairs


def noted(result, arguments):
    """What stands in the arrays beyond the rows and pairs is left over."""
    rows, pairs = (int(number) for number in result)
    labels, counts, indices, values = arguments[3:]
    filled = labels[: max(rows, 0)], counts[: max(rows, 0)], indices[:pairs], values[:pairs]
    return (rows, pairs, *filled)


LINES = (
    "1 1:2 3:4", "-1", "", "   ", "# comment", "1 # 2:3", "\t+1 \t qid:3 \t 2:1e5\t3:.5 ",
    "1 1:2\r", "1 qid:77", " # 1", "0 5:1#2", "1 5:", "1 12345:0 12346:1", "2147483648 1:1",
    "1 00003:1",
)  # fmt: skip
WRONG = (
    "1 2:1 1:1", "1 1:1 1:1", "1 0:1", "1 a:1", "1 1", "1 :1", "1 1:1 2", "1 qid:", "1 qid:1a 1:1",
    "1 1:1 # \0", "1 99999999:1", "1 99999999999999999999999:1", "1 1:1\r1:2", "1 1:1\r ",
    "1 quick", "1 1:1 qid:1",
)  # fmt: skip


def line_cases(generator):
    blocks = [["1 1:1", line] for line in (*LINES, *WRONG)]
    blocks += [generator.choice(LINES, 5).tolist() for _ in range(20)] + [[]]
    for lines in blocks:
        text = text_of("".join(f"{line}\n" for line in lines).encode())
        room = len(text) // 2 + 2, len(text) // 3 + 1
        for bounds in ((1, 20000), (0, 20000)):
            dtypes = zip((np.int64, np.int32, np.int32, np.int64), np.repeat(room, 2), strict=True)
            yield text, *bounds, *(np.full(size, -7, dtype) for dtype, size in dtypes)


# ---- numbers -----------------------------------------------------------------------------------


def exact(mantissa, exponent) -> Fraction:
    return Fraction(int(mantissa)) * Fraction(10) ** exponent


def nearly_halfway(value: Fraction, rounded: float) -> bool:
    """Whether a relative error of 2**-98 leaves open which double is the nearest."""
    neighbours = (np.nextafter(rounded, side) for side in (-np.inf, np.inf))
    middles = [(Fraction(rounded) + Fraction(float(other))) / 2 for other in neighbours]
    return any(abs(value - middle) < value * Fraction(1, 2**98) for middle in middles)


def rounded_product(mantissa, power, power_low):
    value = int(mantissa) * (Fraction(power) + Fraction(power_low))
    rounded = value.numerator / value.denominator
    return rounded, not nearly_halfway(value, rounded)


def certain(result, arguments):
    """An uncertain product may be the double beside the nearest."""
    value, is_certain = result
    return (float(value) if is_certain else 0.0), bool(is_certain)


def product_cases(generator):
    powers = _scan.powers_of_ten()
    for mantissa in generator.integers(2**53, 10**18, 60, dtype=np.uint64):
        yield mantissa, *powers[generator.integers(0, len(powers))]
    # Halfway between two doubles, just above and just below.
    for mantissa in (2**53 + 1, 2**54 + 2, 2**60 + 2**7, 2**60 + 2**7 + 1, 2**60 + 2**7 - 1):
        yield np.uint64(mantissa), 1.0, 0.0
    # As large as allowed; rounded up by conversion.
    yield np.uint64(10**19 - 1), *powers[250]
    yield np.uint64(2**63 + 2**11 - 1), *powers[300]


def significant(text, position, end):
    return len(text.tobytes()[position:end].lstrip(b"0.").replace(b".", b""))


def digit_cases(generator):
    for digits in ("0", "0.", "000.00100", "12.50", ".5", "00012", "1.000"):
        text = text_of(f"xx{digits}9 ".encode())
        yield text, 2, 2 + len(digits)


def signed(text, position):
    found = SIGNED.match(text.tobytes(), position)
    if not found:
        return -1, 0
    number = min(int(found[2]), 10**15)
    return found.end(), -number if found[1] == b"-" else number


def the_exponent(result, arguments):
    place, exponent = result
    return (int(place), int(exponent)) if place >= 0 else -1


def exponent_cases(generator):
    for token in ("0", "+12", "-7", "9" * 20, "-" + "9" * 17, "", "+", "x", "3x"):
        yield text_of(f"1e{token} \n".encode()), 2


def convert(text, starts, powers, numbers, deferred):
    """Python's float of every token, and which are too hard for 19 digits and 250 powers."""
    content, late = text.tobytes(), 0
    for item, start in enumerate(starts):
        token = re.compile(rb"[^ \t\r\n#]*").match(content, start)[0]
        found = NUMBER.fullmatch(token)
        if not found:
            return -1
        numbers[item] = float(token)
        if is_hard(found):
            deferred[late], late = item, late + 1
    return late


def is_hard(found) -> bool:
    digits = found["digits"]
    exponent = int(found["e"] or b"0") - len(digits.partition(b".")[2])
    if significant(text_of(digits), 0, len(digits)) > 19 or abs(exponent) > 250:
        return True
    mantissa = int(digits.replace(b".", b""))
    if mantissa <= 2**53 and abs(exponent) <= 22:
        return False
    value = abs(Fraction(Decimal(found[0].decode())))
    return value != 0 and nearly_halfway(value, abs(float(found[0])))


def converted(result, arguments):
    """A number that is left to do may be anything so far."""
    _text, starts, _powers, numbers, deferred = arguments
    done = np.setdiff1d(np.arange(len(starts)), deferred[: max(result, 0)])
    assert not np.signbit(numbers[done][numbers[done] > 0]).any()
    signs = np.signbit(numbers[done])
    return (result, numbers[done], signs, deferred[:result]) if result >= 0 else -1


NUMBERS = (
    "0", "-0", "+1", "1.5", ".25", "-7", "1e5", "1E-5", "1e+22", "1e23", "9007199254740993",
    "9007199254740993e-3", "1.7976931348623157e308", "4.9e-324", "0.1", "123456789012345678",
    "1234567890123456789", "12345678901234567890", "0.00000000000000000000000000012345678901234567",
    "000000000000000000000000000001", "0.000000000000000000000e5", "1e250", "1e-250", "1e251",
    "1e-251", "18446744073709551616", "1e99999999999999999999", "9007199254740992e22", "3e-22",
    "9007199254740992e-22", "9007199254740991e-23", "12345.67890123456789", "-7.", "5.e3", "+5.E-3",
)  # fmt: skip
NO_NUMBERS = (
    "", "x", "-.", "1x", "1..", ".e5", "1e5.", ".", "-", "+-1", "1e", "1e+", "1.2.3", "0x1", "nan",
    "inf", "1e5.0", "1,5",
)  # fmt: skip


def number_cases(generator):
    blocks = [[token] for token in NUMBERS] + [["1", token, "2"] for token in NO_NUMBERS]
    blocks += [[f"{x:.{n}e}" for n, x in enumerate(generator.normal(size=19))], list(NUMBERS), []]
    for tokens in blocks:
        starts = np.cumsum([0, *(len(token) + 1 for token in tokens)])[:-1]
        text = text_of("".join(f"{token} " for token in tokens).encode() + b"\n")
        room = np.full(len(tokens), np.nan), np.full(len(tokens), -7)
        yield text, starts.astype(np.int64), _scan.powers_of_ten(), *room


TWINS = table(
    Twin(_scan._in_token, in_token, character_cases),
    Twin(_scan._after_qid, after_qid, qid_cases),
    Twin(_scan._split, cut, line_cases, noted),
    Twin(_scan._product, rounded_product, product_cases, certain),
    Twin(_scan._significant, significant, digit_cases),
    Twin(_scan._exponent, signed, exponent_cases, the_exponent),
    Twin(_scan._convert, convert, number_cases, converted),
)
