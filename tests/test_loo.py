"""Leave-one-out: what the bounds promise, the papers' formulas, refits, and --loo."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from problems import OTHER_LOSSES, examples, problem, weights
from scipy.optimize import minimize

from odmtool import solvers
from odmtool.core import kernels, losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.core.loss_table import SMOOTH
from odmtool.core.losses import LDM
from odmtool.errors import UsageError
from odmtool.io.svmlight import read_svmlight
from odmtool.machines import ODM
from odmtool.measures import loo
from odmtool.solvers.base import Problem, Solution

M = 24


def small(kernel=None, loss=None, weight=None):
    """The first M examples of the test problem."""
    whole = problem(kernel, loss, weight)
    rows = np.arange(M)
    return whole._replace(
        X=None if whole.X is None else whole.X[rows],
        gram=None if whole.gram is None else whole.gram.subset(rows),
        y=whole.y[rows], weight=whole.weight[rows],
    )  # fmt: skip


def precise(part, start=None):
    solver = "newton" if part.loss.kind == SMOOTH else "dcd"
    return solvers.solve(part, solver=solver, tolerance=1e-11, max_iter=20000, start=start)


def kernel_matrix(part):
    if part.gram is None:
        return kernels.gram(Kernel("linear"), part.X)
    return part.gram.matrix()


def margins_without(part, solve=precise):
    """s_i, each from a machine trained without i; no bound and no start is used."""
    K, y, s = kernel_matrix(part), part.y, np.empty(part.size)
    for i in range(part.size):
        rest = np.delete(np.arange(part.size), i)
        others = part._replace(
            X=None if part.X is None else part.X[rest],
            gram=None if part.gram is None else part.gram.subset(rest),
            y=y[rest], weight=part.weight[rest],
        )  # fmt: skip
        s[i] = y[i] * K[i, rest] @ (y[rest] * solve(others).coef)
    return s


LOSSES = {"odm": None} | {
    name: OTHER_LOSSES[name] for name in ("l1svm", "l2svm", "svr", "mamc", "three jumps")
}


@pytest.mark.parametrize("weight", [None, weights()], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("kernel", [None, "rbf with bias"])
@pytest.mark.parametrize("name", LOSSES)
def test_bounds_hold_from_good_and_from_bad_solutions(name, kernel, weight):
    part = small(kernel, LOSSES[name], weight)
    s = margins_without(part)
    for epochs in (1, 4, 500):
        rough = solvers.solve(part, solver="dcd", tolerance=1e-11, max_iter=epochs, seed=1)
        known = loo.bounds(part, rough)
        assert np.all(known.low <= s + 1e-4) and np.all(s <= known.high + 1e-4)
    if name == "odm":
        newton = solvers.solve(part, solver="newton", tolerance=1e-2)
        known = loo.bounds(part, newton)
        assert np.all(known.low <= s + 1e-6) and np.all(s <= known.high + 1e-6)


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_bounds_at_the_optimum(kernel):
    part = small(kernel, losses.odm(256.0, 0.5, 0.1, M), weights())
    solution, K = precise(part), kernel_matrix(part)
    t, k = part.y * (K @ (part.y * solution.eta)), K.diagonal()
    known = loo.bounds(part, solution)
    assert known.low == pytest.approx(t - np.maximum(solution.eta, 0) * k, abs=1e-4)
    assert known.high == pytest.approx(t - np.minimum(solution.eta, 0) * k, abs=1e-4)
    # What is above the band stays there: it is no error when it is left out.
    above = solution.eta < 0
    assert above.any() and np.all(known.low[above] > 1)


def odm_counts(part, eta):
    """The count and the sum of the issue's formula, one example at a time."""
    K, count, total = kernel_matrix(part), 0, 0.0
    c1, c2, edge = part.loss.slope_below / 2, part.loss.slope_above / 2, part.loss.lo
    for i, u in enumerate(part.weight):
        zeta, beta = max(eta[i], 0.0), max(-eta[i], 0.0)
        first, second = K[i, i] + 1 / (2 * c1 * u), K[i, i] + 1 / (2 * c2 * u)
        for side in (zeta * first, beta * np.sqrt(first * second)):
            count += side >= edge * (1 - 1e-9)
            total += side / edge
    return count, total


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("lambda_", [1.0, 64.0, 1024.0])
def test_odm_counts(kernel, lambda_):
    loss = losses.odm(lambda_, 0.5, 0.3, M)
    part = small(kernel, loss, weights())
    solution = precise(part)
    papers = loo.odm_papers(part, solution)
    count, total = odm_counts(part, solution.eta)
    assert papers.count == count and papers.total == pytest.approx(total)
    errors = int((margins_without(part) <= 0).sum())
    bound = loo.most_errors(part, loo.bounds(part, solution))
    assert errors <= bound <= papers.count <= papers.total + M


def test_example_of_weight_two_goes_as_a_whole():
    part = small(weight=np.where(np.arange(60) == 5, 2.0, 1.0))
    twice = part._replace(
        X=part.X[[*range(M), 5]], y=np.append(part.y, part.y[5]), weight=np.ones(M + 1)
    )
    low = loo.bounds(part, precise(part)).low
    assert low[:5] == pytest.approx(loo.bounds(twice, precise(twice)).low[:5], abs=1e-6)
    # Of the pair only one is left out.
    assert low[5] < loo.bounds(twice, precise(twice)).low[5]


# ---- exact -----------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_refits_only_in_doubt_count_what_all_refits_count(name, kernel):
    part = small(kernel, LOSSES[name])
    result = loo.exact(part, precise(part), precise)
    s = margins_without(part)
    clear = np.abs(s) > 1e-6
    assert clear.sum() >= M - 1  # row 3 is zero
    assert np.array_equal(result.is_error[clear], s[clear] < 0)
    assert result.refits < M and result.uncertain == 0


def test_exact_is_training_with_the_same_cost(heart):
    data = read_svmlight(heart)
    rows = np.arange(60)
    X, labels = data.X[rows], data.labels[rows]
    machine = ODM(kernel="rbf", gamma=0.2, cost=0.5, bias=1.0)
    part = machine.problem(machine.prepare(X, labels))
    result = loo.exact(part, precise(part), precise)
    predicted = []
    for i in rows:
        rest = np.delete(rows, i)
        fitted = machine.copy(tolerance=1e-10).fit(X[rest], labels[rest])
        predicted.append(int(fitted.predict(X[[i]])[0]))
    assert np.array_equal(result.is_error, np.array(predicted) != labels)
    assert 0 < result.is_error.sum() < 30


def test_what_a_large_gap_leaves_open_is_counted():
    part = small("rbf", OTHER_LOSSES["svr"])
    rough = solvers.solve(part, solver="dcd", max_iter=1)

    def solve(problem, start):
        return solvers.solve(problem, solver="dcd", tolerance=1e-11, max_iter=1, start=start)

    result, precisely = loo.exact(part, rough, solve), loo.exact(part, precise(part), precise)
    wrong = int((result.is_error != precisely.is_error).sum())
    assert 0 < result.uncertain <= result.refits and wrong <= result.uncertain


def test_the_only_example_of_a_class_is_an_error():
    X, _ = examples(10)
    y = np.ones(10)
    y[4] = -1.0
    part = Problem(X, None, y, np.ones(10), losses.odm(4.0, 0.5, 0.3, 10))
    assert loo.exact(part, precise(part), precise).is_error[4]
    assert loo.most_errors(part, loo.Bounds(np.ones(10), np.ones(10))) == 1


def test_check():
    part = small("sigmoid", losses.odm(1.0, 0.5, 0.3, M))
    K = kernel_matrix(part).copy()
    K -= np.eye(M)
    with pytest.raises(UsageError, match="negative eigenvalues"):
        loo.check_leaving_out(part._replace(gram=Gram.of_matrix(Kernel("precomputed"), K)))
    loo.check_leaving_out(small("precomputed", losses.odm(1.0, 0.5, 0.3, M)))
    with pytest.raises(UsageError, match="two classes"):
        loo.check_leaving_out(small()._replace(y=np.ones(M)))


# ---- LDM -------------------------------------------------------------------------


def dense_h(part):
    """H of the papers' dual, with the inverse they print; u_i = 1."""
    m, y = part.size, part.y
    G, scale = kernel_matrix(part), 2 * part.loss.mu1 / part.loss.total_weight
    A = scale * (np.eye(m) - np.outer(y, y) / m)
    return y[:, None] * (G @ np.linalg.inv(np.eye(m) + A @ G)) * y[None, :]


def solve_ldm(part):
    """LDM by the papers' dual and a general solver."""
    m, (mu1, mu2, lambda_, total) = part.size, part.loss
    H = dense_h(part)
    H = (H + H.T) / 2
    q = mu2 / total * H.sum(axis=0) - 1
    found = minimize(
        lambda a: (a @ H @ a / 2 + q @ a, H @ a + q), np.zeros(m), jac=True,
        bounds=[(0, lambda_ / total)] * m, method="L-BFGS-B",
        options=dict(maxiter=20000, maxfun=100000, ftol=1e-15, gtol=1e-10),
    )  # fmt: skip
    t = H @ (found.x + mu2 / total)
    eta = found.x + mu2 / total - 2 * mu1 / total * (t - t.mean())
    w = None if part.gram is not None else part.X.T @ (part.y * eta)
    return Solution(w, eta, eta, 0.0, 0.0, 0.0, 0, True, "dual"), found.x


SETTINGS = [(0.0, 0.0, 16.0), (1.0, 1.0, 16.0), (8.0, 2.0, 256.0)]


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("mu1, mu2, lambda_", SETTINGS)
def test_ldm(kernel, mu1, mu2, lambda_):
    part = small(kernel, LDM(mu1, mu2, lambda_, M))
    solution, alpha = solve_ldm(part)
    s = margins_without(part, lambda part: solve_ldm(part)[0])
    known = loo.bounds(part, solution)
    slack = 1e-3 * max(1.0, np.abs(s).max())
    assert np.all(known.low <= s + slack) and np.all(s <= known.high + slack)
    most = lambda_ / M
    bounded = alpha >= most * (1 - 1e-6)
    h = dense_h(part).diagonal().max()
    expected = h * alpha[~bounded].sum() + bounded.sum()
    papers = loo.ldm_papers(part, solution)
    assert papers.total == pytest.approx(expected, rel=1e-3, abs=1e-3) and papers.count is None


def test_papers_estimate_for_ldm_can_be_too_small():
    """Where no hinge is active it is 0, whatever the errors."""
    X, y = examples(M)
    part = Problem(None, Gram(Kernel("rbf", 20.0), X), y, np.ones(M), LDM(0.0, 200.0, 16.0, M))
    assert loo.ldm_papers(part, solve_ldm(part)[0]).total == pytest.approx(0.0, abs=1e-9)
    s = margins_without(part, lambda part: solve_ldm(part)[0])
    assert (s <= 0).sum() >= M / 4
    # Also with what a solver leaves of a dual variable that is 0.
    part = part._replace(loss=LDM(1.0, 200.0, 16.0, M))
    assert loo.ldm_papers(part, precise(part)).total == 0.0


def test_ldm_weight_two_is_a_duplicate():
    """Where only other examples are doubled, the bounds and H are those of duplicated rows."""
    X, y = examples(20)
    u = np.ones(20)
    u[[2, 7]] = 2.0
    weighted = Problem(X, None, y, u, LDM(2.0, 1.0, 8.0, 22))
    rows = [*range(20), 2, 7]
    twice = Problem(X[rows], None, y[rows], np.ones(22), weighted.loss)
    solution, _ = solve_ldm(twice)
    eta = solution.eta[:20] * u
    once = solution._replace(coef=eta, eta=eta)
    single = np.flatnonzero(u == 1)
    a, b = loo.bounds(weighted, once), loo.bounds(twice, solution)
    assert a.low[single] == pytest.approx(b.low[single], abs=1e-6)
    assert a.high[single] == pytest.approx(b.high[single], abs=1e-6)
    assert loo._ldm_diagonal(weighted)[single] == pytest.approx(loo._ldm_diagonal(twice)[single])


# ---- the command -----------------------------------------------------------------


def numbers(out):
    return {
        line.split(" = ")[0].removeprefix("Leave-one-out "): line.split(" = ")[1]
        for line in out.splitlines()
    }


@pytest.mark.parametrize("arguments", [
    ["--loo", "FILE"], ["FILE", "--loo"], ["--loo=estimate", "FILE"], ["--loo", "estimate", "FILE"],
    ["--loo", "--", "FILE"], ["--loo", "-l", "64", "FILE"],
])  # fmt: skip
def test_loo_swallows_no_file_name(run, heart, arguments):
    outcome = run("train", *[heart if word == "FILE" else word for word in arguments])
    assert outcome.code == 0, outcome.err
    assert list(numbers(outcome.out)) == ["bound", "papers' count", "papers' estimate"]


def test_an_estimate_above_the_number_of_examples_is_no_percentage(run, heart):
    shown = numbers(run("train", "--loo", "-l", "2^14", heart).out)["papers' estimate"]
    assert re.fullmatch(r"no information \([\d.e+]+ errors of 270 examples\)", shown)
    assert "%" in numbers(run("train", "--loo", "-l", "2^-6", heart).out)["papers' estimate"]


def test_a_file_called_exact(run, heart, tmp_path):
    (tmp_path / "exact").write_bytes(Path(heart).read_bytes())
    assert "error" not in numbers(run("train", "--loo=estimate", "exact").out)
    assert "error" not in numbers(run("train", "--loo", "--", "exact").out)
    assert "error" in numbers(run("train", "--loo", "exact", "exact").out)
    assert run("train", "--loo", "exact").code == 2


@pytest.mark.parametrize("options", [[], ["-t", "rbf", "-B", "1"]])
def test_exact_on_the_command_line(run, heart, tmp_path, options):
    lines = Path(heart).read_text().splitlines(keepends=True)[:80]
    (tmp_path / "data").write_text("".join(lines))
    outcome = run("train", *options, "-c", "4", "--loo", "exact", "--json", "j", "data")
    shown, record = numbers(outcome.out), json.loads((tmp_path / "j").read_text())
    error = record["loo_errors"]
    assert shown["error"] == f"{100 * error / 80:g}% ({error}/80)"
    assert 5 < error <= record["loo_bound"] <= record["loo_papers_count"] < 80
    assert record["loo_papers_estimate"] > record["loo_papers_count"]
    # Leaving one out by cross validation with the same C is the same thing.
    folds = run("train", *options, "-c", "4", "-v", "80", "data").out
    assert folds == f"Cross Validation Accuracy = {100 - 100 * error / 80:g}%\n"


@pytest.mark.parametrize("options, words", [
    (["--loo", "-v", "5"], "--loo does not go with -v"),
    (["--loo=perhaps"], "estimate"),
    (["--loo", "-t", "sigmoid", "-l", "1", "-g", "0.2"], "negative eigenvalues"),
])  # fmt: skip
def test_refused(run, heart, options, words):
    outcome = run("train", *options, heart)
    assert outcome.code == 2 and words in outcome.err
    assert outcome.out == ""


@pytest.mark.parametrize("content", ["1 1:1\n1 1:2\n", "1 1:1\n2 1:2\n3 1:3\n"])
def test_two_classes_it_must_be(run, tmp_path, content):
    (tmp_path / "data").write_text(content)
    (tmp_path / "m").write_text("old")
    outcome = run("train", "-s", "ldm", "--loo", "data", "m")
    assert outcome.code == 2 and outcome.err.count("\n") == 1
    assert "two classes" in outcome.err
    assert (tmp_path / "m").read_text() == "old"
