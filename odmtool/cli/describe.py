"""``odmtool describe``: what a model is, how it was trained, and its largest weights."""

from __future__ import annotations

import click

from odmtool.cli import messages
from odmtool.cli import options as common
from odmtool.cli.files import check_files
from odmtool.cli.report import Report
from odmtool.errors import DataError

# Functions whose weights stand beside each other.
_MOST_COLUMNS = 8


@common.command()
@click.argument("model_file", metavar="MODEL_FILE")
@click.option("--names", metavar="FILE", help="Names of the features, one per line.")
@click.option("--top", type=common.Whole(least=0), default=10, show_default=True,
              help="So many of the largest weights of a linear model.")  # fmt: skip
@common.version_option
@click.pass_context
def describe(ctx, model_file: str, names: str | None, top: int):
    """Print what a model is, how it was trained and on what, and its largest weights.

    MODEL_FILE is a model of odm-train, LIBLINEAR or LIBSVM (- is stdin).
    """
    common.limit_threads(1)
    from odmtool.core.labels import is_label_fact
    from odmtool.io.model_file import read_model
    from odmtool.models.names import LabelNames

    check_files([path for path in (model_file, names) if path is not None], [])
    report = Report(ctx.command_path)
    model = read_model(model_file)
    words = LabelNames(model, model_file)
    labels = words.texts(model.labels)
    ranges, model = getattr(model, "ranges", None), getattr(model, "trained", model)
    known = None if names is None else _names(names)
    shape = _shape(model, labels)
    if ranges is not None:
        shape.append(("ranges", messages.ranges_of_features(len(ranges.index), model_file)))
    facts = [(key, text) for key, text in model.facts.items() if not is_label_fact(key)]
    for name, text in [*shape, *facts]:
        report.result(messages.fact(name, text))
    if words.names:
        report.result(messages.label_numbers(words.names))
    if hasattr(model, "weights"):
        for line in _weights(model, labels, known, top):
            report.result(line)


def _names(path: str) -> list[str]:
    from odmtool.io.files import display_name, lines, open_input

    with open_input(path) as stream:
        try:
            return [line.decode().rstrip("\r\n") for line in lines(stream, display_name(path))]
        except UnicodeDecodeError:
            raise DataError(messages.not_text(), display_name(path)) from None


def _shape(model, labels: list) -> list[tuple[str, str]]:
    """What every model has, those of the stock tools, too."""
    found = [("classes", " ".join(map(str, labels)))]
    if hasattr(model, "weights"):
        found += [("form", "LIBLINEAR"), ("solver_type", model.solver_type),
                  ("features of the model", str(model.weights.shape[0])),
                  ("bias of the model", f"{model.bias:g}")]  # fmt: skip
    else:
        kernel = model.kernel
        values = [f"{name} {getattr(kernel, name):g}" for name in kernel.row.parameters]
        found += [("form", "LIBSVM" if hasattr(model, "n_support") else "compact"),
                  ("kernel of the model", ", ".join([kernel.name, *values])),
                  ("support vectors", str(model.support_vectors.shape[0]))]  # fmt: skip
    return [*found, ("probabilities", "yes" if model.has_probabilities else "no")]


def _weights(model, labels: list, names: list[str] | None, top: int) -> list[str]:
    """The features whose weights are largest in any function, largest first.

    Of many functions those of each.
    """
    import numpy as np

    def largest(size: np.ndarray) -> list[int]:
        return [int(i) for i in np.argsort(-size, kind="stable")[:top] if size[i] > 0]

    size = np.abs(model.weights)
    order = largest(size.max(axis=1))
    if not order:
        return []
    if model.weights.shape[1] > _MOST_COLUMNS:
        lines = [messages.largest_weights_of_each()]
        for k, label in enumerate(labels):
            own = [(_name(i, names), model.weights[i, k]) for i in largest(size[:, k])]
            lines.append(messages.weights_of_class(_head(label), own))
        return lines
    heads = ["feature", *([_head(labels[0])] if model.weights.shape[1] == 1
                          else map(_head, labels))]  # fmt: skip
    rows = [[_name(i, names), *(f"{value:.6g}" for value in model.weights[i])] for i in order]
    return [messages.largest_weights(len(order)), *messages.aligned([heads, *rows])]


def _head(label) -> str:
    return f"for {messages.shortened(str(label))}"


def _name(column: int, names: list[str] | None) -> str:
    known = names is not None and column < len(names)
    return messages.one_line(names[column]) if known else str(column + 1)
