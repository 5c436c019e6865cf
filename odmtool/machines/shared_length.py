"""How much of the examples' squared length is common to many, with more features than examples.

There nearly every example can get its margin, and M / mean |x|^2 is the lambda with which it gets
most of it: of an example's own part, orthogonal to all others, the length counts. What many share
makes them long and tells nothing of their classes: a mean, as that of features in [0, 1], or a few
directions, as those in which gene expression differs from one batch to the next.
"""

from __future__ import annotations

import numpy as np

from odmtool.core import kernels

# What rounding leaves of a squared length, or of an eigenvalue, is a smaller share.
_EQUAL = 1e-12
# Examples whose products are looked at.
_LOOKED_AT = 256
# Of fewer eigenvalues nobody knows which are usual.
_FEWEST = 16
# So many times the excess of the mean eigenvalue over the median, where smaller ones are equal.
_FLAT = 4.0


def length_over_own(X, weight: np.ndarray, length: float, most: float) -> float:
    """The mean |x|^2, ``length``, over what of it is an example's own; 1 to ``most``.

    What is common serves as an intercept, too, for which few features to spare are too few:
    ``most`` is the square of the number of features per example.
    """
    found = max(1.0, _over_distance(X, weight, length), over_typical(X, weight))
    return min(found, max(1.0, most))


def _over_distance(X, weight: np.ndarray, length: float) -> float:
    """Over the mean squared distance of two examples: their mean is common."""
    sums = weight @ X if isinstance(X, np.ndarray) else X.T @ weight
    distance = 2 * (length - float(np.sum((sums / weight.sum()) ** 2)))
    return length / distance if distance > _EQUAL * length else 1.0


def over_typical(X, weight: np.ndarray, is_centred: bool = False) -> float:
    """4 times what the mean eigenvalue of the examples' products is more than the median, if these
    are flat, over the median.

    A few directions that are common have large eigenvalues, and of what is left all have about
    the same; then a large lambda fits no noise, however few examples there are. Eigenvalues that
    fall and fall, as those of texts and pictures, are no common directions: the number falls with
    the square of the ninth decile over the median. ``is_centred``: about the examples' mean.
    """
    rows = np.flatnonzero(weight)
    if len(rows) > _LOOKED_AT:
        rows = rows[np.linspace(0, len(rows) - 1, _LOOKED_AT).astype(int)]
    X, root = X[rows], np.sqrt(weight[rows])
    with np.errstate(over="ignore", invalid="ignore"):
        products = kernels.products(X, X)
        if is_centred:
            mean = products @ root**2 / (root @ root)
            products += (mean @ root**2) / (root @ root) - mean - mean[:, None]
        products *= root[:, None] * root
    if not np.isfinite(products).all():
        return 1.0
    found = np.sort(np.linalg.eigvalsh(products))[::-1]
    found = found[found > _EQUAL * found[0]]  # an example that stands twice has one, too
    if len(found) < _FEWEST:
        return 1.0
    typical, small = found[len(found) // 2], found[int(0.9 * len(found))]
    return float(_FLAT * (found.mean() / typical - 1) * (small / typical) ** 2)
