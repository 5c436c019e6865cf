"""The estimators: which machine, and which parameters with which defaults."""

from __future__ import annotations

from odmtool.defaults import DEGREE, SEED, TOLERANCE
from odmtool.estimators.base import MachineClassifier
from odmtool.machines import LDM, M3SVM, MCODM, ODM
from odmtool.solvers.settings import DEFAULTS


class ODMClassifier(MachineClassifier):
    """Optimal margin distribution machine.

    Minimises 1/2 |w|^2 + c1 sum_i max(0, 1-theta-t_i)^2 + c2 sum_i max(0, t_i-1-theta)^2 with
    margins t_i = y_i <w, phi(x_i)>, c1 = lambda / (m (1-theta)^2), c2 = mu c1, to a certified
    relative gap. Source: Zhang & Zhou, TKDE 2019.

    Parameters
    ----------
    lambda_ : float, > 0, optional
        Weight of the loss; by default 2^14, mcodm without a kernel 2^12; larger for more than 4096
        examples with a kernel, smaller with rbf and poly for features that are not in [0, 1], much
        smaller with sigmoid, and smaller for a linear machine with fewer than four examples per
        feature (sparse data of 100 features: fewer than eight; several classes by mcodm: 16, or
        100 features): :func:`odmtool.machines.default_values.default_lambda`.
    mu : float, 0 < mu <= 1
        What a margin above the band costs, relative to one below.
    theta : float, 0 <= theta < 1
        Half width of the band around margin 1 that costs nothing.
    cost : float, optional
        Instead of ``lambda_``: the cost of one example, as LIBLINEAR's C.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}
    gamma : float, "auto" or "scale", optional
        Of poly, rbf and sigmoid; "auto" and 0 are 1 / features, "scale" is
        1 / (features * variance of X). By default 1 / features, with rbf more for values in [0, 1]
        and less for larger ones: :func:`odmtool.machines.default_values.default_gamma`.
    degree : int
        Of poly.
    coef0 : float, optional
        Of poly and sigmoid; by default 1 with poly, 0 with sigmoid.
    bias : float or None
        Value of a constant feature, whose weight is the intercept; None: no intercept, which is
        what the commands do unless ``-B`` is given.
    solver : str
        "auto", or a name of docs/solvers.md.
    tol : float
        Relative duality gap at which to stop.
    max_iter : int, optional
        Limit of the iterations; by default that of the solver.
    class_weight : dict, "balanced" or None
        Label to weight of its examples, 1 for labels not named; "balanced" gives all classes
        the same total.
    probability : bool
        Fit Platt's sigmoids on 5 folds, for ``predict_proba``.
    random_state : int, RandomState or None
        Seed of the folds and of the stochastic solvers; None draws a new one for every fit.
    memory : float, optional
        Bytes for kernel values; by default what is free.
    multiclass : {"auto", "ovr", "ovo", "ecoc"}
        More than two classes: one against the rest, one against one, or an error-correcting code;
        "auto" is ovo with a kernel, but ovr with more than 50 classes of which one has more than 32
        examples and 1.5 times the mean, or of data with more features than examples. Without a
        kernel it is the problem of :class:`MulticlassODMClassifier`, as in odm-train, or ovr with
        a solver that this has not, and where classes overlap so much that this finds nothing.
    n_jobs : int, optional
        Threads for the problems of these; -1: as many as processors.
    landmarks : int
        Of ``solver="nystrom"``: examples whose kernel functions are the basis.
    """

    _machine = "odm"

    def __init__(
        self, *, lambda_=None, mu=ODM.mu, theta=ODM.theta, cost=None, kernel="linear",
        gamma=None, degree=DEGREE, coef0=None, bias=1.0, solver="auto", tol=TOLERANCE,
        max_iter=None, class_weight=None, probability=False, random_state=SEED, memory=None,
        multiclass="auto", n_jobs=None, landmarks=DEFAULTS.landmarks,
    ):  # fmt: skip
        self._keep(locals())


class LDMClassifier(MachineClassifier):
    """Large margin distribution machine.

    Minimises 1/2 |w|^2 + mu1 var(t) - mu2 mean(t) + lambda/m sum_i max(0, 1-t_i) with margins
    t_i = y_i <w, phi(x_i)>, to a certified relative gap. Source: Zhang & Zhou, KDD 2014.

    Parameters
    ----------
    lambda_ : float, > 0, optional
        Weight of the hinge loss; by default 2^10, for many examples up to 2^14, with rbf and poly
        up to 2^16.
    mu1, mu2 : float, >= 0
        Weights of the variance and of the mean of the margins.
    cost, kernel, ... :
        As those of :class:`ODMClassifier`; ``multiclass="auto"`` is ovr without a kernel.
    """

    _machine = "ldm"

    def __init__(
        self, *, lambda_=None, mu1=LDM.mu1, mu2=LDM.mu2, cost=None, kernel="linear",
        gamma=None, degree=DEGREE, coef0=None, bias=1.0, solver="auto", tol=TOLERANCE,
        max_iter=None, class_weight=None, probability=False, random_state=SEED, memory=None,
        multiclass="auto", n_jobs=None,
    ):  # fmt: skip
        self._keep(locals())


class MulticlassODMClassifier(MachineClassifier):
    """Multi-class optimal margin distribution machine: one function per class.

    Minimises 1/2 sum_l |w_l|^2 + c1 sum_i max(0, 1-theta-g_i)^2 + c2 sum_i max(0, g_i-1-theta)^2
    with g_i the score of the example's class less the largest of the others; the problem is not
    convex, and the result is a stationary point. Source: Zhang & Zhou, TKDE 2019, section 4.

    Parameters
    ----------
    lambda_, mu, theta, cost, kernel, ... :
        As those of :class:`ODMClassifier`.
    outer : {"cccp", "constant"}
        The outer loop; "constant" is the paper's, which need not descend.
    """

    _machine = "mcodm"

    def __init__(
        self, *, lambda_=None, mu=MCODM.mu, theta=MCODM.theta, cost=None, kernel="linear",
        gamma=None, degree=DEGREE, coef0=None, bias=1.0, solver="auto", tol=TOLERANCE,
        max_iter=None, class_weight=None, probability=False, random_state=SEED, memory=None,
        outer=DEFAULTS.outer,
    ):  # fmt: skip
        self._keep(locals())


class M3SVMClassifier(MachineClassifier):
    """Multi-class support vector machine with the maximal minimum margin; linear.

    Minimises sum_i sum_{l != y_i} g(1 - f_y + f_l) + lambda sum_{k<l} |w_k - w_l|^p with the
    smoothed hinge g and an intercept for every class. Source: Hao et al., AAAI 2024.

    Parameters
    ----------
    lambda_ : float, > 0, optional
        Weight of the regulariser; by default .1 or, if that is less, (V / 128)^(p / 2), V the sum
        of the features' variances: :func:`odmtool.machines.default_values.default_lambda`.
    power : float, > 0
        Its power p.
    cost : float, optional
        Instead of ``lambda_``: 1 / lambda.
    solver : {"auto", "newton", "adam"}
    tol, max_iter, class_weight, probability, random_state
        As those of :class:`ODMClassifier`.
    """

    _machine = "m3svm"

    def __init__(
        self, *, lambda_=None, power=M3SVM.power, cost=None, solver="auto", tol=TOLERANCE,
        max_iter=None, class_weight=None, probability=False, random_state=SEED,
    ):  # fmt: skip
        self._keep(locals())
