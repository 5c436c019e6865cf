"""odm-predict --report: how good the predictions of each class are."""

from __future__ import annotations

import math

from odmtool.messages.words import aligned, quoted, sentence, shortened

# More classes than this: a selection of the table, and the most frequent mistakes for a matrix.
MOST_CLASSES = 40
MOST_COLUMNS = 20
SELECTED = 20


def class_table(classes: list, means: dict[str, list[float]]) -> list[str]:
    """Lines with precision, recall and F1 of the classes, and the means over all.

    Parameters
    ----------
    classes : list of odmtool.measures.confusion.ClassScore
        Those to show.
    means : dict
        From the name of a mean to that of precision, recall and F1.
    """
    head = ("class", "precision", "recall", "F1", "examples", "predicted", "correct")
    rows = [
        (shortened(str(one.label)), _share(one.precision), _share(one.recall), _share(one.f1),
         str(one.examples), str(one.predicted), str(one.correct))
        for one in classes
    ]  # fmt: skip
    rows += [(name, *map(_share, values), "", "", "") for name, values in means.items()]
    return aligned([head, *rows])


worst_classes_only = sentence("The {shown} of {count} classes with the lowest F1; {rest}")


def confusion_matrix(labels: list, counts) -> list[str]:
    """Lines with a row per true and a column per predicted label."""
    names = [shortened(str(label)) for label in labels]
    head = ("true \\ predicted", *names)
    rows = [(name, *map(str, row)) for name, row in zip(names, counts.tolist(), strict=True)]
    return ["Confusion matrix", *aligned([head, *rows])]


def most_frequent_mistakes(mistakes: list[tuple], shown: int, rest: str) -> list[str]:
    """Lines with true label, predicted label and number of the first mistakes."""
    if not mistakes:
        return ["No mistakes"]
    chosen = mistakes[:shown]
    title = "Mistakes"
    if len(chosen) < len(mistakes):
        title = f"The {len(chosen)} most frequent of {len(mistakes)} kinds of mistakes; {rest}"
    rows = [tuple(shortened(str(cell)) for cell in row) for row in chosen]
    return [title, *aligned([("true", "predicted", "examples"), *rows])]


def all_in_json(path: str | None) -> str:
    """Where the rest of a table is."""
    return "--json FILE writes all" if path is None else f"all are in {quoted(path)}"


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"
