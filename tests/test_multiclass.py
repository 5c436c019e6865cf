"""More than two classes by binary machines: one against the rest, and one against one."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import needs_two_processors
from scipy import sparse

from odmtool import messages
from odmtool.core import kernels
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import MemoryLimitError, UsageError
from odmtool.machines import L1SVM, L2SVM, LDM, ODM, machine_named
from odmtool.machines.data import most_in_pairs

svm = pytest.importorskip("sklearn.svm")

CLASSES = [-7, 2_000_000_000, 3, 5]


def clusters(m=120, d=5, seed=0):
    """X (CSR) and labels of four overlapping classes, in no order."""
    generator = np.random.default_rng(seed)
    target = generator.integers(len(CLASSES), size=m)
    target[:4] = [1, 0, 3, 2]
    centres = 1.5 * generator.standard_normal((len(CLASSES), d))
    X = centres[target] + generator.standard_normal((m, d))
    X[np.abs(X) < 0.3] = 0
    return sparse.csr_matrix(X), np.array(CLASSES)[target]


@pytest.mark.parametrize("weighted", [False, True])
def test_one_against_the_rest_is_liblinears(weighted):
    X, labels = clusters()
    weight = np.random.default_rng(1).uniform(0.2, 3, len(labels)) if weighted else None
    total = len(labels) if weight is None else weight.sum()
    ours = L2SVM(lambda_=30.0, tolerance=1e-12).fit(X, labels, weight)
    theirs = svm.LinearSVC(C=30.0 / total, dual=False, fit_intercept=False, tol=1e-10)
    theirs.fit(X, labels, sample_weight=weight)
    assert ours.classes_ == [CLASSES[i] for i in (1, 0, 3, 2)]
    expected = theirs.coef_[np.searchsorted(theirs.classes_, ours.classes_)]
    weights = ours.model_.weights.T
    assert weights == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert (ours.predict(X) == theirs.predict(X)).all()


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
@pytest.mark.parametrize("machine", [ODM, L1SVM])
@pytest.mark.parametrize("bias", [-1.0, 1.5])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_every_problem_is_the_binary_one(machine, multiclass, bias, kernel):
    X, labels = clusters(60)
    if kernel == "precomputed":
        K = kernels.gram(Kernel("rbf", 0.2), X)
        X = sparse.csr_matrix(np.column_stack([np.arange(1, len(K) + 1), K]))
    shared = dict(kernel=kernel, gamma=0.2, bias=bias, tolerance=1e-9, max_iter=100_000)
    whole = machine(lambda_=40.0, multiclass=multiclass, **shared).fit(X, labels)
    classes = whole.classes_
    if multiclass == "ovr":
        wholes = whole.model_.decision_values(X)
        if kernel != "linear":
            # Pairs in the file's order, which is the reverse: f_i - f_0 for the class before last.
            assert whole.model_.labels == classes[::-1]
        for position, label in enumerate(classes):
            one = machine(cost=40.0 / len(labels), **shared)
            one.fit(X, np.where(labels == label, 1, -1))
            if kernel == "linear":
                assert wholes[:, position] == pytest.approx(one.decision_function(X), abs=1e-6)
    else:
        wholes = whole.model_.decision_values(X)
        pairs = zip(*np.triu_indices(len(classes), 1), strict=True)
        for column, (i, j) in enumerate(pairs):
            used = np.flatnonzero(np.isin(labels, [classes[i], classes[j]]))
            one = machine(cost=40.0 / len(labels), **shared)
            one.fit(X[used], np.where(labels[used] == classes[i], 1, -1))
            assert wholes[:, column] == pytest.approx(one.decision_function(X), abs=1e-5)


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_threads_change_nothing(multiclass, kernel):
    X, labels = clusters()
    arguments = dict(kernel=kernel, multiclass=multiclass, lambda_=64.0)
    one, two = (ODM(jobs=jobs, **arguments).fit(X, labels) for jobs in (1, 2))
    assert one.model_.decision_values(X) == pytest.approx(two.model_.decision_values(X), abs=1e-12)
    assert one.solution_.iterations == two.solution_.iterations


@pytest.mark.parametrize("bias", [-1.0, 2.0])
def test_the_compact_form_answers_as_the_pairs_do(bias):
    X, labels = clusters()
    arguments = dict(kernel="rbf", multiclass="ovr", lambda_=64.0, bias=bias)
    pairs = ODM(**arguments).fit(X, labels)
    compact = ODM(model_format="compact", **arguments).fit(X, labels)
    tested = clusters(400, seed=5)[0]
    assert (pairs.predict(tested) == compact.predict(tested)).all()
    # A row far from every support vector has the same value everywhere: the first class.
    if bias < 0:
        far = sparse.csr_matrix(np.full((1, 5), 1e6))
        assert pairs.predict(far) == compact.predict(far) == [compact.classes_[0]]


@pytest.mark.parametrize("machine, k, reduction", [
    (ODM(kernel="rbf"), 3, "ovo"), (ODM(kernel="rbf"), 51, "ovr"),
    (ODM(kernel="rbf", most_in_pairs=np.inf), 999, "ovo"), (L1SVM(), 3, "ovr"),
    (LDM(kernel="rbf", most_in_pairs=np.inf), 100, "ovo"), (LDM(kernel="rbf"), 51, "ovr"),
    (LDM(kernel="rbf", most_in_pairs=np.inf), 101, "ovr"),
    (L1SVM(kernel="rbf", most_in_pairs=np.inf), 51, "ovr"), (L1SVM(kernel="rbf"), 50, "ovo"),
    (ODM(kernel="rbf", model_format="compact"), 3, "ovr"), (ODM(multiclass="ovo"), 99, "ovo"),
])  # fmt: skip
def test_more_classes_are_taken_in_pairs_by_kernels(machine, k, reduction):
    assert machine.reduction(k) == reduction
    assert machine.decides_by_votes(k) == (reduction == "ovo")
    assert machine.copy(kernel="poly").reduction(3) == ("ovr" if machine.model_format else "ovo")


def test_many_classes_are_taken_in_pairs_if_they_are_small():
    """The larger class of a pair wins it, and of wide data few examples tell little."""
    rows, small, large = np.zeros((340, 3)), np.repeat(np.arange(85), 4), np.zeros(340)
    large[:307] = np.arange(307)
    assert most_in_pairs(rows, small, 85) == np.inf
    assert most_in_pairs(rows, large, 307) == most_in_pairs(rows, None, 85) == 50  # 34 of a class
    assert most_in_pairs(np.zeros((340, 341)), small, 85) == 50
    large[307] = 307  # 33 of them: 0, and those from 308 on
    assert most_in_pairs(rows, large, 307) == 50
    large[308] = 308
    assert most_in_pairs(rows, large, 307) == np.inf


def test_many_classes_are_taken_in_pairs_if_none_is_much_larger_than_the_mean():
    rows = np.zeros((6000, 3))
    labels = np.repeat(np.arange(60), [150] + [100] * 58 + [50])
    assert most_in_pairs(rows, labels, 60) == np.inf
    labels[-1] = 0  # 151 of 6000 / 60
    assert most_in_pairs(rows, labels, 60) == 50


def test_an_unknown_way_is_refused():
    with pytest.raises(UsageError, match="unknown multiclass 'ova'; choose auto, ovr, ovo, ecoc"):
        ODM(multiclass="ova").fit(*clusters())


def test_a_class_with_one_example_and_many_classes():
    generator = np.random.default_rng(0)
    X = sparse.csr_matrix(generator.standard_normal((302, 3)))
    labels = np.r_[np.arange(300), 298, 297]
    fitted = ODM(tolerance=1e-1).fit(X, labels)
    assert fitted.model_.weights.shape == (3, 300)
    assert set(fitted.predict(X)) <= set(labels)


@pytest.mark.parametrize("name", ["odm", "ldm", "l1svm", "l2svm", "lssvm", "svr", "mamc", "kmomd"])
@pytest.mark.parametrize("options", [
    {}, {"kernel": "rbf", "gamma": 0.1}, {"kernel": "poly", "gamma": 0.1, "coef0": 1.0},
    {"kernel": "rbf", "gamma": 0.1, "solver": "landmarks"},
])  # fmt: skip
def test_pairs_of_classes_of_weight_zero_have_nothing_to_solve(name, options):
    """A class that has a weight wins its pairs with those that have none.

    ``bias`` makes all values positive of a machine that is trained on one class.
    """
    if name == "kmomd" and "solver" in options:
        return  # it has Newton's method only
    X, labels = clusters()
    machine = machine_named(name)(multiclass="ovo", **options)
    if name != "kmomd" and options.get("kernel") != "rbf":
        machine = machine.copy(bias=100.0)
    for weightless in ([-7, 5], [-7, 3, 5], [2_000_000_000, 3, 5]):
        fitted = machine.copy(class_weight=dict.fromkeys(weightless, 0.0)).fit(X, labels)
        assert set(fitted.predict(X)) <= set(CLASSES) - set(weightless)
        assert fitted.solution_.converged and fitted.solution_.problems == 6
        assert fitted.solution_.untrained == 0
        assert "" not in fitted.solution_.solver.split(" / ")


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_pairs_of_weight_zero_from_the_command_line(run, tmp_path, kernel):
    X, labels = clusters()
    write(tmp_path / "data", X, labels)
    (tmp_path / "weights").write_text("".join(f"{label == 5:d}\n" for label in labels))
    of_classes = ["-w", "-7", "0", "-w", "3", "0", "-w", "2000000000", "0"]
    for weights in (["-W", "weights"], of_classes):
        arguments = ["-q", "-s", "ldm", "--multiclass", "ovo", "-t", kernel, "-B", "100", *weights]
        assert run("train", *arguments, "data", "m").code == 0
        assert run("predict", "data", "m", "out").code == 0
        assert set((tmp_path / "out").read_text().split()) == {"5"}
        share = 100 * (labels == 5).mean()
        for command in (["train", *arguments, "-v", "3"], ["cv", *arguments, "-l", "2^4"]):
            outcome = run(*command, "data")
            assert outcome.code == 0 and f"= {share:g}%" in outcome.out


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_cross_validation_from_the_command_line(run, tmp_path, multiclass, kernel):
    X, labels = clusters()
    write(tmp_path / "data", X, labels)
    arguments = ["-s", "odm", "--multiclass", multiclass, "-t", kernel, "-l", "2^4"]
    cross = run("train", *arguments, "-v", "5", "data")
    search = run("cv", *arguments, "data")
    assert cross.code == search.code == 0
    assert search.out.splitlines()[-1] == cross.out.strip()
    accuracy = float(cross.out.split("= ")[1].rstrip("%\n"))
    assert accuracy > 60
    assert run("train", "-q", *arguments, "data", "m").code == 0
    outcome = run("predict", "data", "m", "out")
    assert float(outcome.out.split("= ")[1].split("%")[0]) >= accuracy - 5


def write(path, X, labels):
    from odmtool.io.svmlight import write_svmlight

    with open(path, "w") as stream:
        write_svmlight(stream, X, labels)


@needs_two_processors
@pytest.mark.parametrize("options, side_by_side", [
    (["-s", "odm", "--multiclass", "ovr", "-j", "2"], True),
    (["-s", "odm", "--multiclass", "ovo", "-t", "rbf", "-j", "2"], True),
    (["-s", "odm", "--multiclass", "ovr"], False),
    (["-s", "odm", "-j", "2"], True),
])  # fmt: skip
def test_jobs_reach_the_problems(run, tmp_path, monkeypatch, options, side_by_side):
    from odmtool.machines import reduction

    write(tmp_path / "data", *clusters())
    assert run("train", "-q", *options, "data", "m").code == 0
    called, real = [], reduction.local_executor

    def spy(jobs):
        called.append(jobs)
        return real(jobs)

    monkeypatch.setattr(reduction, "local_executor", spy)
    assert run("train", "-q", *options, "data", "again").code == 0
    assert called == [2 if side_by_side else 1]
    first, second = ((tmp_path / name).read_text() for name in ("m", "again"))
    rows = [text.split("odmtool-model")[0] for text in (first, second)]
    assert rows[0] == rows[1]


def test_threads_share_the_memory():
    X, labels = clusters()
    machine = ODM(kernel="rbf", jobs=2, memory=8.0 * len(labels) * 30)
    prepared = machine.prepare(X, labels)
    from odmtool.machines import reduction

    shared = reduction._shared_gram(prepared.gram, 2)
    assert shared.memory == machine.memory / 2 and not shared.is_computed
    plenty = reduction._shared_gram(machine.copy(memory=1e9).prepare(X, labels).gram, 2)
    assert plenty.is_computed and plenty.memory == plenty.bytes + (1e9 - plenty.bytes) / 2


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
@pytest.mark.parametrize("share", [0.5, 1.5, 2.2, 5.0])
def test_threads_change_no_solver(multiclass, share):
    X, labels = clusters()
    memory = share * 8.0 * len(labels) ** 2
    one, two = (
        ODM(kernel="rbf", multiclass=multiclass, jobs=jobs, memory=memory).fit(X, labels)
        for jobs in (1, 2)
    )
    assert one.solution_.solver == two.solution_.solver
    scores = [machine.model_.decision_values(X) for machine in (one, two)]
    if share > 1:
        assert np.allclose(*scores, rtol=1e-9, atol=1e-12)


def test_memory_is_named_whole_whatever_the_threads():
    X, labels = clusters()
    machine = ODM(kernel="rbf", multiclass="ovr", solver="newton", jobs=2,
                  memory=8.0 * len(labels) ** 2)  # fmt: skip
    with pytest.raises(MemoryLimitError) as raised:
        machine.fit(X, labels)
    assert f"more than the {messages.size(machine.memory)} of memory" in str(raised.value)


@pytest.mark.parametrize("options", [
    {}, {"bias": 1.0}, {"solver": "dcd"}, {"kernel": "poly"}, {"memory": 8.0 * 60**2},
    {"tolerance": 1e-9},
])  # fmt: skip
@pytest.mark.parametrize("are_many", [False, True])
def test_pairs_have_the_matrix_of_their_rows(monkeypatch, options, are_many):
    """However little is kept: within a class, nothing, or Newton's method has no room."""
    from odmtool.machines import pairs, reduction

    monkeypatch.setattr(pairs, "_LARGE", 0 if are_many else np.inf)
    X, labels = clusters()
    machine = ODM(**({"kernel": "rbf", "gamma": 0.3, "multiclass": "ovo"} | options))
    prepared = machine.prepare(X, labels)
    k = len(prepared.classes)
    members = [np.flatnonzero(prepared.target == label) for label in range(k)]
    grams = pairs.PairGrams(machine, prepared.gram, members, 1.0)
    assert grams.are_many == are_many
    parts = reduction.parts(prepared.target, k, machine)
    for (i, j), part in zip(reduction.problems(k, "ovo"), parts, strict=True):
        gram, rows = grams.of(i, j), prepared.gram.X[part.examples]
        K = Gram(gram.kernel, rows).matrix()
        is_single = are_many and not {"solver", "memory", "kernel"} & options.keys()
        assert is_single == (gram.dtype == np.float32)
        assert np.abs(gram.matrix() - K).max() <= (2.0**-24 * K.max() if is_single else 1e-12)
        gram.make_exact()
        assert np.allclose(gram.matrix(), K, rtol=0, atol=1e-12)
        assert gram.X.shape == rows.shape
    assert machine.fit(X, labels).solution_.converged


@pytest.mark.parametrize("tolerance", [1e-3, 1e-11])
def test_pairs_in_single_precision_are_solved_in_double(monkeypatch, tolerance):
    """Where rounding hides little they stay as they are, else descent goes on with exact values."""
    from odmtool.judge import binary as judge
    from odmtool.machines import pairs, reduction
    from odmtool.solvers import auto

    monkeypatch.setattr(pairs, "_LARGE", 0)
    monkeypatch.setattr(auto, "_EPOCHS_PER_EXAMPLE", 5)
    X, labels = clusters()
    machine = ODM(kernel="rbf", gamma=0.3, multiclass="ovo", lambda_=1e3, tolerance=tolerance)
    monkeypatch.setattr(pairs, "holds_single", lambda *_arguments: True)
    made, make_exact = [], Gram.make_exact
    monkeypatch.setattr(Gram, "make_exact", lambda gram: made.append(0) or make_exact(gram))
    solution, prepared = machine.fit(X, labels).solution_, machine.prepare(X, labels)
    assert solution.converged and solution.solver == "dcd" and bool(made) == (tolerance < 1e-6)
    objective, gaps = 0.0, []
    parts = reduction.parts(prepared.target, len(prepared.classes), machine)
    for column, part in enumerate(parts):
        p = reduction.part_problem(machine, prepared, part)
        i, j = reduction.problems(4, "ovo")[column]
        columns = np.where(prepared.target[part.examples] == i, j - 1, i)
        coef = part.y * solution.coef[part.examples, columns]
        K = judge.kernel_matrix(p.gram.kernel, p.gram.X, p.gram.X)
        found = judge.certify_kernel(K, p.y, p.weight, p.loss, coef, solution.duals[column])
        objective += found.primal
        gaps.append(found.gap)
    assert objective == pytest.approx(solution.objective, rel=1e-6)
    assert max(gaps) <= solution.gap <= tolerance


def test_pairs_have_as_many_landmarks_with_two_threads():
    from odmtool.machines.pairs import PairGrams
    from odmtool.solvers.engine.room import landmarks_in

    members, found = np.split(np.arange(6000), 3), []
    for memory in (60e6, 1e9):
        machine = ODM(kernel="rbf", multiclass="ovo", jobs=2, memory=memory)
        gram = Gram(machine.kernel_for(1), np.zeros((6000, 2)), machine.memory_limit())
        grams = PairGrams(machine, gram, members, 1.0)
        alone = PairGrams(machine.copy(jobs=1), gram, members, 1.0)
        assert landmarks_in(4000, grams.memory) == landmarks_in(4000, alone.memory)
        found.append(grams.jobs)
    assert found == [1, 2]


def test_one_thread_makes_no_matrix_before_a_problem_wants_it(monkeypatch):
    from odmtool.machines import reduction

    monkeypatch.setattr(reduction, "_shared_gram", None)
    machine = LDM(kernel="rbf", multiclass="ovr").fit(*clusters())
    assert machine.solution_.converged
