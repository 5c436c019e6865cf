"""``odm-predict --report`` and ``--json``: what is said of the predictions of each class."""

from __future__ import annotations

from odmtool.cli import messages
from odmtool.cli.report import Report


def say_classes(confusion, names, json_file: str | None, report: Report) -> None:
    """A table of the classes, and what was taken for what.

    Of many classes those with the lowest F1 are shown, and the most frequent mistakes instead
    of the confusion matrix.

    Parameters
    ----------
    confusion : odmtool.measures.confusion.Confusion
    names : odmtool.models.names.LabelNames
    json_file : str or None
        Where everything is written.
    """
    classes, rest = _named(confusion, names), messages.all_in_json(json_file)
    shown, lines = classes, []
    if len(classes) > messages.MOST_CLASSES:
        shown = sorted(classes, key=lambda one: (one.f1, -one.examples))[: messages.SELECTED]
        lines.append(messages.worst_classes_only(len(shown), len(classes), rest))
    lines += messages.class_table(shown, _means(classes))
    if len(classes) <= messages.MOST_COLUMNS:
        lines += messages.confusion_matrix(names.texts(confusion.labels), confusion.matrix())
    else:
        mistakes = [(*names.texts(pair), count) for *pair, count in confusion.mistakes()]
        lines += messages.most_frequent_mistakes(mistakes, messages.SELECTED, rest)
    for line in lines:
        report.result(line)


def write_classes(path: str, confusion, names, correct: int, rows: int) -> None:
    """Write all of it: accuracy, a list of the classes, the means, and the confusion matrix as
    triples of true label, predicted label and number, without the zeros.
    """  # fmt: skip
    from odmtool.cli.tables import write_json
    from odmtool.measures.confusion import MEASURES

    scores = _named(confusion, names)
    classes = [
        one._asdict() | {measure: _number(getattr(one, measure)) for measure in MEASURES}
        for one in scores
    ]
    means = _means(scores).items()
    record = {"accuracy": correct / rows, "correct": correct, "examples": rows, "classes": classes}
    record |= {name: dict(zip(MEASURES, values, strict=True)) for name, values in means}
    record["confusion"] = [(*names.texts(pair), count) for *pair, count in confusion.pairs()]
    write_json(path, record, indent=None, allow_nan=False)


def _named(confusion, names) -> list:
    """The classes with their labels in words."""
    classes = confusion.classes()
    labels = names.texts(one.label for one in classes)
    return [one._replace(label=label) for one, label in zip(classes, labels, strict=True)]


def _means(classes: list) -> dict[str, list[float]]:
    from odmtool.measures.confusion import MEASURES, mean

    return {
        name: [mean(classes, measure, is_weighted=is_weighted) for measure in MEASURES]
        for name, is_weighted in (("mean", False), ("weighted", True))
    }


def _number(value: float) -> float | None:
    """JSON has no nan."""
    return None if value != value else value
