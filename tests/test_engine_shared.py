"""Problems that share landmarks: as good as one by one, whatever the threads and chains."""

import functools

import numpy as np
import pytest
from multiclass_data import CLASSES, clusters
from problems import examples

from odmtool.core import deadline, losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.core.losses import MarginLoss, odm
from odmtool.judge.binary import certify_kernel, kernel_matrix
from odmtool.machines import ODM
from odmtool.rows.executor import Serial
from odmtool.search import calibration
from odmtool.search.journal import open_journal
from odmtool.search.search import SearchPlan, grid, search
from odmtool.search.together import Together, shares_landmarks
from odmtool.search.validation import Data, folds
from odmtool.solvers import auto
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.engine import columns, room, shared, solve
from odmtool.solvers.engine.landmarks import Landmarks
from odmtool.solvers.newton import newton

RBF = Kernel("rbf", 0.3)


def problems_of(lambdas, m=120, n_folds=3, seed=0):
    """ODM with these lambdas on every fold, as columns and one by one."""
    X, y = examples(m, 5, seed)
    fold, u = folds(y.astype(int), n_folds, 0), np.random.default_rng(seed).uniform(0.2, 2, m)
    chosen = [(lambda_, k) for lambda_ in lambdas for k in range(n_folds)]
    rows_of_table = [odm(lambda_, 0.3, 0.2, float(m)) for lambda_, _ in chosen]
    signs = np.array([np.where(fold == k, 0, y) for k in range(n_folds)], np.int8)
    rows = np.array([k for _, k in chosen])
    together = columns.Columns(MarginLoss(*np.array(rows_of_table, float).T), signs, rows, u)
    kept = [np.flatnonzero(fold != k) for _, k in chosen]
    alone = [
        Problem(None, Gram(RBF, X[rows]), y[rows], u[rows], loss)
        for rows, loss in zip(kept, rows_of_table, strict=True)
    ]
    return X, together, alone, kept


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_are_solved_as_one_by_one(dtype):
    X, together, alone, _kept = problems_of([1.0, 2.0**8, 2.0**14])
    values, vectors = np.linalg.eigh(kernel_matrix(RBF, X, X))
    Z = (vectors * np.sqrt(np.maximum(values, 0))).astype(dtype)
    start = np.zeros((len(Z), together.count))
    W, reached, _steps = columns.solve(Z, together, start, 1e-6, Serial())
    assert reached.all()
    for w, row, problem in zip(W.T, together.row, alone, strict=True):
        best = newton.solve(problem, Stop(1e-10, 100))
        t = problem.y * (Z @ w)[together.signs[row] != 0]
        own = losses.scaled(problem.loss, problem.weight)
        primal = w @ w / 2 + losses.value(own, t).sum()
        assert primal == pytest.approx(best.primal, rel=1e-4)


def test_what_comes_no_closer_is_left_out(monkeypatch):
    """After three looks in which a gap is no smaller; what was nearest stays."""
    _X, together, *_ = problems_of([1.0], n_folds=2)
    gaps = iter([[4.0, 5.0], [2.0, 1e-9], [3.0], [2.0], [2.5], [1e-9]])

    class Looking:
        def __init__(self, _Z, _columns, W, _executor):
            self.W = W

        def look(self):
            gap = np.array(next(gaps))
            return gap, np.ones(len(gap))

        def take(self, which):
            self.W = self.W[:, which]

        def step(self, _accuracy):
            self.W = self.W + 1.0

    monkeypatch.setattr(columns, "_Newton", Looking)
    W, reached, steps = columns.solve(None, together, np.zeros((3, 2)), 1e-6, None)
    assert steps == 4 and reached.tolist() == [False, True]
    assert W.tolist() == [[1.0, 1.0]] * 3


def test_a_step_that_goes_too_far_is_shortened_to_where_the_slope_is_none():
    X, together, _alone, _kept = problems_of([2.0**4, 2.0**8])
    Z, start = X.toarray(), np.zeros((X.shape[1], together.count))
    state = columns._Newton(Z, together, start, Serial())
    half, scale = state.look()
    # At 0 the gradient is the examples' means with signs, and S the sum of the losses.
    assert half == pytest.approx((state.gradient**2).sum(axis=0) / 2)
    whole = columns.Block(together.loss, together.signs[together.row].T, together.weight[:, None])
    assert scale == pytest.approx(whole.values(0 * state.F).sum(axis=0))
    direction = -state.gradient
    lengths = state._lengths(direction, Z @ direction)
    there = columns._Newton(Z, together, lengths * direction, Serial())
    there.look()
    before, after = (np.abs((s.gradient * direction).sum(axis=0)) for s in (state, there))
    assert np.all(lengths < 1) and np.all(after < 1e-4 * before)


@pytest.mark.parametrize("seed", range(4))
def test_rows_far_out_leave_a_preconditioner(seed):
    """Sums in single precision round by more than I: the Hessian itself is not definite there."""
    random = np.random.default_rng(seed)
    Z = random.standard_normal((200, 40)).astype(np.float32)
    Z[:5] *= np.float32(1e5)
    Z[:, 20:] = Z[:, :20] + np.float32(1e-3) * Z[:, 20:]  # the features of a low rank kernel
    Y = np.where(random.standard_normal((3, 200)) > 0, 1.0, -1.0)
    together = columns.Columns.of(Y, np.ones(200), losses.odm(2.0**10, 0.3, 0.2, 200))
    start = np.zeros((40, 3))
    W, _reached, steps = columns.solve(Z, together, start, 1e-3, Serial())
    before, after = (columns._Newton(Z, together, V, Serial()).look()[0] for V in (start, W))
    assert steps > 1 and np.all(after < 1e-4 * before)


@pytest.mark.parametrize("m, most", [(2000, 900), (20_000, 3000)])
def test_as_many_landmarks_as_fit_into_the_memory(m, most):
    assert shared.most_landmarks(m, 1e12) == most and shared.most_landmarks(m, 0.0) == 200
    memory = shared.needed_bytes(m, 1e12) / 2
    r = shared.most_landmarks(m, memory)
    # Features twice, in single precision and for the sample in double; three square matrices.
    needed = [2 * n * (4 * m + 8 * min(m, 12_000)) + 24 * n * n for n in (r, r + 1)]
    assert 200 <= r < most and needed[0] <= 0.7 * memory < needed[1]
    assert shared.needed_bytes(m, memory) == needed[0]


def test_bounds_of_columns_are_confirmed(monkeypatch):
    """The judge finds no smaller gap, also where more and more landmarks are taken."""
    monkeypatch.setattr(shared, "_FIRST", 10)
    monkeypatch.setattr(shared, "_FEW", 1.0)
    X, together, alone, kept = problems_of([2.0**2, 2.0**10])
    engine = shared.Shared(RBF, X, 1e-3, 0, 1e9, Serial())
    found = engine.solve(together)
    assert found.converged.all() and found.failure == 0.0
    members = engine._basis.members
    for j, (problem, rows) in enumerate(zip(alone, kept, strict=True)):
        best = newton.solve(problem, Stop(1e-10, 100))
        f = found.F[rows, j]
        K = kernel_matrix(RBF, X, X[members])
        alpha = np.linalg.lstsq(K, found.F[:, j], rcond=None)[0]
        coef = np.zeros(len(found.F))
        coef[members] = alpha
        whole = kernel_matrix(RBF, X, X)
        assert whole[rows] @ coef == pytest.approx(f, abs=1e-6)
        norm = coef @ whole @ coef
        own = certify_kernel(
            whole[np.ix_(rows, rows)], problem.y, problem.weight, problem.loss, best.coef, best.eta
        )
        values = losses.value(losses.scaled(problem.loss, problem.weight), problem.y * f)
        primal = norm / 2 + values.sum()
        assert primal - own.primal <= found.gap[j] * primal + 1e-9


@pytest.mark.parametrize("limit", ["_LARGE", "_SAMPLE"])
def test_of_many_examples_some_are_drawn(limit, monkeypatch):
    monkeypatch.setattr(shared, limit, 80)
    monkeypatch.setattr(shared, "_DRAWN", 100_000)
    monkeypatch.setattr(shared.certificate, "free", lambda point, left: np.inf)
    X, together, alone, kept = problems_of([2.0**2])
    found = shared.Shared(RBF, X, 1e-2, 0, 1e9, Serial()).solve(together)
    assert found.converged.all()
    assert (found.failure > 0) == (limit == "_LARGE")
    for j, (problem, rows) in enumerate(zip(alone, kept, strict=True)):
        best = newton.solve(problem, Stop(1e-10, 100))
        assert found.F[rows, j] == pytest.approx(problem.y * problem.margins(best.coef), abs=0.1)


def plan_of(k, values, m=160, **machine):
    """A search whose folds share landmarks; small data that are taken for large."""
    data = Data(*clusters(k, m))
    machine = ODM(kernel="rbf", gamma=0.5, **machine)
    return SearchPlan(machine, grid(dict(kernel=("rbf",)) | values), data, folds(data.labels, 4, 0))


@pytest.fixture
def every_size_is_large(monkeypatch):
    monkeypatch.setattr("odmtool.solvers.auto._SMALL_GRAM", 50)
    monkeypatch.setattr(shared, "_FIRST", 20)


def table(rows):
    return [(row.setting, row.accuracy, tuple(row.scores), row.unconverged) for row in rows]


VALUES = dict(lambda_=(1.0, 2.0**6, 2.0**14), theta=(0.1, 0.5))


EXACTLY = dict(tolerance=1e-5)


@functools.cache
def found_exactly():
    """What the search finds, which several tests ask; with ``every_size_is_large``."""
    return list(search(plan_of(2, VALUES, **EXACTLY)))


def test_pairs_of_classes_are_trained_alone(every_size_is_large):
    plan = plan_of(3, VALUES, multiclass="ovo")
    assert not shares_landmarks(plan.machine, plan.data, plan.fold)


@pytest.mark.parametrize(
    ("k", "values", "machine"),
    [(2, VALUES, {}),
     (3, VALUES | dict(theta=(0.5,)),
      dict(class_weight={CLASSES[0]: 3.0}, multiclass="ovr"))],
)  # fmt: skip
def test_searches_are_those_of_fits_one_by_one(k, values, machine, every_size_is_large):
    plan = plan_of(k, values, **EXACTLY, **machine)
    assert shares_landmarks(plan.machine, plan.data, plan.fold)
    rows = found_exactly() if k == 2 else list(search(plan))
    assert table(rows) == table(search(plan, jobs=2))
    exact = search(plan._replace(machine=plan.machine.copy(solver="newton")))
    for ours, theirs in zip(rows, exact, strict=True):
        assert ours.unconverged == 0
        assert ours.accuracy == pytest.approx(theirs.accuracy, abs=1.5 / len(plan.fold))


def test_linear_machines_of_the_same_search_are_trained_as_ever(every_size_is_large):
    values = dict(kernel=("rbf", "linear"), lambda_=(1.0, 2.0**6))
    rows = list(search(plan_of(2, values), jobs=2))
    alone = [list(search(plan_of(2, values | dict(kernel=(name,))))) for name in values["kernel"]]
    assert table(rows) == table(alone[0] + alone[1])


def test_an_interrupted_search_goes_on_to_the_same_table(tmp_path, every_size_is_large):
    plan, path = plan_of(2, VALUES), str(tmp_path / "journal")
    open_journal(path, {})
    whole = table(search(plan, journal=path))
    finished = open_journal(path, {})
    assert len(finished) == len(plan.settings) * 4
    again = search(plan, journal=path, finished=finished[:7])
    assert table(again) == whole
    written = [fit[:-1] for fit in open_journal(path, {})]
    assert sorted(written) == sorted(fit[:-1] for fit in finished + finished[7:])


def test_settings_that_share_landmarks_count_until_the_deadline(
    tmp_path, monkeypatch, every_size_is_large
):
    """Those of one lambda are found together; the rest goes on from the journal.

    Landmarks do not grow after the deadline, and nothing is made for another kernel.
    """
    plan, path = plan_of(2, VALUES, 800, tolerance=1e-2), str(tmp_path / "journal")
    found = shared.Shared.solve
    whole, calls = table(search(plan)), []
    open_journal(path, {})

    def ends(self, problems, start=None):
        calls.append(problems.count)
        if len(calls) == 2:
            limit.end()
        return found(self, problems, start)

    kernels = Together.__init__
    begun = []
    monkeypatch.setattr(Together, "__init__", lambda *a: begun.append(a) or kernels(*a))
    monkeypatch.setattr(shared.Shared, "solve", ends)
    with deadline.time_limit(None) as limit:
        more = [setting | {"gamma": 1.0} for setting in plan.settings]
        both = plan._replace(settings=plan.settings + more)
        rows = table(search(both, journal=path))
    assert len(begun) == 1 and len(calls) == 2
    grow, grown = Landmarks.grow, []
    monkeypatch.setattr(Landmarks, "grow", lambda self, r: grown.append(r) or grow(self, r))
    hard = plan._replace(machine=plan.machine.copy(tolerance=1e-9, gamma=5.0))
    with deadline.time_limit(None) as limit:
        calls[:] = [0]
        assert table(search(hard)) == []
    assert grown[0] == shared._FIRST and max(grown) < 50
    assert rows == [row for row in whole if row[0]["lambda_"] == 1.0]
    finished = open_journal(path, {})
    assert len(finished) == 2 * 4
    assert table(search(plan, finished=finished)) == whole


def test_a_search_by_newton_goes_on_from_the_starts_that_it_had(tmp_path):
    values = VALUES | dict(lambda_=(2.0**8, 2.0**10, 2.0**12, 2.0**14))
    plan, path = plan_of(2, values, solver="newton", max_iter=2), str(tmp_path / "journal")
    open_journal(path, {})
    whole = [trial.gap for trial in search(plan, journal=path)]
    finished = open_journal(path, {})
    for count in (1, len(finished) // 2):
        again = search(plan, journal=path, finished=finished[:count])
        assert [trial.gap for trial in again] == whole


@pytest.mark.parametrize("many", [8, 6])
@pytest.mark.parametrize("fails", [False, True])
def test_what_landmarks_do_not_bring_to_the_tolerance_others_do(
    many, fails, monkeypatch, every_size_is_large
):
    """All folds of a setting together, or each alone; that of many settings at once."""
    found, columns_of, alone = shared.Shared.solve, solve.solve_columns, []
    plan, expected = plan_of(2, VALUES, **EXACTLY), table(found_exactly())

    def none_converged(self, problems, start=None):
        result = found(self, problems, start)
        return result._replace(converged=np.zeros(problems.count, dtype=bool))

    def side_by_side(problems, *rest, **named):
        alone.append(problems.count)
        solutions = columns_of(problems, *rest, **named)
        return [one._replace(converged=one.converged and not fails) for one in solutions]

    monkeypatch.setattr(shared.Shared, "solve", none_converged)
    monkeypatch.setattr("odmtool.search.together._MANY", many)
    monkeypatch.setattr(solve, "solve_columns", side_by_side)
    assert [row[:2] for row in table(search(plan))] == [
        (setting, pytest.approx(accuracy, abs=0.01)) for setting, accuracy, *_ in expected
    ]
    # What is left then is for Newton's method, and not for the same steps once more.
    assert alone == ([4] * 6 if many == 8 else [])


@pytest.mark.parametrize("reason", ["no room", "no time"])
def test_where_newton_has_no_room_or_no_time_what_is_found_will_do(
    reason, monkeypatch, every_size_is_large
):
    """No fit is begun again; the sigmoids of a machine have values to be fitted on.

    What a search has found after its time is not a row.
    """
    plan, columns_of = plan_of(2, dict(lambda_=(2.0**6,)), tolerance=1e-5), solve.solve_columns
    machine = plan.machine.copy(lambda_=2.0**6)
    (expected,), sigmoid = search(plan), calibration.fit_with_probabilities(machine, plan.data)

    def side_by_side(problems, *rest, **named):
        solutions = columns_of(problems, *rest, **named)
        if reason == "no time" and problems.count > 1:
            limit.end()
        return [one._replace(converged=False) for one in solutions]

    monkeypatch.setattr(solve, "solve_columns", side_by_side)
    for module in ("calibration", "search"):
        monkeypatch.setattr(f"odmtool.search.{module}.evaluate_chain", None)
    if reason == "no room":
        monkeypatch.setattr("odmtool.search.together._LARGEST_MATRIX", 0)
    with deadline.time_limit(None) as limit:
        rows = list(search(plan))
    assert len(rows) == (reason == "no room")
    for found in rows:
        assert found.unconverged == 4 and found.accuracy == pytest.approx(expected.accuracy)
    with deadline.time_limit(None) as limit:
        found = calibration.fit_with_probabilities(machine, plan.data)
    assert found.unconverged == 5
    np.testing.assert_allclose(found.A, sigmoid.A, rtol=1e-6)


def test_one_setting_is_solved_on_all_folds_at_once(monkeypatch, every_size_is_large):
    """No landmarks are chosen that only many settings are worth."""
    plan = plan_of(3, dict(lambda_=(2.0**6,)), multiclass="ovr")
    exact = list(search(plan._replace(machine=plan.machine.copy(solver="newton"))))
    monkeypatch.setattr(shared.Shared, "__init__", None)
    (ours,), ((theirs),) = list(search(plan)), exact
    assert ours.unconverged == 0 and ours.gap <= plan.machine.tolerance
    assert ours.accuracy == pytest.approx(theirs.accuracy, abs=1.5 / len(plan.fold))
    assert table(search(plan)) == table(search(plan, jobs=2))


@pytest.mark.parametrize("tolerance", [1e-2, 1e-6])
@pytest.mark.parametrize("most", [5, 60])
@pytest.mark.parametrize("has_copies", [False, True])
def test_gaps_of_problems_that_leave_examples_out(tolerance, most, has_copies, monkeypatch):
    """The judge confirms them, also where few landmarks are there and a copy is left out."""
    monkeypatch.setattr(room, "most_landmarks", lambda m, *_rest: min(m, most))
    X, together, alone, kept = problems_of([2.0**2, 2.0**10])
    if has_copies:
        copies = np.r_[np.arange(100), np.arange(20)]
        X, together = X[copies], together.rows(copies)
    gram, ways = Gram(RBF, X), set()
    whole, stop = kernel_matrix(RBF, X, X), Stop(tolerance, 100)
    found = solve.solve_columns(together, gram, stop, seed=1)
    for j, solution in enumerate(found):
        ways.add(solution.solver)
        signs = together.signs[together.row[j]].astype(float)
        rows = np.flatnonzero(signs)
        a = solution.coef * np.where(signs == 0, 1, signs)
        loss = MarginLoss(*(float(field[j]) for field in together.loss))
        u, K = together.weight[rows], whole[np.ix_(rows, rows)]
        problem = Problem(None, Gram.of_matrix(RBF, K), signs[rows], u, loss)
        best = newton.solve(problem, Stop(1e-10, 100))
        own = certify_kernel(K, problem.y, u, loss, best.coef, best.eta)
        values = losses.value(losses.scaled(loss, u), problem.y * (whole @ a)[rows])
        primal = a @ whole @ a / 2 + values.sum()
        assert solution.converged and solution.gap <= tolerance
        assert primal == pytest.approx(solution.primal, rel=1e-7)
        assert own.primal - 1e-9 * primal <= primal <= own.primal + solution.gap * primal + 1e-9
        assert not solution.eta[signs == 0].any()
        dual = certify_kernel(K, problem.y, u, loss, best.coef, solution.eta[rows]).dual
        assert dual <= own.primal + 1e-9
    is_enough = most == 60 and tolerance == 1e-2
    assert ways == ({"landmarks"} if is_enough else {"landmarks, then newton"})


@pytest.mark.parametrize("lambda_", [2.0**4, 2.0**16])
def test_a_column_alone_takes_the_steps_of_its_examples(lambda_):
    """What a fold leaves out has neither a loss nor a slope there."""
    X, together, _alone, kept = problems_of([lambda_])
    Z, start = X.toarray(), np.zeros(X.shape[1])
    w, steps, _space = columns._alone(Z, together.take([0]), start, 1e-12, Serial())
    rows = kept[0]
    own = together.take([0])._replace(
        signs=together.signs[:, rows], weight=together.weight[rows]
    )  # fmt: skip
    best, least, _space = columns._alone(Z[rows], own, start, 1e-12, Serial())
    assert steps == least
    np.testing.assert_allclose(w, best, atol=1e-6)


def test_a_column_that_is_solved_stays_where_it_is():
    """Its direction is 0, whatever those of the others are."""
    X, together, _alone, _kept = problems_of([2.0**4, 2.0**8])
    state = columns._Newton(X.toarray(), together, np.zeros((X.shape[1], together.count)), Serial())
    state.look()
    state.gradient[:, 1] = 0.0
    with np.errstate(all="raise", under="ignore"):
        direction, change = state.directions(np.full(together.count, 1e-9))
    assert not direction[:, 1].any() and not change[:, 1].any()
    assert np.all(np.abs(np.delete(direction, 1, axis=1)).sum(axis=0) > 0)


@pytest.mark.parametrize("rows", [120, 3])
def test_a_newton_step_of_every_column_is_its_own(monkeypatch, rows):
    """Gradients, directions and lengths, beside those of one column after the other."""
    X, together, _alone, _kept = problems_of([2.0**4, 2.0**8, 2.0**12])
    # Examples are taken so many at a time.
    monkeypatch.setattr(columns, "_FEWEST", rows)
    monkeypatch.setattr(columns, "_TASKS", 120 // rows)
    Z = X.toarray()
    W = 0.3 * np.random.default_rng(1).normal(size=(Z.shape[1], together.count))
    state = columns._Newton(Z, together, W, Serial())
    gap, scale = state.look()
    direction, change = state.directions(np.full(together.count, 1e-9))
    assert change == pytest.approx(Z @ direction, abs=1e-9)
    lengths, far = state._lengths(direction, change), 40.0 * direction
    shorter = state._lengths(far, Z @ far)
    for j, w in enumerate(W.T):
        used = together.signs[together.row[j]] != 0
        loss = MarginLoss(*(float(field[j]) for field in together.loss))
        y = together.signs[together.row[j]][used].astype(float)
        yZ, own = y[:, None] * Z[used], losses.scaled(loss, together.weight[used])
        t = yZ @ w
        gradient = w + yZ.T @ losses.derivative(own, t)
        assert state.gradient[:, j] == pytest.approx(gradient, rel=1e-10, abs=1e-10)
        assert gap[j] == pytest.approx(gradient @ gradient / 2)
        assert scale[j] == pytest.approx(w @ w / 2 + losses.value(own, t).sum())
        d, H = direction[:, j], np.eye(len(w)) + yZ.T @ (losses.slope(own, t)[:, None] * yZ)
        assert d == pytest.approx(np.linalg.solve(H, -gradient), rel=1e-6, abs=1e-9)
        for length, step in ((lengths[j], d), (shorter[j], far[:, j])):
            products = w @ step, step @ step
            expected = newton.step_length(own, t, yZ @ step, products)
            assert length == pytest.approx(expected, abs=2.0**-24)
    assert np.all(shorter < 0.5)


@pytest.mark.parametrize("fails", [(), (1, 3)])
@pytest.mark.parametrize("k", [2, 3])
def test_sigmoids_from_folds_side_by_side(k, fails, monkeypatch, every_size_is_large):
    """As from machines that are trained on the folds alone; those that fail are. No matrix."""
    X, labels = clusters(k, 200)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 200)
    weight[:7] = 0.0
    data = Data(X, labels, weight)
    machine = ODM(kernel="rbf", gamma=0.5, multiclass="ovr", tolerance=1e-7, lambda_=2.0**6)
    columns_of = solve.solve_columns

    def side_by_side(problems, *rest, **named):
        found = columns_of(problems, *rest, **named)
        for fold in fails if len(found) >= 5 else ():  # the model itself has fewer problems
            found[fold * (len(found) // 5)] = found[fold]._replace(converged=False)
        return found

    ours, theirs = machine.copy(), machine.copy(solver="newton")
    with monkeypatch.context() as patched:
        patched.setattr(auto, "_MIDDLING", 0)
        patched.setattr(solve, "solve_columns", side_by_side)
        if not fails:
            patched.setattr(Gram, "matrix", None)
            patched.setattr(calibration, "evaluate_chain", None)
        found = calibration.fit_with_probabilities(ours, data)
    expected = calibration.fit_with_probabilities(theirs, data)
    assert found.unconverged == expected.unconverged == 0
    np.testing.assert_allclose(found.A, expected.A, rtol=1e-3)
    np.testing.assert_allclose(found.B, expected.B, atol=1e-3)
    # Of several settings each gets what it gets alone.
    settings, rows = [{"lambda_": 1.0}, {}], np.arange(200)
    gram = machine.gram(X)
    both = calibration.calibrate_chain(machine, settings, data, rows, gram)
    (alone,) = calibration.calibrate_chain(machine, settings[1:], data, rows, gram)
    assert np.array_equal(both[1].A, alone.A) and np.array_equal(both[1].B, alone.B)
    assert not np.array_equal(both[0].A, alone.A)
