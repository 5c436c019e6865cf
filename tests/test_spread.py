"""Rows in pieces that an executor keeps stand for one matrix: the same models from them."""

import numpy as np
import pytest
from scipy import sparse

from odmtool.core import kernels
from odmtool.core.kernels import Kernel
from odmtool.errors import DataError, FileError, UsageError
from odmtool.io.several import read_several
from odmtool.io.svmlight import read_svmlight
from odmtool.machines import L1SVM, ODM
from odmtool.places.place import Source, TrainingData
from odmtool.places.workers import Workers
from odmtool.rows import spread
from odmtool.rows.executor import Serial, Threads
from odmtool.rows.spread import SpreadRows, row_bytes
from odmtool.solvers.settings import Settings


@pytest.fixture
def files(heart, tmp_path):
    """heart_scale in three files, the last with a comment, and the pattern of their names."""
    with open(heart) as stream:
        lines = stream.readlines()
    for k, (a, b) in enumerate([(0, 100), (100, 130), (130, len(lines))]):
        (tmp_path / f"x-{k}.svm").write_text("".join(lines[a:b]))
    with open(tmp_path / "x-2.svm", "a") as stream:
        stream.write("# the end\n")
    return str(tmp_path / "x-*.svm")


class Data:
    """Rows, as the workers of an executor read them, and what is known of them."""

    def __init__(self, names, executor=None):
        executor = executor or Serial()
        self.found = read_several(names, executor)
        self.labels, self.fingerprint = self.found.labels, self.found.fingerprint
        self.X = SpreadRows(*self.found[:4], executor)


@pytest.fixture
def data(files):
    return Data(files)


PLACE = Workers(Source("x-*.svm"), "tcp://nowhere:8786")


def fit(machine, data, labels=None, weight=None):
    """A machine trained on rows that have been read."""
    labels = data.labels if labels is None else labels
    classes = frozenset(labels.tolist())
    read = TrainingData(data.X, labels, data.fingerprint, 0, classes, classes, weight)
    PLACE.fit(machine, read, PLACE.plan(machine, read))
    return machine


def test_several_files_are_one(files, data, heart, tmp_path):
    whole = read_svmlight(heart)
    assert data.X.shape == whole.X.shape and data.X.nnz == whole.X.nnz
    assert np.array_equal(data.labels, whole.labels)
    assert data.found.skipped == 1 and data.found.sizes == [100, 30, 140]
    rows = np.array([269, 0, 131, 99, 100, 5, 5])
    assert np.array_equal(data.X[rows].toarray(), whole.X[rows].toarray())
    assert np.array_equal(data.X.part(rows).toarray(), whole.X[rows].toarray())
    thin = data.X.rows_with(np.array([7, 120, 200]))
    expected = sparse.lil_matrix(whole.X.shape)
    expected[[7, 120, 200]] = whole.X[[7, 120, 200]]
    assert (thin != expected.tocsr()).nnz == 0
    named = ",".join(str(tmp_path / f"x-{k}.svm") for k in range(3))
    assert Data(named, Threads(2)).fingerprint == data.fingerprint
    turned = ",".join(str(tmp_path / f"x-{k}.svm") for k in (1, 0, 2))
    assert Data(turned).fingerprint != data.fingerprint


def test_files_without_an_example_are_left_out(files, data, tmp_path):
    (tmp_path / "x-1a.svm").write_text("")
    (tmp_path / "x-3.svm").write_text("# nothing\n\n")
    again = Data(files)
    assert again.found.sizes == data.found.sizes and again.found.empty == 2
    assert again.fingerprint == data.fingerprint
    assert np.array_equal(again.labels, data.labels)
    with pytest.raises(DataError, match="x-1a.svm: the file is empty"):
        Data(f"{tmp_path}/x-1a.svm,{tmp_path}/x-3.svm")


def test_the_width_is_that_of_the_widest_file(files, tmp_path):
    (tmp_path / "x-1.svm").write_text("1 40:2\n")
    found = Data(files).X
    assert found.shape[1] == 40 and found[np.arange(3)].shape[1] == 40


@pytest.mark.parametrize("bias, more", [(-1.0, 0), (0.0, 1), (0.5, 1)])
def test_the_constant_feature_is_the_last_column(data, bias, more):
    """Of 0, too, so that the model has a place for it."""
    found, width = spread.with_constant_feature(data.X, bias), data.X.shape[1]
    assert found.shape[1] == width + more
    assert (found[np.arange(3)].toarray()[:, width:] == bias).all()


def test_rows_in_single_precision(data):
    some = np.array([5, 120, 201, 0])
    found = data.X.astype(np.float32)[some]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), data.X[some].toarray().astype(np.float32))


@pytest.mark.parametrize("options", [
    {"solver": "dsvrg"}, {"solver": "dsvrg", "bias": 1.0}, {"solver": "sodm"},
    {"solver": "sodm", "kernel": "rbf"}, {"solver": "sodm", "kernel": "poly", "bias": 0.5},
    {"solver": "nystrom", "kernel": "rbf"}, {"solver": "sodm", "settings": Settings(partitions=1)},
    {"solver": "sodm", "kernel": "rbf", "settings": Settings(partitions=1)},
], ids=str)  # fmt: skip
def test_the_model_is_that_of_one_file(data, heart, options):
    """With tolerances so small that the model is the optimum, however it is reached."""
    options = {"settings": Settings(partitions=4, landmarks=20), "tolerance": 1e-11,
               "lambda_": 2.0**4, "max_iter": 20000} | options  # fmt: skip
    whole = read_svmlight(heart)
    here = ODM(**options).fit(whole.X, whole.labels)
    there = fit(ODM(**options), data)
    values = [machine.model_.decision_values(whole.X) for machine in (here, there)]
    assert here.solution_.converged and there.solution_.converged
    np.testing.assert_allclose(values[0], values[1], rtol=1e-3, atol=1e-4)
    assert here.solution_.primal == pytest.approx(there.solution_.primal, rel=1e-9)
    assert here.solution_.support_count == there.solution_.support_count


def test_a_loss_with_a_jump_takes_nystrom_to_the_features(data, heart):
    options = {"solver": "nystrom", "kernel": "rbf", "lambda_": 2.0**4, "tolerance": 1e-8,
               "settings": Settings(landmarks=20)}  # fmt: skip
    whole = read_svmlight(heart)
    here = L1SVM(**options).fit(whole.X, whole.labels)
    there = fit(L1SVM(**options), data)
    assert here.solution_.primal == pytest.approx(there.solution_.primal, rel=1e-7)


def test_one_against_the_rest_on_spread_rows(data, heart):
    whole, labels = read_svmlight(heart), data.labels.copy()
    labels[::3] = 7
    options = {"solver": "dsvrg", "tolerance": 1e-10, "settings": Settings(partitions=4),
               "lambda_": 4.0}  # fmt: skip
    here = ODM(**options).fit(whole.X, labels)
    there = fit(ODM(**options), data, labels)
    assert np.array_equal(here.predict(whole.X), there.predict(whole.X))
    assert here.classes_ == there.classes_ and len(here.classes_) == 3


def test_the_first_wrong_file_is_named(files, tmp_path):
    (tmp_path / "x-1.svm").write_text("1 2:1\n1 a:1\n")
    (tmp_path / "x-2.svm").write_text("1 b:1\n")
    with pytest.raises(DataError, match=r"x-1\.svm:2: "):
        Data(files)
    with pytest.raises(FileError, match="no such file"):
        Data(f"{tmp_path}/x-0.svm,{tmp_path}/none.svm")
    with pytest.raises(FileError, match="no file on the workers matches"):
        Data(f"{tmp_path}/y-*.svm")


def test_the_bytes_of_rows():
    assert row_bytes(np.eye(3)) == 72 and row_bytes(sparse.csr_matrix(np.eye(3))) == 3 * (8 + 4)


def test_addresses_are_read_by_fsspec(files, tmp_path):
    pytest.importorskip("fsspec")
    found = Data(f"file://{files}")
    assert found.X.shape == (270, 13)
    assert found.fingerprint == Data(files).fingerprint
    with pytest.raises(FileError, match="file://.*cannot be read"):
        Data(f"file://{tmp_path}/none.svm")


def test_huge_values_are_refused(files, tmp_path):
    (tmp_path / "x-1.svm").write_text("1 1:1\n1 1:1e200\n")
    data = Data(files)
    with pytest.raises(DataError, match="102"):
        fit(ODM(solver="dsvrg"), data)


def test_what_needs_all_rows_is_refused(data):
    for options in ({}, {"solver": "sodm", "multiclass": "ovo"}):
        with pytest.raises(UsageError):
            PLACE.suited(ODM(**options))
    with pytest.raises(UsageError, match="weights above zero"):
        fit(ODM(solver="sodm"), data, weight=np.arange(270))


def test_a_bias_is_compared_with_the_largest_value_of_all_pieces(data, monkeypatch):
    seen, kernel = [], Kernel("poly", 0.3, 1.0, 2, bias=3.0)
    monkeypatch.setattr(kernels, "refuse_huge_bias", lambda kernel, most: seen.append(most))
    parts = data.X.each(spread._largest_value, kernel)
    assert len(set(parts)) > 1
    spread.gram_of(kernel, data.X, 1e9)
    assert seen == [max(parts)]


class Noted(Serial):
    """Keeps values as they are, and notes where they should lie."""

    def __init__(self):
        self.places = []

    def put(self, value, place=None):
        self.places.append(place)
        return value

    def keep(self, function, *arguments, place=None):
        self.places.append(place)
        return function(*arguments)


@pytest.mark.parametrize("dense", [False, True])
def test_pieces_are_asked_as_one_matrix_is(dense):
    """Whatever is asked of rows in three pieces, one of them empty, is that of all."""
    random, executor = np.random.default_rng(0), Noted()
    whole = np.where(random.random((17, 4)) < 0.5, random.standard_normal((17, 4)), 0.0)
    pieces = [whole[:6], whole[6:6], whole[6:]]
    pieces = pieces if dense else [sparse.csr_matrix(piece) for piece in pieces]
    X = SpreadRows(pieces, [6, 0, 11], 4, np.count_nonzero(whole), executor)

    def array(rows):
        return rows if dense else rows.toarray()

    assert X.shape == (17, 4) and not X.is_here and X.nnz == np.count_nonzero(whole)
    assert X.each(lambda piece, more: piece.shape[0] + more, 10) == [16, 10, 21]
    twice = X.made(lambda piece, factor: piece * factor, 2.0)
    assert twice.shape == X.shape and np.array_equal(array(twice.here()), 2 * whole)
    assert X.made(lambda piece: piece[:, :3], width=3).shape == (17, 3)
    assert {piece.dtype for piece in X.astype(np.float32).pieces} == {np.dtype(np.float32)}
    for rows in ([16, 0, 5, 6, 6, 3], [7], [], list(range(17))):
        rows = np.array(rows, dtype=int)
        assert np.array_equal(array(X[rows]), whole[rows])
        executor.places.clear()
        assert np.array_equal(array(X.part(rows, 0.5)), whole[rows])
        assert executor.places == [0.5]
    members = [np.array([2, 9]), np.array([16]), np.array([0, 1]), np.array([3])]
    executor.places.clear()
    for part, rows in zip(X.parts(members, None), members, strict=True):
        assert np.array_equal(array(part), whole[rows])
    assert executor.places == [0.0, 0.25, 0.5, 0.75]
    kept, sizes = X.kept(lambda piece: piece.shape, rows=5, executor=None)
    assert kept == [(6, 4), (0, 4), (11, 4)] and sizes == [6, 0, 11]
    used = np.array([0, 6, 16])
    expected = np.zeros((17, 4))
    expected[used] = whole[used]
    assert np.array_equal(X.rows_with(used).toarray(), expected)
    # And of a matrix that is here.
    here = spread.pieces_of(whole if dense else sparse.csr_matrix(whole))
    assert here.is_here and here.executor is None and spread.pieces_of(X) is X
    assert np.array_equal(array(here.here()), whole) and here.each(np.shape) == [(17, 4)]
    assert np.array_equal(array(here.made(lambda rows, k: rows[k:], 3)), whole[3:])
    executor.places.clear()
    for part, rows in zip(here.parts(members, executor), members, strict=True):
        assert np.array_equal(array(part), whole[rows])
    assert executor.places == [0.0, 0.25, 0.5, 0.75]
    executor.places.clear()
    kept, sizes = here.kept(lambda rows, k: rows * k, 3.0, rows=5, executor=executor)
    assert np.array_equal(np.vstack([array(part) for part in kept]), 3 * whole)
    assert sizes == [5, 5, 5, 2] and executor.places == [0.0, 0.25, 0.5, 0.75]


def test_the_first_huge_row_is_named_whichever_piece_has_it():
    for kernel, huge in ((Kernel("linear"), 1e200), (Kernel("poly", 1.0, 0.0, 3), 1e60)):
        for place in (0, 5, 6, 16):
            whole = np.ones((17, 2))
            whole[place:, 0] = huge
            X = SpreadRows([whole[:6], whole[6:6], whole[6:]], [6, 0, 11], 2, 34, Serial())
            with pytest.raises(DataError, match=rf"\b{place + 1}\b"):
                spread.refuse_huge_values(X, kernel)
    assert spread.largest_square(np.array([[3.0, 4.0], [1.0, 0.0]])) == 25.0
    assert spread.largest_square(np.empty((0, 2))) == 0.0
    assert spread.largest_square(np.array([[0.5, 0.0]])) == 0.25


@pytest.mark.parametrize("share", [0.5, 0.01])
def test_pieces_are_prepared_as_one_matrix_is(share):
    """Dense where that pays and fits, and then moved to their mean for kernels of distances."""
    random = np.random.default_rng(0)
    whole = sparse.csr_matrix(np.where(random.random((60, 40)) < share, 1.0, 0.0))
    X = SpreadRows([whole[:25], whole[25:]], [25, 35], 40, whole.nnz, Serial())
    for kernel in (Kernel("rbf", 0.5), Kernel("linear", bias=2.0)):
        for memory in (4 * 8 * 2400, 4 * 8 * 2400 - 1):
            found = spread.gram_of(kernel, X, memory)
            is_dense = share > 0.1 and memory == 4 * 8 * 2400
            assert all(isinstance(piece, np.ndarray) is is_dense for piece in found.X.pieces)
            assert (found.size, found.memory, found.kernel) == (60, memory, kernel)
            moved = whole.toarray().mean(axis=0) * (is_dense and kernel.name == "rbf")
            here = found.X.here()
            here = here if is_dense else here.toarray()
            np.testing.assert_allclose(here, whole.toarray() - moved, atol=1e-15)
