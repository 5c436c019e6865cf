"""Kernel models with one score per class: every distinct vector is evaluated once.

Such a model stands in a file as LIBSVM's pairs, which repeat a vector for every class that
uses it (:mod:`odmtool.models.carry`), or in the compact form. Either way the scores are
f = K C + offset over the distinct vectors, and the class of the largest score is what the
votes of the pairs come to, unless f_i - f_j is within rounding of zero. Such a pair is
computed again in the order in which svm-predict sums it up from LIBSVM's form, so that both
forms and svm-predict give every row the same label.

The classes stand in the order of LIBSVM's form: a tie goes to the last one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from odmtool.models.decide import votes
from odmtool.models.rows import NUMBERS_OF_A_PAIR, KernelRows, those_of

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class ClassVectors(NamedTuple):
    """The vectors of one class."""

    # Integers, shape (n,): their places among the distinct vectors, in the order of LIBSVM's form.
    place: np.ndarray
    coef: np.ndarray  # shape (n,)


class Scores:
    """The scores of k > 2 classes.

    Parameters
    ----------
    kernel : Kernel
        With bias 0.
    vectors : csr_matrix, shape (n, d)
    blocks : list of ClassVectors
        One per class.
    offset : ndarray, shape (k,)
    """

    def __init__(self, kernel, vectors: csr_matrix, blocks: list[ClassVectors], offset: np.ndarray):
        self.rows = KernelRows(kernel, vectors)
        self.blocks, self.offset = blocks, offset
        self.C, size = np.zeros((2, vectors.shape[0], len(blocks)))
        for column, (place, coef) in enumerate(blocks):
            np.add.at(self.C[:, column], place, coef)
            np.add.at(size[:, column], place, np.abs(coef))
        self._largest = size.max(axis=1)
        self._terms = 2 * max(len(block.place) for block in blocks) + 4

    def values(self, X: csr_matrix) -> np.ndarray:
        """The scores, shape (m, k)."""
        values = np.empty((X.shape[0], len(self.blocks)))
        for part, scores, _ in self._scores(X, len(self.blocks)):
            values[part] = scores
        return values

    def winners(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """The place of the class that svm-predict finds, shape (m,), and the scores."""
        best, values = np.empty(X.shape[0], dtype=np.int64), np.empty((X.shape[0], self.C.shape[1]))
        for part, scores, bound in self._scores(X, len(self.blocks)):
            with np.errstate(all="ignore"):
                best[part], values[part] = scores.argmax(axis=1), scores
                for row in np.flatnonzero(_has_near_rival(scores, bound)):
                    place = part.start + row
                    best[place] = self._winner(X[place], scores[row], bound[row])
        return best, values

    def best(self, X: csr_matrix) -> np.ndarray:
        """The places of :meth:`winners`, shape (m,)."""

        def decide(rows, way):
            scores, bound = self._block_scores(rows, way)
            return scores.argmax(axis=1), _has_near_rival(scores, bound)

        best, in_doubt = self.rows.by_single(X, len(self.blocks), decide)
        best[in_doubt] = self.winners(those_of(X, in_doubt))[0]
        return best

    def pair_blocks(self, X: csr_matrix, boundary=0.0, margin=0.0) -> Iterator[np.ndarray]:
        """f_i - f_j for all pairs, of some rows at a time, shape (rows, k (k - 1) / 2).

        Those within margin and rounding of a boundary are as LIBSVM computes them.
        """
        first, second = np.triu_indices(len(self.blocks), 1)
        for part, scores, bound in self._scores(X, NUMBERS_OF_A_PAIR * len(first)):
            with np.errstate(all="ignore"):
                values = scores[:, first] - scores[:, second]
                bound = bound[:, first] + bound[:, second] + margin
                near = ~(np.abs(values - boundary) > bound)
                for row in np.flatnonzero(near.any(axis=1)):
                    place, pairs = part.start + row, near[row]
                    exact = self._in_stock_order(X[place], first[pairs], second[pairs])
                    values[row, pairs] = exact
            yield values

    def _scores(self, X: csr_matrix, numbers: int):
        """Blocks of rows, of which each takes so many numbers: slices, scores, and bounds."""
        way = self.rows.way(X.shape[0])
        for part in self.rows.blocks(X.shape[0], numbers):
            with np.errstate(all="ignore"):
                scores_and_bound = self._block_scores(X[part], way)
            yield part, *scores_and_bound

    def _block_scores(self, X: csr_matrix, way: str) -> tuple[np.ndarray, np.ndarray]:
        """Scores of a block of rows, and how much rounding each may contribute to the distance
        of f_i - f_j from LIBSVM's; both have the shape (rows, k).

        A sum of n terms is off by at most n eps times the sum of their absolute values, in any
        order; the errors of the kernel values come on top. With the largest coefficients of all
        classes it is the same for each but for the offset.
        """  # fmt: skip
        eps, tiny = np.finfo(float).eps, np.finfo(float).tiny
        vectors = [slice(0, len(self.C))]
        (sums,), (size,) = self.rows.sums(X, way, vectors, self.C, self._largest)
        relative, absolute = self.rows.errors(X, way)
        bound = (2 * self._terms * eps + relative) * size
        bound += (absolute + tiny) * self._largest.sum() + self._terms * tiny
        return sums + self.offset, bound[:, None] + 4 * eps * np.abs(self.offset)

    def _winner(self, x: csr_matrix, scores, bound) -> int:
        """The class with most votes; only those that may get them are looked at."""
        rivals = _rivals(scores, bound)
        first, second = rivals[np.array(np.triu_indices(len(rivals), 1))]
        values = scores[first] - scores[second]
        near = ~(np.abs(values) > bound[first] + bound[second])
        values[near] = self._in_stock_order(x, first[near], second[near])
        return rivals[votes(values[None], len(rivals)).argmax()]

    def _in_stock_order(self, x: csr_matrix, first, second) -> np.ndarray:
        """f_i - f_j of one row for some pairs, in the order of LIBSVM's operations."""
        in_order = self.rows.in_stock_order(x)
        terms = [coef * in_order[place] for place, coef in self.blocks]
        terms = [part[part != 0] for part in terms]  # zeros change no sum
        sizes = np.array([len(part) for part in terms])
        totals = np.zeros(len(first))
        for pair in np.flatnonzero(sizes[first] + sizes[second]):
            both = np.concatenate([terms[first[pair]], -terms[second[pair]]])
            # cumsum adds one after the other, which sum does not.
            totals[pair] = both.cumsum()[-1]
        return totals - (self.offset[second] - self.offset[first])


def _has_near_rival(scores: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """The rows in which a class comes so near the best one that rounding could decide."""
    rows, best = np.arange(len(scores)), scores.argmax(axis=1)
    lead = scores[rows, best][:, None] - scores
    is_clear = lead > bound + bound[rows, best][:, None]
    is_clear[rows, best] = True
    return ~is_clear.all(axis=1)


def _rivals(scores: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """The best classes, down to the first gap that no rounding can close, in their order.

    Each of them beats all others, so it has more votes than any of these.
    """
    order = np.argsort(-scores, kind="stable")
    is_gap = -np.diff(scores[order]) > 2 * bound.max()
    return np.sort(order[: np.argmax(is_gap) + 1]) if is_gap.any() else np.arange(len(scores))


def of_pairs(model) -> Scores | None:
    """The scores in a model of LIBSVM's form; None if its pairs are no differences of scores.

    ``model``: KernelModel.
    """
    k, n = len(model.labels), len(model.coef)
    if model.facts.get("decision") != "argmax" or k < 3:
        return None
    offset = _offset(model.facts.get("offset"), k)
    first, second = np.triu_indices(k, 1)
    if offset is None or not np.array_equal(model.rho, offset[second] - offset[first]):
        return None
    place, kept = _distinct(model.support_vectors)
    blocks, owner = [], np.repeat(np.arange(k), model.n_support)
    for i, rows in enumerate(model.class_rows):
        coef = -model.coef[rows, 0] if i == k - 1 else model.coef[rows, -1]
        blocks.append(ClassVectors(place[rows], coef))
    coef = np.concatenate([block.coef for block in blocks])
    comes_second = np.arange(k - 1) < owner[:, None]
    if n and not np.array_equal(model.coef, np.where(comes_second, -1.0, 1.0) * coef[:, None]):
        return None
    return Scores(model.kernel, model.support_vectors[kept], blocks, offset)


def of_functions(model) -> Scores:
    """The scores of a model in the compact form.

    ``model``: CompactModel.
    """
    columns = model.coef.T[::-1]
    blocks = [ClassVectors(used, c[used]) for c in columns for used in [np.flatnonzero(c)]]
    return Scores(model.kernel, model.support_vectors, blocks, model.offset[::-1])


def _offset(text: str | None, k: int) -> np.ndarray | None:
    """The offsets that a model records; none recorded is 0."""
    try:
        offset = np.array([float(word) for word in text.split()]) if text else np.zeros(k)
    except ValueError:
        return None
    return offset if offset.shape == (k,) and np.isfinite(offset).all() else None


def _distinct(vectors: csr_matrix) -> tuple[np.ndarray, list[int]]:
    """For every row its place among the distinct ones, and the first rows of these."""
    places: dict[tuple[bytes, bytes], int] = {}
    place, kept = np.empty(vectors.shape[0], dtype=np.int64), []
    ends = vectors.indptr.tolist()
    for row, (a, b) in enumerate(zip(ends[:-1], ends[1:], strict=True)):
        key = (vectors.indices[a:b].tobytes(), vectors.data[a:b].tobytes())
        place[row] = places.setdefault(key, len(kept))
        if place[row] == len(kept):
            kept.append(row)
    return place, kept
