"""LAPACK's routines in place, while other threads go on.

SciPy's functions keep Python's interpreter lock as long as LAPACK works. Each of them carries the
address of the Fortran routine that it wraps, and ctypes calls that without the lock.

Matrices are square blocks or panels of arrays in C order. Fortran sees them transposed: our lower
triangle is its upper one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.linalg import LinAlgError

from odmtool.core.csr import compiled

_UPPER, _LEFT, _TRANSPOSED, _AS_IT_IS = (
    ctypes.byref(ctypes.c_char(letter)) for letter in (b"U", b"L", b"T", b"N")
)
# Fortran compilers add the length of each text to the end.
_LENGTH = ctypes.c_size_t(1)


def cholesky_factor(A: np.ndarray) -> None:
    """Overwrite the lower triangle of A with L, A = L L'.

    ``A`` (ndarray, shape (n, n), n >= 1, rows contiguous): symmetric positive definite; only the
    lower triangle is read and changed. Raises LinAlgError: A is not positive definite to working
    precision.
    """
    info = ctypes.c_int64(0)
    assert A.shape == (len(A), len(A)), "not square"
    _routine("_flapack", "dpotrf")(
        _UPPER, _integer(len(A)), *_matrix(A), ctypes.byref(info), _LENGTH
    )  # fmt: skip
    if info.value:
        raise LinAlgError


def cholesky_solution(L: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x with L L' x = b.

    Parameters
    ----------
    L : ndarray, shape (n, n), n >= 1, rows contiguous
        Only the lower triangle is read.
    b : ndarray, shape (n,) or (n, c)
    """
    n, info = len(L), ctypes.c_int64(0)
    assert L.shape == (n, n) and len(b) == n, "of another size"
    x = np.array(b.T, dtype=float, order="C").reshape(-1, n)
    _routine("_flapack", "dpotrs")(
        _UPPER, _integer(n), _integer(len(x)), *_matrix(L), *_matrix(x),
        ctypes.byref(info), _LENGTH,
    )  # fmt: skip
    return x.T.reshape(b.shape)


def solve_rows(L: np.ndarray, B: np.ndarray) -> None:
    """Overwrite B with X, X L' = B.

    Parameters
    ----------
    L : ndarray, shape (n, n), n >= 1, rows contiguous
        Only the lower triangle is read.
    B : ndarray, shape (m, n), m >= 1, rows contiguous
    """
    one = ctypes.byref(ctypes.c_double(1.0))
    assert L.shape == (len(L), len(L)) and B.shape[1] == len(L), "of another size"
    _routine("_fblas", "dtrsm")(
        _LEFT, _UPPER, _TRANSPOSED, _AS_IT_IS, _integer(len(L)), _integer(len(B)), one,
        *_matrix(L), *_matrix(B), *[_LENGTH] * 4,
    )  # fmt: skip


def invert_lower(L: np.ndarray) -> None:
    """Overwrite L, lower triangular with a diagonal without zeros, with its inverse.

    ``L`` (ndarray, shape (n, n), n >= 1, rows contiguous): only the lower triangle is read and
    changed.
    """
    info = ctypes.c_int64(0)
    assert L.shape == (len(L), len(L)), "not square"
    _routine("_flapack", "dtrtri")(
        _UPPER, _AS_IT_IS, _integer(len(L)), *_matrix(L), ctypes.byref(info), _LENGTH, _LENGTH
    )


def invert_factored(L: np.ndarray) -> None:
    """Overwrite the lower triangle of L with that of (L L')^-1; arguments as of invert_lower."""
    info = ctypes.c_int64(0)
    assert L.shape == (len(L), len(L)), "not square"
    _routine("_flapack", "dpotri")(
        _UPPER, _integer(len(L)), *_matrix(L), ctypes.byref(info), _LENGTH
    )


@cache
def _routine(module: str, name: str) -> Callable:
    """The Fortran routine that a function of SciPy wraps."""
    capsule = getattr(compiled("linalg", module), name)._cpointer
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None)(address(capsule, None))


def _integer(number: int):
    """A number in 64 bits, whose lower half is the same in 32: LAPACK may be built with either."""
    return ctypes.byref(ctypes.c_int64(number))


def _matrix(A: np.ndarray) -> tuple:
    """Where A begins, and how far apart its rows are, in numbers."""
    m, n = A.shape
    assert A.dtype == float and (n == 1 or A.strides[1] == A.itemsize), "no rows of doubles"
    return ctypes.c_void_p(A.ctypes.data), _integer(A.strides[0] // A.itemsize if m > 1 else n)
