"""odm-predict, and the line that scripts parse."""

from __future__ import annotations

from odmtool.messages.words import sentence


def accuracy(correct: int, rows: int) -> str:
    """The line that scripts parse, as LIBLINEAR's predict prints it."""
    return f"Accuracy = {100 * correct / rows:g}% ({correct}/{rows})"


def labels_line(labels: list) -> str:
    """First line of predictions with decision values."""
    return f"labels {' '.join(map(str, labels))}\n"


predict_seconds = sentence(
    "rows: {rows}, classes: {classes}; "
    "{loading:.2f} s reading the model, {predicting:.2f} s predicting"
)


def lines_without_output(skipped: int) -> str:
    lines = "blank or comment line has" if skipped == 1 else "blank or comment lines have"
    return f"{skipped} {lines} no prediction"


no_labels = sentence("the rows have no labels: there is no accuracy")
no_label_in_common = sentence(
    "no label of the test file is one of the model; is this the right file?"
)
numbers_for_words = sentence(
    "the labels of the test file are numbers: they are compared with those that stand for words "
    "in the model file: {numbered}"
)
needs_labels = sentence("{flag} compares predictions with labels, and the rows have none")
no_test_rows = sentence("the test file has no rows")
no_feature_in_common = sentence(
    "no feature of the test file occurs in the model; is this the right file?"
)
kernel_row_short = sentence(
    "the test rows have kernel values up to training row {given}, but the model uses "
    "row {needed}; missing values count as 0"
)
predict_over = sentence("OUTPUT_FILE {path!q} is the test file or the model; name another file")
