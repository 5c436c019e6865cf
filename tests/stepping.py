"""What the tests of the stochastic solvers share."""

from __future__ import annotations

import numpy as np
import pytest
from problems import allowed

from odmtool.judge import binary as objective
from odmtool.solvers.stochastic import common


class Counting:
    """A vector that counts how often one of its numbers is read or written.

    It can do nothing else: no length, no sum, no copy.
    """

    def __init__(self, values):
        self.values, self.touched = values, 0

    def __getitem__(self, k):
        self.touched += 1
        return self.values[k]

    def __setitem__(self, k, value):
        self.touched += 1
        self.values[k] = value


def python(function):
    """The Python function that was compiled."""
    return getattr(function, "py_func", function)


def interpret(monkeypatch, module):
    """Have the functions of a module run in Python, with those that they call."""
    for name in ("row_product", "add_row"):
        monkeypatch.setattr(module, name, python(getattr(common, name)))


def dense(X):
    return X if isinstance(X, np.ndarray) else X.toarray()


def judged(p, solution):
    """P and D of a linear solution, slow and exact."""
    return objective.certify_linear(p.X, p.y, p.weight, p.loss, solution.w, solution.eta)[:2]


def assert_confirmed(p, solution, tolerance):
    primal, dual = judged(p, solution)
    assert solution.converged
    assert solution.gap <= tolerance
    assert primal == pytest.approx(solution.primal, rel=1e-10, abs=1e-10)
    assert dual == pytest.approx(solution.dual, rel=1e-9, abs=1e-9)


def assert_agree(a, b):
    assert np.linalg.norm(a.w - b.w) <= allowed(a, b)


def wide(m=80, d=2**22, nonzeros=5, seed=0):
    """A sparse problem's rows and labels with as many as d columns, most of them empty."""
    from scipy import sparse

    generator = np.random.default_rng(seed)
    columns = np.sort(generator.choice(d, (m, nonzeros), replace=False), axis=1)
    data = generator.standard_normal(m * nonzeros)
    X = sparse.csr_matrix((data, columns.ravel(), np.arange(m + 1) * nonzeros), shape=(m, d))
    return X, np.where(generator.random(m) < 0.5, 1.0, -1.0)
