"""The words of model files: keys, their values, and the names of solvers and kernels."""

from __future__ import annotations

from collections.abc import Callable

from odmtool._pattern import Pattern
from odmtool.core.kernel_table import KERNELS
from odmtool.io._line import real
from odmtool.io.model_text import integer

SOLVER_TYPES = (
    "L2R_LR",
    "L2R_L2LOSS_SVC_DUAL",
    "L2R_L2LOSS_SVC",
    "L2R_L1LOSS_SVC_DUAL",
    "MCSVM_CS",
    "L1R_L2LOSS_SVC",
    "L1R_LR",
    "L2R_LR_DUAL",
)
"""LIBLINEAR's classification solvers."""

UNSUPPORTED = (
    "L2R_L2LOSS_SVR",
    "L2R_L2LOSS_SVR_DUAL",
    "L2R_L1LOSS_SVR_DUAL",
    "ONECLASS_SVM",
    "one_class",
    "epsilon_svr",
    "nu_svr",
)
KERNEL_NAMES = {row.word: row.name for row in KERNELS.values()}
"""From the words of model files to our names."""

BLOCK = b"odmtool-model"
END = Pattern(rb"end sha256 ([0-9a-f]{64})\n")
FACT_KEY = Pattern(r"[a-z][A-Za-z0-9_-]*")
SIGMOIDS = ("probA", "probB")
RANGES = "ranges"
VERSION, VERSION_WITH_RANGES = 1, 2
"""Who knows no ranges, and would not scale, must not read a model that has them."""
DENSITY_MARKS = 10


def _supported(names) -> Callable[[bytes], str | None]:
    """Converter of a token that must be one of ``names``."""
    return lambda token: name if (name := token.decode("latin-1")) in names else None


# Key: the number of values (k stands for the number of classes) and their converter.
KEYS: dict[str, tuple[Callable[[int], int], Callable]] = {
    "solver_type": (lambda k: 1, _supported(SOLVER_TYPES)),
    "model_type": (lambda k: 1, _supported(("compact",))),
    "svm_type": (lambda k: 1, _supported(("c_svc", "nu_svc"))),
    "kernel_type": (lambda k: 1, _supported(KERNEL_NAMES)),
    "nr_class": (lambda k: 1, integer),
    "nr_feature": (lambda k: 1, integer),
    "total_sv": (lambda k: 1, integer),
    "degree": (lambda k: 1, integer),
    "bias": (lambda k: 1, real),
    "gamma": (lambda k: 1, real),
    "coef0": (lambda k: 1, real),
    "label": (lambda k: k, integer),
    "nr_sv": (lambda k: k, integer),
    "rho": (lambda k: k * (k - 1) // 2, real),
    "offset": (lambda k: k, real),
    "probA": (lambda k: k * (k - 1) // 2, real),
    "probB": (lambda k: k * (k - 1) // 2, real),
    "prob_density_marks": (lambda k: DENSITY_MARKS, real),
}
NEED_CLASSES = ("label", "nr_sv", "rho", "offset", "probA", "probB")
NOT_NEGATIVE = ("nr_feature", "total_sv", "nr_sv", "degree")
NEEDED = {
    "w": ("solver_type", "nr_class", "label", "nr_feature", "bias"),
    "SV": ("svm_type", "kernel_type", "nr_class", "total_sv", "rho", "label", "nr_sv"),
    "vectors": ("model_type", "kernel_type", "nr_class", "total_sv", "offset", "label"),
}
"""The word that ends a header, and the keys that must stand before it."""

KEYS_OF = {
    "w": set(NEEDED["w"]),
    "SV": set(KEYS) - {"solver_type", "nr_feature", "bias", "model_type", "offset"},
    "vectors": {*NEEDED["vectors"], "degree", "gamma", "coef0", *SIGMOIDS},
}
"""The same, and those that may stand there."""
