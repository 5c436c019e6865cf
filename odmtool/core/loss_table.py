"""The machines: one row for each, with its loss, its parameters and their defaults.

To add a machine for two classes, write here the function that makes its loss, and its row; and
its loss as a textbook prints it for the tests (``tests/naive.py``). Solvers, help texts, manual
pages and tests take it from the table. Its parameters are some of those that an option has
(:mod:`odmtool.cli.machine_options`).

A margin loss l(t), t = y f(x), is convex and piecewise quadratic with at most three pieces,
split at lo <= hi, so its derivative is

    l'(t) = slope_below   (t - lo) + left_lo      for t <  lo
            slope_between (t - lo) + right_lo     for lo < t < hi
            slope_above   (t - hi) + right_hi     for t >  hi

and may jump at lo and hi. :class:`MarginLoss` holds these numbers; compiled code takes it as it
is, so that one coordinate step serves every loss. The losses that machines have:

======  ================  ===================  =============  ==================
loss    split             l' below             between        above
======  ================  ===================  =============  ==================
odm     1-theta, 1+theta  2 c1 (t - 1+theta)   0              2 c2 (t - 1-theta)
l1svm   1                 -C                                  0
l2svm   1                 2 C (t - 1)                         0
lssvm   none              2 C (t - 1)
svr     1-theta, 1+theta  -C                   0              C
mamc    none              -C
======  ================  ===================  =============  ==================

with c1 = lambda / (M (1-theta)^2), c2 = mu c1, C = lambda / M and M the sum of the instance
weights. The loss of LDM is no row of this kind, because the variance couples the examples
(:class:`LDM`); for a given mean margin it is one. Nor is that of multi-class ODM
(:class:`MulticlassODMLoss`), whose margin is a maximum over classes.

``--help`` reads this file, so it imports nothing heavy; what is done with a loss stands in
:mod:`odmtool.core.losses`.

Sources: Zhang & Zhou, "Optimal margin distribution machine", TKDE 2019, eq. (9) (odm);
Pelckmans et al., "A risk minimization principle for a class of Parzen estimators",
NIPS 2007 (mamc).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from odmtool import messages
from odmtool.defaults import (
    BAND,
    COMPARATOR_LAMBDA,
    LAMBDA,
    M3SVM_LAMBDA,
    MU,
    MU1,
    MU2,
    MULTICLASS_LAMBDA,
    POWER,
    THETA,
)
from odmtool.errors import UsageError

SMOOTH, ONE_JUMP, JUMPS = "smooth", "one jump", "jumps"
MARGIN = (SMOOTH, ONE_JUMP, JUMPS)
"""The kinds of margin losses: how often the derivative jumps."""
OF_LDM, OF_KMOMD = "ldm", "kmomd"
OF_MCODM, OF_MCSVM, OF_PAIRS = "mcodm", "mcsvm", "pairs"
"""The kinds of the other losses; solvers say which kinds they take."""

BINARY = (*MARGIN, OF_LDM, OF_KMOMD)
"""Those of machines made for two classes."""

# Jumps of the derivative that are smaller, relatively, are none.
_ROUNDING = 1e-14


class MarginLoss(NamedTuple):
    """A margin loss; scalars, or arrays of shape (m,)."""

    lo: float
    hi: float
    slope_below: float
    left_lo: float
    slope_between: float
    right_lo: float
    slope_above: float
    right_hi: float
    value_lo: float

    @property
    def left_hi(self) -> float:
        """The derivative at hi, of the piece between."""
        return self.right_lo + self.slope_between * (self.hi - self.lo)

    @property
    def kind(self) -> str:
        """SMOOTH, ONE_JUMP or JUMPS; of scalars."""
        ends = self.left_lo, self.right_lo, self.left_hi, self.right_hi
        jumps = abs(self.left_lo - self.right_lo), abs(self.left_hi - self.right_hi)
        if max(jumps) <= _ROUNDING * max(map(abs, ends)):
            return SMOOTH
        return ONE_JUMP if self.lo == self.hi else JUMPS


def odm(lambda_: float, mu: float, theta: float, total_weight: float) -> MarginLoss:
    """The loss of the optimal margin distribution machine.

    Raises UsageError: a parameter is out of range.

    Parameters
    ----------
    lambda_ : float, > 0
        Weight of the loss against 1/2 |w|^2.
    mu : float, 0 < mu <= 1
        Cost of a margin above the band, relative to one below.
    theta : float, 0 <= theta < 1
        Half width of the band around margin 1 in which there is no loss.
    total_weight : float, > 0
        Sum of the instance weights; the number of examples without weights.
    """
    c1, c2 = _odm_costs(lambda_, mu, theta, total_weight)
    return MarginLoss(1.0 - theta, 1.0 + theta, 2 * c1, 0.0, 0.0, 0.0, 2 * c2, 0.0, 0.0)


def _odm_costs(lambda_, mu, theta, total_weight) -> tuple[float, float]:
    """c1 and c2 of c1 xi^2 + c2 epsilon^2."""
    if not 0 < mu <= 1:
        raise UsageError(messages.mu_range(mu))
    _check_theta(theta)
    c1 = _cost(lambda_, total_weight) / (1 - theta) ** 2
    return c1, mu * c1


def _cost(lambda_: float, total_weight: float) -> float:
    """C, the cost of one unit of weight."""
    if not lambda_ > 0:
        raise UsageError(messages.must_be_positive("lambda_", lambda_))
    return lambda_ / total_weight


def _check_theta(theta: float) -> None:
    if not 0 <= theta < 1:
        raise UsageError(messages.theta_range(theta))


def l1svm(lambda_: float, total_weight: float) -> MarginLoss:
    """The hinge C max(0, 1 - t); parameters and errors as in :func:`odm`."""
    return MarginLoss(1.0, 1.0, 0.0, -_cost(lambda_, total_weight), 0.0, 0.0, 0.0, 0.0, 0.0)


def l2svm(lambda_: float, total_weight: float) -> MarginLoss:
    """The squared hinge C max(0, 1 - t)^2."""
    return MarginLoss(1.0, 1.0, 2 * _cost(lambda_, total_weight), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def lssvm(lambda_: float, total_weight: float) -> MarginLoss:
    """The square C (1 - t)^2."""
    slope = 2 * _cost(lambda_, total_weight)
    return MarginLoss(1.0, 1.0, slope, 0.0, slope, 0.0, slope, 0.0, 0.0)


def svr(lambda_: float, theta: float, total_weight: float) -> MarginLoss:
    """Support vector regression of +-1: C max(0, |1 - t| - theta)."""
    _check_theta(theta)
    cost = _cost(lambda_, total_weight)
    return MarginLoss(1.0 - theta, 1.0 + theta, 0.0, -cost, 0.0, 0.0, 0.0, cost, 0.0)


def mamc(lambda_: float, total_weight: float) -> MarginLoss:
    """The negative margin -C t."""
    cost = _cost(lambda_, total_weight)
    return MarginLoss(0.0, 0.0, 0.0, -cost, 0.0, -cost, 0.0, -cost, 0.0)


class LDM(NamedTuple):
    """The loss of the large margin distribution machine; scalars.

    (mu1/M) sum u_i (t_i - b)^2 - (mu2/M) sum u_i t_i + (lambda/M) sum u_i max(0, 1 - t_i)
    with b = sum u_i t_i / sum u_i, the mean margin.
    """

    mu1: float
    mu2: float
    lambda_: float
    total_weight: float

    kind = OF_LDM


def ldm(mu1: float, mu2: float, lambda_: float, total_weight: float) -> LDM:
    """The loss of LDM.

    Raises UsageError: a parameter is out of range or not finite.

    Parameters
    ----------
    mu1, mu2 : float, >= 0
        Weights of the margins' variance and mean.
    lambda_, total_weight
        As in :func:`odm`.
    """
    for name, number in (("mu1", mu1), ("mu2", mu2), ("lambda_", lambda_)):
        if not math.isfinite(number):
            raise UsageError(messages.must_be_finite(name, number))
    for name, number in (("mu1", mu1), ("mu2", mu2)):
        if not number >= 0:
            raise UsageError(messages.must_not_be_negative(name, number))
    _cost(lambda_, total_weight)
    return LDM(float(mu1), float(mu2), float(lambda_), float(total_weight))


class KMOMD(NamedTuple):
    """The loss of KM-OMD, of which the level r of each class is a variable; a scalar.

    sum_i u_i cost/2 max(0, r_{y_i} - t_i)^2 - r_1 - r_2 at the best r.
    """

    cost: float

    kind = OF_KMOMD


def kmomd(lambda_: float, total_weight: float) -> KMOMD:
    """The loss of KM-OMD; parameters and errors as those of :func:`odm`."""
    return KMOMD(_cost(lambda_, total_weight))


class MulticlassODMLoss(NamedTuple):
    """The loss of multi-class ODM, c1 max(0, 1-theta-g)^2 + c2 max(0, g-1-theta)^2; scalars.

    The margin g is the score of the example's class minus the best other score. The maximum
    in it makes the second term non-convex, so this is no margin loss. Source: Zhang & Zhou,
    TKDE 2019, section 4.
    """

    theta: float
    c1: float
    c2: float

    kind = OF_MCODM


def mcodm(lambda_: float, mu: float, theta: float, total_weight: float) -> MulticlassODMLoss:
    """The loss of multi-class ODM; parameters and errors as those of :func:`odm`."""
    return MulticlassODMLoss(theta, *_odm_costs(lambda_, mu, theta, total_weight))


class MulticlassHinge(NamedTuple):
    """The loss of Crammer and Singer, cost max(0, 1 - g), g the margin as that of multi-class ODM.

    Source: Crammer & Singer, JMLR 2001.
    """

    cost: float

    kind = OF_MCSVM


def mcsvm(lambda_: float, total_weight: float) -> MulticlassHinge:
    """The multi-class hinge; parameters and errors as those of :func:`odm`."""
    return MulticlassHinge(_cost(lambda_, total_weight))


class MachineRow(NamedTuple):
    """What there is to know about a machine."""

    name: str
    about: str  # what it is, and where from
    formula: str  # of a machine for two classes: what it adds to 1/2 |w|^2
    # The parameters besides those of the kernel, and their defaults.
    parameters: dict[str, float]
    # From these and M, the total weight, to the loss; None if the solvers make it.
    loss: Callable | None
    # Options, not parameters, that only some machines use.
    options: tuple[str, ...] = ("multiclass",)
    kind: str = ""  # the kind of its loss, at the default parameters

    @property
    def is_binary(self) -> bool:
        """Whether it is made for two classes."""
        return self.kind in BINARY


_COMPARATOR = {"lambda_": COMPARATOR_LAMBDA}
_PAIRS = {"lambda_": M3SVM_LAMBDA, "power": POWER}

_ROWS = (
    MachineRow(
        "odm",
        "the optimal margin distribution machine (Zhang and Zhou, IEEE TKDE 2019): the margins of "
        "all examples are to lie near 1; those below 1 - theta are punished by lambda, those above "
        "1 + theta by mu lambda. lambda > 0, 0 < mu <= 1, 0 <= theta < 1.",
        "c1 sum_i u_i max(0, 1 - theta - t_i)^2 + c2 sum_i u_i max(0, t_i - 1 - theta)^2,\n"
        "c1 = C / (1 - theta)^2,   c2 = mu c1",
        {"lambda_": LAMBDA, "mu": MU, "theta": THETA},
        odm,
    ),
    MachineRow(
        "ldm",
        "the large margin distribution machine (Zhang and Zhou, KDD 2014), called ODM^L in the "
        "TKDE paper: variance and mean of the margins beside the hinge loss. With weights they are "
        "sum_i u_i (t_i - a)^2 / M and sum_i u_i t_i / M, where a = sum_i u_i t_i / sum_i u_i. "
        "mu1 >= 0, mu2 >= 0.",
        "mu1 var(t) - mu2 mean(t) + C sum_i u_i max(0, 1 - t_i)",
        {"lambda_": COMPARATOR_LAMBDA, "mu1": MU1, "mu2": MU2},
        ldm,
    ),
    MachineRow(
        "mcodm",
        "multi-class ODM (Zhang and Zhou, IEEE TKDE 2019, section 4)",
        "",
        {"lambda_": MULTICLASS_LAMBDA, "mu": MU, "theta": THETA},
        mcodm,
        options=("outer",),
    ),
    MachineRow(
        "mcsvm", "the multi-class support vector machine (Crammer and Singer, JMLR 2001)", "",
        _COMPARATOR, mcsvm, options=(),
    ),
    MachineRow(
        "m3svm", "M3SVM (Nie, Hao and Wang, AAAI 2024)", "", _PAIRS, None,
        options=(), kind=OF_PAIRS,
    ),
    MachineRow(
        "ism3", "ISM3, of the same paper", "", _PAIRS, None,
        options=("ism3_loss",), kind=OF_PAIRS,
    ),
    MachineRow(
        "l1svm",
        "the support vector machine that svm-train solves, but without its intercept.",
        "C sum_i u_i max(0, 1 - t_i)", _COMPARATOR, l1svm,
    ),
    MachineRow(
        "l2svm", "the same with the squared hinge, LIBLINEAR's default.",
        "C sum_i u_i max(0, 1 - t_i)^2", _COMPARATOR, l2svm,
    ),
    MachineRow(
        "lssvm",
        "the least squares support vector machine, which is ridge regression of the labels.",
        "C sum_i u_i (1 - t_i)^2", _COMPARATOR, lssvm,
    ),
    MachineRow(
        "svr", "support vector regression of the labels, with a band of theta.",
        "C sum_i u_i max(0, |1 - t_i| - theta)", _COMPARATOR | {"theta": BAND}, svr,
    ),
    MachineRow(
        "mamc",
        "the maximal average margin classifier (Pelckmans et al., NIPS 2007). Its labels do not "
        "depend on lambda.",
        "- C sum_i u_i t_i", _COMPARATOR, mamc,
    ),
    MachineRow(
        "kmomd",
        "the kernel method for the optimisation of the margin distribution (Aiolli, Da San Martino "
        "and Sperduti, ICANN 2008): a level r of each class is found, too, and an intercept "
        "half way between two weighted means of the classes, in the place of a constant feature. "
        "The parameter of the paper is 1 / (1 + C).",
        "C/2 sum_i u_i max(0, r_{y_i} - t_i)^2 - r_1 - r_2 at the best r",
        _COMPARATOR, kmomd,
    ),
)  # fmt: skip


def _with_kind(row: MachineRow) -> MachineRow:
    if row.loss is None:
        return row
    return row._replace(kind=row.loss(**row.parameters, total_weight=1.0).kind)


MACHINES = {row.name: _with_kind(row) for row in _ROWS}
"""The rows by name."""


def row_of(name: str) -> MachineRow:
    """The row of a machine; raises UsageError if there is none of this name."""
    if name not in MACHINES:
        raise UsageError(messages.unknown_machine(name, MACHINES))
    return MACHINES[name]
