"""odm-predict, odm-cv and the lines that scripts parse."""

from __future__ import annotations

from odmtool.messages.words import quoted


def accuracy(correct: int, rows: int) -> str:
    """The line that scripts parse, as LIBLINEAR's predict prints it."""
    return f"Accuracy = {100 * correct / rows:g}% ({correct}/{rows})"


def labels_line(labels: list[int]) -> str:
    """First line of predictions with decision values."""
    return f"labels {' '.join(map(str, labels))}\n"


def predict_seconds(rows: int, classes: int, loading: float, predicting: float) -> str:
    return (
        f"rows: {rows}, classes: {classes}; "
        f"{loading:.2f} s reading the model, {predicting:.2f} s predicting"
    )


def lines_without_output(skipped: int) -> str:
    lines = "blank or comment line has" if skipped == 1 else "blank or comment lines have"
    return f"{skipped} {lines} no prediction"


def no_test_rows() -> str:
    return "there is no row to predict"


def no_feature_in_common() -> str:
    return "no feature of the test file occurs in the model; is this the right file?"


def kernel_row_short(given: int, needed: int) -> str:
    return (
        f"the test rows have kernel values up to training row {given}, but the model uses "
        f"row {needed}; missing values count as 0"
    )


def no_probabilities() -> str:
    return "-b 1: probabilities are not available; -d writes decision values"


def predict_over(path: str) -> str:
    return f"OUTPUT_FILE {quoted(path)} is the test file or the model; name another file"


def cross_validation_accuracy(accuracy: float) -> str:
    """The line that LIBSVM's and LIBLINEAR's scripts look for."""
    return f"Cross Validation Accuracy = {100 * accuracy:g}%"


def fold_count(folds: int, examples: int) -> str:
    return f"-v {folds}: cross validation needs 2 to {examples} folds for {examples} examples"


def more_folds_than_data(folds: int, examples: int) -> str:
    return f"-v {folds}: there are only {examples} examples; leaving one out at a time instead"


def setting_row(row, names: list[str]) -> str:
    """The varying parameters of a setting and its accuracy."""
    shown = {name: row.setting[name] for name in names if name in row.setting}
    words = [
        f"{name.rstrip('_')}={value if isinstance(value, str) else format(value, '.10g')}"
        for name, value in shown.items()
    ]
    return " ".join([*words, f"rate={100 * row.outcome.accuracy:g}"])


def best_setting(command: str) -> str:
    return f"Best: {command}"
