"""KM-OMD: certified, the same as a general solver finds, and its intercept."""

from itertools import islice

import numpy as np
import pytest
from problems import examples, precomputed_rows, problem, weights, write
from scipy.optimize import minimize
from test_certificates import certificate

from odmtool import solvers
from odmtool.core import losses
from odmtool.io.model_file import read_model
from odmtool.machines import machine_named
from odmtool.solvers.newton import kmomd

KMOMD = machine_named("kmomd")


def tried(kernel=None, lambda_=42.0, **arguments):
    return problem(kernel, loss=losses.kmomd(lambda_, 60), **arguments)


@pytest.mark.parametrize("lambda_", [1e-3, 42.0, 1e5])
@pytest.mark.parametrize("weighted, dense", [(False, False), (True, True)])
@pytest.mark.parametrize("kernel", [None, "rbf", "poly", "precomputed"])
def test_the_judge_confirms_the_gap(kernel, weighted, dense, lambda_):
    p = tried(kernel, lambda_, dense=dense, weight=weights() if weighted else None)
    steps = []
    solution = solvers.solve(p, tolerance=1e-6, progress=lambda now: steps.append(now.iteration))
    assert max(np.diff([0, *steps])) <= 1 and steps[-1] == solution.iterations
    judged = certificate(p, solution)
    assert solution.converged and judged.gap - 1e-12 <= solution.gap <= 1e-6
    assert judged.primal == pytest.approx(solution.primal, rel=1e-9)
    wrong = certificate(p, solution._replace(eta=1.01 * solution.eta))
    assert wrong.dual == -np.inf


@pytest.mark.parametrize("kernel, lambda_", [(None, 30.0), ("rbf", 30.0), ("rbf", 1e4)])
def test_a_general_solver_finds_the_same_dual(kernel, lambda_):
    """SLSQP on the problem of the paper, which takes (1 - l) g'YKYg + l g'g."""
    p = tried(kernel, lambda_)
    K = (p.X @ p.X.T).toarray() if kernel is None else p.gram.matrix()
    Q, cost = K * np.outer(p.y, p.y), lambda_ / 60
    theirs = 1 / (1 + cost)
    ends = np.vstack([p.y > 0, p.y < 0]).astype(float)

    def value(g):
        return (1 - theirs) * g @ Q @ g + theirs * g @ g, 2 * ((1 - theirs) * Q @ g + theirs * g)

    first = ends.T @ (1 / ends.sum(axis=1))
    found = minimize(
        value, first, jac=True, method="SLSQP", bounds=[(0, None)] * 60,
        options={"maxiter": 2000, "ftol": 1e-14},
        constraints={"type": "eq", "fun": lambda g: ends @ g - 1, "jac": lambda g: ends},
    )  # fmt: skip
    solution = solvers.solve(p, tolerance=1e-10)
    assert value(solution.eta)[0] == pytest.approx(found.fun, rel=1e-6)
    np.testing.assert_allclose(solution.eta, found.x, atol=2e-4)
    # Half way between the two points.
    values = K @ (p.y * solution.eta)
    assert solution.bias == pytest.approx(-(solution.eta @ values) / 2, rel=1e-6)


def test_features_that_nobody_scaled():
    """Kernel values of 1e12, whose rounding hides what the margins demand of the duals."""
    X, y = examples()
    options = {"kernel": "poly", "gamma": 1.0, "degree": 3, "tolerance": 1e-6}
    fitted = KMOMD(**options, lambda_=1024).fit(100 * X, y.astype(int))
    assert fitted.solution_.converged
    # Relative to 1/2 |w|^2 and what the duals cost, which together are -D.
    found = fitted.solution_
    assert found.gap >= (found.primal - found.dual) / -found.dual * (1 - 1e-9)
    # In other units, powers of two, it is the same to the last digit: no scale inside would help.
    same = KMOMD(**options, lambda_=1024 * 2.0**-42).fit(2.0**7 * 100 * X, y.astype(int))
    assert np.array_equal(same.solution_.coef, fitted.solution_.coef)


def test_equal_margins_to_the_last_digit_are_no_overflow():
    X, y = examples()
    options = {"kernel": "poly", "gamma": 1.0, "degree": 3, "lambda_": 2**20, "max_iter": 40}
    solution = KMOMD(**options).fit(1000 * X, y.astype(int)).solution_
    assert np.isfinite(solution.primal) and solution.gap > 1e-3


def test_where_a_level_is_the_least_margin_the_duals_are_of_those_that_have_it():
    """A large cost: r is above the least margins by less than their last digit."""
    p = problem(None, loss=losses.kmomd(1e25, 60))
    rows, generator = kmomd._Rows(p), np.random.default_rng(0)
    t = 1.0 + generator.random(60)
    least = np.r_[np.flatnonzero(p.y > 0)[:3], np.flatnonzero(p.y < 0)[4:9]]
    t[least] = 0.5
    point = rows._at(np.zeros(60), t, 0.0)
    expected = np.zeros(60)
    expected[least] = np.where(p.y[least] > 0, 1 / 3, 1 / 5)
    assert np.array_equal(point.r, [0.5, 0.5])
    assert point.duals == pytest.approx(expected, abs=1e-15)


def test_a_small_cost_leaves_the_means():
    X, y = examples()
    fitted = KMOMD(lambda_=1e-9).fit(X, y.astype(int))
    means = [np.asarray(X[y == sign].mean(axis=0)).ravel() for sign in (1, -1)]
    w = means[0] - means[1]
    assert fitted.solution_.w == pytest.approx(w, abs=1e-9)
    # The first class of the machine is that of the first row.
    assert fitted.solution_.bias == pytest.approx(-(w @ (means[0] + means[1])) / 2, abs=1e-9)


def test_weight_two_is_the_example_twice():
    X, y = examples()
    twice, weight = np.r_[np.arange(60), np.arange(20)], np.where(np.arange(60) < 20, 2.0, 1.0)
    a = KMOMD(lambda_=40, tolerance=1e-10).fit(X, y.astype(int), weight)
    b = KMOMD(lambda_=40, tolerance=1e-10).fit(X[twice], y[twice].astype(int))
    assert a.solution_.w == pytest.approx(b.solution_.w, abs=1e-7)
    assert a.solution_.bias == pytest.approx(b.solution_.bias, abs=1e-7)


@pytest.mark.parametrize("options", [[], ["-t", "rbf", "-g", "0.3"]])
def test_the_intercept_is_in_the_model(run, options):
    X, y = examples()
    write("d", X, y.astype(int))
    assert run("train", "-s", "kmomd", *options, "d", "m").code == 0
    assert run("predict", "-d", "d", "m", "o").code == 0
    gamma = dict(kernel="rbf", gamma=0.3) if options else {}
    fitted = KMOMD(**gamma).fit(X, y.astype(int))
    rows = X @ fitted.solution_.w if not options else None
    values = read_model("m").decision_values(X)[:, 0]
    if rows is not None:
        assert values == pytest.approx(rows + fitted.solution_.bias, rel=1e-9)
    assert run("cv", "-s", "kmomd", *options, "-v", "3", "d").code == 0
    signs = np.where(values > 0, *(read_model("m").labels))
    assert np.loadtxt("o", skiprows=1)[:, 0].tolist() == signs.tolist()


@pytest.mark.parametrize("how", ["ovr", "ovo", "ecoc"])
def test_more_classes_keep_their_intercepts(how):
    X, y = examples()
    labels = np.where(np.arange(60) % 3 == 0, 3, y.astype(int))
    whole = KMOMD(multiclass=how).fit(X, labels)
    assert whole.solution_.bias.shape == (3,) and np.all(whole.solution_.bias != 0)
    first = whole.classes_[0]
    rest = np.isin(labels, whole.classes_[:2]) if how == "ovo" else np.ones(60, bool)
    alone = KMOMD(cost=whole.lambda_ / 60).fit(X[rest], np.where(labels[rest] == first, 1, -1),
                                               classes=[1, -1])  # fmt: skip
    if how != "ecoc":
        assert whole.solution_.bias[0] == pytest.approx(alone.solution_.bias, rel=1e-3)


@pytest.mark.parametrize("arguments, sentence", [
    (["-B", "1"], "-s kmomd has an intercept of its own: leave -B out"),
    (["--loo"], "--loo needs a loss of every example by itself, and that of kmomd is one of all"),
    (["--solver", "dcd"], "take --solver auto or newton"),
    (["-t", "sigmoid", "-g", "1", "-r", "3"], "-s kmomd needs a positive semidefinite kernel"),
    (["-t", "rbf", "--memory", "100K"], "give more --memory"),
])  # fmt: skip
def test_refusals(run, heart, arguments, sentence):
    outcome = run("train", "-s", "kmomd", *arguments, heart, "m")
    assert outcome.code in (1, 2) and sentence in outcome.err and outcome.err.count("\n") == 1


def test_one_class_has_no_points():
    X, _ = examples()
    fitted = KMOMD().fit(X, np.ones(60, int))
    assert set(fitted.predict(X)) == {1} and fitted.solution_.iterations == 0
    for nothing in (fitted.solution_.coef, fitted.solution_.eta, fitted.solution_.w):
        assert not nothing.any()
    K = precomputed_rows(X)
    assert set(KMOMD(kernel="precomputed").fit(K, np.ones(60, int)).predict(K)) == {1}


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("reduction", ["ovr", "ovo", "ecoc"])
@pytest.mark.parametrize("k", [2, 3])
def test_a_class_without_weight_is_not_predicted(k, reduction, kernel):
    """Where it is one side of a problem alone, f is on the other side."""
    X, _ = examples()
    labels = np.arange(60) % k
    for without in range(k):
        weights = {label: float(label != without) for label in range(k)}
        machine = KMOMD(kernel=kernel, gamma=1.0, multiclass=reduction, class_weight=weights)
        if k == 2:
            assert set(machine.fit(X, labels).predict(X)) == {1 - without}
        else:
            assert without not in machine.fit(X, labels).predict(X)


def test_where_the_costs_begin_that_newton_follows():
    """All examples count alike: sum c_i |x_i|^2 is 1, unless that is 0 or no number."""
    p = tried(weight=weights())
    squares = np.asarray(p.X.multiply(p.X).sum(axis=1)).ravel()
    total = losses.kmomd(42.0, 60).cost * (weights() @ squares)
    assert kmomd._Rows(p).smallest_factor() == pytest.approx(1 / total, rel=1e-12)
    for size in (0.0, 1e200):
        with np.errstate(over="ignore"):
            assert kmomd._Rows(p._replace(X=size * p.X)).smallest_factor() == 1.0


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_the_best_of_some_examples(kernel):
    """The two levels r and duals g_i = c_i (r_i - t_i) of sum 1 in each class."""
    p = tried(kernel, weight=weights())
    rows, active = kmomd._Rows(p), np.arange(0, 60, 4)
    g = rows._goal(active)
    assert not np.delete(g, active).any()
    t = (rows.margins(g) + g / rows.c)[active]
    for sign in (-1, 1):
        of_class = p.y[active] == sign
        assert g[active][of_class].sum() == pytest.approx(1, rel=1e-9)
        assert np.ptp(t[of_class]) < 1e-9 * np.abs(t).max()
    one = active[p.y[active] > 0]
    assert rows._goal(one) is None  # the other class has no level


@pytest.mark.parametrize("kernel", [None, "poly"])
def test_coefficients_that_do_not_sum_to_1_are_judged_by_their_shares(kernel):
    p = tried(kernel)
    best, rows = solvers.solve(p, tolerance=1e-10), kmomd._Rows(p)
    far = rows.point(np.where(p.y > 0, 2.0, 3.0) * best.eta)
    assert rows.demanded(far).gap > 0.1
    found = rows.judged(far, 1e-6)
    assert found.gap <= 1e-9 and np.allclose(found.g, best.eta, rtol=1e-12)
    assert found.primal == pytest.approx(best.primal, rel=1e-9)


def test_what_rounding_may_hide_of_a_point():
    """By the margins, each off by delta_i: of the duals that they demand, and of those given."""
    p = tried("poly", weight=weights())
    rows, g = kmomd._Rows(p), np.where(p.y > 0, 1 / (p.y > 0).sum(), 1 / (p.y < 0).sum())
    rows._error, coef = 1e-3, 1.5 * g
    point, unit = rows.point(coef), rows._error * rows._sizes
    found = rows.demanded(point)
    h = found.g
    penalty, norm = (h**2 / (2 * rows.c)).sum(), h @ rows.margins(h)
    delta = unit * (np.maximum(coef, h) @ rows._sizes)
    hidden = (coef + 2 * h) @ delta + rows.c @ delta**2 / 2
    assert found.dual == pytest.approx(-norm / 2 - penalty - hidden, rel=1e-9)
    assert found.scale == pytest.approx(point.norm / 2 + penalty, rel=1e-12)
    t, delta = rows.margins(g), unit * (g @ rows._sizes)
    found = rows._own(g, t, delta)
    penalty, demanded = (g**2 / (2 * rows.c)).sum(), rows.point(g).duals
    hidden = np.abs(g - demanded) @ delta + rows.c @ delta**2 / 2
    assert found.dual == pytest.approx(-(g @ t) / 2 - penalty - hidden, rel=1e-9)
    assert found.scale == pytest.approx(g @ t / 2 + penalty, rel=1e-12)
    assert found.primal == pytest.approx(rows.primal(rows.point(g)), rel=1e-12)


def test_a_level_is_the_root_of_the_sum_of_what_is_below_it():
    generator = np.random.default_rng(1)
    for _ in range(60):
        n = int(generator.integers(1, 9))
        t, c = np.round(generator.normal(size=n), 1), 10.0 ** generator.uniform(-2, 2, n)
        low, high = t.min(), t.max() + 1 / c.sum() + 1
        for _ in range(200):
            r = (low + high) / 2
            low, high = (low, r) if c @ np.maximum(0, r - t) > 1 else (r, high)
        assert kmomd._level(t, c) == pytest.approx(low, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("count", [4, 40])
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_the_equations_of_the_active_examples(kernel, count):
    """By their matrix, or that of the features where these are fewer."""
    p = tried(kernel, weight=weights())
    rows, active = kmomd._Rows(p), np.random.default_rng(2).permutation(60)[:count]
    K = (p.X @ p.X.T).toarray() if kernel is None else p.gram.matrix()
    Q = (K * np.outer(p.y, p.y))[np.ix_(active, active)] + np.diag(1 / rows.c[active])
    ends = (p.y[active, None] == (1, -1)).astype(float)
    found = rows._factored(active, rows.c[active])(ends)
    np.testing.assert_allclose(found, np.linalg.solve(Q, ends), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("times", [0.1, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("kernel", [None, "poly"])
def test_the_best_point_between_two(kernel, times):
    """P, as it is defined, is nowhere on the line lower; and where it only rises there is none."""
    p = tried(kernel, 2.0**12, weight=weights())
    rows = kmomd._Rows(p)
    rows.c = rows.c * np.linspace(0.5, 2, 60)
    first = rows.point(rows.share)

    def primal(coef):
        t, value = rows.margins(coef), coef @ rows.margins(coef) / 2
        for sign in (1, -1):
            own, c = t[p.y == sign], rows.c[p.y == sign]
            r = kmomd._level(own, c)
            value += c @ np.maximum(0, r - own) ** 2 / 2 - r
        return value

    goal = rows._goal(np.flatnonzero(first.duals))
    far = first.coef + times * (goal - first.coef)
    found = rows._best_between(first, far)
    along = [primal(first.coef + s * (far - first.coef)) for s in np.linspace(0, 1, 201)]
    assert rows.primal(found) == pytest.approx(primal(found.coef), rel=1e-9)
    assert primal(found.coef) <= min(along) + 1e-9 * abs(min(along)) < along[0]
    t = rows.margins(found.coef)
    np.testing.assert_allclose(found.t, t, rtol=1e-12, atol=1e-12)
    assert found.norm == pytest.approx(found.coef @ t, rel=1e-9)
    away = (found.coef - first.coef) @ (far - first.coef) / np.vdot(*[far - first.coef] * 2)
    assert 0 < away <= 1 and (times > 1 or away == pytest.approx(1) or along[-1] > min(along))
    assert rows._best_between(first, 2 * first.coef - goal) is None
    assert rows._best_between(found, found.coef) is None


def test_a_point_for_other_costs_is_the_better_of_two():
    """That of its coefficients, or the best one of the examples that have some."""
    p = tried("rbf", weight=weights())
    rows = kmomd._Rows(p)
    for coef in (rows.share, np.where(np.arange(60) % 4 == 0, rows.share, 0.0)):
        one = rows.point(coef)
        other = rows.point(rows._goal(np.flatnonzero(coef)))
        found = rows.renewed(coef)
        assert rows.primal(found) == min(rows.primal(one), rows.primal(other))
    alone = np.where(p.y > 0, rows.share, 0.0)  # the other class has no level
    assert np.array_equal(rows.renewed(alone).coef, alone)


def test_a_large_gamma_hides_nothing_of_a_matrix_that_is_nearly_the_identity():
    """Kernel values next to nothing are off by next to nothing, however large the shares are."""
    X, y = examples()
    fitted = KMOMD(kernel="rbf", gamma=1e9, lambda_=1024, tolerance=1e-6).fit(X, y.astype(int))
    assert fitted.solution_.converged and fitted.solution_.gap <= 1e-6


def separable():
    """100 examples, one of whose classes counts a hundred times."""
    rng = np.random.default_rng(0)
    X = rng.random((100, 50)) * np.exp(rng.normal(size=50))
    labels = np.where(X @ rng.normal(size=50) + 0.3 * rng.normal(size=100) > 0, 1, -1)
    labels[:2] = 1, -1
    return X, labels, {1: 100.0}


def test_large_costs_of_separable_classes():
    """Newton's steps were few and short from one C to the next, and ended above w = 0."""
    X, labels, weights = separable()
    machine = KMOMD(lambda_=2.0**20, class_weight=weights)
    for most in (0, 3, 20, 150):
        solution = machine.copy(max_iter=most).fit(X, labels).solution_
        assert solution.primal <= 0 and solution.converged == (most == 150)


@pytest.mark.parametrize("lambda_", [2.0**20, 2.0**34])
def test_how_many_steps_it_takes_is_not_left_to_chance(lambda_):
    """A little noise, or rounding, led to other examples, and these to 400 to 2000 steps."""
    X, labels, weights = separable()
    for seed in range(6):
        noisy = X * (1 + 1e-3 * np.random.default_rng(seed).normal(size=X.shape))
        fitted = KMOMD(lambda_=lambda_, class_weight=weights).fit(noisy, labels)
        assert fitted.solution_.converged and fitted.solution_.iterations <= 80


@pytest.mark.parametrize("kernel", [None, "rbf", "poly", "precomputed"])
@pytest.mark.parametrize("lambda_", [42.0, 1e5])
def test_the_interior_point_method_alone(kernel, lambda_):
    """The same solution, certified."""
    p = tried(kernel, lambda_, weight=weights())
    usual = solvers.solve(p, tolerance=1e-8)
    rows = kmomd._Rows(p)
    g = list(islice(rows.interior(), 25))[-1]
    found = rows.judged(rows.point(g), 1e-8)
    assert found.gap <= 1e-8
    assert found.primal == pytest.approx(usual.primal, rel=1e-7)
    one = rows.judged(rows.point(rows.share), 0.0)
    assert one.gap > 1e-4  # where it begins
