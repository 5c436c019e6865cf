"""Landmarks: examples whose images nearly span those of all others.

Method   randomly pivoted Cholesky in blocks. With E = K - Z Z' what is left of the kernel
         matrix, candidates are drawn with probability proportional to e_i = E_ii; one after
         the other, a candidate is taken with probability (what is left of its e_i now) /
         (its e_i when it was drawn), so that near-duplicates within a block are not. With
         L the factor of what the taken ones leave, Z gets the columns E_(., taken) L^-T.
         K of the landmarks then has the Cholesky factor Z_(landmarks, .).
Sample   All this happens on a sample of the examples, whose features fit in the memory. Few
         landmarks from ten thousand examples span as much as from a million.
Source   Chen, Epperly, Tropp & Webber, "Randomly pivoted Cholesky", 2023; Epperly, Tropp &
         Webber, "Embrace rejection", 2024.
"""

from __future__ import annotations

import numpy as np

from odmtool.solvers.engine.points import Points
from odmtool.solvers.newton.factor import inverse_transposed

# Candidates of a block, as a share of the landmarks so far, and their least and most.
# speed only: the gap is certified with any landmarks
_SHARE, _LEAST, _MOST = 0.25, 32, 256
# What is left of an example below this share of the largest k(x, x) is near rounding. So is what
# is below so many times what rounding changes in a kernel value: features that are not scaled have
# more of it, and landmarks that leave nothing else would magnify it in every bound. That is up to
# the third number: one far example makes the error of all values look large, and there would be no
# landmarks.
_FLOOR, _MAGNIFIED, _LARGEST_FLOOR = 1e-10, 1e4, 1e-6


class Landmarks:
    """Landmarks among the sample, and the features of the sample.

    Parameters
    ----------
    points : Points
        The sample.
    most : int
        As many landmarks can be chosen.
    value_error : float
        How far a kernel value may be off, of all examples.

    Attributes
    ----------
    members : list of int
        The landmarks, in the order of choice.
    left : ndarray, shape (n,)
        e_i, in double precision.
    is_exhausted : bool
        What is left is rounding only.
    """

    def __init__(self, points: Points, most: int, seed: int, value_error: float = 0.0):
        self.points, self.members, self._value_error = points, [], value_error
        self._most = min(most, points.size)
        # Column after column, so that memory is touched only where there are landmarks.
        self._Z = np.empty((points.size, self._most), order="F")
        self.left = points.diagonal.copy()
        self._floor = self._least()
        self._random = np.random.default_rng(seed)
        self.is_exhausted = not self.left.max(initial=0.0) > 0

    @property
    def features(self) -> np.ndarray:
        """Z, shape (n, r)."""
        return self._Z[:, : len(self.members)]

    @property
    def factor(self) -> np.ndarray:
        """L of the landmarks' kernel matrix L L', shape (r, r)."""
        return np.tril(self._Z[self.members, : len(self.members)])

    @property
    def is_full(self) -> bool:
        """No more landmarks can be chosen."""
        return self.is_exhausted or not self.has_room

    @property
    def has_room(self) -> bool:
        """There are fewer than there may be at most."""
        return len(self.members) < self._most

    def limit(self, most: int) -> None:
        """Only so many landmarks can be chosen from now on."""
        self._most = min(self._most, most)

    def grow(self, count: int) -> None:
        """Choose until there are ``count`` landmarks, or as many as there can be."""
        count = min(count, self._most)
        while len(self.members) < count and not self.is_exhausted:
            self._add_block(count - len(self.members))

    def replace(self, places: np.ndarray, points: Points, Z: np.ndarray, left: np.ndarray) -> None:
        """Put other examples in the places of some that are not landmarks.

        Parameters
        ----------
        places : int array, shape (k,)
        points : Points
            The sample from now on.
        Z, left : ndarrays, shapes (k, r) and (k,)
            The features of the others, and what is left of them.
        """
        self.points = points
        self._Z[places, : Z.shape[1]], self.left[places] = Z, left
        self._floor = self._least()
        self.is_exhausted = False

    def _least(self) -> float:
        """Below this, what is left of an example is near rounding."""
        largest = self.points.diagonal.max(initial=0.0)
        rounded = min(_MAGNIFIED * self._value_error, _LARGEST_FLOOR * largest)
        return max(_FLOOR * largest, rounded)

    def _add_block(self, room: int) -> None:
        known = len(self.members)
        drawn = self._draw(min(room, int(np.clip(_SHARE * known, _LEAST, _MOST))))
        if drawn.size == 0:
            self.is_exhausted = True
            return
        Z, points = self._Z, self.points
        corner = points.values(points.X[drawn], points.X[drawn])
        corner -= Z[drawn, :known] @ Z[drawn, :known].T
        taken, factor = self._taken((corner + corner.T) / 2)
        if not taken:
            # All are within rounding of the span.
            self.is_exhausted = True
            return
        members = drawn[taken]
        near, others = Z[members, :known].copy(), points.X[members]
        # A product instead of a solution: NumPy lets other threads work meanwhile.
        inverse = inverse_transposed(factor)

        def one(part: slice) -> None:
            rest = points.values(points.X[part], others)
            rest -= Z[part, :known] @ near.T
            columns = rest @ inverse
            Z[part, known : known + len(taken)] = columns
            self.left[part] -= np.einsum("ij,ij->i", columns, columns)

        # speed only: when compiled code is loaded
        points.expect(points.size * len(taken))
        # speed only: rows at a time
        points.map(one, points.blocks(4 * 512))
        # Of the landmarks themselves nothing is left; their rows of Z are the factor's.
        Z[members, known : known + len(taken)] = factor
        np.maximum(self.left, 0.0, out=self.left)
        self.left[members] = 0.0
        self.members += members.tolist()

    def _draw(self, count: int) -> np.ndarray:
        """Different candidates, int array; none if nothing but rounding is left."""
        weight = np.where(self.left > self._floor, self.left, 0.0)
        total = weight.sum()
        if not total > 0:
            return np.empty(0, dtype=np.int64)
        drawn = self._random.choice(len(weight), count, p=weight / total)
        return drawn[np.sort(np.unique(drawn, return_index=True)[1])]

    def _taken(self, corner: np.ndarray) -> tuple[list[int], np.ndarray]:
        """Which candidates are taken, and the Cholesky factor of their part of ``corner``."""
        rest, first = corner.copy(), corner.diagonal().copy()
        taken, columns = [], np.zeros_like(corner)
        chance = self._random.random(len(corner))
        for j in range(len(corner)):
            pivot = rest[j, j]
            if not (pivot > self._floor and chance[j] * first[j] < pivot):
                continue
            column = rest[:, j] / np.sqrt(pivot)
            columns[:, len(taken)] = column
            rest -= np.outer(column, column)
            taken.append(j)
        return taken, np.tril(columns[np.ix_(taken, range(len(taken)))])
