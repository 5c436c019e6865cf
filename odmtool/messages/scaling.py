"""odm-scale and range files."""

from __future__ import annotations

from odmtool.messages.words import quoted


def save_and_restore() -> str:
    return "-s and -r exclude each other: -s writes the ranges of this file, -r uses others"


def range_not_rising(*ends) -> str:
    return f"the lower end must be below the upper end, not {' '.join(map(_plain, ends))}"


def dash_twice(stream: str) -> str:
    return f"'-' is {stream} and can be named only once"


def save_over(path: str) -> str:
    return f"-s {quoted(path)} would overwrite the data or the output; name another file"


def range_start(line: bytes, after_labels: bool) -> str:
    expected = "'x' after the label range" if after_labels else "'x' or 'y'"
    return f"not a range file: expected {expected}, got {quoted(line)}"


def range_ended(expected: str) -> str:
    return f"the range file ends too early: expected {expected}"


def range_cut() -> str:
    return "the last line has no line end; the range file may have been cut off"


def range_pair(expected: str, line: bytes) -> str:
    return f"expected two numbers '{expected}', got {quoted(line)}"


def range_row(line: bytes) -> str:
    return f"expected 'index min max', got {quoted(line)}"


def range_index(token: bytes) -> str:
    return f"a feature index must be a whole number from 1 to 2147483647, got {quoted(token)}"


def range_descending(index: int, previous: int) -> str:
    return f"feature indices must rise: {index} comes after {previous}"


def range_number(token: bytes) -> str:
    return f"expected a finite number, got {quoted(token)}"


def range_order(low: float, high: float) -> str:
    return f"the lower number must come first, got {low:.17g} and {high:.17g}"


def scaling_overflow(value: float, minimum: float, maximum: float) -> str:
    return (
        f"the value {value:.17g} is too far outside the range [{minimum:.17g}, {maximum:.17g}] "
        f"to be scaled"
    )


def scaling_found(rows: int, varying: int, features: int) -> str:
    return (
        f"{rows} rows; {features} features have values, "
        f"{features - varying} of them are constant and removed"
    )


def nothing_varies() -> str:
    return "no feature varies between the rows; only the labels were written"


def range_file_wins(names: list[str], path: str) -> str:
    return f"{' and '.join(names)} ignored: {path} says otherwise"


def labels_by_own_range(path: str) -> str:
    return f"{path} has no range of labels; those of this file are scaled by their own range"


def unseen_features(count: int, first: int, path: str) -> str:
    which = f"feature {first} is" if count == 1 else f"{count} features, from index {first} on, are"
    return f"{which} not in {path} and left out (scaled to 0)"


def more_nonzeros(before: int, after: int) -> str:
    return (
        f"{after} non-zero numbers after scaling, {before} before; if the values are "
        f"non-negative and sparse, scale with -l 0"
    )


def _plain(item) -> str:
    return item if isinstance(item, str) else f"{item:g}"
