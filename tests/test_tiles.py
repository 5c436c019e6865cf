"""The kernel matrix tile by tile, beside the matrix itself: what is made, kept, and left out."""

import numpy as np
import pytest
from problems import examples
from scipy import sparse

from odmtool.core import kernels
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.rows import tiles
from odmtool.rows.executor import Serial, Threads
from odmtool.rows.tiles import Tiles

KERNELS = Kernel("rbf", 0.3), Kernel("rbf", 0.3, bias=0.5), Kernel("poly", 0.2, 0.5, 2, 1.5)
RANGES = [(0, 7), (7, 20), (20, 30)]


def made(monkeypatch):
    """The sizes of the tiles that are made."""
    found, tile_values = [], tiles.tile_values

    def noted(kernel, A, B, *others):
        found.append((A.shape[0], B.shape[0]))
        return tile_values(kernel, A, B, *others)

    monkeypatch.setattr(tiles, "tile_values", noted)
    return found


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_products_with_some_of_the_matrix(kernel, is_compiled, form, monkeypatch):
    X = form(examples(30, 5)[0].toarray())
    K, random, sizes = kernels.gram(kernel, X), np.random.default_rng(0), made(monkeypatch)
    v = random.standard_normal((30, 2))
    v[7:20] = 0.0
    wanted = np.zeros(30, bool)
    wanted[[3, 21]] = True
    for vector in (v, v[:, 0]):
        for kept in (8 * 30**2 - 1, 8 * 30**2):
            for executor in (Serial(), Threads(2)):
                found = Tiles(
                    kernel, X, RANGES, kept=kept, memory=0.0, executor=executor, step=5,
                    is_compiled=is_compiled,
                )  # fmt: skip
                assert found._edges.tolist() == [0, 5, 7, 12, 17, 20, 25, 30]
                assert (found.matrix is not None) == (kept == 8 * 30**2)
                sizes.clear()
                some = found.times(vector, is_last=True, wanted=wanted)
                # Those of rows 0 to 5 and 20 to 25, of examples whose v is not 0.
                assert len(sizes) == 2 + 2 + 3 and not found._filled.any()
                np.testing.assert_allclose(some[wanted], (K @ vector)[wanted], rtol=1e-12)
                sizes.clear()
                np.testing.assert_allclose(found.times(vector), K @ vector, rtol=1e-12)
                # Between two of three that are 0 none is made.
                assert len(sizes) == 28 - 6
                sizes.clear()
                np.testing.assert_allclose(found.times(vector), K @ vector, rtol=1e-12)
                assert len(sizes) == (0 if found.matrix is not None else 22)
                if found.matrix is not None:
                    sizes.clear()
                    every = found.times(np.ones(30))
                    np.testing.assert_allclose(every, K.sum(axis=1), rtol=1e-12)
                    assert len(sizes) == 6 and found._filled.sum() == 28
                    np.testing.assert_allclose(found.matrix, K, rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_parts_find_the_values_of_the_levels_before(kernel, monkeypatch):
    X = examples(30, 5)[0].toarray()
    K, sizes = kernels.gram(kernel, X), made(monkeypatch)
    kept = Tiles(kernel, X, RANGES, kept=8 * 30**2, memory=900.0, executor=Threads(2), step=5)
    members = [np.arange(a, b) for a, b in RANGES]
    # The smallest have matrices of their own; two at a time share the memory.
    for part, rows in zip(kept.parts(RANGES, members), members, strict=True):
        assert isinstance(part, Gram) and part.memory == 450.0
        np.testing.assert_allclose(part.matrix(), K[np.ix_(rows, rows)], rtol=1e-12)
    few = Tiles(kernel, X, RANGES, kept=0.0, memory=900.0, executor=Threads(4), step=5)
    assert [part.memory for part in few.parts([(0, 20), (20, 30)], members[:2])] == [450.0] * 2
    sizes.clear()
    larger = [(0, 20), (20, 30)]
    parts = kept.parts(larger, [])
    assert len(sizes) == 15 + 3
    for part, (a, b) in zip(parts, larger, strict=True):
        assert (part.size, part.kernel, part.X, part.is_computed) == (b - a, kernel, None, False)
        np.testing.assert_allclose(part.diagonal(), K.diagonal()[a:b], rtol=1e-12)
        cache = part.cache()
        assert cache.capacity == b - a and cache.fetch(np.arange(2)) is None
        np.testing.assert_allclose(
            cache.rows[cache.slot, cache.first :][:, : b - a], K[a:b, a:b], rtol=1e-12
        )
    kept.parts(larger, [])
    assert len(sizes) == 18  # they are all there
    [whole] = kept.parts([(0, 30)], [])
    assert len(sizes) == 28 and np.array_equal(kept.matrix, kept.matrix.T)
    np.testing.assert_allclose(kept.matrix, K, rtol=1e-12)
    # Also of one part only, which then is the smallest and the largest.
    alone = Tiles(kernel, X, [(0, 30)], kept=8 * 30**2, memory=0.0, executor=Serial(), step=11)
    [part] = alone.parts([(0, 30)], [np.arange(30)])
    assert isinstance(part, tiles.TilesPart)
    np.testing.assert_allclose(alone.matrix, K, rtol=1e-12)


def test_what_single_precision_makes_is_summed_up_in_double():
    X = examples(30, 5)[0].toarray().astype(np.float32)
    v = np.random.default_rng(0).standard_normal(30)
    for is_compiled in (False, True):
        for step, kernel in ((None, KERNELS[0]), (7, KERNELS[2])):
            found = Tiles(
                kernel, X, [(0, 30)], kept=4 * 30**2, memory=0.0, executor=Serial(), step=step,
                is_compiled=is_compiled,
            )  # fmt: skip
            assert found.matrix.dtype == np.float32
            product = found.times(v)
            assert product.dtype == np.float64
            np.testing.assert_allclose(product, found.matrix.astype(float) @ v, rtol=1e-13)
