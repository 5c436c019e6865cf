"""What training in memory will take, for ``--verbose``; an upper estimate, part by part.

What stays below ``--memory`` are kernel values and the matrices made of them; data and vectors
come on top, and data that do not fit are refused when they are read.
"""

from __future__ import annotations

import sys

from odmtool.gram import BYTES
from odmtool.kernels import dense_bytes
from odmtool.memory import resident
from odmtool.solvers import NEWTON_MATRICES
from odmtool.solvers.spaces import matrix_bytes

# Losses, margins, duals and what is computed on the way, numbers for every example.
_VECTORS = 45
# Rows in use by Newton's method, and their scaled copy.
_COPIES = 2
# What numba takes when it is loaded, or compiles.
_COMPILER = 2e8
# The Hessian, a part of it, and its factor.
_MATRICES = 4


def parts(machine, X) -> dict[str, float]:
    """Bytes by purpose, before a machine is fitted.

    Parameters
    ----------
    machine : Machine
    X : csr_matrix, shape (m, d)
    """
    m, d = X.shape
    found = {"program and data": resident(), "vectors": BYTES * _VECTORS * m}
    if "numba" not in sys.modules:
        # Not every solver needs it, and which will run is decided on the way.
        found["compiled code"] = _COMPILER
    data = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    if machine.kernel == "linear":
        return found | {"copies": _COPIES * data, "matrices": _MATRICES / 2 * matrix_bytes(m, d)}
    limit, matrix = machine.memory_limit(), BYTES * m * m
    found["copies"] = _COPIES * (dense_bytes(X, limit / 4) or data)
    if machine.solver == "nystrom":
        count = min(machine.scale.landmarks, m)
        found["matrices"] = _MATRICES * BYTES * count**2
        return found | {"landmarks": min(limit / 4, BYTES * 2e7)}
    # Without room for Newton, rows of the matrix are kept, as many as there is room for.
    both = NEWTON_MATRICES * matrix
    return found | {"kernel values": both if both <= limit else min(matrix, limit)}
