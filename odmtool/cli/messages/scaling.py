"""odm-scale and range files."""

from __future__ import annotations

from odmtool.messages.words import sentence

save_and_restore = sentence(
    "-s and -r exclude each other: -s writes the ranges of this file, -r uses others"
)


not_an_interval = sentence("{text!q} is not a range; write 0,1 or -1,1")


def range_not_rising(*ends) -> str:
    return f"the lower end must be below the upper end, not {' '.join(map(_plain, ends))}"


restore_over = sentence("-r {path!q} would be overwritten by the output; name another file")
scaled_over_data = sentence(
    "stdout goes to the file that is scaled: name another one, or write -o FILE, which may be that "
    "file"
)
save_over = sentence("-s {path!q} would overwrite the data or the output; name another file")


def scaling_found(rows: int, varying: int, features: int) -> str:
    return (
        f"{rows} rows; {features} features have values, "
        f"{features - varying} of them are constant and removed"
    )


nothing_varies = sentence("no feature varies between the rows; only the labels were written")


def range_file_wins(names: list[str], path: str) -> str:
    return f"{' and '.join(names)} ignored: the range file {path} decides"


labels_are_words = sentence(
    "the labels are words ({word!q}), which cannot be scaled; leave -y out, and -r with such ranges"
)
labels_by_own_range = sentence(
    "{path} has no range of labels; those of this file are scaled by their own range"
)


def unseen_features(count: int, first: int, path: str) -> str:
    which = f"feature {first} is" if count == 1 else f"{count} features, from index {first} on, are"
    verb = "it is" if count == 1 else "they are"
    return f"{which} not in {path}; {verb} dropped"


def more_nonzeros(after: int, before: int, remedy: str | None) -> str:
    """``remedy`` is the option that keeps zeros; None if it was given."""
    said = f"{after} non-zero numbers after scaling, {before} before"
    advice = f"; if the values are non-negative and sparse, scale with {remedy}"
    return said if remedy is None else said + advice


no_feature_varies = sentence("no feature varies between the examples: all are left out")
model_scales = sentence(
    "odm-predict scales by the ranges in {path!l}; for a stock predictor scale the data first: "
    "odm-scale -r {path!l}"
)
ranges_of_features = sentence(
    "of {count} features; odm-predict scales by them, for a stock predictor scale the data first: "
    "odm-scale -r {path!l}"
)
model_without_ranges = sentence(
    "this model keeps no ranges: it was not trained with --scale; give the range file"
)


def scale_of(ranges) -> str:
    return f"{ranges.lower:.17g} {ranges.upper:.17g}"


def _plain(item) -> str:
    return item if isinstance(item, str) else f"{item:g}"
