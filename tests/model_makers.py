"""Random models and data for the tests of model files and predictors."""

from __future__ import annotations

import numpy as np
from prediction_twin import pairs
from scipy.sparse import csr_matrix

from odmtool.core.kernels import Kernel
from odmtool.models.kernel import KernelModel
from odmtool.models.linear import LinearModel

KERNELS = {
    "linear": Kernel("linear"),
    "poly": Kernel("poly", gamma=0.3, coef0=0.7, degree=3),
    "rbf": Kernel("rbf", gamma=0.21),
    "sigmoid": Kernel("sigmoid", gamma=0.05, coef0=-0.3),
}


def sparse_rows(rng, n_rows, n_features, share=0.6, scale=1.0) -> csr_matrix:
    """Normal entries, ``share`` of them present."""
    values = rng.standard_normal((n_rows, n_features)) * scale
    values[rng.random((n_rows, n_features)) >= share] = 0.0
    return csr_matrix(values)


def linear_model(rng, n_classes=2, n_features=9, bias=-1.0, solver_type=None) -> LinearModel:
    n_columns = 1 if n_classes == 2 and solver_type != "MCSVM_CS" else n_classes
    labels = rng.choice(np.arange(-50, 50), n_classes, replace=False).tolist()
    return LinearModel(
        labels,
        rng.standard_normal((n_features, n_columns)),
        bias,
        rng.standard_normal(n_columns) if bias >= 0 else None,
        solver_type or "L2R_L2LOSS_SVC_DUAL",
    )


def kernel_model(rng, kernel, n_classes=2, n_support=30, n_features=9, rho=True) -> KernelModel:
    """Coefficients, rho and the number of vectors per class are random."""
    if n_classes == 1:
        n_support = 0
    parts = rng.multinomial(n_support, np.full(n_classes, 1 / n_classes)).tolist()
    n_pairs = n_classes * (n_classes - 1) // 2
    return KernelModel(
        rng.choice(np.arange(-50, 50), n_classes, replace=False).tolist(),
        kernel,
        sparse_rows(rng, n_support, n_features),
        rng.standard_normal((n_support, n_classes - 1)),
        rng.standard_normal(n_pairs) * 0.3 * rho,
        parts,
    )


def precomputed_model(rng, n_train=20, n_classes=2) -> KernelModel:
    serials = np.sort(rng.choice(np.arange(1, n_train + 1), n_train // 2, replace=False))
    model = kernel_model(rng, Kernel("precomputed"), n_classes, len(serials), 1)
    if n_classes > 1:
        model.support_vectors = csr_matrix(serials[:, None].astype(float))
    return model


def one_versus_one_carrier(rng, kernel, n_classes=4, n_train=25, n_features=6) -> KernelModel:
    """f_1, ..., f_k as one-versus-one pairs f_i - f_j: the largest f_i gets all votes.

    Every class block holds the vectors x_s whose nu_i[s] is not 0; its columns
    are nu_i for the pairs in which class i comes first, -nu_i where it comes second.
    """
    X = sparse_rows(rng, n_train, n_features)
    vectors, coef, parts = [], [], []
    for i in range(n_classes):
        nu = rng.standard_normal(n_train) * (rng.random(n_train) < 0.7)
        used = np.flatnonzero(nu)
        signs = np.where(np.arange(n_classes - 1) >= i, 1.0, -1.0)
        vectors.append(X[used].toarray())
        coef.append(nu[used, None] * signs)
        parts.append(len(used))
    return KernelModel(
        list(range(n_classes, 0, -1)),
        kernel,
        csr_matrix(np.vstack(vectors)),
        np.vstack(coef),
        np.zeros(n_classes * (n_classes - 1) // 2),
        parts,
    )


def data_lines(X: csr_matrix, labels) -> str:
    """svmlight text; features from 1."""
    lines = []
    for row, label in enumerate(labels):
        words = (f"{feature + 1}:{value:.17g}" for feature, value in pairs(X, row).items())
        lines.append(f"{label:d} " + " ".join(words) + "\n")
    return "".join(lines)


def precomputed_lines(K: np.ndarray, labels) -> str:
    """``label 0:serial 1:K1 2:K2 ...`` with every value written out."""
    lines = []
    for row, (label, values) in enumerate(zip(labels, K, strict=True), start=1):
        pairs = " ".join(f"{j}:{v:.17g}" for j, v in enumerate(values, start=1))
        lines.append(f"{label:d} 0:{row} {pairs}\n")
    return "".join(lines)
