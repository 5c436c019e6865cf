"""What training in memory will take, for ``--verbose``; an upper estimate, part by part.

What stays below ``--memory`` are kernel values and the matrices made of them; data and vectors
come on top, and data that do not fit are refused when they are read.
"""

from __future__ import annotations

import sys

from odmtool.core.gram import BYTES
from odmtool.core.kernels import dense_bytes
from odmtool.core.memory import resident
from odmtool.solvers import NEWTON_MATRICES
from odmtool.solvers.m3svm.system import LARGEST_SYSTEM
from odmtool.solvers.multi import LARGEST_BLOCKS, LARGEST_FACTOR
from odmtool.solvers.spaces import matrix_bytes

# Losses, margins, duals and what is computed on the way, numbers for every example.
_VECTORS = 45
# Rows in use by Newton's method, and their scaled copy.
_COPIES = 2
# What numba takes when it is loaded, or compiles.
_COMPILER = 2.2e8
# The Hessian, a part of it, and its factor.
_MATRICES = 4
# With several classes: numbers for every example and class (scores, duals, their changes), for
# every feature and class (weights, directions), and for every example and binary problem of it.
_SCORES = {"mcodm": 8, "m3svm": 14, "ism3": 14}
_WEIGHTS = 10
_DUALS = 4
# The most unknowns with which the Hessian of a Newton step is formed.
_HESSIAN = {"mcodm": LARGEST_FACTOR, "m3svm": LARGEST_SYSTEM, "ism3": LARGEST_SYSTEM}


def parts(machine, X, k: int = 2) -> dict[str, float]:
    """Bytes by purpose, before a machine is fitted to k classes.

    Parameters
    ----------
    machine : Machine
    X : csr_matrix, shape (m, d)
    k : int
    """
    m, d = X.shape
    found = {"program and data": resident(), "vectors": BYTES * _VECTORS * m}
    if several := class_bytes(machine, m, d, k):
        found["classes"] = several
        if machine.kernel != "linear":
            found["model"] = _kernel_model(machine, X, k)
    if "numba" not in sys.modules:
        # Not every solver needs it, and which will run is decided on the way.
        found["compiled code"] = _COMPILER
    data = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    if machine.kernel == "linear":
        return found | {"copies": _COPIES * data, "matrices": _MATRICES / 2 * matrix_bytes(m, d)}
    limit, matrix = machine.memory_limit(), BYTES * m * m
    found["copies"] = _COPIES * (dense_bytes(X, limit / 4) or data)
    if machine.solver == "nystrom":
        count = min(machine.settings.landmarks, m)
        found["matrices"] = _MATRICES * BYTES * count**2
        return found | {"landmarks": min(limit / 4, BYTES * 2e7)}
    # Without room for Newton, rows of the matrix are kept, as many as there is room for.
    both = NEWTON_MATRICES * matrix
    return found | {"kernel values": both if both <= limit else min(matrix, limit)}


def class_bytes(machine, m: int, d: int, k: int) -> float:
    """Bytes for what every class, or every pair of classes, has of its own."""
    if machine.name not in _SCORES and k <= 2:
        return 0.0
    weights = _WEIGHTS * d * k if machine.kernel == "linear" else 0
    if machine.name in _SCORES:
        return BYTES * (_SCORES[machine.name] * m * k + weights + _system(machine, d, k))
    if machine.multiclass == "ovr":
        return BYTES * (_DUALS * m * k + weights)
    pairs = k * (k - 1) // 2
    functions = _WEIGHTS * d if weights else _COPIES * m
    return BYTES * (_DUALS * m * (k - 1) + functions * pairs)


def _system(machine, d: int, k: int) -> float:
    """Numbers of the Hessian, or of mcodm's blocks of it, and of what they are made in."""
    unknowns, blocks = k * (d + 1), k * d * d
    if machine.kernel != "linear":
        return 0
    if unknowns <= _HESSIAN[machine.name]:
        return 3 * unknowns**2
    return 3 * blocks if machine.name == "mcodm" and blocks <= LARGEST_BLOCKS else 0


def _kernel_model(machine, X, k: int) -> float:
    """Every example with its coefficients; of the form for LIBSVM once for every class."""
    m, row = X.shape[0], (BYTES + 4) * X.nnz / max(1, X.shape[0])
    if machine.model_format == "compact":
        return m * (BYTES * k + row)
    times = k if machine.name in _SCORES or machine.multiclass == "ovr" else 1
    return times * m * (BYTES * (k - 1) + row)
