"""odm-scale and range files."""

from __future__ import annotations

from odmtool.messages.words import quoted, sentence


def range_start(line: bytes, after_labels: bool) -> str:
    expected = "'x' after the label range" if after_labels else "'x' or 'y'"
    return f"not a range file: expected {expected}, got {quoted(line)}"


range_ended = sentence("the range file ends too early: expected {expected}")
range_cut = sentence("the last line has no line end; the range file may have been cut off")
range_count = sentence(
    "the file announces {expected} features, but has {found}: it was cut off or changed"
)
range_pair = sentence("expected two numbers '{expected}', got {line!q}")
range_row = sentence("expected 'index min max', got {line!q}")
range_index = sentence("a feature index must be a whole number from 1 to 2147483647, got {token!q}")
range_descending = sentence("feature indices must rise: {index} comes after {previous}")
range_of_svm_scale = sentence(
    "‹zero_based› does not go with a range file of svm-scale (which has no line '0 n n'): there "
    "the index 0 has no range; write one with odm-scale"
)
range_number = sentence("expected a finite number, got {token!q}")
range_order = sentence("the lower number must come first, got {low:.17g} and {high:.17g}")
scaled_too_large = sentence(
    "scaled data would take {needed!b}, and there may be {limit!b}, because zeros become other "
    "numbers: scale to a range from 0 on (‹scale=0,1›), or raise ‹memory›"
)
scaling_overflow = sentence(
    "the value {value:.17g} is too far outside the range [{minimum:.17g}, {maximum:.17g}] "
    "to be scaled"
)
