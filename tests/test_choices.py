"""Which way is taken, on both sides of every limit that decides it."""

import numpy as np
import pytest
from scipy import sparse

from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.core.loss_table import JUMPS
from odmtool.solvers import auto, linear_cost, table
from odmtool.solvers.base import Problem
from odmtool.solvers.large import tasks
from odmtool.solvers.ldm import newton as ldm_newton
from odmtool.solvers.mcodm import way
from odmtool.solvers.multi import MultiProblem
from odmtool.solvers.newton.spaces import FunctionSpace, WeightSpace, matrix_bytes, space_of
from odmtool.solvers.settings import Settings

NEWTON, DCD = auto.Schedule("newton"), auto.Schedule("dcd")
SMALL = auto.Schedule("newton", then="dcd")
SMOOTH = losses.odm(64.0, 0.5, 0.3, 100)
JUMP = losses.MarginLoss(1.0, 1.0, 1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
JUMP_TWICE = losses.svr(64.0, 0.3, 100)
LDM = losses.ldm(64.0, 1.0, 1.0, 100)


class Rows(np.ndarray):
    """Rows of any shape that take no memory."""

    def __new__(cls, m, d):
        return np.broadcast_to(np.zeros(1), (m, d)).view(cls)


def of_kernel(m, memory=np.inf, loss=SMOOTH, name="precomputed"):
    gram = Gram(Kernel("precomputed"), Rows(m, 1), memory)
    gram.kernel = Kernel(name, 1.0)
    return Problem(None, gram, Rows(m, 1)[:, 0], Rows(m, 1)[:, 0], loss)


def linear(m, d, loss=SMOOTH, X=None):
    return Problem(Rows(m, d) if X is None else X, None, np.ones(m), np.ones(m), loss)


@pytest.mark.parametrize("m, schedule", [
    (1500, SMALL), (1501, auto.Schedule("dcd", 37)), (40_039, auto.Schedule("dcd", 1000)),
    (4000, auto.Schedule("dcd", 100)),
])  # fmt: skip
def test_a_kernel_matrix_at_hand(m, schedule):
    """Newton's method at once up to 1500 examples; then an epoch for 40 of them, 1000 at most."""
    assert auto.choose(of_kernel(m)) == schedule
    assert auto.choose(of_kernel(m, 2 * 8 * m * m)) == schedule
    assert auto.choose(of_kernel(m, 2 * 8 * m * m - 1)) == DCD


def test_landmarks_need_many_examples_and_room_for_some():
    kernel = Kernel("rbf", 1.0)
    room = 80 * 1501 + 2.4e6
    assert auto.has_landmarks(kernel, 1501, room) and not auto.has_landmarks(kernel, 1500, 1e12)
    assert not auto.has_landmarks(kernel, 1501, room - 1)
    with_jump = 512 * 2501 + 1e7
    assert auto.has_landmarks(kernel, 2501, with_jump, JUMPS)
    assert not auto.has_landmarks(kernel, 2501, with_jump - 1, JUMPS)
    for other in (Kernel("precomputed"), Kernel("sigmoid", 1.0)):
        assert not auto.has_landmarks(other, 1501, 1e12)
    p = of_kernel(1501, room, name="rbf")
    assert auto.choose(p) == auto.Schedule("landmarks") and auto.takes_landmarks(p.gram)
    p.gram.X = None
    assert not auto.takes_landmarks(p.gram) and not auto.takes_landmarks(None)


@pytest.mark.parametrize("m, is_first", [(2500, True), (2501, False)])
def test_of_many_problems_with_a_kernel_the_small_ones_begin_with_descent(m, is_first):
    found = auto.choose(of_kernel(m, name="rbf"), is_one_of_many=True)
    assert found[:3] == (("dcd", 62, "landmarks") if is_first else (auto.EITHER, 62, "newton"))


def test_with_a_jump_newton_is_for_few_operations():
    """m^3 or m d min(m, d) of at most 5e8, and 200,000 values; of few features by what it costs."""
    assert 793**3 <= 5e8 < 794**3
    for loss in (JUMP, LDM):
        assert auto.choose(of_kernel(793, loss=loss)) == SMALL
        assert auto.choose(of_kernel(794, loss=loss)) == auto.Schedule("dcd", 39)
        assert auto.choose(of_kernel(794, 4 * 8 * 794**2, loss)) == auto.Schedule("dcd", 39)
        assert auto.choose(of_kernel(794, 4 * 8 * 794**2 - 1, loss)) == DCD
        later = auto.Schedule("dcd", 100)
        assert auto.choose(linear(100, 2000, loss)) == SMALL
        assert auto.choose(linear(100, 2001, loss)) == later  # 200,100 values
        thin = linear(126, 31_250, loss, sparse.csr_matrix((126, 31_250)))
        assert auto.choose(thin) == SMALL  # 496 million operations
        assert auto.choose(linear(0, 0, loss, sparse.csr_matrix((127, 31_250)))) == later
        assert auto.choose(linear(3001, 3001, loss)) == later


@pytest.mark.parametrize("loss, times, hessians", [(JUMP, 1, 4), (JUMP_TWICE, 2, 4), (LDM, 1, 15)])
def test_with_a_jump_and_few_features_both_ways_are_estimated(loss, times, hessians):
    """Newton's method at once, or descent for as long as that takes, 20 epochs at least."""
    for m, d, is_newton in (
        (10_000, 20, True), (10_001, 20, True), (200_000, 200, False), (200_000, 900, False)
    ):  # fmt: skip
        p = linear(m, d, loss)
        cost = times * (2e-6 * m + hessians * m * d * (1.5e-9 + 2e-11 * d))
        assert linear_cost.jump_newton_cost(p.X, loss.kind) == pytest.approx(cost)
        epoch = (1 + (loss is LDM)) * m * (1e-7 + 2e-9 * d)
        assert linear_cost.epoch_cost(p.X, loss.kind) == pytest.approx(epoch)
        assert is_newton == (cost <= 0.1 + 10 * epoch)
        found = auto.choose(p)
        if is_newton:
            assert found == (SMALL if m * d <= 200_000 else SMALL._replace(last_epochs=100))
        else:
            assert (found.first, found.then) == ("dcd", "newton")
            assert found.epochs == pytest.approx(max(20, cost / epoch), abs=1)
    assert found.epochs > 20
    # Sparse rows cost the pairs of their values, but for LDM, whose rows become dense.
    X = sparse.random(5000, 300, density=0.01, format="csr", random_state=0)
    pairs = 2e-9 * (np.diff(X.indptr) ** 2.0).sum()
    dense = 5000 * 300 * (1.5e-9 + 2e-11 * 300)
    cost = times * (2e-6 * 5000 + hessians * (dense if loss is LDM else pairs))
    assert linear_cost.jump_newton_cost(X, loss.kind) == pytest.approx(cost)


def test_ldm_by_newton_takes_a_short_side():
    big = ldm_newton._LARGEST_ROWS
    assert big == 2**28
    cases = [
        ((4000, 10_000), True), ((4001, 10_000), False), ((4001, 3000), True),
        ((4001, 3001), False), ((big // 2048, 2048), True), ((big // 2048 + 1, 2048), False),
    ]  # fmt: skip
    for (m, d), fits in cases:
        assert ldm_newton.fits(linear(m, d, LDM)._replace(y=Rows(m, 1)[:, 0])) == fits


def test_the_space_of_a_linear_problem():
    assert matrix_bytes(4000, 4001) == 2 * 8 * 4000**2
    assert matrix_bytes(4001, 5000) == 0 == matrix_bytes(4001, 3001)
    assert matrix_bytes(3000, 3000) == matrix_bytes(9000, 3000) == 2 * 8 * 3000**2
    assert matrix_bytes(20, 21) == 2 * 8 * 20**2
    X = np.random.default_rng(0).standard_normal((5, 5))
    y = np.array([1.0, -1, 1, -1, 1])
    assert isinstance(space_of(linear(5, 5, X=X)._replace(y=y)), WeightSpace)
    assert isinstance(space_of(linear(4, 5, X=X[:4])._replace(y=y[:4])), FunctionSpace)


def multi(X, k=3, gram=None, parameters=None):
    m = X.shape[0] if gram is None else gram.size
    return MultiProblem(None if gram else X, gram, np.arange(m) % k, k, np.ones(m), parameters)


def many(m, d, is_dense=True, nnz=0):
    """Rows of a shape, of which sparse ones hold so many values."""
    if is_dense:
        return Rows(m, d)
    rows = np.minimum(np.arange(m + 1) * -(-nnz // m), nnz)
    return sparse.csr_matrix((np.ones(nnz), np.zeros(nnz, int), rows), (m, d))


@pytest.mark.parametrize("shape, k, found", [
    ((500, 100), 9, way.Way(0)),
    ((505, 101), 9, way.Way(0)),
    ((541, 100), 10, way.Way(0)), ((540, 100), 10, way.Way(300)),  # of 900 degrees of freedom
    ((601, 121), 10, way.Way(300)),  # fewer than five examples per feature
    ((600, 121), 10, way.Way(100)), ((499, 100), 10, way.Way(100)),  # few examples, too
    ((600, 30), 32, way.Way(0)), ((600, 30), 33, way.Way(5)),
    ((25_000, 2581), 3, way.Way(0)), ((25_000, 2582), 3, way.Way(np.inf)),  # k d d = 2e7
])  # fmt: skip
def test_newton_for_mcodm_by_the_size_of_its_hessians(shape, k, found):
    m = shape[0]
    p = multi(many(*shape), k)
    # Of losses that are steep nowhere.
    p = p._replace(weight=np.ones(m), parameters=losses.mcodm(1.0, 0.2, 0.2, m))
    assert way.for_rounds(p) == found == way.choose(p)
    assert way.for_rounds(p, "newton") == way.Way(0)
    assert way.for_rounds(p, "dcd") == way.Way(np.inf)
    assert way.has_many_rows(p) == (shape[0] >= 5 * shape[1])


def test_rows_of_mcodm_that_become_an_array():
    for nnz, is_sparse in ((400_400, True), (400_401, False)):  # of 1,001,000 values
        p = multi(many(7150, 140, False, nnz), 3)
        assert way.for_rounds(p) == way.Way(5 if is_sparse else 0, is_sparse)
        assert way.for_rounds(p, "newton").is_sparse == is_sparse
    assert way.for_rounds(multi(many(10_000, 100, False), 3)) == way.Way(0)
    assert way.for_rounds(multi(many(10_001, 100, False), 3)) == way.Way(5, True)


def test_features_of_all_examples_for_mcodm():
    room = 4 * 8 * 3000**2
    for m, memory, fits in ((3000, room, True), (3000, room - 1, False), (3001, np.inf, False)):
        p = multi(None, gram=of_kernel(m, memory, name="rbf").gram)
        assert way.has_features(p) == fits
        assert way.for_rounds(p) == way.Way(400 if fits else np.inf)
        assert way.for_rounds(p, "dcd") == way.Way(np.inf)
        assert not way.has_many_rows(p)
    # The whole Hessian is factored, or the system among few duals, or neither.
    for m, k, epochs in ((500, 4, 50), (501, 4, 100), (600, 4, 100), (601, 4, 400), (2000, 1, 50)):
        p = multi(None, k, gram=of_kernel(m, name="rbf").gram)
        assert way.for_rounds(p) == way.Way(epochs)
    for name in ("precomputed", "sigmoid"):
        assert not way.has_features(multi(None, gram=of_kernel(9, name=name).gram))


def test_landmarks_for_mcodm_where_the_matrix_does_not_fit():
    kernel, m = Kernel("rbf", 1.0), 4000
    assert way.takes_landmarks(kernel, m, 8 * m * m - 1)
    assert not way.takes_landmarks(kernel, m, 8 * m * m)
    assert way.takes_landmarks(kernel, m, 512 * m + 1e7)
    assert not way.takes_landmarks(kernel, m, 512 * m + 1e7 - 1)
    p = multi(None, gram=of_kernel(m, 8 * m * m - 1, name="rbf").gram)
    assert way.choose(p) == way.Way(np.inf, has_landmarks=True)
    assert not way.choose(p, outer="constant").has_landmarks
    assert not way.choose(p, "dcd").has_landmarks
    small = multi(None, gram=of_kernel(30, name="rbf").gram)
    assert way.choose(small, "landmarks").has_landmarks
    assert not way.choose(small).has_landmarks
    small.gram.X = None
    assert not way.choose(small, "landmarks").has_landmarks


@pytest.mark.parametrize("m, solver, settings, parts", [
    (3999, "sodm", {}, 1), (4000, "sodm", {}, 4), (15_999, "sodm", {}, 4),
    (16_000, "sodm", {}, 16), (2000, "sodm", {"branch": 2}, 2), (1999, "sodm", {"branch": 2}, 1),
    (9, "sodm", {"partitions": 10}, 9), (9, "dsvrg", {"partitions": 3}, 3),
    (9999, "dsvrg", {}, 1), (20_000, "dsvrg", {}, 2), (19_999, "dsvrg", {}, 1),
    (10**6, "dsvrg", {}, 32), (319_999, "dsvrg", {}, 31),
])  # fmt: skip
def test_parts_of_the_first_level(m, solver, settings, parts):
    assert tasks.parts_at_first(m, solver, Settings(**settings)) == parts


def test_a_matrix_just_fits():
    gram = of_kernel(50).gram
    for name, matrices in (("newton", 2), ("path", 4)):
        solver = table.SOLVERS[name].ways[0]
        for memory, fits in ((matrices * 8 * 50**2, True), (matrices * 8 * 50**2 - 1, False)):
            assert solver.fits(gram.within(memory)) == fits and solver.fits(None)


def test_the_most_iterations_of_every_solver():
    """What docs/solvers.md says of --max-iter: the most, unless the user says otherwise."""
    found = {
        (solver.name, one.module): one.limit for solver in table.SOLVERS.values()
        for one in solver.ways
    }  # fmt: skip
    epochs, rounds, steps = 1000, 2000, 200
    assert found == {
        ("auto", "auto"): None, ("auto", "mcodm.auto"): rounds, ("auto", "newton.kmomd"): rounds,
        ("auto", "mcsvm.auto"): 10_000, ("auto", "m3svm.newton"): steps,
        ("dcd", "descent.dcd"): epochs, ("dcd", "ldm.descent"): epochs,
        ("dcd", "mcodm.auto"): rounds,
        ("dcd", "mcsvm.descent"): 10_000, ("dcd", "large.block_descent"): epochs,
        ("newton", "newton.newton"): steps, ("newton", "newton.proximal"): steps,
        ("newton", "newton.two_jumps"): steps,
        ("newton", "ldm.newton"): steps,
        ("newton", "newton.kmomd"): rounds, ("newton", "mcodm.auto"): rounds,
        ("newton", "mcsvm.newton"): steps, ("newton", "m3svm.newton"): steps,
        ("newton", "large.passes"): steps,
        ("newton", "large.proximal_passes"): steps, ("path", "paths.path"): 1_000_000,
        ("landmarks", "engine.solve"): steps, ("landmarks", "engine.jumps"): rounds,
        ("landmarks", "mcodm.auto"): rounds,
        ("dcd-dense", "ldm.dense"): 20_000, ("svrg", "stochastic.svrg"): 100,
        ("asgd", "stochastic.asgd"): 100,
        ("adam", "m3svm.adam"): 500, ("sodm", "large.sodm"): epochs,
        ("nystrom", "large.nystrom"): steps, ("nystrom", "large.passes"): steps,
        ("dsvrg", "large.dsvrg"): 100,
    }  # fmt: skip


def test_where_a_solver_can_be_used():
    """By place, kernel and loss, as the rows say it: no solver more, none less."""
    every = {"linear", "rbf", "precomputed"}
    memory = {name: {k for k in every if name in table.names_for("smooth", k)} for name in (
        "auto", "dcd", "newton", "svrg", "landmarks", "sodm", "nystrom", "dsvrg", "path", "asgd",
    )}  # fmt: skip
    assert memory == {
        "auto": every, "dcd": every, "newton": every, "svrg": {"linear"}, "landmarks": {"rbf"},
        "sodm": {"linear", "rbf"}, "nystrom": {"rbf"}, "dsvrg": {"linear"}, "path": set(),
        "asgd": set(),
    }  # fmt: skip
    assert table.names_at("disk") == ["auto", "dcd", "newton", "nystrom"]
    assert table.names_at("workers") == ["sodm", "nystrom", "dsvrg"] == list(table.IN_PARTS)
    assert table.settings_of_solver("svrg") == ["snapshot"]
    assert set(table.settings_of_solver("auto")) == {"outer"}
