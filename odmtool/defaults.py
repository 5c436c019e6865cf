"""Names and defaults of the options, in one place.

The command line reads them here without importing anything heavy. Machines, kernels and solvers
have tables of their own: :mod:`odmtool.core.loss_table`, :mod:`odmtool.core.kernel_table`,
:mod:`odmtool.solvers.table`.
"""

# Of odm, and of mcodm, by measurement: docs/defaults.md.
LAMBDA = 2.0**14
MULTICLASS_LAMBDA = 2.0**12
# Which take less for wide data where they are linear, and LAMBDA and more for many examples where
# they have a kernel (odmtool.machines.default_values). Data are wide with more features than
# examples, and from so many features on; with fewer than so many examples per feature they are
# nearly so. mcodm of two classes is odm, with half of its lambda, and takes what odm does.
WIDE_FROM = {"odm": float("inf"), "mcodm": 100}
FEW_PER_FEATURE = {"odm": 4, "mcodm": 16}
# Of sparse data, most of whose values are 0, these are more, with so many features.
FEW_PER_SPARSE_FEATURE, SPARSE_FROM = {"odm": 8}, 100
# One for each example is the C = 1 of LIBLINEAR: these have it where they are linear, up to LAMBDA.
WITH_COST_OF_ONE = ("ldm", "l1svm", "l2svm", "lssvm", "svr", "mcsvm")
# With more features than examples what all examples share is not counted in their length, of odm;
# mcodm, whose classes differ by less than that, takes the examples over the summed variances, and
# the square of the examples per feature times as much with fewer features than WIDE_FROM: with 16
# for each and variances of 1 that is the usual one.
WITHOUT_SHARED, BY_VARIANCE = ("odm",), ("mcodm",)
WITH_KERNEL_LAMBDA = ("odm", "mcodm", "l2svm", "lssvm")
LAMBDA_PER_EXAMPLE, LAMBDA_OF_MANY = 4.0, 2.0**18
# With rbf and poly these, whose losses have a kink, take as much, and for the time no more than the
# second over the number of examples: with other kernels what they have without one.
WITH_KINK = ("ldm", "l1svm", "svr", "mcsvm")
LAMBDA_OF_KINK, LAMBDA_TIMES_EXAMPLES = 2.0**16, 2.0**28
# With rbf at most this, or the number of examples if that is more, over the spread of the examples:
# gamma times the summed variance of the features, and at most 1.
LAMBDA_OF_NARROW = 2.0**10
# With poly at most so many times 2^10, or times the number of examples, over the usual k(x, x).
LAMBDA_OF_POLY = 64.0
# With sigmoid this over the same spread to the power 1.5: that kernel is not positive definite, and
# there is no minimum where the loss weighs more than its negative part allows.
LAMBDA_OF_SIGMOID = 2.0
# gamma is 1 / number of features: between which gamma times the summed variance of the features
# stays, where nobody names it. odmtool.machines.default_values.default_gamma.
SPREAD_OF = {"rbf": (2.0**-8, 1.0), "poly": (2.0**-8, 2.0**-2), "sigmoid": (2.0**-8, 2.0**-8)}
# With rbf it is also at least M over so many examples, between these two shares; of more examples
# than the last number less, for the time, and of the slower machines from fewer on.
# odmtool.machines.default_values._least_spread.
EXAMPLES_OF_SPREAD, LEAST_SPREADS, MANY_TO_SPREAD = 4096.0, (2.0**-4, 2.0**-2), 2.0**15
MANY_OF_SLOWER = {"ldm": 2.0**13, "mcodm": 2.0**13, "svr": 2.0**14}
# With rbf and so few features, (M / examples)^(2 / d) where that is more, up to a largest: many
# examples of few features are near each other. odmtool.machines.default_values._most_spread.
FEW_FEATURES, EXAMPLES_OF_FEW, SPREAD_OF_FEW = 2, 1000.0, 4.0
MU = 0.2
THETA = 0.2
# Of the comparators.
COMPARATOR_LAMBDA = 2.0**10
BAND = 0.1
MU1 = 1.0
MU2 = 1.0
POWER = 4.0
# Of m3svm and ism3, whose lambda weighs the regulariser, without rows; with rows it is (the summed
# variance of the features over the second)^(power / 2) if that is less, but of wide data with more
# than so many classes, for the time.
M3SVM_LAMBDA, M3SVM_VARIANCE, M3SVM_CLASSES = 0.1, 128.0, 50
TOLERANCE = 1e-3
DEGREE = 3
COEF0 = 0.0
# With 1 poly has the products of fewer features, too, and an intercept.
COEF0_OF = {"poly": 1.0}
BIAS = -1.0
FOLDS = 5
SEED = 0

SNAPSHOTS = ("last", "random")
OUTER = ("cccp", "constant")
ISM3_LOSSES = ("pairwise", "softmax")
MOST_IN_PAIRS, MOST_OF_CLASS_IN_PAIRS, MOST_TO_MEAN_IN_PAIRS = 50, 32, 1.5
"""With a kernel ``auto`` takes up to so many classes in pairs, and any number of classes that have
at most so many examples, or so many times the mean, where features do not outnumber examples and
the loss is smooth."""
MOST_LDM_IN_PAIRS = 100
"""ldm up to so many: pairs are more accurate, but are solved one by one."""
MULTICLASS = ("auto", "ovr", "ovo", "ecoc")
"""auto: see :meth:`odmtool.machines.binary.BinaryMachine.reduction`."""
PARTITION_BY = ("stratified", "random", "cluster", "cluster-strata")
"""How examples are put into parts."""

FORMATS = ("liblinear", "libsvm", "compact")
STRATEGIES = ("full", "halving", "coarse")
METRICS = ("accuracy", "balanced", "auc", "f1")

PAPER_GRID = {
    "lambda_": "2^0:20:2",
    "mu": "0.2:0.8:0.2",
    "theta": "0.2:0.8:0.2",
    "mu1": "2^-4:4:2",
    "mu2": "2^-4:4:2",
    "gamma": "2^-4:4:2/d",
}
"""The grid of the experiments in TKDE 2019 (features in [0, 1])."""

KDD_GRID = {"cost": "10,50,100", "mu1": "2^-7:-1:2", "mu2": "2^-8:-2:2", "gamma": "2^-4:4:2/dist"}
"""That of KDD 2014: mu1 is twice its lambda1, gamma 1 over its squared width; 2^p with p in steps
of 2, which are not printed."""

ARXIV_GRID = {"lambda_": "2^0:10:2", "mu": "2^-10:0:2", "theta": "0:0.5:0.1"}
"""What odm and mcodm have in arXiv 2016 for C1, C2/C1 and D; the rest is that of KDD 2014."""

QUICK_GRID = {"lambda_": "2^2:18:4", "gamma": "1/d,4/d,16/d"}
"""The small grid of ``odm-cv`` (features in [0, 1]); with both kernels, where none is given."""
QUICK_SIGMOID_SHARES = "2^-6:2:2"
"""Of the default lambda: with the sigmoid kernel there is no solution much above it."""
FEW_TO_SEARCH = 1200
"""Up to so many examples all settings of the quick grid are tried on all: docs/defaults.md."""
QUICK_PAIRS_GRID = {"lambda_": "10^-4:1:1"}
"""The same for machines whose lambda weighs the regulariser."""
GRIDS = ("quick", "tkde", "kdd", "arxiv", "paper")
"""``paper`` is ``tkde`` by its older name."""


BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""Variables of the environment that say how many threads BLAS has."""


class PerFeature(float):
    """A gamma that is still to be divided by the number of features."""


class PerDistance(float):
    """A gamma that is still to be divided by the squared mean distance between examples."""


DECIMAL = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
"""A number as C reads it, of options, data and model files."""
