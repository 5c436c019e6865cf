"""Kernel blocks against their definitions; the row cache against the whole matrix."""

import numpy as np
import pytest
from problems import KERNELS, examples, precomputed_rows
from scipy import sparse

from odmtool.core import kernel_table, kernels
from odmtool.core.csr import CSR
from odmtool.core.gram import Gram, RowCache
from odmtool.core.kernels import Kernel
from odmtool.errors import UsageError
from odmtool.judge import binary as objective

NAMED = [*(Kernel(name, 0.3, 0.2, 3) for name in kernel_table.KERNELS if name != "precomputed"),
         Kernel("poly", 0.3, -0.5, 0)]  # fmt: skip


def test_the_judge_knows_every_kernel():
    assert objective.KERNELS.keys() == kernel_table.KERNELS.keys()


def test_the_judges_definitions_are_the_textbooks():
    u, v = np.array([[1.0, 2.0, 0.5]]), np.array([[-0.5, 1.0, 3.0]])
    for kernel, value in [
        (Kernel("linear"), 3.0), (Kernel("poly", 0.5, 2.0), 3.5**3),
        (Kernel("rbf", 0.2), np.exp(-0.2 * 9.5)), (Kernel("sigmoid", 0.5, -1.0), np.tanh(0.5)),
    ]:  # fmt: skip
        biased = objective.kernel_matrix(kernel._replace(bias=2.0), u, v)
        assert objective.kernel_matrix(kernel, u, v).item() == pytest.approx(value, rel=1e-14)
        assert biased.item() == pytest.approx(value + 4)


@pytest.mark.parametrize("kernel", NAMED, ids=str)
def test_kernels_said_to_be_positive_semidefinite_are(kernel):
    X, _ = examples()
    if kernel.is_positive_semidefinite:
        K = objective.kernel_matrix(kernel, X, X)
        assert np.linalg.eigvalsh(K)[0] > -1e-12 * len(K)


@pytest.mark.parametrize("kernel", NAMED, ids=str)
def test_bounds_of_rounding_hold_and_are_not_much_too_large(kernel):
    size, share = 2.0, 1e-7
    z = np.linspace(0.0 if kernel.row.of == kernel_table.DISTANCES else -size, size, 101)
    values, up, down = (
        kernel.row.values(kernel, z + moved, np) for moved in (0, share * size, -share * size)
    )
    off = np.maximum(np.abs(up - values), np.abs(down - values))
    relative, absolute = kernel.row.rounding(kernel, size, share, np)
    bound = relative * np.abs(values) + absolute
    assert np.all(off <= bound + 1e-14) and bound.max() <= 2 * off.max() + 1e-14
    least = 0.0 if kernel.name == "linear" else 2.0**-52
    assert least <= max(kernel.row.rounding(kernel, size, 0.0, np)) < 1e-14


def test_an_unknown_kernel_is_refused_wherever_a_kernel_is_taken():
    from odmtool.io.model_write import write_model
    from odmtool.machines import MACHINES
    from odmtool.models.kernel import KernelModel
    from odmtool.models.rows import KernelRows
    from odmtool.rows import partition, tiles
    from odmtool.search.search import grid
    from odmtool.solvers.large import parts

    # Past the check of Kernel itself.
    unknown, X = Kernel("linear")._replace(name="magic"), examples()[0]
    dense = X.toarray()
    model = KernelModel([1, -1], unknown, X[:2], np.ones((2, 1)), np.zeros(1), [1, 1])
    calls = [
        lambda: Kernel("magic"),
        lambda: unknown.is_positive_semidefinite,
        lambda: kernel_table.row_of("magic"),
        lambda: kernels.block(unknown, X, X),
        lambda: kernels.gram(unknown, dense),
        lambda: kernels.diagonal(unknown, X),
        lambda: Gram(unknown, X),
        lambda: KernelRows(unknown, X),
        lambda: model.predict(X),
        lambda: model.is_precomputed,
        lambda: write_model("-", model),
        lambda: objective.kernel_matrix(unknown, dense, dense),
        lambda: tiles.tile_values(unknown, dense, dense, True),
        lambda: partition.landmarks(unknown, X, 3),
        lambda: partition.strata(unknown, X, X[:3]),
        lambda: parts.single_is_enough(unknown, 1.0, 1e-3),
        lambda: grid({"kernel": ("magic",)}),
        *(lambda machine=machine: machine(kernel="magic").fit(X, np.arange(60) % 2)
          for machine in MACHINES.values()),
        lambda: MACHINES["odm"](kernel="magic").gram(X),
        lambda: MACHINES["odm"](kernel="magic").kernel_for(3),
    ]  # fmt: skip
    for position, call in enumerate(calls):
        with pytest.raises(UsageError, match="'magic'"):
            call()
            pytest.fail(f"call {position} took an unknown kernel")


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("kernel", NAMED, ids=str)
def test_block_is_the_definition(kernel, dense):
    X, _ = examples()
    A, B = X[:20], X[15:50]
    expected = objective.kernel_matrix(kernel, A, B)
    if dense:
        A, B = A.toarray(), B.toarray()
    assert kernels.block(kernel, A, B) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    raised = kernels.block(kernel._replace(bias=2.0), A, B)
    assert raised == pytest.approx(expected + 4, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kernel", [*NAMED, KERNELS["rbf with bias"]], ids=str)
def test_gram_and_diagonal(kernel):
    X, _ = examples()
    K = kernels.gram(kernel, X)
    assert np.array_equal(K, K.T)
    assert np.diagonal(K) == pytest.approx(kernels.diagonal(kernel, X), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", [*NAMED, KERNELS["rbf with bias"]], ids=str)
def test_gram_of_several_tiles_is_symmetric_and_the_definition(kernel, precision, monkeypatch):
    monkeypatch.setattr(kernels, "_TILE", 16)
    X = examples(m=50)[0].toarray().astype(precision)
    K = kernels.gram(kernel, X)
    assert K.dtype == precision and np.array_equal(K, K.T)
    rel = 1e-12 if precision == np.float64 else 1e-4
    assert pytest.approx(objective.kernel_matrix(kernel, X, X), rel=rel, abs=rel) == K


def test_very_sparse_rows_stay_sparse_and_agree():
    X = sparse.random(300, 5000, density=0.001, random_state=0, format="csr")
    prepared = kernels.prepare(X)
    assert sparse.issparse(prepared) and prepared.shape[1] == len(np.unique(X.indices)) < 5000
    expected = objective.kernel_matrix(Kernel("rbf", 0.5), X, X[:7])
    for rows in (X, prepared):
        K = kernels.block(Kernel("rbf", 0.5), rows, rows[:7])
        assert pytest.approx(expected) == K
    assert isinstance(kernels.prepare(X[:20]), np.ndarray)
    assert sparse.issparse(kernels.prepare(X[:20], limit=100))


def test_far_away_rows_give_exact_values():
    X = np.array([[1e8, 1.0], [1e8, 1.0], [0.0, 0.0]])
    K = kernels.gram(Kernel("rbf", 1.0), X)
    assert np.array_equal(K, [[1, 1, 0], [1, 1, 0], [0, 0, 1]])


def test_no_distance_is_below_zero():
    X = 1e3 + 1e-6 * np.random.default_rng(0).standard_normal((50, 4))
    assert kernels.block(Kernel("rbf", 1.0), X, X.copy()).max() <= 1


def test_the_mean_distance_is_that_of_all_pairs():
    X = sparse.csr_matrix([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]])
    assert kernels.mean_distance(X) == pytest.approx((5 + 5 + 0) / 3)


def test_precomputed_looks_values_up():
    X, _ = examples(m=12)
    rows = precomputed_rows(X)
    K = rows.toarray()[:, 1:]
    chosen = [7, 2, 11]
    kernel = Kernel("precomputed")
    assert np.array_equal(kernels.block(kernel, rows[:5], rows[chosen]), K[:5][:, chosen])
    assert np.array_equal(kernels.diagonal(kernel, rows), np.ones(12))
    assert np.array_equal(kernels.serial_numbers(rows), np.arange(1, 13))


def test_subset_of_a_gram():
    X, _ = examples(m=15)
    whole = Gram(Kernel("rbf", 0.4), X)
    rows = np.array([3, 14, 1])
    before = whole.subset(rows).matrix()
    K = whole.matrix()
    assert whole.subset(rows).matrix() == pytest.approx(before)
    assert np.array_equal(whole.subset(rows).matrix(), K[np.ix_(rows, rows)])


@pytest.mark.parametrize("capacity", [1, 3, 8, 15])
def test_row_cache_always_has_what_was_fetched(capacity):
    X, _ = examples(m=15)
    gram = Gram(Kernel("rbf", 0.4), X, memory=8 * 15 * capacity)
    K = kernels.gram(Kernel("rbf", 0.4), X)
    cache = RowCache(gram)
    assert cache.capacity == capacity
    generator = np.random.default_rng(0)
    for _ in range(60):
        wanted = generator.permutation(15)[: generator.integers(1, capacity + 1)]
        cache.fetch(wanted)
        assert np.all(cache.slot[wanted] >= 0)
        present = np.flatnonzero(cache.slot >= 0)
        assert len(set(cache.slot[present])) == len(present)
        assert cache.rows[cache.slot[present]] == pytest.approx(K[present])


FORMS = [np.asarray, sparse.csr_matrix, lambda X: CSR.of(sparse.csr_matrix(X))]


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_apart_where_features_are_not_scaled(form):
    X, _ = examples(m=700)
    X = X.toarray() if sparse.issparse(X) else X
    X = X / np.abs(X).max()
    rbf = Kernel("rbf", 1 / X.shape[1])
    assert not kernels.are_apart(rbf, form(X))
    assert kernels.are_apart(rbf, form(1000 * X))
    assert kernels.are_apart(rbf._replace(bias=1.0), form(1000 * X))
    assert kernels.are_apart(rbf, form(-1000 * np.abs(X)))
    # With a width that suits them, or a kernel of inner products, or in a usual range, all is well.
    assert not kernels.are_apart(rbf._replace(gamma=1e-6), form(1000 * X))
    assert not kernels.are_apart(Kernel("linear"), form(1000 * X))
    assert not kernels.are_apart(rbf._replace(gamma=1e6), form(X))
    # What counts is the nearest, of most rows: every one here has its like somewhere.
    assert not kernels.are_apart(rbf, form(1000 * np.repeat(X, 2, axis=0)))
    assert kernels.are_apart(rbf, form(1000 * np.vstack([X, X[:200]])))
    X[::10] *= 1000
    assert not kernels.are_apart(rbf, form(X))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("offset", [0.0, 1e7])
@pytest.mark.parametrize("room", [2**21, 64])
def test_the_variances_of_the_features(form, offset, room, monkeypatch):
    monkeypatch.setattr(kernels, "_BLOCK_BYTES", room)
    random = np.random.default_rng(0)
    X = np.where(random.random((50, 7)) < 0.4, random.normal(size=(50, 7)), 0.0)
    X[:, 2] += offset  # its squares leave no digit of the variance
    X[:, 5] = 0
    X[:, 6] = -3
    weight = random.integers(0, 4, size=50).astype(float)
    mean = np.average(X, axis=0, weights=weight)
    assert kernels.variances(form(X)) == pytest.approx(X.var(axis=0), rel=1e-7)
    weighted = np.average((X - mean) ** 2, axis=0, weights=weight)
    assert kernels.variances(form(X), weight) == pytest.approx(weighted, rel=1e-7)
    assert not kernels.variances(form(np.full((3, 2), 1 / 3))).any()


def test_of_a_huge_index_no_column_is_made():
    X = CSR(np.array([1.0, 3.0]), np.array([5, 2**31 - 2]), np.array([0, 1, 2]), (2, 2**31 - 1))
    assert np.array_equal(kernels.variances(X), [0.25, 2.25])


def test_of_wide_rows_few_are_looked_at(monkeypatch):
    looked_at, block = [], kernels.block
    monkeypatch.setattr(kernels, "block", lambda kernel, A, B: (
        looked_at.append((A.shape[0], B.shape[0])) or block(kernel, A, B)
    ))  # fmt: skip
    X = np.random.default_rng(0).normal(size=(6000, 30)) * 1000
    for values in (2**20, 30 * 600, 30):
        monkeypatch.setattr(kernels, "_VALUES", values)
        assert kernels.are_apart(Kernel("rbf", 0.1), X)
    assert looked_at == [(30, 3000), (30, 600), (30, 30)]


@pytest.mark.parametrize("m", [0, 1])
def test_a_row_that_is_alone_is_not_apart(m):
    assert not kernels.are_apart(Kernel("rbf", 1.0), np.full((m, 2), 100.0))
    assert kernels.are_apart(Kernel("rbf", 1.0), np.array([[100.0], [200.0]]))


def test_what_is_known_of_the_kernels():
    """LIBSVM's numbers, and a power of degree 0, which rounds by its own operations only."""
    rows = kernel_table.KERNELS.values()
    assert [(row.name, row.number) for row in rows] == [
        ("linear", 0), ("poly", 1), ("rbf", 2), ("sigmoid", 3), ("precomputed", 4),
    ]  # fmt: skip
    assert [row.name for row in rows if row.factors] == ["rbf"]
    assert [row.name for row in rows if row.is_polynomial] == ["linear", "poly"]
    for kernel, is_definite in (
        (Kernel("poly", 0.0, 0.0), True), (Kernel("poly", 0.5, -0.1), False),
        (Kernel("poly", -0.5, 0.1), False), (Kernel("sigmoid", 0.5, 0.1), False),
        (Kernel("rbf", 0.5), True), (Kernel("linear"), True), (Kernel("precomputed"), False),
    ):  # fmt: skip
        assert kernel.is_positive_semidefinite is is_definite
    for gamma in (0.0, 0.5):
        kernel = Kernel("poly", gamma, 0.0, 0)
        assert kernel.row.rounding(kernel, 2.0, 1e-7, np) == (0.0, 4 * 2.0**-52)
    cubed = Kernel("poly", -0.5, 2.0, 3)
    off = 1e-7 * 3.0
    expected = 3 * (3.0 + off) ** 2 * off + 10 * 2.0**-52 * 27.0
    assert cubed.row.rounding(cubed, 2.0, 1e-7, np) == (0.0, pytest.approx(expected, rel=1e-12))
    rbf = Kernel("rbf", 0.5)
    relative, absolute = rbf.row.rounding(rbf, 4.0, 0.25, np)
    assert relative == pytest.approx(np.expm1(0.5), rel=1e-12)
    assert absolute == pytest.approx(2 * np.exp(0.5 - 700), rel=1e-12)
    assert rbf.row.rounding(rbf, 1e9, 1.0, np)[1] == pytest.approx(2.0)
    sigmoid = Kernel("sigmoid", -0.5, 2.0)
    expected = 1e-7 * 3.0 + 8 * 2.0**-52
    assert sigmoid.row.rounding(sigmoid, 2.0, 1e-7, np) == (0.0, pytest.approx(expected))
    linear = Kernel("linear")
    assert linear.row.rounding(linear, 2.0, 0.25, np) == (0.0, 0.5)


@pytest.mark.parametrize(
    "form", [np.array, sparse.csr_matrix, lambda X: CSR.of(sparse.csr_matrix(X))]
)
def test_a_mean_is_taken_off_copies_only(form):
    values = np.random.default_rng(3).normal(5.0, 1.0, (9, 4))
    X, rows = form(values), np.array([1, 2, 5])
    whole = Gram(Kernel("rbf", 0.5), X)
    kept = whole.X.copy()
    part = whole.subset(rows)
    np.testing.assert_array_equal(X if form is np.array else X.toarray(), values)
    np.testing.assert_array_equal(whole.X, kept)
    assert np.abs(part.X.mean(axis=0)).max() < 1e-15
    np.testing.assert_allclose(part.matrix(), whole.matrix()[np.ix_(rows, rows)], rtol=1e-12)
