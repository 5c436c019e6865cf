"""The lambda and gamma that nobody named, for the data.

Each is the usual one (:mod:`odmtool.defaults`), or what docs/defaults.md found for data that are
wide, sparse, many or not scaled. An example of weight 2 is two.
"""

from __future__ import annotations

import numpy as np

from odmtool.core import kernels
from odmtool.core.columns import distinct_numbers
from odmtool.core.csr import CSR
from odmtool.core.kernels import Kernel
from odmtool.core.loss_table import MACHINES
from odmtool.defaults import (
    BY_VARIANCE,
    COEF0,
    COEF0_OF,
    DEGREE,
    EXAMPLES_OF_FEW,
    EXAMPLES_OF_SPREAD,
    FEW_FEATURES,
    FEW_PER_FEATURE,
    FEW_PER_SPARSE_FEATURE,
    LAMBDA,
    LAMBDA_OF_KINK,
    LAMBDA_OF_MANY,
    LAMBDA_OF_NARROW,
    LAMBDA_OF_POLY,
    LAMBDA_PER_EXAMPLE,
    LAMBDA_TIMES_EXAMPLES,
    LEAST_SPREADS,
    M3SVM_CLASSES,
    M3SVM_VARIANCE,
    MANY_OF_SLOWER,
    MANY_TO_SPREAD,
    POWER,
    SPARSE_FROM,
    SPREAD_OF,
    SPREAD_OF_FEW,
    WIDE_FROM,
    WITH_COST_OF_ONE,
    WITH_KERNEL_LAMBDA,
    WITH_KINK,
    WITHOUT_SHARED,
)
from odmtool.machines.data import gamma_for
from odmtool.machines.shared_length import length_over_own, over_typical
from odmtool.machines.sigmoid_lambda import sigmoid_lambda

# Of what a column has so many medians of all columns count, and of several classes with a hundred
# features, among which pictures have larger ones, so many (docs/defaults.md).
_MEDIANS, _MEDIANS_OF_CLASSES = 16, 8
# The mean k(x, x) over this is the size of poly's values where that is more than the median.
_OF_MEAN = 2.0**20
# Machines whose lambda weighs a power of the distances of the classes.
_OF_PAIRS = ("m3svm", "ism3")
# Kernels whose width, or size, bounds the default lambda of losses with a kink.
_BOUNDED = ("rbf", "poly")
# What default_lambda is told of the parameters.
_TOLD = ("gamma", "degree", "coef0", "power")
# Features with variance 1 whose digits were rounded.
_ROUNDED = 1.01

# Kernels whose default lambda depends on gamma and on the variances of the features.
_OF_SPREAD = ("rbf", "sigmoid")

OF_ROWS = {"rbf": ("gamma",), "sigmoid": ("gamma",), "poly": ("gamma", "degree", "coef0")}
"""Kernels whose default lambda depends on the rows, and on which of their parameters."""


def fitted(
    name: str, kernel: str, X, weight: np.ndarray | None, k: int, known: dict
) -> tuple[dict, np.ndarray | None]:
    """What is open of coef0, gamma and lambda, where it is not the usual, for the data.

    Parameters
    ----------
    name, kernel, X, weight, k
        As those of :func:`default_lambda`.
    known : dict
        Parameters that somebody named. None is one with several values: what suits one of them does
        not suit another, and lambda is as without rows.

    Returns
    -------
    found : dict
    variances : ndarray or None
        Those of :func:`feature_variances`, if gamma was open and depends on them.
    """
    usual, found, variances = MACHINES[name].parameters["lambda_"], {}, None
    if kernel in COEF0_OF and "coef0" not in known:
        found["coef0"] = COEF0_OF[kernel]
    if kernel in SPREAD_OF and "gamma" not in known:
        variances = feature_variances(X, weight)
        found["gamma"] = default_gamma(kernel, X, weight, variances, name)
    if "lambda_" not in known:
        told = {n: v for n, v in (known | found).items() if n in _TOLD}
        told = {} if None in told.values() else told
        found["lambda_"] = default_lambda(
            name, usual, kernel, X, weight, variances=variances, k=k, **told
        )
    no_news = {"gamma": 0.0, "lambda_": usual}
    return {n: value for n, value in found.items() if value != no_news.get(n)}, variances


def depends_on_rows(name: str, kernel: str, total: float, d: int, k: int, known: dict) -> bool:
    """Whether what :func:`fitted` finds depends on the rows.

    ``total`` is the number of examples, weights counted, ``d`` that of features.
    """
    if kernel in SPREAD_OF and "gamma" not in known:
        return True
    if "lambda_" in known:
        return False
    if kernel == "linear":
        usual = MACHINES[name].parameters["lambda_"]
        return name in _OF_PAIRS or _is_of_rows(_as_linear(name, k), usual, total, d)
    is_told = kernel in OF_ROWS and None not in known.values()
    return is_told and name in (*WITH_KERNEL_LAMBDA, *WITH_KINK)


def default_lambda(
    name: str, usual: float, kernel: str, X, weight: np.ndarray | None = None,
    gamma: float | None = None, variances: np.ndarray | None = None,
    degree: int = DEGREE, coef0: float = COEF0, k: int = 3, power: float | None = None,
) -> float:  # fmt: skip
    """The lambda of a machine that nobody named (docs/defaults.md).

    With a kernel 2^14 and at least 4 for each example, but from 2^18 on 1, for the time: else an
    example would count the less the more there are. Losses with a kink take 2^16, or 2^28 / m if
    that is less, for the time, and their usual lambda with sigmoid or without rows. With rbf no
    more than :func:`_narrow_lambda`, with poly than :func:`_poly_lambda`, with sigmoid
    :func:`.sigmoid_lambda`.
    Of linear odm and mcodm less than ``usual`` for wide data and data with few examples per
    feature, of odm of sparse data some more; of other machines one for each example, and of m3svm
    and ism3 :func:`_lambda_of_pairs`. Of two classes linear mcodm is as odm. An example of weight 2
    is two, but weights that are 1 / m, as boosting hands them on, do not make the examples one.

    Parameters
    ----------
    name : str
        Of the machine.
    usual : float
        The machine's default for other kernels and data.
    X : CSR, csr_matrix or ndarray, shape (m, d), or what has only that shape
        Then ``usual`` holds for all linear machines, rbf and poly are kernels like others, and of
        sigmoid features are taken to be standardised.
    weight : ndarray, shape (m,), optional
    gamma : float, optional
        Of rbf, poly and sigmoid, which without it are as where there are no rows; 0 is 1 / d.
    variances : ndarray, optional
        Those of :func:`feature_variances`, where they are known.
    k : int
        Classes.
    power : float, optional
        Of m3svm and ism3; without it their usual one.
    """
    total, weight = counted(X.shape[0], weight)
    if kernel == "linear" and name in _OF_PAIRS:
        return _lambda_of_pairs(usual, X, weight, k, POWER if power is None else power)
    if kernel == "linear":
        return _linear_lambda(_as_linear(name, k), usual, X, total, weight)
    is_known = gamma is not None and _has_rows(X)
    if name in WITH_KERNEL_LAMBDA:
        of_kernel = max(LAMBDA, min(LAMBDA_PER_EXAMPLE * total, LAMBDA_OF_MANY), total)
    elif name in WITH_KINK and kernel in _BOUNDED and is_known:
        of_kernel = max(usual, min(LAMBDA_OF_KINK, LAMBDA_TIMES_EXAMPLES / max(total, 1)))
    else:
        return usual
    if kernel == "poly" and gamma is not None:
        poly = Kernel(kernel, gamma_for(gamma, X.shape[1]), coef0, degree)
        return min(of_kernel, _poly_lambda(poly, X, total, weight))
    if kernel not in _OF_SPREAD:
        return of_kernel
    spread = 0.0
    if gamma is not None:
        variances = feature_variances(X, weight) if variances is None else variances
        if kernel == "rbf":  # much larger ones do not count, as in _length_lambda
            variances = _cut_off(np.sort(variances[variances > 0]))
        spread = _spread(gamma_for(gamma, X.shape[1]), variances)
    if kernel == "rbf":
        return min(of_kernel, _narrow_lambda(spread, total))
    sigmoid = Kernel(kernel, gamma_for(gamma or 0.0, X.shape[1]), coef0)
    rows = X if is_known else None
    return min(of_kernel, sigmoid_lambda(sigmoid, rows, spread, weight))


def counted(m: int, weight: np.ndarray | None) -> tuple[float, np.ndarray | None]:
    """How many examples there are, weights counted, and these weights.

    Weights whose mean is below 1 are shares: they count as if it were 1, without those that are 0.
    """
    if weight is None:
        return float(m), None
    total, used = float(weight.sum()), float(np.count_nonzero(weight))
    return (total, weight) if total >= used else (used, weight * (used / total))


def _spread(gamma: float, variances: np.ndarray) -> float:
    """gamma times the summed variance of the features, and at most 1; 0 where it is not known.

    It is 1 for standardised features and gamma 1 / d, which makes some hundredths of features in
    [0, 1]; their default gamma makes more (:func:`default_gamma`).
    """
    spread = gamma * float(variances.sum())
    return min(spread, 1.0) if 0 < spread < np.inf else 0.0


def _narrow_lambda(spread: float, total: float) -> float:
    """What lambda is at most with the rbf kernel.

    Where the spread is 1 examples tell little of each other, and a large lambda fits noise. One
    for each example, or 2^10, is right there, and the more the smaller the spread is. The number
    has three digits, which no order of summation changes.
    """
    return float(f"{max(LAMBDA_OF_NARROW, total) / spread:.3g}") if spread else np.inf


def _poly_lambda(kernel: Kernel, X, total: float, weight: np.ndarray | None) -> float:
    """What lambda is at most with the poly kernel.

    Features that nobody scaled make kernel values of 1e10 and more, with which rounding hides the
    solution of a larger lambda. Their size is the median k(x, x), or a share of the mean where a
    few examples are very long. The number has three digits, which no order of rows changes.
    """
    if not _has_rows(X):
        return np.inf
    weight = np.ones(X.shape[0]) if weight is None else weight
    with np.errstate(over="ignore", invalid="ignore"):
        values = kernels.diagonal(kernel, X)
        mean = float(weight @ values / weight.sum())
    order = np.argsort(values)
    counts = np.cumsum(weight[order])
    median = float(values[order[np.searchsorted(counts, counts[-1] / 2)]])
    size = max(median, mean / _OF_MEAN)
    if not 0 < size < np.inf:
        return np.inf
    return float(f"{LAMBDA_OF_POLY * max(LAMBDA_OF_NARROW, total) / size:.3g}") or np.inf


def has_large(variances: np.ndarray) -> bool:
    """Whether some features are much larger than most: more than some medians."""
    sizes = np.sort(variances[variances > 0])
    return bool((_cut_off(sizes) < sizes).any())


def _cut_off(sizes: np.ndarray, medians: int = _MEDIANS) -> np.ndarray:
    """Sorted numbers, those above some medians no larger than these."""
    return np.minimum(sizes, medians * sizes[len(sizes) // 2]) if len(sizes) else sizes


def _is_of_rows(name: str, usual: float, total: float, d: int) -> bool:
    """Whether a linear machine's default lambda depends on the rows, but for machines of pairs."""
    return name in WITH_COST_OF_ONE and total > usual or _may_be_wide(name, total, d)


def _as_linear(name: str, k: int) -> str:
    """The machine whose rule is taken: mcodm of two classes is odm, with half of its lambda."""
    return "odm" if name == "mcodm" and k == 2 else name


def _may_be_wide(name: str, total: float, d: int) -> bool:
    return _depends_on_length(name, total, d) or _may_be_sparse(name, total, d)


def _depends_on_length(name: str, total: float, d: int) -> bool:
    return _is_wide(name, total, d) or total < FEW_PER_FEATURE.get(name, 0) * d


def _is_wide(name: str, total: float, d: int) -> bool:
    return name in WIDE_FROM and (d > total or d >= WIDE_FROM[name])


def _may_be_sparse(name: str, total: float, d: int) -> bool:
    return d >= SPARSE_FROM and d <= total < FEW_PER_SPARSE_FEATURE.get(name, 0) * d


def _linear_lambda(name: str, usual: float, X, total: float, weight: np.ndarray | None) -> float:
    """``usual``, or what the rows have it be; columns that are not 0 count.

    The number has three digits, which no order of summation changes.
    """
    if not _has_rows(X) or not _is_of_rows(name, usual, total, X.shape[1]):
        return usual
    X, weight = _without_gaps(X), np.ones(X.shape[0]) if weight is None else weight
    squares = _column_squares(X, weight)
    squares = np.sort(squares[squares > 0])
    if name in WITH_COST_OF_ONE:
        return _lambda_of_one(usual, total, squares)
    return _wide_lambda(name, usual, X, total, weight, squares)


def _lambda_of_pairs(
    usual: float, X, weight: np.ndarray | None, k: int, power: float
) -> float:  # fmt: skip
    """Of sum_i loss_i + lambda sum |w_k - w_l|^p: (V / 128)^(p / 2), V the summed variance, or
    ``usual`` if that is less.

    In smaller units, or about another mean, the same functions are found. How many examples there
    are does not matter, as it does not to LIBLINEAR's C = 1. Large variances are cut off. The
    number has three digits, which no order of summation changes. Of wide data of many classes it
    is ``usual``, for the time.
    """  # fmt: skip
    if not _has_rows(X) or (k > M3SVM_CLASSES and X.shape[1] > X.shape[0]):
        return usual
    with np.errstate(over="ignore", under="ignore"):
        found = (_summed_variances(X, weight) / M3SVM_VARIANCE) ** (power / 2)
    return min(usual, float(f"{found:.3g}")) if found > 0 else usual


def _lambda_of_one(usual: float, total: float, squares: np.ndarray) -> float:
    """One for each example, the C = 1 of LIBLINEAR, from ``usual`` to 2^14.

    Where features are larger than in [0, 1] or with variance 1, so that the mean |x|^2 is more than
    their number, ``usual`` is already much.
    """
    if squares.sum() > _ROUNDED * total * len(squares):
        return usual
    return min(max(usual, float(f"{total:.3g}")), LAMBDA)


def _wide_lambda(
    name: str, usual: float, X, total: float, weight: np.ndarray, squares: np.ndarray
) -> float:
    """At most ``usual``; less for wide data, with few examples per feature, and for sparse data."""
    found, d = usual, len(squares)
    if _depends_on_length(name, total, d):
        if name in BY_VARIANCE and (d > total or d < WIDE_FROM[name]):
            return min(usual, _lambda_of_classes(X, total, weight, d))
        found = _length_lambda(name, usual, X, total, weight, squares)
    if _may_be_sparse(name, total, d) and _is_sparse(X, weight, d):
        found = min(found, _variance_lambda(X, total, weight))
    return found


def _length_lambda(
    name: str, usual: float, X, total: float, weight: np.ndarray, squares: np.ndarray
) -> float:
    """At most ``usual``; for wide data not more than M / mean |x|^2, and so with few examples.

    With more features than examples nearly every example can get its margin, and a large lambda
    fits noise; so it does with several classes from a hundred features on. With some examples for
    each of d features it does so less and less: (M / d)^2 times as much. With no more features than
    examples, where some features are much larger than the others, nearly all of the mean length is
    theirs, and the others would count for nothing: a column's sum of squares counts as no more than
    some medians of them all.
    """
    d, factor = len(squares), 1.0
    if not _is_wide(name, total, d):
        squares = _cut_off(squares)
        factor = (total / d) ** 2
    elif d <= total:
        squares = _cut_off(squares, _MEDIANS_OF_CLASSES)
    size = float(squares.sum())
    if not 0 < size < np.inf:
        return usual
    if d > total and name in WITHOUT_SHARED:
        factor = length_over_own(X, weight, size / total, (d / total) ** 2)
    return min(usual, float(f"{factor * total * (total / size):.3g}"))


def _lambda_of_classes(X, total: float, weight: np.ndarray, d: int) -> float:
    """What lambda is at most with several classes: M over the summed variances, and with more
    examples than features (M / d)^2 times as much.

    With few examples for each of d features a large lambda fits noise, and less and less with more,
    as it does with two classes. With M over mean |x|^2 the scores of a class would depend more on
    how long its examples are than on what tells them from others. With more features than examples
    what lies in a few common directions does not count.
    """
    if d <= total:
        return _variance_lambda(X, total, weight, (total / d) ** 2)
    own = max(1.0, over_typical(X, weight, is_centred=True))
    return _variance_lambda(X, total, weight, own)


def _variance_lambda(X, total: float, weight: np.ndarray, factor: float = 1.0) -> float:
    """What lambda is at most for sparse data: M over the summed variances, large ones cut off.

    Features of texts, categories and counts are many and of one size, and few of them tell much:
    a larger lambda fits noise even with several examples for each. ``factor``: so many times.
    """
    size = _summed_variances(X, weight)
    return float(f"{factor * total / size:.3g}") if 0 < size < np.inf else np.inf


def _summed_variances(X, weight: np.ndarray | None) -> float:
    """The sum of the variances of the features that vary, large ones cut off."""
    variances = feature_variances(X, weight)
    return float(_cut_off(np.sort(variances[variances > 0])).sum())


def _is_sparse(X, weight: np.ndarray, d: int) -> bool:
    """Whether most values of the d columns are 0."""
    if isinstance(X, np.ndarray):
        count = weight @ np.count_nonzero(X, axis=1)
    else:  # zeros may be stored
        count = np.repeat(weight, np.diff(X.indptr)) @ (X.data != 0)
    return 2 * float(count) < d * float(weight.sum())


def _has_rows(X) -> bool:
    return isinstance(X, np.ndarray) or hasattr(X, "indices")


def _without_gaps(X):
    """The rows; where a huge index makes many columns, of those that occur."""
    if isinstance(X, np.ndarray):
        return X
    (m, d), places = X.shape, X.indices
    if d > X.nnz:
        numbers = distinct_numbers(places)
        d, places = len(numbers), np.searchsorted(numbers, places).astype(places.dtype)
    return CSR(X.data, places, X.indptr, (m, d))


def _column_squares(X, weight: np.ndarray) -> np.ndarray:
    """The sum of v_i x_ij^2 of every column."""
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(X, np.ndarray):
            return np.einsum("i,ij,ij->j", weight, X, X)
        return X.weighted_squares(weight)


def default_gamma(
    kernel: str, X, weight: np.ndarray | None = None, variances: np.ndarray | None = None,
    name: str = "odm",
) -> float:  # fmt: skip
    """The gamma that nobody named (docs/defaults.md): 0, which is 1 / number of features, or other.

    With it examples may be too far from each other or too near. gamma times the summed variance of
    the features stays in ``SPREAD_OF``, with rbf between :func:`_least_spread` and
    :func:`_most_spread`; what that makes of 1 / d has three digits, which no order changes.

    Parameters
    ----------
    X : CSR, csr_matrix or ndarray, shape (m, d), or what has only that shape
        Then it is 0.
    weight : ndarray, shape (m,), optional
    variances : ndarray, optional
        Those of :func:`feature_variances`, where they are known.
    name : str
        Of the machine.
    """
    if kernel not in SPREAD_OF:
        return 0.0
    variances = feature_variances(X, weight) if variances is None else variances
    variance = float(variances.sum())
    if not 0 < variance < np.inf:
        return 0.0
    usual, (low, high) = gamma_for(0.0, X.shape[1]), SPREAD_OF[kernel]
    if kernel == "rbf":
        total = counted(X.shape[0], weight)[0]
        low = max(low, _least_spread(total, name))
        high = _most_spread(total, np.count_nonzero(variances))
    with np.errstate(over="ignore"):
        fitting = min(max(usual, np.divide(low, variance)), np.divide(high, variance))
    if fitting == np.inf:
        return 0.0
    found, usual = (float(f"{gamma:.3g}") for gamma in (fitting, usual))
    # Of standardised features rounding decides which is larger.
    return 0.0 if found == usual else found


def _least_spread(total: float, name: str) -> float:
    """The smallest gamma times summed variance, with rbf, of so many examples.

    The more there are the finer are the shapes that they tell of. Of very many it is less, for the
    time.
    """
    low, high = LEAST_SPREADS
    many = MANY_OF_SLOWER.get(name, MANY_TO_SPREAD)
    return min(max(total / EXAMPLES_OF_SPREAD, low), high) * min(1.0, many / max(total, 1.0)) ** 2


def _most_spread(total: float, d: int) -> float:
    """The largest gamma times summed variance, with rbf, of so many examples.

    ``d`` is the number of features that vary.

    In many dimensions every example is alone where that is more than 1. In few of them many
    examples fill the space, and the distance to the nearest falls with their number to the power
    1 / d: there a narrower kernel tells of finer shapes.
    """
    if d > FEW_FEATURES:
        return SPREAD_OF["rbf"][1]
    filled = (total / EXAMPLES_OF_FEW) ** (2 / d)
    return max(SPREAD_OF["rbf"][1], min(filled, SPREAD_OF_FEW))


def feature_variances(X, weight: np.ndarray | None = None) -> np.ndarray:
    """Those of the features that occur; of none where the rows are not here."""
    if not _has_rows(X):
        return np.empty(0)
    with np.errstate(over="ignore", invalid="ignore"):
        return kernels.variances(X, weight)
