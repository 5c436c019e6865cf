"""Small seeded problems for the tests of numbers."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
from scipy import sparse

from odmtool.core import kernel_table, loss_table, losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.core.losses import MarginLoss
from odmtool.judge import binary
from odmtool.judge.sums import dense
from odmtool.solvers.base import Problem

HEART_SCALE = Path(__file__).parent / "data" / "heart_scale"

# Every kernel that is computed from the rows; some need numbers of their own.
KERNELS = {name: Kernel(name, 0.4) for name in kernel_table.KERNELS} | {
    "poly": Kernel("poly", 0.3, 0.5, 2),
    "sigmoid": Kernel("sigmoid", 0.02, 0.1),
    "rbf with bias": Kernel("rbf", 0.4, bias=1.5),
}
del KERNELS["linear"], KERNELS["precomputed"]
DEFINITE = [name for name, kernel in KERNELS.items() if kernel.is_positive_semidefinite]
"""Those without negative eigenvalues."""

_OF_MACHINES = {
    row.name: row.loss(**row.parameters | {"lambda_": 42.0}, total_weight=60)
    for row in loss_table.MACHINES.values()
    if row.kind in loss_table.MARGIN
}

# Every other margin loss of a machine, and two that no machine uses: LDM's for a given mean
# margin, and one with all that a loss can have.
OTHER_LOSSES = _OF_MACHINES | {
    "ldm": MarginLoss(1.0, 1.0, 0.3, -0.9, 0.3, -0.2, 0.3, -0.2, 0.1),
    "three jumps": MarginLoss(0.5, 1.5, 1.0, -0.8, 0.4, -0.3, 2.0, 0.6, 0.2),
}
del OTHER_LOSSES["odm"]


def examples(m=60, d=7, seed=0, density=0.5):
    """X (CSR, with empty rows and an empty column) and y."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((m, d)) * (generator.random((m, d)) < density)
    X[3] = 0
    X[:, d - 1] = 0
    y = np.where(X @ generator.standard_normal(d) + 0.5 * generator.standard_normal(m) > 0, 1.0, -1)
    return sparse.csr_matrix(X), y


def weights(m=60, seed=1):
    return np.random.default_rng(seed).uniform(0.2, 3.0, m)


def problem(kernel=None, loss=None, weight=None, dense=False, lambda_=2.0**4, memory=np.inf):
    """A linear problem, or a kernel problem for a name of KERNELS or "precomputed"."""
    X, y = examples()
    m = len(y)
    weight = np.ones(m) if weight is None else weight
    loss = losses.odm(lambda_, 0.5, 0.3, m) if loss is None else loss
    if kernel == "precomputed":
        X = precomputed_rows(X)
    X = X.toarray() if dense else X
    if kernel is None:
        return Problem(X, None, y, weight, loss)
    chosen = Kernel("precomputed") if kernel == "precomputed" else KERNELS[kernel]
    return Problem(None, Gram(chosen, X, memory), y, weight, loss)


def precomputed_rows(X):
    """Serial numbers and the Gram matrix of an rbf kernel, as a precomputed data set."""
    from odmtool.core import kernels

    K = kernels.gram(Kernel("rbf", 0.4), X)
    return sparse.csr_matrix(np.column_stack([np.arange(1, len(K) + 1), K]))


def judged_matrix(gram):
    """The judge's kernel values of all examples, made once for each kernel and rows."""
    rows = dense(gram.X)
    return _matrix(gram.kernel, rows.shape, rows.tobytes())


@functools.lru_cache(maxsize=64)
def _matrix(kernel, shape, content):
    rows = np.frombuffer(content).reshape(shape)
    K = binary.kernel_matrix(kernel, rows, rows)
    K.flags.writeable = False
    return K


def distance(p, a, b):
    """|w_a - w_b|."""
    if p.gram is None:
        return np.linalg.norm(a.w - b.w)
    difference = p.y * (a.coef - b.coef)
    return np.sqrt(max(0.0, difference @ p.gram.matrix() @ difference))


def allowed(*solutions):
    """What the gaps allow: |w - w'| <= sqrt(2 gap) + sqrt(2 gap'), by strong convexity."""
    return sum(np.sqrt(2 * max(0.0, s.primal - s.dual)) for s in solutions) + 1e-10


def linearly_scaled_heart():
    """X, y of heart_scale."""
    from odmtool.io.svmlight import read_svmlight

    data = read_svmlight(str(HEART_SCALE))
    return data.X, data.labels


def write(path, X, labels):
    """Write rows as a data file; its name."""
    from odmtool.io.svmlight import write_svmlight

    with open(path, "w") as stream:
        write_svmlight(stream, X, labels)
    return str(path)


class StoreInMemory:
    """A store of rows that are at hand, in blocks of 23."""

    def __init__(self, X, y):
        self._X, self._labels, self.shape = X, y.astype(int), X.shape
        self.starts = np.append(np.arange(0, len(y), 23), len(y))

    def read(self, k):
        return self._X[self.starts[k] : self.starts[k + 1]], self.labels(k)

    def labels(self, k):
        return self._labels[self.starts[k] : self.starts[k + 1]]

    def __getitem__(self, rows):
        return self._X[rows]
