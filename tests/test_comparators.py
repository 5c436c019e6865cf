"""The comparators of the papers: rows of the same table, against scikit-learn where it has them.

scikit-learn's C multiplies the whole loss, and its squared losses carry no factor 1/2, as ours.
"""

from __future__ import annotations

import numpy as np
import pytest
from problems import examples, weights

from odmtool.core import kernels
from odmtool.core.kernels import Kernel
from odmtool.io.model_file import read_model
from odmtool.machines import L1SVM, L2SVM, LSSVM, MAMC, ODM, SVR

svm = pytest.importorskip("sklearn.svm")
LAMBDA = 30.0


def trained(machine, X, y, weight=None, **arguments):
    fitted = machine(lambda_=LAMBDA, tolerance=1e-10, max_iter=100_000, **arguments)
    fitted.fit(X, y.astype(int), weight)
    assert fitted.solution_.converged
    return fitted


def same_up_to_gap(fitted, w):
    """|w - w*|^2 / 2 <= P - D for a strongly convex problem; theirs is allowed as much."""
    solution = fitted.solution_
    bound = np.sqrt(2 * max(solution.primal - solution.dual, 0)) + 1e-5 * (1 + np.linalg.norm(w))
    assert np.linalg.norm(solution.w - w) <= bound


@pytest.mark.parametrize("machine, loss, dual", [(L1SVM, "hinge", True),
                                                 (L2SVM, "squared_hinge", False)])  # fmt: skip
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dense", [False, True])
def test_linear_svm(machine, loss, dual, weighted, dense):
    X, y = examples()
    X = X.toarray() if dense else X
    weight = weights() if weighted else np.ones(len(y))
    theirs = svm.LinearSVC(
        C=LAMBDA / weight.sum(), loss=loss, dual=dual, fit_intercept=False, tol=1e-10,
        max_iter=1_000_000,
    )  # fmt: skip
    theirs.fit(X, y, sample_weight=weight)
    same_up_to_gap(trained(machine, X, y, weight), theirs.coef_.ravel())


@pytest.mark.parametrize("weighted", [False, True])
def test_lssvm_is_ridge(weighted):
    X, y = examples()
    weight = weights() if weighted else np.ones(len(y))
    U = X.toarray() * weight[:, None]
    cost = LAMBDA / weight.sum()
    ridge = np.linalg.solve(2 * cost * U.T @ X.toarray() + np.eye(X.shape[1]), 2 * cost * U.T @ y)
    assert trained(LSSVM, X, y, weight).solution_.w == pytest.approx(ridge, rel=1e-8, abs=1e-10)


def test_svr_is_support_vector_regression_of_the_signs():
    X, y = examples()
    theirs = svm.LinearSVR(
        C=LAMBDA / len(y), epsilon=0.1, fit_intercept=False, tol=1e-10, max_iter=1_000_000
    ).fit(X, y)  # fmt: skip
    same_up_to_gap(trained(SVR, X, y), theirs.coef_)


def test_mamc_is_the_weighted_mean():
    X, y = examples()
    weight = weights()
    mean = X.T @ (weight * y) * LAMBDA / weight.sum()
    assert trained(MAMC, X, y, weight).solution_.w == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_kernel_svm(weighted):
    """SVC on the data and their mirror image, where its free intercept is 0 by symmetry."""
    X, y = examples()
    weight = weights() if weighted else np.ones(len(y))
    K = kernels.gram(Kernel("rbf", 0.4), X)
    mirrored = np.block([[K, -K], [-K, K]])
    theirs = svm.SVC(C=LAMBDA / weight.sum() / 2, kernel="precomputed", tol=1e-12)
    theirs.fit(mirrored, np.r_[y, -y], sample_weight=np.r_[weight, weight])
    fitted = trained(L1SVM, X, y, weight, kernel="rbf", gamma=0.4)
    values = theirs.decision_function(mirrored[: len(y)])
    assert K @ (fitted.solution_.coef * y) == pytest.approx(values, abs=2e-4)


def test_special_cases_meet():
    """theta = 0, mu = 1 is ridge; theta = 0 and mu near 0 is the squared hinge."""
    X, y = examples()
    ridge = trained(LSSVM, X, y).solution_.w
    assert trained(ODM, X, y, mu=1.0, theta=0.0).solution_.w == pytest.approx(ridge, rel=1e-8)
    hinge = trained(L2SVM, X, y).solution_.w
    assert trained(ODM, X, y, mu=1e-9, theta=0.0).solution_.w == pytest.approx(hinge, rel=1e-5)


@pytest.mark.parametrize("name", ["l1svm", "l2svm", "lssvm", "svr", "mamc"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_from_the_command_line(run, heart, tmp_path, name, kernel):
    assert run("train", "-q", "-s", name, "-t", kernel, "-l", "64", heart, "m").code == 0
    assert f"machine {name}" in (tmp_path / "m").read_text()
    outcome = run("predict", heart, "m", "out")
    accuracy = float(outcome.out.split("= ")[1].split("%")[0])
    assert outcome.code == 0 and accuracy > 75


def test_svr_has_its_own_default_band(run, heart, tmp_path):
    run("train", "-q", "-s", "svr", heart, "m")
    assert "theta 0.1" in (tmp_path / "m").read_text()


def test_an_option_that_the_machine_does_not_use_is_a_warning(run, heart):
    outcome = run("train", "-s", "l2svm", "-m", "0.2", "-t", "0", "-g", "3", heart, "m")
    assert outcome.code == 0
    assert "-m is ignored by machine l2svm\n" in outcome.err and "-g" not in outcome.err


@pytest.mark.parametrize("options, sentence", [
    (["--outer", "constant"], "--outer is ignored by machine odm"),
    (["-m", ".2", "--ism3-loss", "softmax"], "--ism3-loss is ignored by machine odm"),
    (["-s", "ldm", "--snapshot", "random"], "--snapshot is ignored by solver auto"),
    (["-s", "m3svm", "--multiclass", "ovo"], "--multiclass is ignored by machine m3svm"),
    (["--landmarks", "5"], "--landmarks is ignored by solver auto"),
    (["--solver", "dsvrg", "--branch", "2"], "--branch is ignored by solver dsvrg"),
])  # fmt: skip
def test_options_that_are_not_numbers_are_no_exception(run, heart, options, sentence):
    outcome = run("train", *options, heart, "m")
    assert outcome.code == 0
    assert outcome.err.startswith(f"odm-train: warning: {sentence}\n")


@pytest.mark.parametrize("machine, kernel, has_newton", [
    ("mcsvm", "rbf", False), ("svr", "rbf", True), ("svr", "linear", True),
    ("l1svm", "linear", True),
])  # fmt: skip
def test_newton_is_advised_where_there_is_one(run, heart, machine, kernel, has_newton):
    options = ["-s", machine, "-t", kernel, "-l", "2^20", "--solver", "dcd", "--max-iter", "1"]
    outcome = run("train", *options, heart, "m")
    lines = [line for line in outcome.err.splitlines() if "compiling (once" not in line]
    assert "was not reached" in lines[0] and len(lines) == 2
    assert ("--solver newton" in lines[0]) == has_newton


@pytest.mark.parametrize("options, end", [
    (["-t", "sigmoid", "-g", "1", "-r", "-1"], "converged to a stationary point ("),
    (["-t", "poly", "-d", "2", "-r", "-1"], "converged to a stationary point ("),
    ([], "converged ("),
])  # fmt: skip
def test_mamc_with_any_kernel(run, heart, options, end):
    outcome = run("train", "-s", "mamc", *options, heart, "m")
    assert outcome.code == 0 and outcome.err.count("\n") == 1
    assert end in outcome.err


@pytest.mark.parametrize("arguments, sentence", [
    (["-s", "ldm", "--solver", "adam"], "--solver adam is for -s m3svm or -s ism3"),
    (["-s", "mcsvm", "-t", "rbf", "--solver", "newton"], "--solver newton is for linear machines"),
    (["-s", "l2svm", "--solver", "asgd"], "--solver asgd is for -s ldm"),
    (["-t", "rbf", "--solver", "svrg"], "--solver svrg is for linear machines"),
    (["-s", "l1svm", "--solver", "svrg"], "--solver svrg is for -s odm, -s ldm, -s l2svm"),
    (["--solver", "dcd-dense"], "--solver dcd-dense is for -s ldm"),
    (["-s", "svr", "-p", "1"], "-p: theta must satisfy 0 <= theta < 1, not 1"),
    (["-s", "ldm", "--mu1", "-1"], "mu1 must not be negative"),
    (["--kdd", "1", "1", "1"], "write -s ldm"),
    (["-s", "ldm", "--kdd", "1", "1", "1", "-l", "3"],
     "--kdd stands for --mu1, --mu2 and -l: leave -l out"),
    (["-s", "ldm", "--arxiv", "1", "1", "0"], "write -s odm"),
    (["--arxiv", "1", "1", "0", "-c", "3"], "--arxiv stands for -m, -p and -l: leave -c out"),
    (["--arxiv", "1", "2", "0"], "needs 0 < C2 <= C1"),
])  # fmt: skip
def test_impossible_combinations(run, heart, arguments, sentence):
    outcome = run("train", *arguments, heart, "m")
    assert outcome.code == 2 and outcome.err.count("\n") == 1
    assert sentence in outcome.err


def test_arxiv_parameters_are_those_of_tkde_in_another_scaling(run, heart):
    # lambda = C1 (1 - D)^2, mu = C2 / C1, theta = D.
    same = [["--arxiv", "8", "2", "0.5"], ["-l", "2", "-m", "0.25", "-p", "0.5"]]
    rows = [run("cv", "-v", "2", *arguments, heart).out for arguments in same]
    assert rows[0] == rows[1] and "-m 0.25 -p 0.5 -l 2" in rows[0]
    for arguments in same:
        assert run("train", *arguments, heart, f"m{len(arguments)}").code == 0
    a, b = (read_model(f"m{len(arguments)}") for arguments in same)
    assert np.array_equal(a.weights, b.weights) and a.facts["mu"] == "0.25"
