"""Tables of results as CSV and as JSON.

The rows of a search. Columns: ``machine``, the parameters, ``fold1`` to ``foldN`` (the metric by
fold, between 0 and 1), ``mean`` and ``std`` of these, ``accuracy``, the share of all examples that
were predicted correctly, ``examples``, their number, ``gap``, the largest of the folds (scores and
gap are empty where there is no solution),
``metric``, ``seed`` and ``version``. JSON also has the ``seconds`` of training. A CSV table
has them if asked for (``--seconds``): without, the same search writes the same bytes, for any
``-j`` and after a resume.

Repeated splits. Columns: ``split``, the parameters of the best setting, ``cv`` and ``test``
(its accuracies in the cross validation and on the test part; if the best setting was chosen
by another metric, ``cv_METRIC`` and ``test_METRIC`` as well), ``correct`` and ``size`` (of the
test part), and ``fingerprint``, by which two tables know that their splits are the same.

Numbers are written so that they read back exactly.
"""

from __future__ import annotations

import csv
import json
import math
from typing import NamedTuple

from odmtool.cli import messages
from odmtool.errors import DataError


class SplitScore(NamedTuple):
    """What a comparison needs of one row of a table of repeated splits."""

    fingerprint: str
    score: float


def records(rows: list, plan, seed: int) -> list[dict]:
    """One dict per row of a search, all with the same keys in the same order."""
    from odmtool import __version__

    parameters = _parameters([row.setting for row in rows])
    fixed = {"metric": plan.metric, "seed": seed, "version": __version__}
    return [
        {"machine": plan.machine.name} | setting
        | _scores(row)
        | {"seconds": round(row.seconds, 6)} | fixed
        for row, setting in zip(rows, parameters, strict=True)
    ]  # fmt: skip


def _scores(row) -> dict:
    """What came out of one setting; None, but for the examples, where there is no solution."""
    folds = {f"fold{k}": float(score) for k, score in enumerate(row.scores, start=1)}
    means = {"mean": row.mean, "std": row.std, "accuracy": row.accuracy}
    scores = folds | means | {"examples": row.examples, "gap": row.gap}
    return scores if row.has_solution else dict.fromkeys(scores) | {"examples": row.examples}


def split_records(protocol, results: list) -> list[dict]:
    """One dict per split, as :func:`records`."""
    plan = protocol.plan
    splits = [protocol.splits[result.split - 1] for result in results]
    settings = [
        protocol.plan_of(split).settings[result.setting]
        for split, result in zip(splits, results, strict=True)
    ]
    table = []
    for split, result, parameters in zip(splits, results, _parameters(settings), strict=True):
        scores = {"cv": result.cv, "test": result.accuracy}
        if plan.metric != "accuracy":
            scores |= {f"cv_{plan.metric}": result.cv_score, f"test_{plan.metric}": result.score}
        table.append(
            {"split": result.split} | parameters | scores
            | {"correct": result.correct, "size": result.size, "fingerprint": split.fingerprint}
        )  # fmt: skip
    return table


def _parameters(settings: list[dict]) -> list[dict]:
    """The settings, all with the same keys, as they are called in a table."""
    names = list(dict.fromkeys(name for setting in settings for name in setting))
    return [{name.rstrip("_"): setting.get(name) for name in names} for setting in settings]


def write_csv(path: str, table: list[dict], seconds: bool = False) -> None:
    """Write a table with a header line; a parameter that a kernel ignores is empty."""
    from odmtool.io.files import atomic_output

    names = [name for name in table[0] if seconds or name != "seconds"]
    with atomic_output(path) as stream:
        writer = csv.DictWriter(stream, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


def write_json(path: str, content, *, indent: int | None = 1, allow_nan: bool = True) -> None:
    """Write a list of objects, or one."""
    from odmtool.io.files import atomic_output

    with atomic_output(path) as stream:
        json.dump(content, stream, indent=indent, allow_nan=allow_nan)
        stream.write("\n")


def read_splits(path: str, metric: str) -> list[SplitScore]:
    """The table of an earlier run with repeated splits, in its order.

    Raises FileError, DataError: among others, the table does not have the metric.
    """
    from odmtool.io.files import display_name, lines, open_input

    name, column = display_name(path), "test" if metric == "accuracy" else f"test_{metric}"
    with open_input(path) as stream:
        reader = csv.DictReader(line.decode() for line in lines(stream, name))
        try:
            for needed in ("fingerprint", column):
                if needed not in (reader.fieldnames or ()):
                    raise DataError(messages.no_split_column(needed), name, 1)
            return [
                SplitScore(row["fingerprint"], _score(row[column], name, reader.line_num))
                for row in reader
            ]
        except (UnicodeDecodeError, csv.Error):
            raise DataError(messages.no_split_table(), name) from None


def _score(text: str | None, name: str, line: int) -> float:
    try:
        score = float(text or "")
    except ValueError:
        score = math.nan
    if not 0 <= score <= 1:
        raise DataError(messages.not_a_score(text or ""), name, line)
    return score
