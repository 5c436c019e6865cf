"""What solvers take and give: objectives, gaps, duals, and what makes one problem of another."""

import time
from types import SimpleNamespace

import numpy as np
import pytest
from clocks import moved_by_hand
from problems import examples, problem, weights
from scipy import sparse

from odmtool.core import deadline, gram, kernels, labels, losses
from odmtool.core.columns import in_blocks, occurring_columns, with_constant_feature, with_width
from odmtool.core.csr import CSR
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import DataError, ModelError, UsageError
from odmtool.solvers import base, indefinite
from odmtool.solvers.base import Solution, Stop, not_worse_than_zero, objective_values, relative
from odmtool.solvers.descent.trend import Trend
from odmtool.solvers.multi import Duals, MultiSolution, margins_of
from odmtool.solvers.newton import factor, newton


def test_objectives_and_the_scale_of_a_gap():
    loss = losses.scaled(losses.odm(8.0, 0.5, 0.2, 4), np.array([1.0, 2.0, 0.5, 1.0]))
    t, eta = np.array([-1.0, 0.9, 1.5, 3.0]), np.array([0.5, 0.1, -0.2, -0.3])
    values, duals = losses.value(loss, t), losses.dual_value(loss, eta)
    for norm in (3.0, -3.0):  # negative, where a kernel is not positive semidefinite
        primal, dual, scale = objective_values(loss, norm, t, eta)
        assert primal == pytest.approx(norm / 2 + sum(values), rel=1e-14)
        assert dual == pytest.approx(sum(duals) - norm / 2, rel=1e-14)
        assert scale == pytest.approx(1.5 + sum(values), rel=1e-14)
    below = losses.scaled(losses.mamc(4.0, 4), np.ones(4))  # of which values may be negative
    assert objective_values(below, 2.0, t, eta)[2] == pytest.approx(1 + 6.4)
    assert relative(3.0, 2.0) == 1.5 and relative(-3.0, 2.0) == -1.5
    assert relative(3.0, 0.0) == 3 and relative(-3.0, 0.0) == 0 == relative(0.0, 0.0)


def test_a_solution_worse_than_none_is_shortened():
    """P(s w) = 1 + (4 s - 1)^2 has its least at a quarter; at s = 1 it is 10, at 0 it is 2."""
    w, coef = np.array([8.0, -4.0]), np.array([1.0, 2.0, 0.0])
    given = Solution(w, coef, coef, 10.0, 0.5, 9.0, 7, False, "dcd")

    def primal_at(s):
        return 1 + (4 * s - 1) ** 2, 5.0

    found = not_worse_than_zero(given, primal_at, 2.0, Stop(0.2))
    assert found.primal == pytest.approx(1, abs=1e-6) and found.gap == pytest.approx(0.1, abs=1e-6)
    assert found.w == pytest.approx(w / 4, rel=1e-3)
    assert found.coef == pytest.approx(coef / 4, rel=1e-3)
    assert found.converged and found.eta is coef and found.iterations == 7
    assert not not_worse_than_zero(given, primal_at, 2.0, Stop(0.09)).converged
    assert not_worse_than_zero(given._replace(w=None), primal_at, 2.0, Stop(0.2)).w is None
    # Nothing is done where it converged, or where it is no worse; and 0 is the best of all.
    for same in (given._replace(converged=True), given._replace(primal=2.0)):
        assert not_worse_than_zero(same, primal_at, 2.0, Stop(0.2)) is same
    none = not_worse_than_zero(given, lambda s: (2 + s, 4.0), 2.0, Stop(0.2))
    assert none.primal == 2 and not none.w.any() and none.gap == 1.5 / 4


def test_a_dual_that_is_no_bound_shortens_nothing_to_a_solution():
    """Of an indefinite kernel it may be above P(0): the gap of s w and the duals shows nothing."""
    w = np.array([8.0, -4.0])

    def primal_at(s):
        return 1 + (4 * s - 1) ** 2, 5.0

    for dual, is_kept in ((7.0, True), (0.95, True), (-1.0, False)):
        given = Solution(w, w, w, 10.0, dual, 9.0, 7, False, "dcd")
        found = not_worse_than_zero(given, primal_at, 2.0, Stop(0.2), False)
        assert (found is given) == is_kept and not found.converged
        assert not_worse_than_zero(given, primal_at, 2.0, Stop(0.2)).converged == is_kept


def test_what_stops():
    assert Stop(0.01).negligible(5.0) == pytest.approx(0.0005, rel=1e-14)
    stop = Stop(0.01, 30)
    assert stop.is_late is False and stop.max_iter == 30
    with deadline.time_limit(0.0):
        assert stop.is_late is True and stop.max_iter == 0
    with deadline.time_limit(1000.0) as limit:
        assert stop.max_iter == 30 and 999 < deadline.seconds_left() <= 1000
        task = deadline.carried(lambda: deadline.seconds_left())
        assert 999 < task() < 1001  # by another clock
        limit.end()
        assert stop.max_iter == 0 and task() > 999  # which has a deadline of its own
    assert deadline.seconds_left() == np.inf and deadline.carried(len) is len


@pytest.mark.parametrize("given, more", [(2.0, 1.0), (60.0, 3.0), (1e6, 10.0)])
def test_what_was_begun_is_given_up_some_seconds_after_the_deadline(given, more, monkeypatch):
    clock = moved_by_hand(deadline, monkeypatch, now=50.0)
    with deadline.time_limit(given) as limit:
        for moment in (0.0, given, given + 0.99 * more):
            clock.now = 50.0 + moment
            deadline.check()
        clock.now = 50.0 + given + 1.01 * more
        with pytest.raises(deadline.Exceeded):
            deadline.check()
        limit.end()  # it was over before
        with pytest.raises(deadline.Exceeded):
            deadline.check()
    with deadline.time_limit(None) as limit:
        clock.now += 100.0
        limit.end()
        clock.now += 4.9
        deadline.check()
        clock.now += 0.2
        with pytest.raises(deadline.Exceeded):
            deadline.check()
    deadline.check()


def test_a_deadline_by_another_clock(monkeypatch):
    deadline.compare_clocks(time.time() - 500)  # theirs is 500 seconds behind
    try:
        with deadline.time_limit(100.0):
            task = deadline.carried(deadline.seconds_left)
        assert 599 < task() < 601
    finally:
        monkeypatch.setattr(deadline, "_ahead", 0.0)


def test_what_another_solver_starts_from():
    coef, eta = np.array([1.0, 0.0, -2.0]), np.array([0.0, 3.0, 1.0])
    one = Solution(None, coef, eta, 1.0, 0.0, 0.5, 1, False, "newton")
    assert one.support_count == 2 and one.warm_start is coef
    assert one._replace(solver="landmarks").warm_start is eta
    assert one._replace(track="path").warm_start == "path"
    many = MultiSolution(None, coef, 4.0, 0.5, 1, False, "dcd", duals=(eta,))
    assert many.primal == 4.0 and many.warm_start == (eta,)


def test_coefficients_of_several_classes():
    """C_il = alpha_il, less beta_i for the own class and more by it for the rival."""
    alpha = np.arange(12.0).reshape(4, 3)
    beta, rival, target = np.array([1.0, 2.0, 4.0, 8.0]), np.array([1, -1, 0, 2]), [0, 1, 2, 0]
    duals = Duals(alpha, beta, rival, np.ones(4))
    expected = alpha.copy()
    for i in range(4):
        expected[i, target[i]] -= beta[i]
        if rival[i] >= 0:
            expected[i, rival[i]] += beta[i]
    assert np.array_equal(duals.coefficients(np.array(target)), expected)
    assert np.array_equal(alpha, np.arange(12.0).reshape(4, 3))
    other = duals.copy()
    other.alpha[:] = 0
    assert alpha.any()
    scores = np.array([[3.0, 1.0, 2.0], [5.0, 5.0, 0.0], [1.0, 9.0, 4.0]])
    assert margins_of(scores, np.array([0, 1, 2])).tolist() == [1.0, 0.0, -5.0]


@pytest.mark.parametrize("kind", [CSR.of, sparse.csr_matrix, sparse.csr_matrix.toarray])
def test_a_constant_feature(kind):
    X, _ = examples(9, 4)
    dense, rows = X.toarray(), kind(X)
    assert with_constant_feature(rows, -1.0) is rows
    for bias in (0.0, 2.5):
        found = with_constant_feature(rows, bias)
        found = found if isinstance(found, np.ndarray) else found.toarray()
        assert np.array_equal(found, np.c_[dense, np.full(9, bias)])


def test_columns_that_occur_and_rows_in_blocks():
    X = sparse.csr_matrix(np.array([[0, 3.0, 0, 0, 1], [0, 0, 0, 0, 2]]))
    found, columns = occurring_columns(X)
    assert columns.tolist() == [1, 4] and found.toarray().tolist() == [[3, 1], [0, 2]]
    none, columns = occurring_columns(sparse.csr_matrix((2, 7)))
    assert none.shape == (2, 1) and columns.size == 0
    # More columns than a table would be worth.
    found, columns = occurring_columns(sparse.csr_matrix(([3.0, 1, 2], ([0, 0, 1], [7, 999, 999]))))
    assert columns.tolist() == [7, 999] and found.toarray().tolist() == [[3, 1], [0, 2]]
    assert found.indices.dtype == X.indices.dtype
    assert with_width(X, 3).shape == (2, 3) and with_width(X, 5).shape == (2, 5) != (2, 6)
    assert with_width(X, 6).toarray()[:, :5].tolist() == X.toarray().tolist()
    cut = in_blocks(np.array([0, 4, 5, 11]), np.array([0, 3, 5, 10, 12]))
    assert [(k, rows.tolist()) for k, rows in cut] == [(0, [0]), (1, [1]), (2, [0]), (3, [1])]


def test_runs_of_examples_that_fit_in_a_cache(monkeypatch):
    X, _ = examples()
    order = np.arange(60)[::-1]

    def runs(rows):
        cache = Gram(Kernel("rbf", 0.4), X, 8 * 60 * rows).cache()
        assert cache.capacity == rows
        found = list(gram.runs(cache, order))
        assert np.array_equal(np.concatenate(found), order)
        return {len(run) for run in found[:-1]}

    assert runs(60) == set() and runs(20) == {10} and runs(7) == {3} and runs(1) == {1}
    monkeypatch.setattr(gram, "_RUN_BYTES", 8 * 60 * 4)
    assert runs(20) == {4}
    order = np.array([3, 1, 0, 0, 0])
    gram.keep_in_front(order, 2)
    assert order.tolist() == [3, 1, 0, 2, 4]


def test_only_rows_of_distances_are_moved_to_their_mean():
    X = examples()[0].toarray() + 5
    assert np.array_equal(Gram(Kernel("poly", 0.4), X).X, X)
    assert np.abs(Gram(Kernel("rbf", 0.4), X).X.mean(axis=0)).max() < 1e-14
    part = Gram(Kernel("rbf", 0.4), X)
    part.matrix()
    assert np.array_equal(part.subset(np.arange(5, 9)).X, part.X[5:9])


def test_limits_of_kernels():
    """A bias may be 10^4 times as large as |x|; values may differ by a 10^-5th from their twin."""
    kernels.refuse_huge_bias(Kernel("rbf", bias=2.0**13), 2.0**26 / 1e8)
    with pytest.raises(UsageError):
        kernels.refuse_huge_bias(Kernel("rbf", bias=2.0**13), 0.999 * 2.0**26 / 1e8)
    kernels.refuse_huge_bias(Kernel("rbf", bias=2.0**13), 0.0)
    K = np.array([[1.0, 2.0], [2.0, 4.0]])
    for off, is_refused in ((3.9e-5, False), (4.1e-5, True)):
        rows = np.c_[[1, 2], K + [[0, off], [0, 0]]]
        of_file = sparse.csr_matrix(rows)
        for given, limit in ((rows, 0), (of_file, 0), (of_file, 48)):
            if is_refused:
                with pytest.raises(DataError):
                    kernels.check_precomputed(given, limit)
            else:
                kernels.check_precomputed(given, limit)
    wide = np.c_[[1, 3], K, [0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(DataError, match="5"):
        kernels.check_precomputed(np.c_[[1, 5], wide[:, 1:]])
    X = sparse.csr_matrix(np.eye(50))
    assert kernels.dense_bytes(X, 8 * 2500) == 8 * 2500  # a fiftieth is not zero
    assert kernels.dense_bytes(X, 8 * 2500 - 1) == 0
    assert kernels.dense_bytes(sparse.csr_matrix((np.ones(49), np.arange(49), [*range(50), 49]),
                                                 (50, 50)), 1e9) == 0  # fmt: skip


def test_an_indefinite_matrix_is_raised_a_little_more_than_it_needs():
    p = problem("rbf", weight=weights())
    slope = losses.largest_slope(p.loss) * p.weight.max()
    for share in (0.5, 0.9999999):
        eigenvalue = -share / slope
        assert indefinite.is_strictly_concave(p, eigenvalue)
        moved = indefinite.shift(p, eigenvalue)
        sigma = (moved.gram.matrix() - p.gram.matrix()).diagonal()
        expected = min(-eigenvalue * (1 + 1e-6), (1 / slope - eigenvalue) / 2)
        assert sigma == pytest.approx(expected, rel=1e-9) and expected < 1 / slope
        off = moved.gram.matrix() - p.gram.matrix() - np.diag(sigma)
        assert not off.any() and np.array_equal(moved.weight, np.ones(60))
        for mine, other in zip(
            moved.loss, losses.shifted(losses.scaled(p.loss, p.weight), sigma[0]), strict=True
        ):
            np.testing.assert_allclose(mine, other, rtol=1e-6)
    assert not indefinite.is_strictly_concave(p, -1.0000001 / slope)
    least = min(p.loss.slope_below, p.loss.slope_above) * p.weight.min()  # between there is none
    assert indefinite.is_unbounded(p, -1.0000001 / least)
    assert not indefinite.is_unbounded(p, -0.9999999 / least)
    assert not indefinite.is_unbounded(p._replace(loss=losses.l2svm(9.0, 60)), -1e9)


def test_factors_of_many_panels(monkeypatch):
    generator = np.random.default_rng(0)
    A = generator.standard_normal((23, 23))
    A = A @ A.T + np.eye(23)
    b = generator.standard_normal((23, 3))
    for panel in (512, 23, 7, 1):
        monkeypatch.setattr(factor, "_PANEL", panel)
        L = factor.cholesky_in_place(np.array(A))
        np.testing.assert_allclose(np.tril(L), np.linalg.cholesky(A), rtol=1e-11)
        np.testing.assert_allclose(factor.cholesky_solve(L, b), np.linalg.solve(A, b), rtol=1e-9)
        wrong = np.array(A)
        wrong[-1, -1] = -1
        with pytest.raises(np.linalg.LinAlgError):
            factor.cholesky_in_place(wrong)
    lower = np.linalg.cholesky(A)
    np.testing.assert_allclose(
        factor.inverse_transposed(lower), np.linalg.inv(lower).T, rtol=1e-9, atol=1e-14
    )
    empty = np.zeros((0, 0))
    assert factor.inverse_transposed(empty).shape == (0, 0)
    assert factor.cholesky_solve(empty, b[:0]).shape == (0, 3)


def test_conjugate_gradients_step_by_step():
    """In n steps it is exact; it ends at the residual, and at the most products."""
    generator = np.random.default_rng(1)
    A = generator.standard_normal((6, 6))
    A, right = A @ A.T + np.eye(6), generator.standard_normal(6)
    asked = []

    def product(x):
        asked.append(x.copy())
        return A @ x

    def run(**options):
        asked.clear()
        given = {"atol": 1e-12, "most": 50} | options
        return factor.conjugate_gradients(product, right, lambda r: r / A.diagonal(), **given)

    best = np.linalg.solve(A, right)
    assert run() == pytest.approx(best, rel=1e-9) and 6 <= len(asked) <= 7
    assert not run(most=0).any() and asked == []
    assert not run(atol=np.linalg.norm(right)).any()  # already small enough
    run(most=3)
    assert len(asked) == 3
    for k, one in enumerate(asked):
        for other in asked[:k]:
            assert one @ A @ other == pytest.approx(0, abs=1e-9)  # conjugate
    errors = []
    for most in range(5):
        off = run(most=most) - best
        errors.append(off @ A @ off)
    assert np.all(np.diff(errors) < 0)
    zero = factor.conjugate_gradients(product, np.zeros(6), lambda r: r, atol=-1.0, most=9)
    assert not zero.any()


def test_conjugate_gradients_end_where_the_square_of_the_residual_is_zero():
    with np.errstate(all="raise", under="ignore"):
        x = factor.conjugate_gradients(
            lambda p: 1e300 * p, np.full(6, 1e-200), lambda r: r, atol=0.0, most=9
        )
    assert np.array_equal(x, np.zeros(6))


def test_conjugate_gradients_see_directions_that_are_hardly_curved():
    """A residual that is long in one direction hides the others, where most is to be gained."""
    generator = np.random.default_rng(2)
    curvatures = np.concatenate([[1e8], np.linspace(1, 2, 20)])
    right = np.concatenate([[1e6], generator.standard_normal(20) * 1e3])
    best = right / curvatures

    def lacking(**given):
        x = factor.conjugate_gradients(
            lambda v: curvatures * v, right, lambda r: r / np.r_[1e8, np.full(20, 1.5)],
            atol=0.2 * np.linalg.norm(right), most=50, **given,
        )  # fmt: skip
        return (best - x) @ (curvatures * (best - x)) / (best @ (curvatures * best))

    assert lacking() > 1e-2
    assert lacking(share=0.5) < 1e-3


def test_the_best_of_a_track_is_the_lowest_primal_and_the_highest_dual():
    """Unless one point's own gap is small enough: it is free of cancellation."""
    track = newton.Track()
    seen = ("a", 10.0, 5.0), ("b", 9.0, 6.0), ("c", 12.0, 5.5), ("d", 11.0, 9.0)
    for name, primal, gap in seen:
        track.add(SimpleNamespace(primal=primal, gap=gap, scale=10.0, eta=name, unsure=0.25))
    for one in (track, track.renewed(lambda point: point)):
        point, eta, gap = one.best(0.1)
        assert (point.eta, eta, gap) == ("b", "c", 3.0)
        point, eta, gap = one.best(0.6)
        assert (point.eta, eta, gap) == ("a", "a", 5.0)


def test_a_point_of_a_track_is_looked_at_again_once():
    track, seen = newton.Track(), []
    point = SimpleNamespace(primal=1.0, gap=2.0, scale=10.0, eta=None, unsure=0.0)
    track.add(point)
    track.renewed(lambda one: seen.append(one) or one)
    assert seen == [point]


def test_the_trend_looks_at_doublings_only():
    trend = Trend()
    assert [trend.is_too_slow(n, 0.5, 1e-3, 1) for n in (1, 2, 3, 4, 5, 8, 15)] == [False] * 7
    assert trend.is_too_slow(16, 0.5, 1e-3, 10**9)  # flat
    rising = Trend()
    assert not any(rising.is_too_slow(n, g, 1e-3, 1) for n, g in ((4, 0.5), (8, 0.9)))
    assert not rising.is_too_slow(16, 0.4, 1e-3, 1)  # nothing can be foreseen
    for gaps, is_too_slow in (
        ((0.5, 0.4, 0.5), True), ((0.4, 0.5, 0.45), True), ((0.5, 0.5, 0.5), True),
        ((0.5, 0.4, 0.45), False), ((0.4, 0.45, 0.39), False),
    ):  # fmt: skip
        trend = Trend()
        *_, found = (
            trend.is_too_slow(n, g, 1e-3, 2.0**200) for n, g in zip((4, 8, 16), gaps, strict=True)
        )
        assert found is is_too_slow
    done = Trend()
    found = [done.is_too_slow(n, g, 1e-3, 16) for n, g in ((4, 0.5), (8, 0.01), (16, 1e-9))]
    assert found == [False] * 3


def test_margins_of_coefficients():
    for kernel in (None, "rbf"):
        p = problem(kernel)
        coef = np.linspace(-1, 1, 60)
        K = (p.X @ p.X.T).toarray() if kernel is None else p.gram.matrix()
        expected = [p.y[i] * sum(K[i] * p.y * coef) for i in range(60)]
        assert p.margins(coef) == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert p.size == 60 and p.kernel_name == (kernel or "linear")
    assert base.ignore_progress(None) is None


def test_a_cache_of_rows_has_what_was_asked_for_last():
    """Against a list of rows: none is wrong, none is lost while there is room, the oldest goes."""
    X, _ = examples()
    K = kernels.gram(Kernel("rbf", 0.4), X)
    for capacity in (1, 4, 59):
        cache = Gram(Kernel("rbf", 0.4), X, 8 * 60 * capacity).cache()
        generator, present = np.random.default_rng(capacity), []
        for _ in range(60):
            asked = generator.choice(60, generator.integers(1, min(5, capacity + 1)), replace=False)
            cache.fetch(asked)
            missing = [i for i in asked if i not in present]
            there = np.flatnonzero(cache.slot >= 0)
            assert set(asked) <= set(there) and len(set(cache.slot[there])) == len(there)
            assert len(there) == min(capacity, len(present) + len(missing))
            assert set(there) <= set(present) | set(asked)
            np.testing.assert_allclose(cache.rows[cache.slot[there]], K[there], rtol=1e-12)
            present = list(there)


def test_words_for_labels_are_kept_in_one_line_each():
    words = ["red", "", 'a "b"', "line\nbreak", "del\x7f", "\u00fc \\"]
    facts = labels.label_facts(words)
    assert facts["label_0"] == "red" and facts["label_1"] == "" and facts["label_4"] == "del\\u007f"
    assert all("\n" not in text and "\x7f" not in text for text in facts.values())
    assert labels.label_names(list(range(6)), facts) == dict(enumerate(words))
    assert labels.label_names([0, 6], facts) == {}
    assert labels.is_label_fact("label_4") and not labels.is_label_fact("machine")
    with pytest.raises(ModelError):
        labels.label_names([0], {"label_0": '"'})
