"""lambda and gamma with a kernel that nobody named: docs/defaults.md says why they are so."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from odmtool import ODMClassifier, load_svmlight
from odmtool.core.kernels import Kernel
from odmtool.defaults import COMPARATOR_LAMBDA, LAMBDA, LAMBDA_OF_SIGMOID, MULTICLASS_LAMBDA
from odmtool.io.model_file import read_model
from odmtool.machines.default_values import default_gamma, default_lambda
from odmtool.machines.sigmoid_lambda import sigmoid_lambda


def test_the_default_lambda_with_a_kernel_grows_with_the_examples(run, tmp_path):
    """4 for each, up to 2^18; weights counted, in memory and on disk, in odm-cv, from Python."""
    random = np.random.default_rng(0)
    X = random.integers(0, 4, size=(4500, 2)) / 4
    y = np.where(X[:, 0] > X[:, 1], 1, -1)
    rows = [f"{label} 1:{a} 2:{b}" for label, (a, b) in zip(y, X, strict=True)]
    Path("many").write_text("\n".join(rows) + "\n")
    Path("weights").write_text("2\n" * 4500)
    Path("few").write_text("\n".join(rows[:4000]) + "\n")

    def recorded(*arguments, data="many", kernel="rbf"):
        gamma = ("-g", "0.5") if kernel == "rbf" else ()
        assert run("train", "-t", kernel, *gamma, *arguments, data, "m").code == 0
        return float(read_model("m").facts["lambda"])

    assert recorded() == recorded("--cache", ".", "--solver", "nystrom") == 18000
    assert recorded("-W", "weights") == 36000
    Path("weights").write_text("20\n" * 4500)
    assert recorded("-W", "weights") == 2**18
    Path("weights").write_text("60\n" * 4500)
    assert recorded("-W", "weights") == 270_000
    Path("weights").write_text(f"{1 / 4500}\n" * 4500)
    assert recorded("-W", "weights") == 18000
    assert recorded(kernel="poly") == 18000
    assert recorded("-l", "7") == 7
    assert recorded("-c", "1") == 4500
    assert recorded("-s", "l2svm") == 18000
    narrow = pytest.approx(4000 / (X[:4000].var(axis=0).sum() / 2), rel=6e-3)
    assert recorded("-s", "ldm", data="few") == narrow
    assert recorded("-s", "l1svm", kernel="sigmoid", data="few") == COMPARATOR_LAMBDA
    assert recorded("-s", "l2svm", data="few") == LAMBDA
    assert recorded("-s", "l2svm", kernel="linear") == 4500
    assert recorded("-s", "mcodm") == 18000
    assert recorded("-s", "mcodm", kernel="linear") == MULTICLASS_LAMBDA
    assert recorded(kernel="linear") == recorded(data="few") == LAMBDA
    estimator = ODMClassifier(kernel="rbf", gamma=0.5).fit(X, y)
    assert float(estimator.model_.facts["lambda"]) == 18000
    assert run("cv", "-t", "rbf", "-g", "0.5", "-v", "2", "--csv", "t", "many").code == 0
    lines = [line.split(",") for line in Path("t").read_text().splitlines()]
    assert float(lines[1][lines[0].index("lambda")]) == 18000


def test_the_default_lambda_with_rbf_is_less_for_a_narrow_kernel(run, tmp_path):
    """max(2^10, M) / min(1, gamma V), large columns cut off; sparse, dense, Python and odm-cv."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 5)).round(3)
    y = np.where(X[:, 0] > 0.5, 1, -1)

    def written(X, name="normal"):
        rows = (" ".join(f"{j}:{v!r}" for j, v in enumerate(row, 1) if v) for row in X.tolist())
        Path(name).write_text("".join(f"{a} {row}\n" for a, row in zip(y, rows, strict=True)))

    def recorded(*arguments, kernel="rbf"):
        assert run("train", "-t", kernel, *arguments, "normal", "m").code == 0
        return float(read_model("m").facts["lambda"])

    def wanted(spread, total=1024):
        return pytest.approx(total / spread, rel=6e-3)

    V = X.var(axis=0).sum()
    written(X)
    assert recorded("-g", "0.1") == wanted(0.1 * V) == recorded("-g", "0.1", "-s", "lssvm")
    assert recorded("-g", "1") == wanted(1) == recorded("-g", "7")
    assert recorded("-g", "0.5/d") == wanted(0.1 * V)
    assert recorded() == wanted(min(1, V / 5))
    assert recorded("-g", "0.01") == recorded("-g", "0.1", kernel="poly") == LAMBDA
    for kink in ("ldm", "l1svm", "svr", "mcsvm"):
        assert recorded("-s", kink) == recorded()
        assert recorded("-g", "0.1", "-s", kink) == wanted(0.1 * V)
        assert recorded("-g", "0.001", "-s", kink) == 2.0**16
        assert recorded("-s", kink, kernel="linear") == COMPARATOR_LAMBDA
    assert recorded("--cache", ".", "--solver", "nystrom") == LAMBDA
    assert recorded("-l", "5") == 5 and recorded("-c", "5") == 300
    for weight, lambda_ in ((100, 2.0**28 / 6000), (10_000, COMPARATOR_LAMBDA)):
        Path("weights").write_text(f"{weight}\n" * 60)
        assert recorded("-W", "weights", "-g", "0.001", "-s", "l1svm") == pytest.approx(lambda_)
    Path("weights").write_text("100\n" * 60)
    assert recorded("-W", "weights", "-g", "0.5") == wanted(1, 6000)
    low, high = X.min(axis=0), X.max(axis=0)
    scaled = (X.var(axis=0) / (high - low) ** 2).sum()
    assert recorded("--scale", "0,1", "-g", "1") == wanted(scaled)
    estimator = ODMClassifier(kernel="rbf", gamma=0.1).fit(X, y)
    assert float(estimator.model_.facts["lambda"]) == wanted(0.1 * V)

    def searched(*arguments):
        assert run("cv", "-t", "rbf", "-v", "2", "--csv", "t", *arguments, "normal").code == 0
        with Path("t").open() as stream:
            return {float(row["lambda"]) for row in csv.DictReader(stream)}

    assert searched("-g", "0.1") == {recorded("-g", "0.1")}
    assert searched("-g", "0.1,0.2") == {LAMBDA}
    assert searched() == {2.0**p for p in range(2, 19, 4)}
    # A constant feature, an absent one, and a large one, beside which the others hardly count.
    more = np.hstack([X, np.full((60, 3), 1 / 3), np.zeros((60, 2))])
    written(more)
    assert recorded("-g", "0.1") == wanted(0.1 * V)
    assert default_lambda("odm", LAMBDA, "rbf", more, gamma=0.1) == recorded("-g", "0.1")
    large = X * [1, 1, 1, 1, 1000]
    written(large)
    variances = np.sort(large.var(axis=0))
    cut = variances[:4].sum() + 16 * variances[2]
    assert recorded("-g", "0.01") == wanted(0.01 * cut)
    assert recorded() == LAMBDA


def test_the_default_lambda_with_poly_is_less_for_large_kernel_values(run, tmp_path):
    """64 max(2^10, M) / max(median, mean / 2^20) of k(x, x); odm-train and odm-cv, from Python."""
    random = np.random.default_rng(0)
    X = (50 + random.normal(size=(61, 5))).round(2)
    y = np.where(X[:, 0] > 50, 1, -1)

    def written(X):
        rows = (" ".join(f"{j}:{v!r}" for j, v in enumerate(row, 1)) for row in X.tolist())
        Path("large").write_text("".join(f"{a} {row}\n" for a, row in zip(y, rows, strict=True)))

    def recorded(*arguments, kernel="poly"):
        result = run("train", "-t", kernel, *arguments, "large", "m")
        assert result.code == 0 and "not converged" not in result.err
        return float(read_model("m").facts["lambda"]), "features are large: lambda" in result.err

    own = float(f"{1 / 4 / X.var(axis=0).sum():.3g}")

    def values(X, gamma=1 / 5, degree=3, coef0=0.0):
        return (gamma * (X**2).sum(axis=1) + coef0) ** degree

    def wanted(size, total=1024):
        return pytest.approx(64 * total / size, rel=6e-3)

    written(X)
    found, is_said = recorded()
    assert found == wanted(np.median(values(X, own, coef0=1))) and is_said
    of_one = recorded("-g", "1/d")[0]
    assert of_one == wanted(np.median(values(X, coef0=1)))
    assert recorded("-g", "1/d", "-r", "0")[0] == wanted(np.median(values(X)))
    assert recorded("-g", "1", "-d", "2", "-r", "3")[0] == wanted(np.median(values(X, 1, 2, 3)))
    assert recorded("-l", "1e-3") == (1e-3, False)
    assert recorded("--scale", "0,1") == (LAMBDA, False)
    assert recorded("-s", "l1svm")[0] == found
    unknown = default_lambda("l1svm", COMPARATOR_LAMBDA, "poly", X)
    assert unknown == COMPARATOR_LAMBDA
    assert default_lambda("l1svm", COMPARATOR_LAMBDA, "poly", X / 99, gamma=0.2) == 2.0**16
    estimator = ODMClassifier(kernel="poly", bias=None).fit(X, y)
    assert float(estimator.model_.facts["lambda"]) == found
    for given, lambdas in (((), {of_one}), (("-d", "2,3"), {LAMBDA})):
        search = ["-t", "poly", "-g", "1/d", "-v", "2", "--max-iter", "5", "--csv", "t"]
        assert run("cv", *search, *given, "large").code == 0
        with Path("t").open() as stream:
            assert {float(row["lambda"]) for row in csv.DictReader(stream)} == lambdas
    # The quick grid has its place among the default's multiples, and a search does not say of a
    # lambda that it does not take; nor does training where -g or -r is what makes values large.
    assert (search := run("cv", "-t", "poly", "-v", "2", "--csv", "t", "large")).code == 0
    assert "features are large: lambda" not in search.err
    with Path("t").open() as stream:
        lambdas = {float(row["lambda"]) for row in csv.DictReader(stream)}
    assert lambdas <= {2.0**power * found / LAMBDA for power in range(2, 19, 4)}
    for given in (("-g", "10"), ("-r", "10")):
        value, is_said = recorded("--scale", "0,1", *given)
        assert value < LAMBDA and not is_said
    # One for each example from 2^10 on; weights are duplicates, and the order does not matter.
    heavier = np.where(np.arange(61) < 5, 900.0, 30.0)
    copies = np.repeat(X, heavier.astype(int), axis=0)
    of_weights = default_lambda("odm", LAMBDA, "poly", X, heavier, gamma=0.2)
    assert of_weights == wanted(np.median(values(copies)), len(copies))
    for rows in (copies, copies[::-1].copy(), sparse.csr_matrix(copies)):
        assert default_lambda("odm", LAMBDA, "poly", rows, gamma=0.2) == of_weights
    # A row so long that the mean is what counts; and values that overflow, or are no number.
    X[0] *= 10000
    found = default_lambda("odm", LAMBDA, "poly", X, gamma=0.2)
    assert found == wanted(values(X).mean() / 2**20)
    assert default_lambda("odm", LAMBDA, "poly", X * 1e60, gamma=0.2) == LAMBDA
    assert default_lambda("odm", LAMBDA, "poly", np.zeros((3, 2)), gamma=0.2) == LAMBDA


@pytest.mark.parametrize("options", [[], ["-s", "l2svm"], ["-g", "0.3"], ["--scale", "0,1"]])
def test_the_sigmoid_kernel_has_a_minimum_at_the_default_lambda(run, heart, options):
    """At 2^14, the usual one with a kernel, there is none here."""
    given = ["train", "-t", "sigmoid", *options, heart, "m"]
    result = run(*given)
    assert result.code == 0 and "converged" in result.err and "not converged" not in result.err
    used = float(read_model("m").facts["lambda"])
    if not options:
        X, y = load_svmlight(heart)
        V = X.toarray().var(axis=0).sum() / 13
        assert used == pytest.approx(2 * 256**1.5, rel=1e-2)  # gamma times the variances is 1/256
        estimator = ODMClassifier(kernel="sigmoid", bias=None).fit(X, y)
        assert float(estimator.model_.facts["lambda"]) == used
        assert run(*given, "-v", "3").code == 0
        assert run("cv", "-t", "sigmoid", "-g", "1/d", "-v", "3", "--csv", "t", heart).code == 0
        with Path("t").open() as stream:
            (of_one,) = {float(row["lambda"]) for row in csv.DictReader(stream)}
        assert of_one == pytest.approx(2 / V**1.5, rel=6e-3)
    assert default_lambda("odm", LAMBDA, "sigmoid", np.eye(3)) == LAMBDA_OF_SIGMOID
    # A spread whose power would be 0.
    assert default_lambda("odm", LAMBDA, "sigmoid", 1e-110 * np.eye(3), gamma=1.0) == LAMBDA
    assert default_lambda("ldm", COMPARATOR_LAMBDA, "sigmoid", np.eye(3)) == COMPARATOR_LAMBDA


def _gamma_of(model):
    return float(re.search(r"^gamma (.*)$", Path(model).read_text(), re.MULTILINE)[1])


def test_the_default_gamma_follows_the_variance_of_features_that_are_not_scaled(run, tmp_path):
    """gamma times it is in [1/16, 1]: the same in one training, folds, odm-cv and from Python."""
    random = np.random.default_rng(0)
    X = random.random((60, 3)).round(3)
    y = np.where(X[:, 0] > 0.5, 1, -1)

    def write(name, X):
        rows = (" ".join(f"{k}:{x!r}" for k, x in enumerate(row, 1)) for row in X.tolist())
        Path(name).write_text("".join(f"{a} {row}\n" for a, row in zip(y, rows, strict=True)))

    write("scaled", X)
    write("large", X * [1, 10, 1000] + [0, 0, 1e6])
    write("small", X / 40)
    Path("weights").write_text("2\n" * 30 + "1\n" * 30)
    said = "in place of 1 / number of features"

    def gamma(*arguments, data="large"):
        outcome = run("train", "-t", "rbf", *arguments, data, "m")
        assert outcome.code == 0
        assert (said in outcome.err) == (0 < _gamma_of("m") < 1 / 6 and "-g" not in arguments)
        return _gamma_of("m")

    def wanted(X, share, weight=None):
        mean = np.average(X, axis=0, weights=weight)
        variance = np.average((X - mean) ** 2, axis=0, weights=weight).sum()
        return pytest.approx(share / variance, rel=6e-3)

    large = X * [1, 10, 1000]
    assert gamma(data="scaled") == pytest.approx(1 / 3)
    assert gamma() == wanted(large, 1) == gamma("-s", "ldm") == gamma("-l", "3")
    assert gamma("-W", "weights") == wanted(large, 1, [2] * 30 + [1] * 30)
    assert gamma(data="small") == wanted(X / 40, 1 / 16)
    write("wide", 4 * X)  # hardly less than 1/d is not worth a word
    assert 1 / 3 > gamma(data="wide") == wanted(4 * X, 1)
    assert gamma("--scale", "0,1") == gamma("-g", "0") == gamma("-g", "1/d") == pytest.approx(1 / 3)
    # Those who come from svm-train have 1/d, and coef0 0; without -r poly has 1.
    for kernel in ("1", "2"):
        assert run("train", "-s", "0", "-t", kernel, "--max-iter", "1", "large", "m").code == 0
        assert _gamma_of("m") == pytest.approx(1 / 3)
        assert "coef0 1" not in Path("m").read_text()
    for kernel, share in (("poly", 1 / 4), ("sigmoid", 1 / 256)):
        assert run("train", "-t", kernel, "large", "m").code == 0
        assert _gamma_of("m") == wanted(large, share)
        of_python = ODMClassifier(kernel=kernel).fit(large, y).model_.kernel
        assert of_python[1:3] == (_gamma_of("m"), float(kernel == "poly"))
        assert f"coef0 {of_python.coef0:g}" in Path("m").read_text()
    own = wanted(large, 1)
    outcome = run("cv", "-t", "linear,rbf", "-l", "1,4", "-v", "3", "--csv", "t", "large")
    assert outcome.code == 0 and outcome.err.count(said) == 1
    with Path("t").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["kernel"] == "rbf"]
    assert len(rows) == 2 and all(float(row["gamma"]) == own for row in rows)
    assert said not in run("cv", "-t", "rbf", "-g", "1/d", "-v", "3", "large").err
    # The quick grid has multiples, for features in [0, 1], and smaller ones for other features.
    write("standard", (X - X.mean(axis=0)) / X.std(axis=0))
    write("symmetric", X / X.std(axis=0) / np.sqrt(3))  # as those in [-1, 1]
    for data, one in (
        ("large", own.expected / 16), ("scaled", 1 / 3), ("standard", 1 / 48), ("symmetric", 1 / 12)
    ):
        quick = run("cv", "-t", "rbf", "-v", "3", "--grid", "quick", "-l", "1", "--csv", "t", data)
        assert (said in quick.err) == (data == "large")
        with Path("t").open() as stream:
            gammas = [float(row["gamma"]) for row in csv.DictReader(stream)]
        assert [gammas[0], gammas[1] / 4, gammas[2] / 16] == [pytest.approx(one, rel=6e-3)] * 3
    # Of several kernels each has its own.
    outcome = run("cv", "-t", "rbf,sigmoid", "-l", "1", "-v", "3", "--csv", "t", "large")
    assert outcome.code == 0 and outcome.err.count(said) == 2
    with Path("t").open() as stream:
        gammas = {row["kernel"]: float(row["gamma"]) for row in csv.DictReader(stream)}
    assert gammas == {"rbf": own, "sigmoid": wanted(large, 1 / 256)}
    scaled = run("cv", "-t", "rbf", "-l", "1", "-v", "3", "--scale", "0,1", "--csv", "t", "large")
    assert scaled.code == 0 and said not in scaled.err
    assert run("train", "-t", "rbf", "-v", "3", "large").err.count(said) == 1
    for form in (np.asarray, sparse.csr_matrix):
        for changed in ({}, {"gamma": None}):
            estimator = ODMClassifier(kernel="rbf", **changed).fit(form(large), y)
            assert estimator.model_.kernel.gamma == own
    assert ODMClassifier(kernel="rbf", gamma="auto").fit(large, y).model_.kernel.gamma == 1 / 3


def test_scaling_is_advised_where_some_features_are_much_larger_than_most(run):
    """Where all are of one unit, as in a picture or a plane, it would change little, or harm."""
    random = np.random.default_rng(0)
    X = 100 * random.normal(size=(40, 5)).round(3)
    for units, is_advised in ((1, False), ([1, 1, 1, 1, 1000], True)):
        rows = (" ".join(f"{k}:{x:g}" for k, x in enumerate(row, 1)) for row in X * units)
        lines = (f"{2 * (i % 2) - 1} {row}\n" for i, row in enumerate(rows))
        Path("data").write_text("".join(lines))
        said = run("train", "-t", "rbf", "data", "m").err
        assert ("some features are much larger than others: gamma is" in said) == is_advised
        assert ("the features vary by more than 1: gamma is" in said) != is_advised
        assert ("--scale 0,1" in said) == is_advised == ("odm-cv -t rbf" not in said)


def test_the_default_gamma_of_standardised_features_is_one_over_their_number():
    """Whichever of the two rounding makes larger."""
    random = np.random.default_rng(0)
    for d in (7, 13, 30):
        for _ in range(20):
            X = random.normal(3, 2, (50, d))
            X = (X - X.mean(axis=0)) / X.std(axis=0)
            for rows in (X, X[::-1].copy(), sparse.csr_matrix(X)):
                assert default_gamma("rbf", rows) == 0.0
    assert default_gamma("rbf", 3 * X) == pytest.approx(1 / (9 * 30), rel=5e-3)


def test_the_quick_grid_for_sigmoid_has_solutions(run, heart):
    """Its gammas are about the default, its lambdas shares of the default and little more."""
    assert run("train", "-t", "sigmoid", heart, "m").code == 0
    one, gamma = float(read_model("m").facts["lambda"]), _gamma_of("m")
    search = ["-v", "3", "--search", "full", "--csv", "t", heart]
    assert run("cv", "-t", "sigmoid", *search).code == 0
    with Path("t").open() as stream:
        rows = list(csv.DictReader(stream))
    lambdas, gammas = ({float(row[name]) for row in rows} for name in ("lambda", "gamma"))
    assert sorted(lambdas) == pytest.approx([one * 4.0**k for k in range(-3, 2)])
    assert sorted(gammas) == pytest.approx([gamma / 4, gamma, 4 * gamma])
    assert sum(row["accuracy"] == "" for row in rows) <= 1
    # Where another kernel is tried, both have the usual lambdas, which suit that one.
    assert "lambda=262144" in run("cv", "-t", "linear,sigmoid", "--grid", "quick", *search).out


def test_the_default_gamma_of_many_examples_of_few_features_is_larger():
    """Of one or two that vary it is (M / 1000)^(2 / d) over the variance, at most 4 over it."""
    X = 50 * np.random.default_rng(0).normal(size=(2000, 4))

    def spread(X, weight=None):
        mean = np.average(X, axis=0, weights=weight)
        variance = np.average((X - mean) ** 2, axis=0, weights=weight).sum()
        return pytest.approx(default_gamma("rbf", X, weight) * variance, rel=6e-3)

    assert [spread(X[:, :d]) for d in (1, 2, 3, 4)] == [4, 2, 1, 1]
    padded = np.hstack([X[:, :2], np.full((2000, 3), 7.0)])
    assert spread(X[:900, :2]) == 1 and spread(padded) == 2
    assert spread(X[:, :2], np.full(2000, 1.5)) == 3 and default_gamma("rbf", X[:, :2] / 50) == 0


def test_the_default_gamma_of_small_features_is_larger_with_more_examples():
    """M / 4096 over the variance, from a sixteenth to a quarter; of many less, of ldm sooner."""
    X = np.random.default_rng(0).random((80_000, 5)) / 100

    def spread(m, name="odm", weight=None):
        rows = X[:m]
        return default_gamma("rbf", rows, weight, name=name) * rows.var(axis=0).sum()

    for m, share in (
        (100, 1 / 16), (512, 1 / 8), (1024, 1 / 4), (32_000, 1 / 4), (80_000, 0.0419),
    ):  # fmt: skip
        assert spread(m) == pytest.approx(share, rel=6e-3)
    assert spread(256, weight=np.full(256, 2.0)) == pytest.approx(1 / 8, rel=6e-3)
    assert spread(12_000, "ldm") == spread(12_000, "mcodm") == pytest.approx(0.1165, rel=6e-3)
    assert spread(20_000, "svr") == pytest.approx(0.1678, rel=6e-3)
    # It would be infinite.
    assert default_gamma("rbf", X[:, :2] / 1e158) == 0.0
    assert default_gamma("rbf", 1000 * X) < 1 / 5 < default_gamma("rbf", 100 * X[:9000])
    assert default_gamma("poly", 100 * X) == 0.0


def test_the_default_lambda_with_sigmoid_does_not_depend_on_coef0(run, tmp_path):
    random = np.random.default_rng(0)
    rows = (f"{1 if i % 2 else -1} 1:{v:.3f}\n" for i, v in enumerate(random.random(40)))
    Path("data").write_text("".join(rows))
    found = []
    for coef0 in ("0", "0,0.1"):
        search = ("-t", "sigmoid", "-g", "0.1", "-r", coef0, "-v", "2", "--csv", "t", "data")
        assert run("cv", *search).code == 0
        with Path("t").open() as stream:
            found.append({float(row["lambda"]) for row in csv.DictReader(stream)})
    assert found[0] == found[1] and found[0] != {LAMBDA_OF_SIGMOID}


@pytest.mark.parametrize("options", [["--grid", "quick"], ["--scale", "0,1", "-m", "0.2"]])
def test_a_search_over_several_kernels_has_the_values_of_one_for_each(run, tmp_path, options):
    """What suits one kernel does not suit another: few examples per feature, large values."""
    random = np.random.default_rng(1)
    X = random.normal(size=(24, 9)).round(3) * 40
    rows = (" ".join(f"{j}:{v:g}" for j, v in enumerate(row, 1)) for row in X)
    labels = np.where(X[:, 0] > 0, 1, -1)
    Path("d").write_text("".join(f"{a} {row}\n" for a, row in zip(labels, rows, strict=True)))

    def found(kernels):
        search = ["-t", kernels, *options, "-v", "2", "--search", "full", "--csv", "t", "d"]
        assert run("cv", *search).code == 0
        with Path("t").open() as stream:
            named = ("kernel", "lambda", "gamma", "accuracy")
            return [[row.get(name, "") for name in named] for row in csv.DictReader(stream)]

    kernels = ["linear", "sigmoid", "poly", "rbf"]
    expected = [row for kernel in kernels for row in found(kernel)]
    several = found(",".join(kernels))
    # rbf alone goes on to other gammas where its best one is at an end.
    assert several == expected[: len(several)] and len({row[1] for row in several}) > 2


def test_the_default_lambda_of_sigmoid_leaves_a_solution():
    """Where means are far from 0 or one feature is long, which variances do not tell."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(10, 1, (400, 3)), rng.choice([-1, 1], 400)
    long = np.hstack([rng.random((400, 3)), np.exp(3 * rng.normal(size=(400, 1)))])
    for rows in (X, long):
        assert ODMClassifier(kernel="sigmoid").fit(rows, y).gap_ <= 1e-3
        gamma, spread = default_gamma("sigmoid", rows), rows.var(axis=0).sum()
        found = default_lambda("odm", LAMBDA, "sigmoid", rows, gamma=gamma)
        assert found < LAMBDA_OF_SIGMOID / (gamma * spread) ** 1.5 / 2
    # Rows of weight 0 do not count, and a part of many rows tells of all.
    kernel, weight = Kernel("sigmoid", 0.00137), np.repeat([1.0, 0.0], 400)
    few = sigmoid_lambda(kernel, X, 2.0**-8, None)
    assert sigmoid_lambda(kernel, np.vstack([X, 9 * X]), 2.0**-8, weight) == few
    many = sigmoid_lambda(kernel, rng.normal(10, 1, (4000, 3)), 2.0**-8, None)
    assert many == pytest.approx(few, rel=0.5)
    assert sigmoid_lambda(kernel, None, 2.0**-8, None) == 8190.0
