"""lambda of linear machines that nobody named: docs/defaults.md says why it is what it is."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from odmtool import M3SVMClassifier, MulticlassODMClassifier, ODMClassifier
from odmtool.defaults import COMPARATOR_LAMBDA, LAMBDA, M3SVM_LAMBDA, MULTICLASS_LAMBDA
from odmtool.io.model_file import read_model
from odmtool.machines.default_values import default_lambda


def test_wide_data_have_a_lambda_of_their_own(run, tmp_path):
    """Number of examples over their mean squared length; in odm-cv and from Python, too."""
    random = np.random.default_rng(0)
    X = random.normal(size=(12, 40)).round(3)
    y = np.where(X[:, 0] > 0, 1, -1)
    features = [" ".join(f"{j}:{v:g}" for j, v in enumerate(row, 1)) for row in X]
    rows = [f"{label} {row}" for label, row in zip(y, features, strict=True)]
    wanted = float(f"{12 / (X**2).sum(axis=1).mean():.3g}")

    def recorded(*arguments, data="wide"):
        assert run("train", *arguments, data, "m").code == 0
        return float(read_model("m").facts["lambda"])

    Path("wide").write_text("\n".join(rows) + "\n")
    assert recorded() == pytest.approx(wanted)
    estimator = ODMClassifier(bias=None).fit(X, y)
    assert float(estimator.model_.facts["lambda"]) == pytest.approx(wanted)
    assert run("cv", "-m", "0.2", "-v", "3", "--csv", "t", "wide").code == 0
    lines = [line.split(",") for line in Path("t").read_text().splitlines()]
    assert float(lines[1][lines[0].index("lambda")]) == pytest.approx(wanted)
    assert recorded("-t", "poly") == recorded("-s", "odm", "-l", "2^14") == LAMBDA
    assert recorded("-c", "2") == 24
    assert recorded("-s", "ldm") == COMPARATOR_LAMBDA
    # The folds of a search are scaled, and the examples that it is taken from.
    assert run("cv", "-m", "0.2", "-v", "3", "--scale", "0,1", "--csv", "t", "wide").code == 0
    assert float(Path("t").read_text().splitlines()[1].split(",")[4]) == recorded("--scale", "0,1")
    # Columns that do not occur make no row wider.
    few = "\n".join(" ".join(row.split()[:3] + ["40:1"]) for row in rows)
    Path("few").write_text(few + "\n")
    assert recorded(data="few") == LAMBDA
    # Short rows: never more than the usual one.
    tiny = "\n".join(re.sub(r":(\S+)", r":\1e-5", row) for row in rows)
    Path("tiny").write_text(tiny + "\n")
    assert recorded(data="tiny") == LAMBDA
    Path("huge").write_text("1 1:1e200 2:1e200 3:1\n-1 1:-1e200 2:3 4:1\n")
    assert "scale the features" in run("train", "huge", "m").err


def test_what_the_rows_of_wide_data_share_does_not_count():
    """The mean squared distance for the mean squared length, at most (d / M)^2 times; any rows."""
    random = np.random.default_rng(0)
    X = random.normal(size=(12, 60)).round(3)

    def wanted(X, factor=1.0):
        return pytest.approx(factor * len(X) / (X**2).sum(axis=1).mean(), rel=6e-3)

    def default(X, weight=None, name="odm", usual=LAMBDA):
        given = default_lambda(name, usual, "linear", X, weight)
        m, d = X.shape
        whole = sparse.csr_matrix((X.ravel(), np.tile(np.arange(d), m), np.arange(m + 1) * d))
        for rows in (sparse.csr_matrix(X), whole):
            assert default_lambda(name, usual, "linear", rows, weight) == given
        return given

    shifted, far = X + 1.5, X + 9
    size, distance = (shifted**2).sum(axis=1).mean(), 2 * X.var(axis=0).sum()
    assert 1.2 < size / distance < 2
    assert default(X) == wanted(X)
    assert default(shifted) == wanted(shifted, size / distance)
    assert default(far) == wanted(far, (60 / 12) ** 2)
    twice = np.vstack([shifted, shifted])
    assert default(shifted, np.full(12, 2.0)) == default(twice)
    assert default(shifted, np.full(12, 1 / 12)) == default(shifted)
    # Of several classes the summed variance counts; of two it is as odm.
    for rows in (shifted, far):
        variances = np.sort(rows.var(axis=0))
        found = default(rows, name="mcodm", usual=MULTICLASS_LAMBDA)
        assert found == pytest.approx(12 / variances.sum(), rel=6e-3)
        of_two = default_lambda("mcodm", MULTICLASS_LAMBDA, "linear", rows, k=2)
        assert of_two == default(rows)
    large = shifted * np.where(np.arange(60) == 7, 1000.0, 1.0)
    variances = np.sort(large.var(axis=0))
    found = default(large, name="mcodm", usual=MULTICLASS_LAMBDA)
    assert found == float(f"{12 / (variances[:59].sum() + 16 * variances[30]):.3g}")
    few, equal = far[:, :11], np.ones((3, 60))
    assert default(few) == wanted(few, (12 / 11) ** 2)
    assert default(equal) == wanted(equal)


def test_of_several_classes_the_largest_of_a_hundred_features_do_not_decide():
    """As of counts, where the length is that of a few words; up to 8 medians count."""
    squares = np.sort(np.random.default_rng(0).uniform(1, 2, 120))
    X = np.sqrt(squares) * np.random.default_rng(1).choice([-1.0, 1.0], (300, 120))
    usual = default_lambda("mcodm", MULTICLASS_LAMBDA, "linear", X)
    assert usual == float(f"{300 / squares.sum():.3g}")
    X[:, :2] *= 1000
    cut = 8 * np.sort(np.r_[squares[2:], 1e9, 1e9])[60]
    found = default_lambda("mcodm", MULTICLASS_LAMBDA, "linear", X)
    assert found == float(f"{300 / (squares[2:].sum() + 2 * cut):.3g}")


def test_several_classes_of_many_features_have_a_smaller_lambda(run, tmp_path):
    """Those that occur count, from 100 on; fewer features have a rule of their own, and two classes
    the usual one with four examples for each."""
    random = np.random.default_rng(0)
    X = random.normal(size=(150, 100)).round(3) * 100
    y = np.arange(150) % 3 + 1

    def recorded(*arguments, features=100, classes=3):
        labels = np.minimum(y, classes)
        rows = [" ".join(f"{9 * j}:{v:g}" for j, v in enumerate(row, 1)) for row in X[:, :features]]
        lines = [f"{label} {row}" for label, row in zip(labels, rows, strict=True)]
        Path("many").write_text("\n".join(lines) + "\n")
        assert run("train", "--max-iter", "3", *arguments, "many", "m").code == 0
        return float(read_model("m").facts["lambda"])

    wanted = float(f"{150 / (X**2).sum(axis=1).mean():.3g}")
    assert recorded() == pytest.approx(wanted)
    estimator = MulticlassODMClassifier(bias=None, tol=0.1).fit(X, y)
    assert float(estimator.model_.facts["lambda"]) == pytest.approx(wanted)
    low, high = X.min(axis=0), X.max(axis=0)
    lengths = ((2 * (X - low) / (high - low) - 1) ** 2).sum(axis=1)
    assert recorded("--scale", "-1,1") == pytest.approx(150 / lengths.mean(), rel=0.01)
    # The quick grid has the multiples that it has of the usual one.
    fewer = few_per_feature(X[:, :99])
    for features, one in ((100, wanted), (99, fewer)):
        recorded(features=features)
        search = ["--max-iter", "3", "-t", "linear", "-v", "2", "--search", "full", "--csv", "t"]
        assert run("cv", *search, "many").code == 0
        with Path("t").open() as stream:
            found = [float(row["lambda"]) for row in csv.DictReader(stream)]
        assert found == pytest.approx([one * 2.0**p for p in (-10, -6, -2, 2, 6)])
    assert recorded(features=99) == fewer < recorded("-l", "2^12") == MULTICLASS_LAMBDA
    assert recorded(classes=2, features=37) == LAMBDA


def test_few_rows_of_several_classes_are_told_apart():
    """One row of each class in four features: with a small lambda all had the largest one's."""
    rows = np.array([[5.1, 3.5, 1.4, 0.2], [7.0, 3.2, 4.7, 1.4], [5.9, 3.0, 5.1, 1.8]])
    for X in (rows, rows / 10, rows - rows.mean(axis=0)):
        for machine in (ODMClassifier, MulticlassODMClassifier):
            model = machine().fit(X, [0, 1, 2])
            assert list(model.predict(X)) == [0, 1, 2]
            assert float(model.model_.facts["lambda"]) == float(f"{3 / X.var(axis=0).sum():.3g}")


def test_the_default_lambda_of_mcodm_with_two_classes_is_that_of_odm(run, tmp_path):
    """For few examples per feature, wide and sparse data, and at most its own usual one."""
    random = np.random.default_rng(3)
    dense = random.integers(1, 9, size=(30, 10)) / 8
    many = (random.random((300, 100)) < 0.2) * random.integers(1, 9, size=(300, 100)) / 8
    for X in (dense, dense[:8], many, np.vstack([dense, dense])):
        y = np.where(X[:, 0] > X[:, 1], 1, -1)
        lambdas = [
            float(machine().fit(X, y).model_.facts["lambda"])
            for machine in (ODMClassifier, MulticlassODMClassifier)
        ]
        assert lambdas[1] == min(lambdas[0], MULTICLASS_LAMBDA)
        rows = (" ".join(f"{j}:{v!r}" for j, v in enumerate(row, 1) if v) for row in X.tolist())
        Path("two").write_text("".join(f"{a} {r}\n" for a, r in zip(y, rows, strict=True)))
        assert run("train", "-s", "mcodm", "two", "m").code == 0
        assert float(read_model("m").facts["lambda"]) == lambdas[1]
    # Of three classes it has a rule of its own.
    model = MulticlassODMClassifier(bias=None).fit(dense, np.arange(30) % 3)
    assert float(model.model_.facts["lambda"]) == few_per_feature(dense)


def few_per_feature(X):
    """(M / d)^2 M / V, the lambda of several classes of less than 100 features."""
    (m, d), size = X.shape, X.var(axis=0).sum()
    return min(MULTICLASS_LAMBDA, float(f"{(m / d) ** 2 * m / size:.3g}"))


def test_several_classes_with_few_examples_per_feature_have_a_smaller_lambda(run, tmp_path):
    """(M / d)^2 M / V, V the summed variances: any rows, weights, units and means, scaled."""
    random = np.random.default_rng(3)
    X = random.integers(1, 9, size=(30, 10)) / 8

    def default(X, weight=None, k=3):
        given = default_lambda("mcodm", MULTICLASS_LAMBDA, "linear", X, weight, k=k)
        if X.any(axis=0).all():
            whole = sparse.csr_matrix(X)
            assert default_lambda("mcodm", MULTICLASS_LAMBDA, "linear", whole, weight) == given
        return given

    assert default(X) == few_per_feature(X) < 500
    assert default(X, k=4) == default(X + 5) == default(X)
    assert default(10 * X) == pytest.approx(default(X) / 100, rel=0.01)
    # With more rows it grows, up to the usual one.
    twice = np.vstack([X, X])
    assert default(twice) == default(X, np.full(30, 2.0)) == few_per_feature(twice)
    assert default(X, np.full(30, 1 / 30)) == default(X)
    many = np.vstack([100 * X] * 6)
    assert default(many[:159]) == few_per_feature(many[:159]) < 9
    assert default(many[:160]) == default(np.vstack([X] * 5)) == MULTICLASS_LAMBDA
    # With as many rows as features it is that of wide data.
    assert default(X[:10]) == float(f"{10 / X[:10].var(axis=0).sum():.3g}")
    # A feature in other units counts as 16 medians, columns that do not occur are none.
    large = X * np.where(np.arange(10) == 4, 1000.0, 1.0)
    variances = np.sort(large.var(axis=0))
    assert default(large) == float(f"{9 * 30 / (variances[:9].sum() + 16 * variances[5]):.3g}")
    assert default(np.hstack([X, np.zeros((30, 15))])) == default(X)
    for bad in (np.zeros((30, 3)), np.ones((30, 3)), 1e-200 * X, 1e200 * X):
        assert default(bad) == MULTICLASS_LAMBDA
    rows = [" ".join(f"{j}:{v!r}" for j, v in enumerate(row, 1)) for row in X.tolist()]
    Path("few").write_text("".join(f"{i % 3} {row}\n" for i, row in enumerate(rows)))
    scaled = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    for arguments, rows in (((), X), (("--scale", "0,1"), scaled)):
        assert run("train", *arguments, "few", "m").code == 0
        found = float(read_model("m").facts["lambda"])
        assert found == pytest.approx(few_per_feature(rows), rel=0.01)


def test_the_default_lambda_of_few_examples_per_feature(run, tmp_path):
    """(M / d)^2 M / mean |x|^2, large columns cut off; sparse, dense, weights, Python and cv."""
    random = np.random.default_rng(3)
    X = random.integers(1, 9, size=(30, 10)) / 8
    y = np.where(X[:, 0] > X[:, 1], 1, -1)

    def written(X, name):
        rows = (" ".join(f"{j}:{v!r}" for j, v in enumerate(row, 1)) for row in X.tolist())
        labels = np.resize(y, len(X))
        Path(name).write_text("".join(f"{a} {row}\n" for a, row in zip(labels, rows, strict=True)))

    def recorded(*arguments, data="few"):
        assert run("train", *arguments, data, "m").code == 0
        return float(read_model("m").facts["lambda"])

    expected = float(f"{3**2 * 30 / (X**2).sum(axis=1).mean():.3g}")
    written(X, "few")
    assert recorded() == expected < 100
    estimator = ODMClassifier().fit(X, y)
    assert float(estimator.model_.facts["lambda"]) == expected
    # Features that do not occur are none, in an array either.
    padded = np.hstack([X, np.zeros((30, 15))])
    assert default_lambda("odm", 2.0**14, "linear", padded) == expected
    Path("weights").write_text("1.2\n" * 30)
    heavier = float(f"{3.6**2 * 36 / (X**2).sum(axis=1).mean():.3g}")
    assert recorded("-W", "weights") == heavier
    # Shares that sum to 1 are not one example; what has weight 0 is none.
    for share in (1 / 30, 1e-300):
        shared = ODMClassifier().fit(X, y, np.full(30, share))
        assert float(shared.model_.facts["lambda"]) == expected
    Path("weights").write_text("0.01\n" * 20 + "0\n" * 10)
    assert recorded("-W", "weights") == float(f"{2**2 * 20 / (X[:20] ** 2).sum(axis=1).mean():.3g}")
    # One feature in other units does not make the others count for nothing.
    large = X * np.where(np.arange(10) == 4, 1000.0, 1.0)
    written(large, "large")
    squares = np.sort((large**2).sum(axis=0))
    size = squares[:9].sum() + 16 * squares[5]
    assert recorded(data="large") == float(f"{3**2 * 30**2 / size:.3g}")
    written(np.vstack([X, X[:10]]), "many")
    assert recorded(data="many") == recorded("-s", "odm", data="many") == LAMBDA
    assert recorded("-s", "l2svm") == COMPARATOR_LAMBDA
    assert run("cv", "-v", "2", "--csv", "t", "few").code == 0


def test_the_default_lambda_of_sparse_data_is_at_most_examples_over_variance(run, tmp_path):
    """From 100 features on, below eight examples for each; any rows, weights, scaled, in cv."""
    random = np.random.default_rng(5)
    X = (random.random((600, 100)) < 0.2) * random.integers(1, 9, size=(600, 100)) / 8
    y = np.where(X[:, :40].sum(axis=1) > X[:, 40:80].sum(axis=1), 1, -1)

    def default(X, weight=None, name="odm", usual=LAMBDA):
        given = default_lambda(name, usual, "linear", X, weight)
        assert default_lambda(name, usual, "linear", sparse.csr_matrix(X), weight) == given
        return given

    def wanted(X):
        return float(f"{len(X) / X.var(axis=0).sum():.3g}")

    assert default(X) == wanted(X) < 200
    rows = (" ".join(f"{j}:{v!r}" for j, v in enumerate(row, 1) if v) for row in X.tolist())
    lines = (f"{label} {row}\n" for label, row in zip(y, rows, strict=True))
    Path("sparse").write_text("".join(lines))
    assert run("train", "sparse", "m").code == 0
    assert float(read_model("m").facts["lambda"]) == wanted(X)
    assert run("train", "--scale", "0,1", "sparse", "m").code == 0
    ranges = X.max(axis=0) - X.min(axis=0)
    assert float(read_model("m").facts["lambda"]) == wanted((X - X.min(axis=0)) / ranges)
    assert run("cv", "-m", "0.2", "-v", "2", "--csv", "t", "sparse").code == 0
    assert float(Path("t").read_text().splitlines()[1].split(",")[4]) == wanted(X)
    # Weight 2 is a duplicate row, 0 none; columns that do not occur are none, either.
    doubled = np.vstack([X[:300], X[:300]])
    weight = np.repeat([2.0, 0.0], 300)
    assert default(X, weight) == default(doubled) == wanted(doubled)
    padded = np.hstack([X, np.zeros((600, 300))])
    assert default(padded) == wanted(X)
    # A column in other units counts as 16 medians.
    large = X * np.where(np.arange(100) == 7, 1000.0, 1.0)
    variances = np.sort(large.var(axis=0))
    assert default(large) == float(f"{600 / (variances[:99].sum() + 16 * variances[50]):.3g}")
    # With more examples, with fewer features, or where most values are not 0, as before.
    assert default(np.vstack([X, X[:200]])) == default(X[:, :99]) == LAMBDA
    assert default(1 - X) == default(X, name="l2svm") == LAMBDA


@pytest.mark.parametrize("name", ["ldm", "l1svm", "l2svm", "lssvm", "svr", "mcsvm"])
def test_the_default_lambda_of_linear_comparators_is_a_cost_of_one(name, run, tmp_path):
    """One for each example from 2^10 to 2^14, where mean |x|^2 is at most d; else 2^10."""
    random = np.random.default_rng(0)
    X = random.normal(size=(1500, 3))
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).round(3)
    y = np.where(X[:, 0] > 0, 1, -1)

    def recorded(*arguments, factor=1.0):
        rows = (" ".join(f"{j}:{v:.6g}" for j, v in enumerate(r, 1)) for r in factor * X)
        Path("data").write_text("".join(f"{a} {r}\n" for a, r in zip(y, rows, strict=True)))
        assert run("train", "-s", name, *arguments, "data", "m").code == 0
        return float(read_model("m").facts["lambda"])

    assert recorded() == recorded(factor=0.01) == recorded("--scale", "0,1", factor=50) == 1500
    assert recorded(factor=1.2) == COMPARATOR_LAMBDA
    assert recorded("-l", "3") == 3
    few, many = (np.full(1500, w) for w in (0.5, 100.0))
    for weight, wanted in ((few, 1500), (many, 2.0**14)):
        assert default_lambda(name, COMPARATOR_LAMBDA, "linear", X, weight) == wanted
    assert default_lambda(name, COMPARATOR_LAMBDA, "linear", X[:1000]) == COMPARATOR_LAMBDA
    assert default_lambda(name, COMPARATOR_LAMBDA, "linear", sparse.csr_matrix(X)) == 1500


def test_the_default_lambda_of_m3svm_is_of_variances(run, tmp_path):
    """(V / 128)^(p / 2), at most .1: commands and Python, any rows, units, powers, in cv."""
    random = np.random.default_rng(0)
    X = (random.normal(size=(60, 5)) + 3).round(3)
    y = np.arange(60) % 3 + 1
    X[:, 0] += y

    def wanted(X, power=4.0):
        found = (X.var(axis=0).sum() / 128) ** (power / 2)
        return min(M3SVM_LAMBDA, float(f"{found:.3g}"))

    def recorded(*arguments, X=X, name="m3svm"):
        rows = (" ".join(f"{j}:{v!r}" for j, v in enumerate(row, 1)) for row in X.tolist())
        Path("data").write_text("".join(f"{a} {r}\n" for a, r in zip(y, rows, strict=True)))
        assert run("train", "-s", name, *arguments, "data", "m").code == 0
        return float(read_model("m").facts["lambda"])

    assert recorded() == recorded(name="ism3") == wanted(X) < M3SVM_LAMBDA
    assert recorded(X=100 * X) == wanted(100 * X) == M3SVM_LAMBDA
    assert recorded("--power", "2") == wanted(X, 2) and recorded("-l", "3") == 3
    assert recorded("-c", "4") == 0.25
    ranges = X.max(axis=0) - X.min(axis=0)
    assert recorded("--scale", "0,1") == pytest.approx(wanted(X / ranges), rel=0.01)
    # In smaller units, and about another mean, the same functions are found.
    models = [M3SVMClassifier().fit(factor * X + shift, y) for factor, shift in ((1, 0), (0.1, 7))]
    assert [float(model.model_.facts["lambda"]) for model in models] == [wanted(X), wanted(X / 10)]
    one, other = models[0].predict(X), models[1].predict(X / 10 + 7)
    assert np.mean(one == other) > 0.95 and np.mean(one == y) > 0.4
    assert M3SVMClassifier(power=3.0).fit(X, y).model_.facts["lambda"] == f"{wanted(X, 3):g}"
    # In a search one power has its lambda, and several have the usual one.
    for powers, lambdas in (("3", {wanted(X, 3)}), ("2,3", {M3SVM_LAMBDA})):
        recorded()
        search = ["-s", "m3svm", "--power", powers, "-v", "2", "--csv", "t", "data"]
        assert run("cv", *search).code == 0
        with Path("t").open() as stream:
            assert {float(row["lambda"]) for row in csv.DictReader(stream)} == lambdas


def test_the_default_lambda_of_m3svm_of_any_rows():
    """Sparse ones, weights, columns in other units, and what has no variance or overflows."""
    X = np.random.default_rng(0).normal(size=(60, 5)) + 3
    found = default_lambda("m3svm", M3SVM_LAMBDA, "linear", X)
    assert default_lambda("m3svm", M3SVM_LAMBDA, "linear", sparse.csr_matrix(X)) == found
    twice = np.vstack([X[:30], X])
    weight = np.repeat([2.0, 1.0], 30)
    of_weights = default_lambda("m3svm", M3SVM_LAMBDA, "linear", X, weight)
    assert of_weights == default_lambda("m3svm", M3SVM_LAMBDA, "linear", twice) != found
    # A column in other units counts as 16 medians.
    large = X * np.array([1, 1, 1, 1000.0, 1]) / 10
    variances = np.sort(large.var(axis=0))
    size = (variances[:4].sum() + 16 * variances[2]) / 128
    assert default_lambda("m3svm", M3SVM_LAMBDA, "linear", large) == float(
        f"{size**2:.3g}"
    )
    for bad in (np.ones((4, 3)), 1e200 * X, 1e-200 * X, 1000 * X):
        assert default_lambda("m3svm", M3SVM_LAMBDA, "linear", bad) == M3SVM_LAMBDA
    # Of wide data of many classes solutions for less take minutes.
    wide = np.random.default_rng(0).normal(size=(60, 61)) / 100
    for rows, k, is_usual in ((wide, 51, True), (wide, 50, False), (wide[:, :60], 51, False)):
        found = default_lambda("m3svm", M3SVM_LAMBDA, "linear", rows, k=k)
        assert (found == M3SVM_LAMBDA) == is_usual
