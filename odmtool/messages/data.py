"""Reading svmlight data."""

from __future__ import annotations

from odmtool.messages.words import quoted, sentence

# LIBSVM's and LIBLINEAR's words, which scripts look for, and the reason.
wrong_format = sentence("Wrong input format at line {line}: {fault}")


def no_rows(lines: int) -> str:
    if lines == 0:
        return "the file is empty"
    return "the file has no data, only blank lines and comments"


shortened_while_read = sentence(
    "the file became shorter while it was read: another program writes it"
)
no_row_so_far = sentence("the first {limit} bytes have no row, only blank lines and comments")


def byte_order_mark(encoding: str) -> str:
    if encoding == "UTF-8":
        return (
            "the file starts with a byte order mark (the bytes EF BB BF); "
            "save it as UTF-8 without BOM, or remove them with: tail -c +4 FILE"
        )
    return f"the file is {encoding} text; convert it with: iconv -f {encoding} -t ASCII FILE"


nul_byte = sentence("it contains a NUL byte: it is not a text file, or it is damaged")
carriage_return = sentence(
    "a carriage return inside the line; lines must end with a newline (LF or CR LF)"
)
control_character = sentence(
    "a control character in {token!q}; only spaces and tabs separate tokens"
)


def not_ascii(token: bytes) -> str:
    try:
        token.decode("ascii")
    except UnicodeDecodeError as error:
        byte = token[error.start]
    return (
        f"{quoted(token)} holds the byte {byte:#04x}; only ASCII may stand outside comments and "
        "words that are labels"
    )


label_missing = sentence("the label is missing: the line starts with {token!q}")


def label_not_a_number(token: bytes) -> str:
    return f"label {quoted(token)} is not a number{_hint(token)}"


def label_not_a_word(token: bytes) -> str:
    hint = _hint(token) or ": a word is UTF-8 text without white space and control characters"
    return f"label {quoted(token)} is neither a number nor a word{hint}"


def _hint(token: bytes) -> str:
    if b"," in token or b";" in token:
        return " (CSV, or several labels? expected: label index:value index:value ...)"
    return ""


label_is_a_word = sentence(
    "label {token!q} is not a number, and the first label of the file is one; give only numbers "
    "or only words"
)
label_without_need = sentence(
    "a row begins with {token!q}, and the first row of the file has no label; give every row a "
    "label, or none"
)
label_is_a_number = sentence(
    "label {token!q} is a number, and the first label of the file, {first!q}, is a word; give "
    "only numbers or only words"
)


def labels_of_files(is_numbers: bool, other: str) -> str:
    own, others = ("numbers", "words") if is_numbers else ("words", "numbers")
    return f"its labels are {own}, those of {other} are {others}; give only numbers or only words"


label_not_finite = sentence("label {token!q} is not a finite number")
label_not_an_integer = sentence(
    "label {token!q} is not an integer: labels are classes, integers or words; "
    "there is no regression"
)
label_out_of_range = sentence("label {token!q} is outside -2147483648..2147483647")
wrong_qid = sentence("expected qid:number, got {token!q}")
not_index_value = sentence("expected index:value, got {token!q}")
index_missing = sentence("expected index:value, got {token!q}: no index before the colon")
index_not_whole = sentence("expected index:value, got {token!q}: the index is not a whole number")
index_negative = sentence("expected index:value, got {token!q}: the index is negative")
index_zero = sentence(
    "index 0 in {token!q}: indices start at 1 (‹zero_based› if all of this data counts "
    "from 0; 0:serial belongs to a precomputed kernel)"
)
index_too_large = sentence("the index in {token!q} is larger than {largest}")
index_repeated = sentence("the index in {token!q} occurs twice")
index_descending = sentence("the index in {token!q} comes after {previous}; indices must ascend")
value_missing = sentence("no value directly after the colon in {token!q}")
value_not_a_number = sentence("the value in {token!q} is not a number")
value_not_finite = sentence(
    "the value in {token!q} is not finite; leave out what is missing (it counts as 0)"
)
value_too_large = sentence(
    "the value in {token!q} is too large for a double (the largest is 1.8e308)"
)


def serial_missing(token: bytes) -> str:
    got = f", got {quoted(token)}" if token else ""
    return f"with a precomputed kernel every line starts with label 0:serial{got}"


serial_not_positive = sentence("the serial in {token!q} is not a whole number from 1 to 2147483647")
zero_based_precomputed = sentence(
    "‹zero_based› does not go with a precomputed kernel, whose index 0 is the serial"
)
wrong_weight = sentence("expected a weight, a number >= 0, got {token!q}")
weight_count = sentence("{weights} weights for {examples} examples: give one weight per example")
weights_shape = sentence(
    "the weights must be one for each of the {examples} examples; their shape is {shape}"
)
too_many_weights = sentence(
    "more weights than the {examples} examples: give one weight per example"
)
weight_cut = sentence(
    "the last line has no line end, so the file may have been cut off; add one if it is whole"
)
weights_negative = sentence("weights must be finite and not negative")
all_weights_zero = sentence("all weights are zero: there is nothing to train on")
serial_beyond = sentence(
    "example {example} has the serial number {serial}, but the rows have only {width} kernel values"
)
serial_repeated = sentence(
    "examples {first} and {second} have the same serial number, {serial}, but other kernel "
    "values: give each example a number of its own"
)
not_symmetric = sentence(
    "the precomputed kernel is not symmetric: K({i},{j}) is {value:g}, "
    "but K({j},{i}) is {mirrored:g}"
)
bias_too_large = sentence(
    "‹bias:› {bias:g} is so large beside the kernel values, at most {largest:.3g}, that these are "
    "lost in rounding; take at most {most:.3g}"
)
values_too_large = sentence(
    "the values of example {example} are so large that numbers overflow; scale the features"
    "‹command=scale›"
)
