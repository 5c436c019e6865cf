"""How a problem of the kernel engine divides the memory: sample, features, tiles.

Bytes are planned here before anything is made, so that what is announced is kept.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from odmtool.solvers.engine.choice import most_landmarks
from odmtool.solvers.engine.cost import MOST
from odmtool.solvers.engine.sample import sample_size

MEMORY = 0.8
"""Of the memory that may be taken; the rest is for copies on the way."""
# Tiles above the diagonal, in units of the memory, of which keeping some still pays.
# speed only: tiles that are not kept are computed again
_TILES_WORTH = 8
# Bytes of a number; of the sample's features, which are there twice; of the landmarks' matrices.
_DOUBLE, _OF_SAMPLE, _SQUARES = 8, 8 + 4, 3 * 8
# Of several problems, each: Hessian and factor per pair of landmarks, vectors per example.
_HESSIANS, _VECTORS = 16.0, 200.0
# Landmarks at least: conjugate gradients beyond them have some preconditioner.
_FEWEST = 16
# With fewer, conjugate gradients take many times as many passes.
_MANY = 256
# Rows of a tile, all of whose values are kept where it lies on the diagonal.
_TILE = 1024


class Room(NamedTuple):
    """How a problem of m examples divides the memory."""

    sample: int  # examples on which landmarks are chosen
    tiles: float  # bytes for tiles of the kernel matrix
    features: float  # bytes for features
    landmarks: int  # at most

    @classmethod
    def of(cls, m: int, memory: float, q: int = 1) -> Room:
        """Half is for tiles, unless so few of them could be kept that it makes no difference."""
        sample = sample_size(m)
        has_tiles = 2.0 * m * m <= _TILES_WORTH * memory
        # Without a limit, what is left beside an infinite half is infinite, too.
        room = memory / 2 if has_tiles else memory
        tiles, a_landmark = room if has_tiles else 0.0, 4.0 * min(m, MOST) + 8 * sample
        features = room
        if q > 1:
            # The r with a_landmark r + _HESSIANS q r^2 bytes.
            square, room = 2 * _HESSIANS * q, max(0.0, room - _VECTORS * m * q)
            room = (math.sqrt(a_landmark**2 + 2 * square * room) - a_landmark) / square
            a_landmark = 1.0
        return cls(sample, tiles, features, most_landmarks(m, room, a_landmark, _FEWEST))

    def beyond(self, m: int, r: int) -> int:
        """Of r landmarks, those whose features of all examples there is room for."""
        return int(min(r, self.features / (4.0 * m)))

    def of_landmarks(self, m: int, q: int = 1) -> float:
        """Bytes for features in single precision, of the sample in both; matrices of landmarks."""
        features = self.landmarks * (4.0 * min(m, MOST) + _OF_SAMPLE * self.sample)
        # Of all examples where landmarks are not enough.
        features = max(features, 4.0 * m * self.beyond(m, self.landmarks))
        return features + _squares(self.landmarks, q)

    def in_double(self, m: int, q: int = 1) -> int:
        """As many landmarks in double precision as take no more than tiles and all in single."""
        room = min(self.tiles, _most_tiles(m)) + self.of_landmarks(m, q)
        room -= _squares(self.landmarks, q)
        a_landmark = _DOUBLE * min(m, MOST) + 2 * _DOUBLE * self.sample
        return int(min(self.landmarks, room / a_landmark))

    def tiles_beside(self, Z: np.ndarray, q: int) -> float:
        """Bytes for tiles beside features of all examples, and no sample."""
        if not 0 < self.tiles < math.inf:
            return self.tiles
        m, r = Z.shape
        return max(0.0, self.tiles + self.of_landmarks(m, q) - Z.nbytes - _squares(r, q))


def _squares(r: int, q: int) -> float:
    return (_SQUARES + (_HESSIANS * q if q > 1 else 0.0)) * r * r


def _most_tiles(m: int) -> float:
    return 2.0 * m * (m + _TILE)


def landmarks_in(m: int, memory: float) -> int:
    """The most landmarks that a problem of m examples may have in so many bytes."""
    return Room.of(m, MEMORY * memory).landmarks


def memory_for_many(m: int) -> float:
    """Bytes with which a problem of m examples has so many landmarks that more matter little."""
    sample = sample_size(m)
    return Room(sample, 0.0, 0.0, min(_MANY, m)).of_landmarks(m) / MEMORY


def needed_bytes(m: int, memory: float, q: int = 1) -> float:
    """What q problems of m examples take at most of ``memory``, rows and vectors apart.

    Tiles above the diagonal, what landmarks take, and vectors of several problems.
    """
    q = together(m, q, MEMORY * memory)
    room = Room.of(m, MEMORY * memory, q)
    vectors = 0.0 if q == 1 else _VECTORS * m * q
    return min(room.tiles, _most_tiles(m)) + room.of_landmarks(m, q) + vectors


def together(m: int, q: int, memory: float) -> int:
    """So many of q problems are solved side by side: their vectors fill a quarter at most."""
    return int(max(1, min(q, memory / 4 / (_VECTORS * m))))
