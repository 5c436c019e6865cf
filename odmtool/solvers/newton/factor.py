"""Positive definite systems: Cholesky's factorisation in place, and conjugate gradients.

The factorisation goes panel by panel, so that Ctrl-C never waits for the whole of a large one. The
products, which are nearly all the work, are NumPy's; LAPACK factors one diagonal block at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from odmtool.core import lapack

# speed only: columns that LAPACK factors at a time
_PANEL = 2048


def cholesky_in_place(A: np.ndarray) -> np.ndarray:
    """Overwrite the lower triangle of A with L, A = L L'.

    ``A`` (ndarray, shape (n, n), C order): symmetric positive definite; only the lower triangle is
    read, the upper one is left with arbitrary values. Raises LinAlgError: A is not positive
    definite to working precision.
    """
    n = len(A)
    for start in range(0, n, _PANEL):
        end = min(start + _PANEL, n)
        if start:
            A[start:, start:end] -= A[start:, :start] @ A[start:end, :start].T
        corner = A[start:end, start:end]
        lapack.cholesky_factor(corner)
        if end < n:
            lapack.solve_rows(corner, A[end:, start:end])
    return A


def cholesky_solve(L: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x with L L' x = b, from the result of :func:`cholesky_in_place`."""
    # LAPACK has no matrix of nothing.
    return lapack.cholesky_solution(L, b) if len(b) else b.copy()


def inverse_transposed(L: np.ndarray) -> np.ndarray:
    """L^-T, upper triangular, from a lower triangular L whose upper triangle is zero."""
    inverse = L.copy()
    if len(L):
        lapack.invert_lower(inverse)
    return np.ascontiguousarray(inverse.T)


def conjugate_gradients(
    product: Callable, right: np.ndarray, precondition: Callable, *, atol: float, most: int,
    share: float = np.inf, is_over: Callable[[], bool] = bool,
) -> np.ndarray:  # fmt: skip
    """x with product(x) = right, by preconditioned conjugate gradients (Hestenes & Stiefel 1952).

    Parameters
    ----------
    product, precondition : callables
        From an array to one of the same shape: the matrix, and about its inverse.
    right : ndarray
        Of any shape.
    atol : float, >= 0
        Norm of the residual that is small enough.
    most : int
        Products at most.
    share : float, > 0
        Where the residual says little, as many of its directions are hardly curved: the quadratic
        function that x lowers must be near its least, too. Step n must have lowered it by at most
        this share of the mean of all steps (Nash & Sofer, "Assessing a search direction within a
        truncated-Newton method", Operations Research Letters 1990, who take .5).
    is_over : callable
        It also ends when this says so.
    """
    steps = gradient_steps(right, precondition, atol=atol, most=most, share=share, is_over=is_over)
    answer = None
    try:
        while True:
            answer = product(steps.send(answer))
    except StopIteration as end:
        return end.value


def gradient_steps(
    right: np.ndarray, precondition: Callable, *, atol: float, most: int,
    share: float = np.inf, is_over: Callable[[], bool] = bool,
) -> Generator[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The same as a generator: it yields what is to be multiplied by the matrix, and returns x."""
    x, residual = np.zeros(right.shape), right.copy()
    direction, before, fall, fallen = 0.0, 1.0, 0.0, 0.0
    for n in range(most):
        with np.errstate(over="ignore"):
            is_small = n * fall / share <= fallen and np.linalg.norm(residual) <= atol
        if is_small or is_over():
            break
        z = precondition(residual)
        now = np.vdot(residual, z)
        if now == 0:
            break  # the square of a small residual is 0
        direction, before = z + (now / before) * direction, now
        image = yield direction
        curvature = np.vdot(direction, image)
        if curvature == 0:
            break  # so is that of a small direction
        step = now / curvature
        x += step * direction
        residual -= step * image
        fall = step * now / 2
        fallen += fall
    return x
