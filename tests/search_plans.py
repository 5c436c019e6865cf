"""Searches on one file, and their results as tests compare them."""

from odmtool.io.svmlight import read_svmlight
from odmtool.machines import ODM
from odmtool.search.search import SearchPlan, grid
from odmtool.search.validation import Data, folds

VALUES = dict(kernel=("rbf",), gamma=(0.002, 0.02, 0.2, 2.0), lambda_=(1.0, 64.0, 4096.0))


def plan_of(heart, values, metric="accuracy", **machine):
    data = read_svmlight(heart)
    known = Data(data.X, data.labels)
    return SearchPlan(ODM(**machine), grid(values), known, folds(data.labels, 5, 0), metric)


def table(rows):
    return [(row.setting, row.accuracy, tuple(row.scores)) for row in rows]
