"""What the tables of twins share: their rows, random data, and how results are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse

from odmtool.solvers.descent.dcd import compressed_rows


def everything(result, arguments):
    """A function promises its result and what it leaves in its arguments."""
    return result, arguments


class Twin(NamedTuple):
    """A compiled function beside its twin.

    Attributes
    ----------
    compiled, naive : callable
        They take the same arguments and change them in the same way.
    cases : callable
        From a random generator to the argument tuples on which both are tried.
    promised : callable
        From result and arguments to what must be equal; scratch arrays, for example, and
        orders that nobody relies on are not in it.
    units : int
        By how many units in the last place numbers may differ; 0: by rounding errors of sums.
    """

    compiled: Callable
    naive: Callable
    cases: Callable[[np.random.Generator], Iterator[tuple]]
    promised: Callable = everything
    units: int = 0


def key(function) -> str:
    """The dotted name of a function, compiled or not, without the package's."""
    return f"{function.__module__}.{function.__name__}".removeprefix("odmtool.")


def table(*twins: Twin) -> dict[str, Twin]:
    return {key(twin.compiled): twin for twin in twins}


def copied(argument):
    """A deep copy in which tuples keep their types, and arrays what compiled code is made for:
    their order in memory, gaps between rows, and whether they may be written to."""
    if isinstance(argument, np.ndarray):
        found = argument.copy(order="K")
        if not argument.flags.forc:
            wider = np.empty((*argument.shape[:-1], argument.shape[-1] + 1), argument.dtype)
            found = wider[..., :-1]
            found[...] = argument
        found.flags.writeable = argument.flags.writeable
        return found
    if isinstance(argument, tuple):
        parts = [copied(part) for part in argument]
        return type(argument)(*parts) if hasattr(argument, "_fields") else tuple(parts)
    return argument


def assert_same(found, expected, units=0, name="result"):
    """Tuples part by part; whole numbers and infinities exactly, others to rounding errors."""
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected), name
        for number, (a, b) in enumerate(zip(found, expected, strict=True)):
            assert_same(a, b, units, f"{name}[{number}]")
        return
    if expected is None:
        assert found is None, name
        return
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, name
    # NumPy's assertions take their time; they look at what is not the same to the last bit.
    if found.dtype == expected.dtype and found.tobytes() == expected.tobytes():
        return
    if units:
        np.testing.assert_array_max_ulp(found, expected, units)
    elif expected.dtype.kind == "f":
        close = 3e-6 if expected.dtype == np.float32 else 1e-9
        finite = expected[np.isfinite(expected)]
        scale = max(1.0, np.abs(finite).max()) if finite.size else 1.0
        np.testing.assert_allclose(found, expected, rtol=close, atol=close * scale, err_msg=name)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=name)


# ---- random data -----------------------------------------------------------------------


def matrix(generator, m, d, density=0.6) -> np.ndarray:
    """Dense, with many zeros, and a row and a column of nothing else."""
    X = generator.standard_normal((m, d)) * (generator.random((m, d)) < density)
    X[m // 2], X[:, d // 2] = 0, 0
    return X


def rows_of(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """data, indices and indptr of the nonzeros, in the types of compiled code."""
    return compressed_rows(sparse.csr_matrix(X))


def dense(data, indices, indptr, d) -> np.ndarray:
    """What :func:`rows_of` was made of, entry by entry."""
    X = np.zeros((len(indptr) - 1, d))
    for i in range(len(X)):
        for k in range(indptr[i], indptr[i + 1]):
            X[i, indices[k]] += data[k]
    return X


def signs(generator, m) -> np.ndarray:
    return np.where(generator.random(m) < 0.5, 1.0, -1.0)


def bisect(rises, low, high) -> float:
    """The zero of an increasing function, to the last digit."""
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if rises(middle) > 0 else (middle, high)
    return middle
