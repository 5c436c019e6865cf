"""LAPACK in place: on blocks of larger arrays, and while other threads go on."""

import sys
import threading
import time

import numpy as np
import pytest

from odmtool.core import lapack


def block(n: int, width: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A positive definite block of n rows in an array of ``width``, and that array."""
    whole = np.random.default_rng(seed).standard_normal((width, width))
    inner = whole[2 : 2 + n, 3 : 3 + n]
    inner[:] = inner @ inner.T + n * np.eye(n)
    return inner, whole


@pytest.mark.parametrize("n", [1, 2, 7])
def test_blocks_of_larger_arrays(n):
    A, whole = block(n, 12, n)
    before, original = whole.copy(), A.copy()
    lapack.cholesky_factor(A)
    L = np.linalg.cholesky(original)
    np.testing.assert_allclose(np.tril(A), L, rtol=1e-12)
    np.testing.assert_array_equal(np.triu(A, 1), np.triu(original, 1))

    b = np.arange(1.0, n + 1)
    for right in (b, np.outer(b, b[::-1]), np.asfortranarray(np.outer(b, [1.0, 2.0]))):
        given, x = right.copy(), lapack.cholesky_solution(A, right)
        np.testing.assert_allclose(x, np.linalg.solve(original, right), rtol=1e-12)
        np.testing.assert_array_equal(right, given)

    rows, around = block(4, 12, 1)
    rows, others = around[2:6, 3 : 3 + n], around.copy()
    lapack.solve_rows(A, rows)
    np.testing.assert_allclose(rows @ L.T, others[2:6, 3 : 3 + n], rtol=1e-12)
    others[2:6, 3 : 3 + n] = rows
    np.testing.assert_array_equal(around, others)

    inverse = A.copy()
    lapack.invert_factored(inverse)
    np.testing.assert_allclose(np.tril(inverse), np.tril(np.linalg.inv(original)), rtol=1e-11)
    np.testing.assert_array_equal(np.triu(inverse, 1), np.triu(A, 1))

    lapack.invert_lower(A)
    np.testing.assert_allclose(np.tril(A), np.linalg.inv(L), rtol=1e-12, atol=1e-15)
    before[2 : 2 + n, 3 : 3 + n] = A
    np.testing.assert_array_equal(whole, before)


def test_what_is_not_rows_of_doubles_is_refused():
    for A in (np.asfortranarray(np.ones((3, 3))), np.eye(3, dtype=np.float32), np.eye(3)[:2]):
        with pytest.raises(AssertionError):
            lapack.cholesky_factor(A)
    for b in (np.ones(6), np.ones((2, 3))):
        with pytest.raises(AssertionError):
            lapack.cholesky_solution(np.eye(3), b)
    with pytest.raises(AssertionError):
        lapack.solve_rows(np.eye(3), np.ones((3, 4)))
    with pytest.raises(AssertionError):
        lapack.invert_lower(np.eye(3)[:2])
    with pytest.raises(AssertionError):
        lapack.invert_factored(np.eye(3)[:2])
    with pytest.raises(np.linalg.LinAlgError):
        lapack.cholesky_factor(np.diag([1.0, -1.0]))


def test_other_threads_go_on():
    """A function that kept the interpreter's lock would let nothing count while it works."""
    A, counted, went_on, is_over = np.eye(1000), 0, False, threading.Event()

    def factor():
        nonlocal went_on
        for _ in range(100):
            before = counted
            lapack.cholesky_factor(A)
            went_on = counted > before
            if went_on:
                break
        is_over.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # a thread goes on until it gives up the lock
    try:
        thread = threading.Thread(target=factor)
        thread.start()
        while not is_over.is_set():
            counted += 1
            time.sleep(0)
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert went_on
