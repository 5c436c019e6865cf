"""Model files as stock programs write them, facts of ours, and when models are the same."""

from __future__ import annotations

import numpy as np

from odmtool.models.linear import LinearModel

FACTS = {"machine": "odm", "command": "odm-train -l 2^4 data: x.svm", "lambda": "16", "empty": ""}

LINEAR = """\
solver_type L2R_L2LOSS_SVC_DUAL
nr_class 2
label 1 -1
nr_feature 3
bias 1
w
0.5 
-0.25 
0 
1e-3 
"""
KERNEL = """\
svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 2
total_sv 3
rho -0.125
label 1 -1
nr_sv 2 1
SV
1 1:0.5 3:1 
0.5 2:-1 
-1.5 
"""
THREE_CLASSES = """\
svm_type nu_svc
kernel_type polynomial
degree 2
gamma 0.5
coef0 1
nr_class 3
total_sv 3
rho 0 0.5 -0.5
label 1 2 3
probA 1 2 3
probB -1 -2 -3
prob_density_marks 1 2 3 4 5 6 7 8 9 10
nr_sv 1 1 1
SV
1 0.5 1:0.5 3:1 
0.5 -1 2:-1 
-1.5 2 1:1 
"""
PRECOMPUTED = """\
svm_type c_svc
kernel_type precomputed
nr_class 2
total_sv 2
rho 0
label 1 -1
nr_sv 1 1
SV
1 0:4 
-1 0:7 
"""


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the bit, signs of zeros included."""
    return a.shape == b.shape and a.astype(float).tobytes() == b.astype(float).tobytes()


def assert_same_model(a, b) -> None:
    assert type(a) is type(b)
    assert a.labels == b.labels
    assert a.facts == b.facts
    if isinstance(a, LinearModel):
        assert (a.solver_type, a.bias) == (b.solver_type, b.bias)
        assert same(a.weights, b.weights)
        assert (a.bias_weights is None) == (b.bias_weights is None)
        assert a.bias_weights is None or same(a.bias_weights, b.bias_weights)
        return
    assert a.kernel == b.kernel
    assert a.n_support == b.n_support
    assert same(a.coef, b.coef) and same(a.rho, b.rho)
    for name in ("data", "indices", "indptr"):
        assert same(getattr(a.support_vectors, name), getattr(b.support_vectors, name))
    for name in ("probA", "probB"):
        assert (getattr(a, name) is None) == (getattr(b, name) is None)
        assert getattr(a, name) is None or same(getattr(a, name), getattr(b, name))
