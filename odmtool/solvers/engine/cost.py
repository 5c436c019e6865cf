"""What the parts of the engine take, in seconds of one core: to choose, not to predict.

Only ratios matter; they were measured on a processor with AVX2 (docs/kernel-engine.md).
"""

# speed only: the cheapest way is guessed, and every way ends with a certificate
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from odmtool.core.gram import BYTES

# Multiplications and additions in a matrix product, per second.
_DOUBLE, _SINGLE = 1.8e10, 3.6e10
# A kernel value in double precision beside its inner product; an entry of a sparse row in it.
_VALUE, _ENTRY = 6e-9, 6e-10
# In single precision.
_SINGLE_SHARE = 0.4
MOST = 100_000
"""Examples whose features are kept; of more there are passes (:mod:`.thinned`)."""
# So many.
_PASSES = 3
# Hessians that Newton's method makes, those of a few changed examples added up.
_HESSIANS = 1.6
# Reading a kernel value that is kept, in a product with one vector.
_KEPT = 6e-10
# Bytes of one, in single precision.
_BYTES = 4
# Products with K between active examples that Newton's method needs, and the power of (gap /
# tolerance) that they grow with.
_PRODUCTS, _SLOWLY = 2.0, 0.4
# More products than these nobody can foresee.
_FORESEEN = 200
# The same where the features are no preconditioner: so many, and the power of the demanded duals'
# relative gap that they grow with; each takes so many times as long as reading the values.
_APART, _APART_SLOWLY, _APART_READ = 30.0, 0.3, 4.0
# Steps of Newton's method on the whole matrix.
_STEPS = 5
# Epochs of coordinate descent where the loss has a kink.
_DESCENT = 20
# Of a smooth loss to a gap of 1e-3: so many, and so many more for each unit of u l'' k.
_EPOCHS, _STEEPER = 5.0, 0.55
# So many times as long Newton's method in function space takes where single precision, that of
# its products, hides the solution in the landmarks' span.
_HIDDEN = 10.0
NEAR = 0.5
"""A gap of the demanded duals, in tolerances, that lets hope that they are enough."""


class Cost(NamedTuple):
    """Seconds for a problem of this shape."""

    size: int  # examples
    entries: float  # entries of a row that take part in an inner product
    is_sparse: bool
    tiles: float = 0.0  # bytes for kernel values that are kept
    is_hidden: bool = False  # single precision hides the solution

    @classmethod
    def of(cls, X, tiles: float = 0.0) -> Cost:
        """The cost for these rows."""
        if isinstance(X, np.ndarray):
            return cls(len(X), X.shape[1], False, tiles)
        return cls(X.shape[0], X.nnz / max(1, X.shape[0]), True, tiles)

    @property
    def value(self) -> float:
        """One kernel value in double precision."""
        return _VALUE + self.entries * (_ENTRY if self.is_sparse else 2 / _DOUBLE)

    def span(self, r: int, is_certified: bool = False) -> float:
        """Features, Newton's method in the span, margins: everything but the certificate.

        A bound that is made of what is left of the examples wants features in double precision.
        """
        kept, passes = min(self.size, MOST), 2 + _PASSES * (self.size > MOST)
        features = self.size / (_DOUBLE if is_certified else _SINGLE)
        products = r**2 * (features + kept * _HESSIANS / _SINGLE)
        return products + passes * self.size * r * self.value + r**3 / _DOUBLE

    def rows(self, count: int, active: int) -> float:
        """Drawn rows, with so many examples in each."""
        return count * active * self.value

    def whole(self, active: int) -> float:
        """One pass over K of the active examples in double precision."""
        return active**2 / 2 * (self.value + _KEPT)

    def made(self, count: float) -> float:
        """So many kernel values in single precision."""
        return count * _SINGLE_SHARE * self.value

    def kept(self, count: float) -> float:
        """Reading so many that are kept."""
        return count * _KEPT

    def descent(self, slope: float, tolerance: float) -> float:
        """Coordinate descent on the whole matrix in single precision; ``slope`` is u l'' k.

        Gaps fall by about the same factor in every epoch.
        """
        values = float(self.size) ** 2
        epochs = (_EPOCHS + _STEEPER * slope) * max(1.0, -math.log10(tolerance) / 3)
        return self.made(values) + epochs * self.kept(values)

    def beyond(self, active: float, excess: float, demanded: float) -> float:
        """Newton's method in function space from landmarks whose gap is ``excess`` tolerances.

        Values between active examples are made once in single precision, as far as they are not
        kept again for every product; those between active examples and the others once in every
        step. At last all are made in double precision. Where the duals that the landmarks' model
        demands have a gap of ``demanded`` tolerances that is small enough, the last pass is all.
        """
        inner, values = active**2 / 2, active * (self.size - active / 2)
        if demanded <= NEAR:
            return values * (self.value + _KEPT)
        passes, steps = _PRODUCTS * excess**_SLOWLY, _steps(excess)
        made = 1 - min(1.0, self.tiles / max(1.0, _BYTES * inner))
        seconds = self.made(inner * (1 + made * passes)) + self.kept(inner * passes)
        seconds += steps * (self.made(values - inner) + self.kept(values))
        seconds *= _HIDDEN if self.is_hidden else 1.0
        return seconds + values * self.value

    def apart(self, active: float, demanded: float) -> float:
        """The same where the demanded duals have a relative gap of ``demanded``, which is large.

        Then the landmarks' features say little of K, and many short steps with many products each
        follow.
        """
        inner = active**2 / 2
        count = _APART * demanded**_APART_SLOWLY
        return self.made(inner) + count * _APART_READ * self.kept(inner)

    def matrix(self, active: float) -> float:
        """Newton's method on the whole matrix, in double precision, from 0."""
        return self.size**2 * self.value + _STEPS * active**3 / 3 / _DOUBLE


def _steps(excess: float) -> float:
    """Newton's steps in function space from a gap of ``excess`` tolerances."""
    return 1 + math.log10(max(1.0, excess))


def passes(excess: float) -> int:
    """About how many products with K follow; 0 where that cannot be foreseen.

    Those of conjugate gradients, two for each step, and one in double precision.
    """
    count = _PRODUCTS * excess**_SLOWLY + 2 * _steps(excess) + 1
    return round(count) if count <= _FORESEEN else 0


class DescentCost(Cost):
    """Where coordinate descent on all kernel values comes next, which needs few epochs."""

    def beyond(self, active: float, excess: float, demanded: float) -> float:
        """Every value is made once, and as far as there is no room for it, in every epoch."""
        values = float(self.size) ** 2
        kept = min(1.0, self.tiles / (BYTES * values))
        return values * (self.value + _DESCENT * (kept * _KEPT + (1 - kept) * self.value))
