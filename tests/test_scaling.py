"""Ranges of features, and rows that are scaled by them: in memory, in blocks."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from test_scale import sparse

from odmtool.core import scaling
from odmtool.core.csr import CSR
from odmtool.errors import MemoryLimitError


def test_extremes_gathered_in_blocks_are_those_of_the_whole():
    import scipy.sparse as sp

    from odmtool.core.scaling import Extremes

    X = sparse(np.random.default_rng(3))
    whole, parts = Extremes(), Extremes()
    whole.update(sp.csr_matrix(X))
    for start in range(0, len(X), 7):
        parts.update(sp.csr_matrix(X[start : start + 7]))
    index, minimum, maximum = whole.varying()
    keep = X.min(axis=0) != X.max(axis=0)
    np.testing.assert_array_equal(index, np.flatnonzero(keep) + 1)
    np.testing.assert_array_equal(minimum, X.min(axis=0)[keep])
    np.testing.assert_array_equal(maximum, X.max(axis=0)[keep])
    for ours, theirs in zip(parts.varying(), whole.varying(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_constant_feature_is_none_that_the_ranges_do_not_know():
    """Feature 1 is scaled, 2 is constant in the ranges, 3 is not in them."""
    least, most = np.array([1.0, 7.0]), np.array([2.0, 7.0])
    ranges = scaling.Ranges(0.0, 1.0, np.array([1, 2]), least, most)
    scaler = scaling.Scaler(ranges, remembers=True)
    found = scaler.scale(CSR.of(csr_matrix([[1.0, 8.0, 5.0], [2.0, 9.0, 6.0]])))
    assert found.shape[0] == 2 and scaler.unseen.varying()[0].tolist() == [3]


@pytest.mark.parametrize("absent_is_zero", [True, False])
def test_blocks_are_as_large_as_they_may_be(absent_is_zero, monkeypatch):
    """Each row in one of them, and no more numbers than a block and a row, when written."""
    from odmtool.core.scaling import Extremes, Scaler

    X = np.abs(sparse(np.random.default_rng(3))) + 0.0
    rows, extremes = CSR.of(csr_matrix(X)), Extremes()
    extremes.update(rows)
    index, minimum, maximum = extremes.varying()
    lower = 0.0 if absent_is_zero else -1.0
    scaler = Scaler(scaling.Ranges(lower, 1.0, index, minimum, maximum))
    whole = scaler.scale(rows).toarray()
    written = (rows.indptr if absent_is_zero else np.arange(len(X) + 1) * whole.shape[1])
    for block in (1, 30, 70, 10**6):
        monkeypatch.setattr(scaling, "BLOCK", block)
        parts = list(scaler.parts(rows.indptr))
        assert [row for part in parts for row in range(len(X))[part]] == list(range(len(X)))
        for part in parts:
            assert written[part.stop - 1] - written[part.start] <= block + X.shape[1]
        assert len(parts) <= 2 + 2 * written[-1] // block
        np.testing.assert_array_equal(
            np.vstack([scaler.scale(rows[part]).toarray() for part in parts]), whole
        )


# ---- rows that are scaled in memory ------------------------------------------------


def rows_and_ranges(kind=np.int32):
    """Rows with absent entries, as an array too, and ranges of some features; feature 4 is none.

    Zeros of feature 1 stay zero, those of 3 and 6 become something else.
    """
    rng = np.random.default_rng(0)
    X = np.where(rng.random((30, 7)) < 0.4, rng.integers(-3, 4, (30, 7)), 0).astype(float)
    X[5] = 0
    found = csr_matrix(X)
    found = CSR(found.data, found.indices.astype(kind), found.indptr.astype(kind), X.shape)
    ranges = scaling.Ranges(
        -1.0, 1.0, np.array([1, 3, 4, 6]), np.array([-3.0, 0, 2, -1]), np.array([3.0, 4, 2, 3])
    )
    return X, found, ranges


def scaled_by_hand(X, ranges, width):
    table = np.zeros((len(X), width))
    known = zip(ranges.index, ranges.minimum, ranges.maximum, strict=True)
    for feature, low, high in known:
        if low < high:
            table[:, feature - 1] = -1 + 2 * (X[:, feature - 1] - low) / (high - low)
    return table


@pytest.mark.parametrize("block", [1, 40, 2**18])
@pytest.mark.parametrize("width", [None, 6, 9])
def test_every_feature_is_scaled_in_its_own_column(monkeypatch, width, block):
    X, rows, ranges = rows_and_ranges()
    monkeypatch.setattr(scaling, "BLOCK", block)
    found = scaling.Scaler(ranges).scale_in_place(rows, width)
    expected = scaled_by_hand(X, ranges, width or 6)
    assert found.shape == expected.shape and np.array_equal(found.matrix().toarray(), expected)
    assert found.nnz == np.count_nonzero(expected)  # no zeros are kept
    assert found.indptr.dtype == found.indices.dtype == np.int32
    pieces = list(scaling.Scaler(ranges).parts(rows.indptr))
    assert [p.start for p in pieces] == [0, *(p.stop for p in pieces[:-1])]
    assert pieces[-1].stop == 30 and (len(pieces) == 1) == (block > 1000)
    # Zeros of two features are written.
    sizes = [rows.indptr[p.stop] - rows.indptr[p.start] + 2 * (p.stop - p.start) for p in pieces]
    assert all(size <= block + 9 for size in sizes)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_scaled_rows_of_any_width(kind):
    """Places are as wide as the largest column, or number of entries, and as they were."""
    X, rows, ranges = rows_and_ranges(kind)
    for width, expected in ((2**31 - 1, kind), (2**31 + 1, np.int64)):
        found = scaling.Scaler(ranges).scale_in_place(rows, width)
        assert found.shape == (30, width)
        assert found.indices.dtype == found.indptr.dtype == expected
        assert np.array_equal(found.with_width(6).matrix().toarray(), scaled_by_hand(X, ranges, 6))
    none = scaling.Ranges(0.0, 1.0, *np.empty((3, 0)))
    none = none._replace(index=np.empty(0, np.int64))
    assert scaling.Scaler(none).scale_in_place(rows).shape == (30, 0)
    assert scaling.Scaler(none).scale_in_place(rows, 7).nnz == 0


def test_scaled_rows_that_would_fill_the_memory_are_refused():
    X, rows, ranges = rows_and_ranges()
    scaler = scaling.Scaler(ranges)
    assert scaler.check_memory(rows, 0.0) is None  # no more than twice as many
    # Of each row two features are written, in their piece and in the whole.
    few = rows[:15].with_width(2)
    most = few.nnz + 15 * 2
    assert most > 2 * few.nnz
    assert scaler.check_memory(few, 24 * most) is None
    with pytest.raises(MemoryLimitError):
        scaler.check_memory(few, 24 * most - 1)
    # At exactly twice the entries nothing is refused.
    exact = CSR(np.ones(4), np.arange(4, dtype=np.int32), np.array([0, 2, 4], np.int32), (2, 9))
    assert scaler.check_memory(exact, 0.0) is None
