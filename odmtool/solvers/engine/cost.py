"""What the parts of the engine take, in seconds of one core: to choose, not to predict.

Only ratios matter; they were measured on a processor with AVX2 (docs/kernel-engine.md).
"""

# speed only: the cheapest way is guessed, and every way ends with a certificate
from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
_KEPT = 1e-9


class Cost(NamedTuple):
    """Seconds for a problem of this shape.

    Attributes
    ----------
    size : int
        Examples.
    entries : float
        Entries of a row that take part in an inner product.
    is_sparse : bool
    """

    size: int
    entries: float
    is_sparse: bool

    @classmethod
    def of(cls, X) -> Cost:
        """The cost for these rows."""
        if isinstance(X, np.ndarray):
            return cls(len(X), X.shape[1], False)
        return cls(X.shape[0], X.nnz / max(1, X.shape[0]), True)

    @property
    def value(self) -> float:
        """One kernel value in double precision."""
        return _VALUE + self.entries * (_ENTRY if self.is_sparse else 2 / _DOUBLE)

    def span(self, r: int) -> float:
        """Features, Newton's method in the span, margins: everything but the certificate."""
        kept, passes = min(self.size, MOST), 2 + _PASSES * (self.size > MOST)
        products = r**2 * (self.size / _DOUBLE + kept * _HESSIANS / _SINGLE)
        return products + passes * self.size * r * self.value + r**3 / _DOUBLE

    def rows(self, count: int, active: int) -> float:
        """Drawn rows, with so many examples in each."""
        return count * active * self.value

    def whole(self, active: int) -> float:
        """One pass over K of the active examples in double precision."""
        return active**2 / 2 * (self.value + _KEPT)

    def pass_over(self, active: int, is_kept: bool) -> float:
        """The same in single precision."""
        return active**2 / 2 * (_KEPT if is_kept else _SINGLE_SHARE * self.value + _KEPT)
