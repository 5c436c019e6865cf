"""Landmarks, strata and partitions against their definitions."""

import numpy as np
import pytest
from problems import DEFINITE, KERNELS, examples, precomputed_rows

from odmtool.core import deadline, kernels
from odmtool.core.kernels import Kernel
from odmtool.defaults import PARTITION_BY
from odmtool.rows import kmeans, partition

KINDS = {"linear": Kernel("linear")} | {name: KERNELS[name] for name in DEFINITE}


def farthest(K, chosen):
    """The residual of eq. (6) for every example, with the inverse written out."""
    if not chosen:
        return K.diagonal()
    inverse = np.linalg.inv(K[np.ix_(chosen, chosen)])
    return K.diagonal() - np.einsum("is,st,it->i", K[:, chosen], inverse, K[:, chosen])


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_every_landmark_is_the_farthest_from_those_before(name, dense):
    X, kernel = examples()[0], KINDS[name]
    X = X.toarray() if dense else X
    count = 5 if name == "linear" else 9
    found = partition.landmarks(kernel, X, count, seed=3)
    K = kernels.block(kernel, X, X)
    assert len(set(found.rows.tolist())) == count
    for s in range(1, count):
        residual = farthest(K, found.rows[:s].tolist())
        assert residual[found.rows[s]] == pytest.approx(residual.max(), rel=1e-9)
    Z = found.rows
    assert np.allclose(found.factor @ found.factor.T, K[np.ix_(Z, Z)], rtol=1e-12, atol=1e-12)
    left = farthest(K, Z.tolist()).sum() / K.trace()
    assert found.captured == pytest.approx(1 - left, abs=1e-10)


@pytest.mark.parametrize("given", [0, 1, 4])
def test_landmarks_so_far_are_those_when_the_time_is_over(given, monkeypatch):
    X, kernel, looks = examples()[0], KINDS["rbf"], []
    whole = partition.landmarks(kernel, X, 9, seed=3)
    monkeypatch.setattr(deadline, "is_over", lambda: looks.append(1) or len(looks) >= given)
    found, count = partition.landmarks(kernel, X, 9, seed=3), max(1, given)
    assert np.array_equal(found.rows, whole.rows[:count])
    assert np.array_equal(found.factor, whole.factor[:count, :count])
    assert found.captured < whole.captured


def test_landmarks_of_a_precomputed_kernel_are_those_of_the_kernel():
    X = examples()[0]
    known = partition.landmarks(Kernel("precomputed"), precomputed_rows(X), 8, seed=1)
    computed = partition.landmarks(Kernel("rbf", 0.4), X, 8, seed=1)
    assert known.rows.tolist() == computed.rows.tolist()


def test_the_first_landmark_is_the_largest_or_drawn():
    X = examples()[0].toarray()
    poly = KERNELS["poly"]
    largest = kernels.diagonal(poly, X).argmax()
    firsts = {int(partition.landmarks(poly, X, 2, seed=seed).rows[0]) for seed in range(5)}
    assert firsts == {int(largest)}
    firsts = {
        int(partition.landmarks(KERNELS["rbf"], X, 2, seed=seed).rows[0]) for seed in range(9)
    }
    assert len(firsts) > 3


def test_landmarks_end_where_nothing_is_left():
    X = np.repeat(np.eye(4), 5, axis=0)
    for kernel in (Kernel("linear"), Kernel("rbf", 1.0)):
        found = partition.landmarks(kernel, X, 12)
        assert len(found.rows) == 4
        assert found.captured == pytest.approx(1, abs=1e-12)
    nothing = partition.landmarks(Kernel("linear"), np.zeros((6, 2)), 3)
    assert len(nothing.rows) == 1 and nothing.factor == 1.0


def test_little_memory_means_a_smaller_sample(monkeypatch):
    X = np.random.default_rng(0).standard_normal((500, 3))
    widths = []
    block = kernels.block
    monkeypatch.setattr(
        kernels, "block", lambda k, A, B, **m: widths.append(B.shape[0]) or block(k, A, B, **m)
    )
    found = partition.landmarks(Kernel("rbf", 0.5), X, 10, memory=4 * 8 * 10 * 50)
    assert set(widths) == {50}
    again = partition.landmarks(Kernel("rbf", 0.5), X, 10, memory=4 * 8 * 10 * 50)
    assert found.rows.tolist() == again.rows.tolist()
    other = partition.landmarks(Kernel("rbf", 0.5), X, 10, memory=4 * 8 * 10 * 50, seed=1)
    assert found.rows.tolist() != other.rows.tolist()


@pytest.mark.parametrize("name", KINDS)
def test_an_example_belongs_to_the_nearest_landmark(name):
    X, kernel = examples()[0].toarray(), KINDS[name]
    Z = partition.landmarks(kernel, X, 5).rows
    K = kernels.block(kernel, X, X)
    squares = K.diagonal()[:, None] - 2 * K[:, Z] + K.diagonal()[Z]
    nearest = partition.strata(kernel, X, X[Z])
    distance = squares[np.arange(len(K)), nearest]
    assert np.all(distance <= squares.min(axis=1) + 1e-12)
    assert np.array_equal(nearest[Z], np.arange(5))


@pytest.mark.parametrize("parts", [1, 3, 8, 60])
def test_every_part_gets_its_share_of_every_stratum_and_class(parts):
    X, y = examples()
    stratum = np.arange(60) % 4
    part = partition.deal(stratum, y, parts, seed=2)
    sizes = np.bincount(part, minlength=parts)
    assert sizes.max() - sizes.min() <= 1
    for s in range(4):
        for label in (-1, 1):
            share = np.bincount(part[(stratum == s) & (y == label)], minlength=parts)
            assert share.max() - share.min() <= 1
    assert np.array_equal(part, partition.deal(stratum, y, parts, seed=2))
    if parts in (3, 8):
        assert not np.array_equal(part, partition.deal(stratum, y, parts, seed=3))


@pytest.mark.parametrize("by", PARTITION_BY)
def test_partitions(by):
    X, y = examples()
    kernel = KERNELS["rbf"]
    part = partition.partition(kernel, X, y, 6, by=by, count=10, seed=4)
    sizes = np.bincount(part)
    assert len(sizes) == 6 and sizes.min() >= 1
    if by == "cluster":
        assert np.array_equal(part, kmeans.clusters(kernel, X, 6, seed=4))
    else:
        assert sizes.max() - sizes.min() <= 1
    assert partition.partition(kernel, X, y, 100, by=by, seed=4).max() < 60


@pytest.mark.parametrize("name", KINDS)
def test_clusters_are_those_of_k_means(name):
    """Of every example the nearest centre is that of its own cluster, and no cluster is empty."""
    X, kernel = examples()[0].toarray(), KINDS[name]
    found = kmeans.clusters(kernel, X, 5, seed=2)
    K, A = kernels.block(kernel, X, X), np.eye(found.max() + 1)[found]
    assert set(found) == set(range(len(A.T))) and 2 <= len(A.T) <= 5
    A /= A.sum(axis=0)
    squares = K.diagonal()[:, None] - 2 * K @ A + np.einsum("sc,st,tc->c", A, K, A)
    own = squares[np.arange(len(K)), found]
    assert np.all(own <= squares.min(axis=1) + 1e-9)
    assert np.array_equal(found, kmeans.clusters(kernel, X, 5, seed=2))


def test_clusters_of_a_sample_hold_all():
    """Four heaps far from each other, of which a sample of 40 knows."""
    generator = np.random.default_rng(0)
    heap = generator.integers(4, size=3000)
    X = 20.0 * np.eye(4)[heap] + generator.standard_normal((3000, 4))
    found = kmeans.clusters(Kernel("linear"), X, 4, seed=1, memory=4 * 8 * 40**2)
    assert len({(a, b) for a, b in zip(heap.tolist(), found.tolist(), strict=True)}) == 4


def test_a_sample_keeps_to_its_memory(monkeypatch):
    """Its kernel values and three tables of the centres, also where these are many."""
    X, sizes, block = np.random.default_rng(0).standard_normal((500, 3)), [], kernels.block
    monkeypatch.setattr(
        kernels, "block", lambda k, A, B, **m: sizes.append(len(B)) or block(k, A, B, **m)
    )
    for count, most in ((4, 40), (200, 40), (200, 1), (3, 500)):
        sizes.clear()
        memory = 4 * 8 * most * (most + 3 * count)
        found = kmeans.clusters(Kernel("rbf", 0.5), X, count, memory=memory)
        assert set(sizes) == {most} and len(set(found)) <= min(count, most)


def test_equal_examples_are_one_cluster():
    assert set(kmeans.clusters(Kernel("rbf", 1.0), np.ones((30, 2)), 4)) == {0}


def test_stratified_parts_look_more_alike_than_random_ones():
    """The mean of phi in every part, compared with that of all."""
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((400, 2)), np.ones(400)
    kernel = Kernel("rbf", 1.0)
    K = kernels.block(kernel, X, X)

    def spread(by):
        total = 0.0
        for seed in range(10):
            part = partition.partition(kernel, X, y, 8, by=by, count=30, seed=seed)
            for k in range(8):
                v = (part == k) / np.sum(part == k) - 1 / 400
                total += v @ K @ v
        return total

    assert spread("stratified") < 0.7 * spread("random")


def test_what_is_dealt_by_each_way():
    X, y = examples()
    kernel, X = KERNELS["rbf"], X.toarray()
    given = {"count": 7, "seed": 3}
    found = {by: partition.partition(kernel, X, y, 4, by=by, **given) for by in PARTITION_BY}
    chosen = partition.landmarks(kernel, X, 7, seed=3)
    strata = {
        "stratified": partition.strata(kernel, X, X[chosen.rows]),
        "cluster-strata": kmeans.clusters(kernel, X, 7, seed=3),
    }
    for by, stratum in strata.items():
        assert np.array_equal(found[by], partition.deal(stratum, y, 4, seed=3))
    assert np.array_equal(found["cluster"], kmeans.clusters(kernel, X, 4, seed=3))
    nothing = np.zeros(60)
    assert np.array_equal(found["random"], partition.deal(nothing.astype(int), nothing, 4, seed=3))
