"""The multi-class SVM of Crammer and Singer: certified, and the same as others find it."""

import mcodm_problems
import numpy as np
import pytest
import stock
from mcodm_problems import examples
from problems import KERNELS, weights, write
from scipy import sparse
from scipy.optimize import minimize

from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import DivergedError, UsageError
from odmtool.io.model_file import read_model
from odmtool.judge import mcsvm as judge
from odmtool.machines import MCSVM
from odmtool.solvers.base import Progress, Stop
from odmtool.solvers.mcsvm import auto as mcsvm_auto
from odmtool.solvers.mcsvm import descent as mcsvm
from odmtool.solvers.mcsvm import newton as mcsvm_newton
from odmtool.solvers.multi import MultiProblem, MultiSolution


def problem(kernel=None, weight=None, dense=False, lambda_=60.0, k=4, memory=np.inf, m=60):
    return mcodm_problems.problem(
        kernel, weight, dense, lambda_, k, memory, m=m, loss_of=losses.mcsvm
    )


def sigmoidal(gamma, coef0, lambda_):
    X, target = examples()
    gram = Gram(Kernel("sigmoid", gamma, coef0), X)
    return MultiProblem(None, gram, target, 4, np.ones(60), losses.mcsvm(lambda_, 60))


def certificate(p, solution):
    return mcodm_problems.certificate(p, solution, judge)


@pytest.mark.parametrize("kernel, weighted, dense, memory", [
    (None, False, False, 0), (None, True, True, 0), ("rbf", True, False, np.inf),
    ("poly", False, True, np.inf), ("rbf with bias", False, False, 8 * 60 * 30),
    ("precomputed", False, False, np.inf),
])  # fmt: skip
@pytest.mark.parametrize("tolerance", [1e-2, 1e-5])
def test_the_judge_confirms_the_gap(kernel, weighted, dense, memory, tolerance):
    p = problem(kernel, weights() if weighted else None, dense, memory=memory)
    solution = mcsvm.solve(p, Stop(tolerance, 100_000))
    judged = certificate(p, solution)
    assert solution.converged and solution.optimal and solution.gap <= tolerance
    # The gap is a bound, which includes what rounding may have done.
    assert judged.gap - 1e-12 <= solution.gap <= judged.gap + 1e-9
    assert judged.primal == pytest.approx(solution.objective, rel=1e-11)
    assert judged.infeasibility <= 1e-13 * max(1.0, abs(solution.duals).max())


def test_classes_that_no_example_needs_are_left_out_and_come_back():
    """Of thirty few are looked at in the end, and the gap of all is what it is said to be."""
    k = 30
    p, counts = problem(k=k, m=90, lambda_=500.0), []
    epoch = mcsvm.linear_epoch

    def counted(*arguments):
        result = epoch(*arguments)
        counts.append(arguments[8].sum())
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mcsvm, "linear_epoch", counted)
        solution = mcsvm.solve(p, Stop(1e-6, 100_000))
    judged = certificate(p, solution)
    assert solution.converged and judged.gap - 1e-12 <= solution.gap <= 1e-6
    assert counts[0] == 90 * k and counts[-1] < 90 * k / 3
    # What the epochs left out came back whenever the gap was computed.
    assert sum(count > 90 * k / 2 for count in counts[1:]) > 1


@pytest.mark.parametrize("kernel", [None, "rbf with bias"])
def test_what_rounding_may_hide(kernel):
    """Of the margins near 1 and below the whole of their losses' change, of every dual its own."""
    p, generator = problem(kernel, weights()), np.random.default_rng(4)
    state = (mcsvm._Linear if kernel is None else mcsvm._Kernel)(p, generator.normal(0, 1, (60, 4)))
    state._error = 1e-3  # of which the square counts
    K = np.eye(60) if kernel is None else p.gram.matrix()
    r = np.linalg.norm(p.X.toarray(), axis=1) if kernel is None else np.sqrt(K.diagonal())
    lengths = [sum(r * abs(state.alpha[:, k])) for k in range(4)]
    largest = max(lengths)
    if kernel is None:
        state.scores()
        largest = max(np.linalg.norm(p.X.toarray().T @ state.alpha[:, k]) for k in range(4))
    cost = p.weight * 3.0
    # As far on this side of the last margin that may count as on the other.
    margins = 1 + 2e-3 * largest * r * np.where(np.arange(60) % 2, 0.9, 1.1)
    margins[:10], margins[10:20] = 1e3, -1e3
    expected = 1e-6 * sum(length**2 for length in lengths)
    for i in range(60):
        off = 1e-3 * largest * r[i]
        share = abs(state.alpha[i]).sum()
        if margins[i] < 1 + 2 * off:
            share += 2 * cost[i]
        expected += off * share
    assert state.hidden(margins, cost, np.inf) == pytest.approx(expected, rel=1e-12, abs=0)


def test_a_large_gamma_hides_nothing_of_a_matrix_that_is_nearly_the_identity():
    """Kernel values next to nothing are off by next to nothing, however large the shares are."""
    X, target = examples()
    gram = Gram(Kernel("rbf", 1e9), X)
    p = MultiProblem(None, gram, target, 4, np.ones(60), losses.mcsvm(60.0, 60))
    solution = mcsvm.solve(p, Stop(1e-6, 100))
    judged = certificate(p, solution)
    assert solution.converged and judged.gap - 1e-12 <= solution.gap <= 1e-6


@pytest.mark.parametrize("weighted, dense, lambda_", [
    (False, False, 60.0), (True, True, 60.0), (True, False, 1e-3), (False, True, 1e5),
])  # fmt: skip
def test_newton_is_judged_and_finds_what_descent_finds(weighted, dense, lambda_):
    p = problem(None, weights() if weighted else None, dense, lambda_)
    solution = mcsvm_newton.solve(p, Stop(1e-8, 200))
    judged = certificate(p, solution)
    assert solution.converged and solution.iterations < 100
    assert judged.gap - 1e-12 <= solution.gap <= min(1e-8, judged.gap + 1e-9)
    assert judged.infeasibility <= 1e-13 * max(1.0, abs(solution.duals).max())
    other = mcsvm.solve(p, Stop(1e-6, 3000))
    least = (1 - other.gap) * other.objective
    assert least <= solution.objective * (1 + 1e-9) <= other.objective * (1 + 2e-8)
    again = mcsvm_newton.solve(p, Stop(1e-8, 200), start=solution.duals)
    assert again.iterations == 0 and again.gap <= 1e-8


def test_the_nearest_point_is_the_nearest():
    """Against the condition for it: the same difference where p > 0, no larger one elsewhere."""
    V = np.vstack([np.random.default_rng(0).standard_normal((40, 5)), np.zeros((1, 5))])
    total = np.linspace(1e-3, 9, 41)[:, None]
    p = mcsvm_newton.projected(V, total)
    assert p.min() >= 0 and p.sum(axis=1) == pytest.approx(total[:, 0], rel=1e-12)
    apart = V - p
    levels = np.where(p > 0, apart, -np.inf).max(axis=1, keepdims=True)
    assert np.all(apart <= levels + 1e-12)
    assert np.all(np.where(p > 0, apart, levels) >= levels - 1e-12)


def test_auto_goes_on_with_newton_on_features_that_nobody_scaled():
    X, target = examples()
    rough = X.toarray() * 10.0 ** np.array([3, -1, 0, 2, 1, 0])
    descent = MCSVM(lambda_=60, solver="dcd", max_iter=3000).fit(rough, target).solution_
    ours = MCSVM(lambda_=60).fit(rough, target).solution_
    assert ours.converged and not descent.converged and ours.solver == "dcd, then newton"
    few = MCSVM(lambda_=60, max_iter=200).fit(rough, target).solution_
    assert (few.solver, few.iterations) == ("dcd", 200)


def test_newton_refuses_too_many_weights():
    X = sparse.random(8, 400, density=0.5, random_state=0, format="csr")
    with pytest.raises(UsageError, match="at most 1000 weights"):
        MCSVM(solver="newton").fit(X, np.arange(8) % 4)


def test_the_judge_rejects_a_wrong_solution():
    p = problem()
    solution = mcsvm.solve(p, Stop(1e-9, 100_000))
    judged = certificate(p, solution._replace(W=1.01 * solution.W))
    assert judged.gap > 1e-6
    assert certificate(p, solution._replace(duals=1.01 * solution.duals)).infeasibility > 1e-3


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_a_general_solver_finds_the_same_dual(kernel):
    """SLSQP on all alpha of twelve examples at once."""
    p = problem(kernel, m=12, k=3, lambda_=6.0)
    K = (p.X @ p.X.T).toarray() if kernel is None else p.gram.matrix()
    rows, caps = np.arange(12), p.parameters.cost * p.weight
    upper = np.zeros((12, 3))
    upper[rows, p.target] = caps

    def negative_dual(flat):
        alpha = flat.reshape(12, 3)
        own = np.zeros((12, 3))
        own[rows, p.target] = 1
        value = np.vdot(alpha, K @ alpha) / 2 - alpha[rows, p.target].sum()
        return value, (K @ alpha - own).ravel()

    found = minimize(
        negative_dual, np.zeros(36), jac=True, method="SLSQP",
        bounds=[(None, u) for u in upper.ravel()], options={"maxiter": 500, "ftol": 1e-12},
        constraints={"type": "eq", "fun": lambda a: a.reshape(12, 3).sum(axis=1),
                     "jac": lambda a: np.kron(np.eye(12), np.ones(3))},
    )  # fmt: skip
    solution = mcsvm.solve(p, Stop(1e-9, 100_000))
    assert solution.objective == pytest.approx(-found.fun, rel=1e-6)


def test_scikit_learn_finds_the_same_weights():
    svm = pytest.importorskip("sklearn.svm")
    X, target = examples()
    theirs = svm.LinearSVC(
        C=0.5, multi_class="crammer_singer", fit_intercept=False, tol=1e-10, max_iter=1_000_000
    ).fit(X, target)
    ours = MCSVM(cost=0.5, tolerance=1e-9, max_iter=100_000).fit(X, target)
    order = [ours.classes_.index(label) for label in theirs.classes_]
    np.testing.assert_allclose(ours.solution_.W[:, order].T, theirs.coef_, atol=2e-4)


def test_liblinear_has_the_same_machine(run, tmp_path):
    X, target = examples()
    write("d", X, target + 1)
    stock.run("liblinear-train", "-s", "4", "-c", "0.5", "-e", "1e-8", "-q", "d", "theirs")
    limits = "-e", "1e-9", "--max-iter", "100000"
    assert run("train", "-s", "mcsvm", "-c", "0.5", *limits, "d", "ours").code == 0
    ours, theirs = read_model("ours"), read_model("theirs")
    order = [ours.labels.index(label) for label in theirs.labels]
    assert ours.weights[:, order] == pytest.approx(theirs.weights, abs=2e-4)
    assert ours.facts["machine"] == "mcsvm" and ours.facts["status"] == "optimal"


def test_weight_two_is_the_example_twice():
    X, target = examples()
    twice = np.r_[np.arange(60), np.arange(20)]
    weight = np.where(np.arange(60) < 20, 2.0, 1.0)
    a = MCSVM(lambda_=40, tolerance=1e-9, max_iter=100_000).fit(X, target, weight)
    b = MCSVM(lambda_=40, tolerance=1e-9, max_iter=100_000).fit(X[twice], target[twice])
    order = [b.classes_.index(label) for label in a.classes_]
    np.testing.assert_allclose(a.solution_.W, b.solution_.W[:, order], atol=1e-3)


def test_duals_start_another_training():
    p = problem("rbf")
    first = mcsvm.solve(p, Stop(1e-6, 10_000))
    again = mcsvm.solve(p, Stop(1e-6, 10_000), start=first.duals)
    assert again.iterations == 0 and again.objective == pytest.approx(first.objective, rel=1e-12)


def test_a_small_cost_is_not_lost_in_rounding():
    solution = mcsvm.solve(problem(lambda_=1e-20), Stop(1e-6, 100))
    assert solution.converged and solution.objective == pytest.approx(1e-20, rel=1e-9)


@pytest.mark.parametrize("lambda_", [6e-5, 60.0, 1e6])
def test_a_negative_length_is_refused(lambda_):
    with pytest.raises(DivergedError, match="the kernel is not positive definite"):
        mcsvm.solve(sigmoidal(3.0, -5.0, lambda_), Stop(1e-3, 200))


@pytest.mark.parametrize("lambda_", [60.0, 1e6])
def test_a_stationary_point_is_not_called_optimal(lambda_):
    """Its gap is small, and yet P has no minimum: it falls along a negative eigenvalue."""
    p = sigmoidal(1.0, 2.0, lambda_)
    solution = mcsvm.solve(p, Stop(1e-3, 200))
    assert solution.converged and not solution.optimal
    judged = certificate(p, solution)
    assert judged.gap == pytest.approx(solution.gap, abs=1e-9)
    _, vectors = np.linalg.eigh(p.gram.matrix())
    lower = solution.coef + solution.objective * np.outer(vectors[:, 0], [1, -1, 0, 0])
    assert certificate(p, solution._replace(coef=lower)).primal < 0 < solution.objective


@pytest.mark.parametrize("limit, first, expected", [
    (200, (200, False), [("dcd", 200)]),  # there is no more
    (1000, (7, True), [("dcd", 300)]),
    (1000, (300, False), [("dcd", 300), ("newton", 200), ("dcd", 600)]),
    (450, (300, False), [("dcd", 300), ("newton", 150), ("dcd", 50)]),
])  # fmt: skip
def test_what_auto_gives_to_descent_and_to_newton(monkeypatch, limit, first, expected):
    """Who begins where, goes how far, and what is told."""
    asked, told = [], []

    def solver(name, *results):
        results = list(results)

        def solve(problem, stop, *, start, progress, **others):
            asked.append((name, stop.max_iter, start))
            count, converged, gap = results.pop(0)
            progress(Progress(count, 1.0, gap, 1))
            return MultiSolution(
                None, None, 1.0, gap, iterations=count, converged=converged, solver=name,
                duals=f"{name} {count}",
            )  # fmt: skip

        monkeypatch.setattr({"dcd": mcsvm, "newton": mcsvm_newton}[name], "solve", solve)

    solver("dcd", (*first, 0.3), (40, False, 0.4))
    solver("newton", (100, False, 0.2))
    p = MultiProblem(np.zeros((5, 2)), None, np.zeros(5, int), 3, np.ones(5), None)
    found = mcsvm_auto.solve(p, Stop(1e-3, limit), start="given", progress=told.append)
    assert [name_and_limit[:2] for name_and_limit in asked] == expected
    assert asked[0][2] == "given"
    if len(expected) == 1:
        assert found.iterations == first[0] and found.solver == "dcd"
        return
    assert [start for *_, start in asked[1:]] == ["dcd 300", "newton 100"]
    assert [now.iteration for now in told] == [300, 400, 440]
    # The best of the three, and what all of them took.
    assert (found.gap, found.iterations, found.solver) == (0.2, 440, "dcd, then newton")
    # A problem of many weights, or with a kernel, is descent's alone.
    gram = Gram(Kernel("rbf", 0.3), p.X)
    for large in (p._replace(X=np.zeros((5, 334))), p._replace(gram=gram)):
        asked.clear()
        solver("dcd", (limit, False, 0.5))
        assert mcsvm_auto.solve(large, Stop(1e-3, limit)).solver == "dcd"
        assert [entry[:2] for entry in asked] == [("dcd", limit)]


def smooth(seed, weight=None):
    """Newton's smoothed problem around some q, and W."""
    p, generator = problem(None, weight, k=3), np.random.default_rng(seed)
    state = mcsvm_newton._Smooth(p, None)
    state.q = mcsvm_newton.projected(
        state.q + generator.standard_normal(state.q.shape), state._cost
    )
    state.tau = 0.7
    return p, state, generator.standard_normal((p.X.shape[1], 3))


@pytest.mark.parametrize("weighted", [False, True])
def test_newtons_problem_by_its_definition(weighted):
    """The largest of <p, e + W'x> less the proximal term, by SLSQP, example by example."""
    p, state, W = smooth(0, weights() if weighted else None)
    value, duals = state._value(W)
    scores, total = p.X.toarray() @ W, np.vdot(W, W) / 2
    for i in range(0, 60, 7):
        e, cost = 1.0 * (np.arange(3) != p.target[i]), p.parameters.cost * p.weight[i]
        q = state.q[i]

        def less(p_i, e=e, q=q, f=scores[i]):
            return 0.35 * (p_i - q) @ (p_i - q) - p_i @ (e + f)

        found = minimize(
            less, np.full(3, cost / 3), method="SLSQP", bounds=[(0, None)] * 3,
            constraints={"type": "eq", "fun": lambda p_i, c=cost: p_i.sum() - c},
            options={"ftol": 1e-15},
        )  # fmt: skip
        np.testing.assert_allclose(duals[i], found.x, atol=1e-6)
    for i in range(60):
        e, y = 1.0 * (np.arange(3) != p.target[i]), p.target[i]
        apart = duals[i] - state.q[i]
        total += duals[i] @ (e + scores[i]) - 0.35 * apart @ apart
        total -= p.parameters.cost * p.weight[i] * scores[i, y]
    assert value == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_newtons_equations_are_those_of_its_derivatives(weighted):
    """The gradient by differences of values; the Hessian by those of gradients."""
    p, state, W = smooth(1, weights() if weighted else None)

    def gradient(W):
        return W - p.X.T @ state.duals(state._value(W)[1])

    generator, found = np.random.default_rng(2), state._value(W)[1]
    assert {1, 2, 3} == set(np.count_nonzero(found, axis=1))
    alpha = state.duals(found)
    cost = p.parameters.cost * p.weight
    own = np.eye(3)[p.target]
    np.testing.assert_allclose(alpha, cost[:, None] * own - found, atol=1e-12)
    for V in generator.standard_normal((5, *W.shape)):
        ahead, behind = (state._value(W + s * V)[0] for s in (1e-5, -1e-5))
        assert (ahead - behind) / 2e-5 == pytest.approx(np.vdot(gradient(W), V), rel=1e-6)
        step = state._solved(found, V)
        change = (gradient(W + 1e-7 * step) - gradient(W - 1e-7 * step)) / 2e-7
        np.testing.assert_allclose(change, V, atol=1e-5)


def test_duals_sum_to_zero_where_others_take_more_than_the_cost():
    """And what is below the cost stays."""
    p, state, _ = smooth(1)
    cost, others = float(state._cost[0, 0]), np.eye(3)[p.target] == 0
    for share, expected in ((0.5, 0.5), (2.0, 1.0)):
        given = np.where(others, share * cost / 2, 99.0)
        alpha = state.duals(given)
        assert np.abs(alpha.sum(axis=1)).max() < 1e-15
        np.testing.assert_allclose(alpha[~others], expected * cost, rtol=1e-12)
        np.testing.assert_allclose(-alpha[others], expected * cost / 2, rtol=1e-12)


def test_where_newtons_smoothing_begins():
    """At 1 / the mean cost, around the duals of the start."""
    p = problem(None, weights())
    cost, generator = p.parameters.cost * p.weight, np.random.default_rng(3)
    start, own = generator.standard_normal((60, 4)), np.eye(4)[p.target]
    for given, minus in ((None, 0.0), (start, start)):
        state = mcsvm_newton._Smooth(p, given)
        assert state.tau == pytest.approx(1 / cost.mean(), rel=1e-12)
        np.testing.assert_allclose(state.q, cost[:, None] * own - minus, atol=1e-12)


@pytest.mark.parametrize("times", [1.0, 5.0, 2.0**33 - 2.0**13, 2.0**33 + 2.0**13, -1.0])
def test_newtons_line_search(times, monkeypatch):
    """Steps 1, 1/2, ... above 1e-10; what promises no billionth of the value is the last."""
    p, state, W = smooth(4)
    usual, start, asked = mcsvm_newton._Smooth._solved, state._value(W)[0], []
    gradient = W - p.X.T @ state.duals(state._value(W)[1])
    whole = -usual(state, state._value(W)[1], gradient)
    slope = np.vdot(gradient, whole)
    low, high = 0.0, 1e6
    for _ in range(80):  # it is convex
        middle = (low + high) / 2
        is_low = state._value(W + middle * whole)[0] <= start + 1e-4 * middle * slope
        low, high = (middle, high) if is_low else (low, middle)
    scale = low * times if times > 100 else times
    monkeypatch.setattr(
        mcsvm_newton._Smooth, "_solved",
        lambda self, p, g: asked.append(1) or scale * usual(self, p, g),
    )  # fmt: skip
    found, duals, steps = state.minimised(W, 1)
    size = 1.0
    while size > 1e-10 and state._value(W + size * scale * whole)[0] > start + 1e-4 * (
        size * scale * slope
    ):
        size /= 2
    expected = W + size * scale * whole if size > 1e-10 else W
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.array_equal(found, W) == (times < 0 or times > 2.0**33)
    np.testing.assert_allclose(duals, state._value(expected)[1], atol=1e-6)
    assert steps == 1 == len(asked)
    if times == 1.0:  # on to the end, which takes a few
        found, duals, steps = state.minimised(W, 50)
        assert 2 < steps < 50 and 1 + steps == len(asked)
        last = found - p.X.T @ state.duals(duals)
        rest = np.vdot(last, usual(state, duals, last))
        assert rest <= 1e-9 * abs(state._value(found)[0])
        assert state.minimised(W, 2)[2] == 2 and state.minimised(W, 0)[2] == 0


def test_newton_ends_where_its_equations_cannot_be_solved(monkeypatch):
    p, state, W = smooth(4)

    def refuse(*_):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(mcsvm_newton, "cholesky_in_place", refuse)
    found, _duals, steps = state.minimised(W, 9)
    assert found is W and steps == 1


def test_newton_keeps_the_best_point_and_halves_its_smoothing(monkeypatch):
    """Of the taus that follow each other, with the duals of the one before as the next centre.

    The best is the nearest to the optimum, not that with the smallest relative gap.
    """
    p, told, asked = problem(None, weights()), [], []
    far = 0.15
    gaps, real = iter([0.9, 0.5, 0.7, far, 0.2, 5e-4, 1.0]), mcsvm.solve

    def judged(problem, stop, start):
        assert stop == Stop(1e-3, 0)
        gap = next(gaps)
        found = real(problem, stop, start=start)
        primal = 1e9 if gap == far else 10.0
        return found._replace(gap=gap, objective=primal, converged=gap <= 1e-3)

    def minimised(self, W, limit):
        asked.append((self.tau, limit, float(self.q[0, 0]), float(W[0, 0])))
        number = float(len(asked))
        return np.full_like(W, number), np.full_like(self.q, number), 3

    monkeypatch.setattr(mcsvm, "solve", judged)
    monkeypatch.setattr(mcsvm_newton._Smooth, "minimised", minimised)
    found = mcsvm_newton.solve(p, Stop(1e-3, 50), progress=told.append)
    assert (found.gap, found.iterations, found.solver) == (5e-4, 15, "newton") and found.converged
    assert [(now.iteration, now.gap) for now in told] == [
        (0, 0.9), (3, 0.5), (6, 0.5), (9, 0.5), (12, 0.2), (15, 5e-4),
    ]  # fmt: skip
    tau = 1 / (p.parameters.cost * p.weight).mean()
    assert [each[:2] for each in asked] == [
        (pytest.approx(tau / 2**n), 50 - 3 * n) for n in range(5)
    ]
    assert [each[2:] for each in asked[1:]] == [(1, 1), (2, 2), (3, 3), (4, 4)]
    margins = told[0].margins()
    assert margins.shape == (60,) and np.all(margins <= 0)  # all scores are 0
    gaps, asked[:] = iter([0.9, 0.5, 0.4]), []
    assert mcsvm_newton.solve(p, Stop(1e-3, 6)).iterations == 6 and len(asked) == 2
    monkeypatch.setattr(
        mcsvm_newton._Smooth, "minimised", lambda self, W, limit: (W, self.q * np.nan, 1)
    )
    gaps = iter([0.9])
    with pytest.raises(DivergedError):
        mcsvm_newton.solve(p, Stop(1e-3, 6))


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_examples_that_count_are_those_with_duals(kernel):
    p = problem(kernel, weights())
    found = mcsvm.solve(p, Stop(1e-3, 300))
    used = {i for i in range(60) for j in range(4) if found.duals[i, j] != 0}
    assert found.support_count == len(used) < 60


def test_a_table_is_known_to_be_definite_where_there_is_room_for_it():
    K, y = np.eye(60), problem().target
    for room, entry, is_definite in (
        (8 * 3600, 1.0, True), (8 * 3600 - 1, 1.0, False), (np.inf, -0.5, False),
    ):  # fmt: skip
        K[0, 1] = K[1, 0] = 1.5 if entry < 0 else 0.0
        X = sparse.csr_matrix(np.column_stack([np.arange(1, 61), K]))
        assert mcsvm._is_definite(Gram(Kernel("precomputed"), X, room)) == is_definite
    assert mcsvm._is_definite(Gram(KERNELS["rbf"], examples()[0], 0.0)) and len(y) == 60
