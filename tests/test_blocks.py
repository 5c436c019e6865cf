"""Work is cut into blocks of rows, for the processor's caches and to save memory: it does not show.

Whatever the size, also where the last block is smaller, or there is one row in each.
"""

from types import SimpleNamespace

import mcodm_problems
import numpy as np
import pytest
from engine_problems import in_span, points_of, problem_of
from problems import KERNELS, examples
from problems import problem as binary_problem
from scipy import sparse

from odmtool import solvers
from odmtool.core import kernels
from odmtool.core.csr import CSR
from odmtool.core.kernels import Kernel
from odmtool.errors import DataError
from odmtool.rows import duplicates, kmeans, partition
from odmtool.rows.executor import Serial, Threads
from odmtool.solvers import run
from odmtool.solvers.base import Stop
from odmtool.solvers.engine import certificate, columns, features, full, reduced, solve
from odmtool.solvers.mcodm import auto as mcodm
from odmtool.solvers.mcodm import hessian as mcodm_hessian
from odmtool.solvers.newton import factor, hessian, spaces


def rows(m=60, is_sparse=False):
    X, _ = examples(m)
    return X if is_sparse else X.toarray()


def definite(n=23):
    A = np.random.default_rng(3).standard_normal((n, n))
    return A @ A.T + np.eye(n)


def hessian_of(X):
    return hessian.gram_of(X, np.linspace(0, 2, X.shape[0]), False)


def lower_part():
    some = np.arange(1, 23, 3)
    return np.tril(spaces._lower_part(definite(), some))


def lower_factor():
    A = definite()
    b = factor.cholesky_solve(factor.cholesky_in_place(A), np.arange(23.0))
    return np.tril(A), b


def gram_of_features():
    Z, s = np.random.default_rng(4).standard_normal((60, 5)), np.linspace(0, 1, 60)
    return reduced.weighted_gram(Z, np.arange(1, 60, 2), s[1::2], Serial())


def in_parts_of_features(way):
    problem = problem_of(Kernel("rbf", 0.3), "odm", 2.0**6)
    _, basis, found, point, coef = in_span(problem, 30)
    if way == "features":
        return found.Z, basis.inverse
    if way == "exact":
        return np.array(certificate.exact([point], basis))
    a = np.stack([point.a, point.f], axis=1)
    return certificate.rows_times(basis.points, np.arange(3, 100, 2), a)


def of_mcodm():
    p = mcodm_problems.problem()
    found = mcodm.solve(p._replace(X=p.X.toarray()), Stop(1e-4, 99), solver="newton", starts=1)
    return found.W, np.array([found.objective, found.iterations])


def by_landmarks():
    found = solve.solve(problem_of(Kernel("rbf", 0.3), "odm", 2.0**6), Stop(1e-3, 99))
    return found.coef, np.array([found.gap])


def expected_gaps():
    """Of two columns of duals, by the sums that are to be made of f at drawn examples."""
    p, duals = problem_of(Kernel("rbf", 0.3), "odm", 2.0**6), np.zeros((150, 2))
    duals[5:140:3] = np.random.default_rng(5).standard_normal((45, 2))
    newton = SimpleNamespace(y=p.y, shares=lambda t, eta: t**2 + eta)
    run = SimpleNamespace(points=points_of(p), seed=3)
    return full._expected_gaps(run, [newton, newton], duals)


CUT = {
    "Hessian": (hessian, "_BLOCK_CELLS", (7, 7 * 11), lambda: hessian_of(rows())),
    "sparse Hessian": (
        hessian, "_BLOCK_CELLS", (7, 7 * 11), lambda: hessian_of(CSR.of(rows(is_sparse=True))),
    ),
    "squares of a Hessian": (hessian, "_SIDE", (1, 3, 6), lambda: hessian_of(rows())),
    "products with a Hessian": (
        spaces, "_BLOCK_CELLS", (7, 7 * 11),
        lambda: spaces._curvature_times(rows(), np.linspace(0, 2, 60), np.arange(7.0)),
    ),
    "part of a matrix": (spaces, "_BLOCK_VALUES", (1, 23 * 3), lower_part),
    "factor": (factor, "_PANEL", (1, 5, 22), lower_factor),
    "Hessian of features": (reduced, "_ROWS", (1, 7), gram_of_features),
    "features": (features, "_PANEL", (1, 7, 29), lambda: in_parts_of_features("features")),
    "certificate": (certificate, "_ROWS", (3, 20), lambda: in_parts_of_features("exact")),
    "rows of a product": (certificate, "_ROWS", (3, 20), lambda: in_parts_of_features("rows")),
    "columns": (columns, "_MOST_ROWS", (7, 64), by_landmarks),
    "examples that are looked at": (full, "_ROWS", (7, 64), expected_gaps),
    "matrix by tiles": (
        kernels, "_TILE", (1, 7), lambda: kernels.gram(Kernel("poly", 0.3, 0.5, 2), rows()),
    ),
    "products of sparse rows": (
        kernels, "_BLOCK_BYTES", (8, 8 * 60 * 7),
        lambda: kernels.products(rows(60, True), rows(23, True)),
    ),
    "kernel values": (
        kernels, "_BLOCK_BYTES", (8, 8 * 60 * 7),
        lambda: kernels.block(KERNELS["rbf"], rows(23), rows()),
    ),
    "hashes": (duplicates, "_ROWS", (1, 7), lambda: duplicates._hashes(rows())),
    "nearest centres": (
        kmeans, "_BLOCK_BYTES", (8, 8 * 3 * 7),
        lambda: kmeans.clusters(KERNELS["rbf"], rows(), 3),
    ),
    "nearest landmarks": (
        kmeans, "_BLOCK_BYTES", (8, 8 * 9 * 7),
        lambda: partition.strata(KERNELS["rbf"], rows(), rows(9)),
    ),
    "mcODM's rows": (mcodm_hessian, "_PART", (4, 4 * 7), of_mcodm),
    "mcODM's cells": (mcodm_hessian, "_CELLS", (6, 6 * 7), of_mcodm),
    "mcODM's blocks": (mcodm_hessian, "_EDGES", (1, 100), of_mcodm),
}  # fmt: skip


@pytest.mark.parametrize("name", CUT)
def test_how_work_is_cut_does_not_show(name, monkeypatch):
    module, size, smaller, made = CUT[name]
    whole, usual = made(), getattr(module, size)
    for number in smaller:
        assert 0 < number < usual
        monkeypatch.setattr(module, size, number)
        for one, other in zip(whole, made(), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-7, atol=1e-9)


def test_a_table_of_kernel_values_is_looked_at_in_every_block(monkeypatch):
    """Of a precomputed matrix that is not symmetric, in whichever place."""
    K = np.random.default_rng(2).random((20, 20))
    K = (K + K.T) / 2
    for size in (2**20, 8 * 20 * 3, 8):
        monkeypatch.setattr(kernels, "_BLOCK_BYTES", size)
        for i, j in ((0, 19), (19, 0), (7, 8)):
            wrong = K.copy()
            wrong[i, j] += 0.1
            for table, is_wrong in ((K, False), (wrong, True)):
                X = np.column_stack([np.arange(1.0, 21), table])
                for known in (X, sparse.csr_matrix(X)):
                    if is_wrong:
                        with pytest.raises(DataError):
                            kernels.check_precomputed(known)
                    else:
                        kernels.check_precomputed(known)


def test_a_hessian_of_features_follows_its_slopes():
    """Where few change, only these are added and taken away; it is that of all."""
    random = np.random.default_rng(8)
    Z, g = random.standard_normal((40, 5)), random.standard_normal(5)
    space, slopes = reduced.FeatureSpace(Z, np.ones(40), Serial()), np.zeros(40)
    # Of the last ones few are not 0: what is known of them is what was there before.
    changes = [slice(None), slice(3, 9), slice(0, 30), slice(30, 40), slice(0, 0)]
    for some in [*changes, slice(0, 36), slice(0, 0), slice(36, 38)]:
        slopes, is_last = slopes.copy(), some == slice(0, 36)
        many = len(slopes[some])
        slopes[some] = 0 if is_last else random.uniform(0.1, 2, many) * (random.random() < 0.7)
        space._gradient = g
        H = np.eye(5) + (Z.T * slopes) @ Z
        found = space.newton_point(slopes, None, None, np.zeros(5), 1.0)
        np.testing.assert_allclose(found, -np.linalg.solve(H, g), rtol=1e-10)
        rows = np.arange(2, 40, 3)
        root, v = np.sqrt(slopes[rows]), random.standard_normal(len(rows))
        # By Woodbury's formula, where all slopes are those of these rows.
        only = np.zeros(40)
        only[rows] = slopes[rows]
        whole = np.eye(len(rows)) + (root[:, None] * Z[rows]) @ (Z[rows].T * root)
        apply = reduced.FeatureSpace(Z, np.ones(40), Serial()).preconditioner(only, rows, root)
        np.testing.assert_allclose(apply(v), np.linalg.solve(whole, v), rtol=1e-10)


def test_a_large_hessian_is_made_in_threads(monkeypatch):
    """Newton's method is told of them; the number of threads does not show."""
    monkeypatch.setattr(hessian, "_SIDE", 3)
    asked = []

    class Told(Threads):
        def map(self, function, *columns):
            asked.append(len(columns[0]))
            return super().map(function, *columns)

    p = binary_problem(dense=True)
    monkeypatch.setattr(run, "local_executor", lambda jobs: Told(jobs) if jobs > 1 else Serial())
    found = [solvers.solve(p, solver="newton", tolerance=1e-9, jobs=jobs) for jobs in (1, 2)]
    assert found[0].converged and set(asked) == {6}  # squares of three sides
    np.testing.assert_array_equal(found[0].w, found[1].w)


@pytest.mark.parametrize("form", ["dense", "sparse products", "sparse rows"])
def test_the_hessian_of_a_linear_problem_follows_its_slopes(form, monkeypatch):
    """Whatever was added and taken away, and what is done with the copy that is given."""
    X, random = rows(40, form != "dense"), np.random.default_rng(1)
    monkeypatch.setattr(hessian, "is_thin", lambda X: form == "sparse products")
    of = hessian.ChangingHessian(X if form == "dense" else CSR.of(X))
    D, slopes = X if form == "dense" else X.toarray(), np.zeros(40)
    some = [slice(None), slice(3, 9), slice(0, 0), slice(2, 3), slice(0, 40), slice(5, 6)]
    for sizes in (1.0, 1e-6, 1e9, 1e-9, 1.0):
        for part in some:
            slopes = slopes.copy()
            count = len(slopes[part])
            slopes[part] = sizes * random.uniform(0, 1, count) * (random.random(count) < 0.6)
            H = np.eye(7) + (D.T * slopes) @ D
            found = of.at(slopes)
            np.testing.assert_allclose(found, H, rtol=1e-6, atol=1e-7 * np.abs(H).max())
            found[:] = np.nan
    zero = of.at(np.zeros(40))
    np.testing.assert_array_equal(zero, np.eye(7))
    active = np.array([3, 5, 20])
    s = np.arange(40.0)
    H = np.eye(7) + D[active].T @ (s[active, None] * D[active])
    given = X if form == "dense" else CSR.of(X)
    np.testing.assert_allclose(hessian.regularised_gram(given, active, s), H, rtol=1e-12)
