"""Reading svmlight data."""

from __future__ import annotations

from odmtool.messages.words import quoted


def wrong_format(line: int, fault: str) -> str:
    """LIBSVM's and LIBLINEAR's words, which scripts look for, and the reason."""
    return f"Wrong input format at line {line}: {fault}"


def no_rows(lines: int) -> str:
    if lines == 0:
        return "the file is empty"
    return "the file has no data, only blank lines and comments"


def byte_order_mark(encoding: str) -> str:
    if encoding == "UTF-8":
        return (
            "the file starts with a byte order mark (the bytes EF BB BF); "
            "save it as UTF-8 without BOM, or remove them with: tail -c +4 FILE"
        )
    return f"the file is {encoding} text; convert it with: iconv -f {encoding} -t ASCII FILE"


def nul_byte() -> str:
    return "it holds a NUL byte: this is no text file, or it is damaged"


def carriage_return() -> str:
    return "a carriage return inside the line; lines must end with a newline (LF or CR LF)"


def control_character(token: bytes) -> str:
    return f"a control character in {quoted(token)}; only spaces and tabs separate tokens"


def not_ascii(token: bytes) -> str:
    try:
        token.decode("ascii")
    except UnicodeDecodeError as error:
        byte = token[error.start]
    return f"{quoted(token)} holds the byte {byte:#04x}; only ASCII may stand outside comments"


def label_missing(token: bytes) -> str:
    return f"the label is missing: the line starts with {quoted(token)}"


def label_not_a_number(token: bytes) -> str:
    hint = ""
    if b"," in token:
        hint = " (CSV, or several labels? expected: label index:value index:value ...)"
    return f"label {quoted(token)} is not a number{hint}"


def label_not_finite(token: bytes) -> str:
    return f"label {quoted(token)} is not a finite number"


def label_not_an_integer(token: bytes) -> str:
    return f"label {quoted(token)} is not an integer"


def label_out_of_range(token: bytes) -> str:
    return f"label {quoted(token)} is outside -2147483648..2147483647"


def wrong_qid(token: bytes) -> str:
    return f"expected qid:number, got {quoted(token)}"


def not_index_value(token: bytes) -> str:
    return f"expected index:value, got {quoted(token)}"


def index_missing(token: bytes) -> str:
    return f"expected index:value, got {quoted(token)}: no index before the colon"


def index_not_whole(token: bytes) -> str:
    return f"expected index:value, got {quoted(token)}: the index is not a whole number"


def index_negative(token: bytes) -> str:
    return f"expected index:value, got {quoted(token)}: the index is negative"


def index_zero(token: bytes) -> str:
    return (
        f"index 0 in {quoted(token)}: indices start at 1 (‹zero_based› if all of this data counts "
        "from 0; 0:serial belongs to a precomputed kernel)"
    )


def index_too_large(token: bytes, largest: int) -> str:
    return f"the index in {quoted(token)} is larger than {largest}"


def index_repeated(token: bytes) -> str:
    return f"the index in {quoted(token)} occurs twice"


def index_descending(token: bytes, previous: int) -> str:
    return f"the index in {quoted(token)} comes after {previous}; indices must ascend"


def value_missing(token: bytes) -> str:
    return f"no value directly after the colon in {quoted(token)}"


def value_not_a_number(token: bytes) -> str:
    return f"the value in {quoted(token)} is not a number"


def value_point(token: bytes) -> str:
    return f"the value in {quoted(token)} is not a number: a digit must follow the point"


def value_not_finite(token: bytes) -> str:
    return f"the value in {quoted(token)} is not finite; leave out what is missing (it counts as 0)"


def value_too_large(token: bytes) -> str:
    return f"the value in {quoted(token)} is too large for a double (the largest is 1.8e308)"


def serial_missing(token: bytes) -> str:
    got = f", got {quoted(token)}" if token else ""
    return f"with a precomputed kernel every line starts with label 0:serial{got}"


def serial_not_positive(token: bytes) -> str:
    return f"the serial in {quoted(token)} is not a whole number from 1 to 2147483647"


def zero_based_precomputed() -> str:
    return "‹zero_based› does not go with a precomputed kernel, whose index 0 is the serial"


def wrong_weight(token: bytes) -> str:
    return f"expected a weight, a number >= 0, got {quoted(token)}"


def weight_count(weights: int, examples: int) -> str:
    return f"{weights} weights for {examples} examples: give one weight per example"


def weights_negative() -> str:
    return "weights must be finite and not negative"


def all_weights_zero() -> str:
    return "all weights are zero: there is nothing to train on"


def serial_beyond(example: int, serial: int, width: int) -> str:
    return (
        f"example {example} has the serial number {serial}, but the rows have only {width} kernel "
        "values"
    )


def not_symmetric(i: int, j: int, value: float, mirrored: float) -> str:
    return (
        f"the precomputed kernel is not symmetric: K({i},{j}) is {value:g}, "
        f"but K({j},{i}) is {mirrored:g}"
    )


def values_too_large(example: int) -> str:
    return (
        f"the values of example {example} are so large that numbers overflow; scale the features "
        "(odm-scale)"
    )
