"""How decision functions become models that the stock predictors read.

==========================  ====================================================================
two classes                 one function, of w_1 - w_2 if there are two
argmax, linear              LIBLINEAR: one column per class, in the classes' order
argmax, kernel              LIBSVM's one against one: the block of class i holds its vectors with
                            coefficient c_i for the pairs in which i comes first and -c_i where it
                            comes second, so that pair (i, j) evaluates f_i - f_j. The classes stand
                            in reverse order: LIBSVM gives a tie to the later class, argmax to the
                            first. ``compact`` keeps every vector once instead.
one against one, kernel     LIBSVM's own
one against one, linear     LIBSVM with the linear kernel: the w of a pair is a vector with the
                            coefficient 1 in the block of the pair's first class
==========================  ====================================================================

An intercept, from ``-B`` or a class bias, is LIBLINEAR's bias row, or -rho.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from odmtool.core.csr import CSR
from odmtool.core.kernels import Kernel
from odmtool.models.decide import sigmoids_among
from odmtool.models.kernel import CompactModel, KernelModel
from odmtool.models.linear import LinearModel

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class Functions(NamedTuple):
    """Kernel decision functions f_c(x) = sum_s C_sc k(x, x_s) + offset_c."""

    C: np.ndarray  # shape (n, c)
    offset: np.ndarray  # shape (c,)
    vectors: CSR | csr_matrix  # shape (n, d)
    kernel: Kernel  # without a bias, which stands in ``offset``


def difference(functions: Functions) -> Functions:
    """Two functions, of which the larger wins, as one whose sign decides."""
    C, offset = functions.C, functions.offset
    return functions._replace(C=C[:, :1] - C[:, 1:], offset=offset[:1] - offset[1:])


def rows_of(X) -> CSR | csr_matrix:
    """Rows of any kind as support vectors are stored."""
    if isinstance(X, CSR):
        return X
    from scipy.sparse import csr_matrix

    return csr_matrix(X)


def one_class_model(classes, kernel: Kernel, width: int, facts) -> KernelModel:
    """As svm-train writes it: the one class needs no values."""
    nothing = rows_of(np.zeros((0, width)))
    return KernelModel(classes, kernel, nothing, np.zeros((0, 0)), np.zeros(0), [0], facts=facts)


def binary_kernel_model(functions: Functions, y, classes, facts) -> KernelModel:
    """One function; the vectors with y > 0 come first, as LIBSVM has it."""
    coef = functions.C[:, 0]
    support = np.flatnonzero(coef)
    support = support[np.argsort(-y[support], kind="stable")]
    positive = int((y[support] > 0).sum())
    return KernelModel(
        classes, functions.kernel, functions.vectors[support], coef[support, None],
        -functions.offset, [positive, len(support) - positive], facts=facts,
    )  # fmt: skip


def argmax_kernel_model(functions: Functions, classes, facts) -> KernelModel:
    """One function per class, as LIBSVM's pairs."""
    k = len(classes)
    # In the order of the file, which is the reverse.
    C, offset = functions.C[:, ::-1], functions.offset[::-1]
    blocks = [np.flatnonzero(C[:, i]) for i in range(k)]
    coef, end = np.empty((sum(map(len, blocks)), k - 1)), 0
    for i, rows in enumerate(blocks):
        first, end = end, end + len(rows)
        coef[first:end] = C[rows, i : i + 1] * np.r_[-np.ones(i), np.ones(k - 1 - i)]
    first, second = np.triu_indices(k, 1)
    facts = facts | {"decision": "argmax"}
    if offset.any():
        facts["offset"] = " ".join(f"{value:.17g}" for value in offset)
    return KernelModel(
        classes[::-1], functions.kernel, functions.vectors[np.concatenate(blocks)], coef,
        offset[second] - offset[first], [len(rows) for rows in blocks], facts=facts,
    )  # fmt: skip


def compact_model(functions: Functions, classes, facts) -> CompactModel:
    """One function per class, every vector once."""
    support = np.flatnonzero(functions.C.any(axis=1))
    return CompactModel(
        classes, functions.kernel, functions.vectors[support], functions.C[support],
        functions.offset, facts=facts,
    )  # fmt: skip


def carrier_share(functions: Functions) -> float:
    """How many times the numbers of the compact form the pairs take."""
    C, vectors = functions.C, functions.vectors
    used, k = C.any(axis=1), C.shape[1]
    row_sizes = np.diff(vectors.indptr)
    pairs = np.count_nonzero(C) * (k - 1) + ((C != 0).sum(axis=1) * row_sizes).sum()
    compact = used.sum() * k + row_sizes[used].sum()
    return float(pairs / compact) if compact else 1.0


def pairs_kernel_model(functions: Functions, target, classes, facts) -> KernelModel:
    """One function per pair of classes, with coefficients as LIBSVM keeps them, shape (n, k - 1).

    Those of an example are for the pairs of its class only: see :class:`KernelModel`.
    """
    C = functions.C
    used = np.flatnonzero(C.any(axis=1))
    used = used[np.argsort(target[used], kind="stable")]
    return KernelModel(
        classes, functions.kernel, functions.vectors[used], C[used], -functions.offset,
        np.bincount(target[used], minlength=len(classes)).tolist(), facts=facts,
    )  # fmt: skip


def pairs_linear_model(weights, offset, classes, facts) -> KernelModel:
    """One linear function per pair of classes; ``weights`` has the shape (d, pairs)."""
    k = len(classes)
    first, second = np.triu_indices(k, 1)
    coef = np.zeros((len(first), k - 1))
    coef[np.arange(len(first)), second - 1] = 1.0
    return KernelModel(
        classes, Kernel("linear"), rows_of(weights.T), coef, -offset,
        [int((first == i).sum()) for i in range(k)], facts=facts,
    )  # fmt: skip


def linear_as_kernel_model(model: LinearModel) -> KernelModel:
    """A linear model in LIBSVM's form: the weight vectors are its support vectors.

    The values of two classes are the same sums in the same order, with the bias as -rho.
    """
    k, offset = len(model.labels), np.zeros(model.weights.shape[1])
    if model.bias >= 0:
        offset = model.bias * model.bias_weights
    vectors, kernel = rows_of(model.weights.T), Kernel("linear")
    if k > 2:
        functions = Functions(np.eye(k), offset, vectors, kernel)
        carried = argmax_kernel_model(functions, model.labels, model.facts)
    elif k == 2:
        functions = Functions(np.ones((1, 1)), offset[:1], vectors[:1], kernel)
        carried = binary_kernel_model(functions, np.ones(1), model.labels, model.facts)
    else:
        carried = one_class_model(model.labels, kernel, vectors.shape[1], model.facts)
    if model.probA is not None:
        add_sigmoids(carried, model.labels, model.probA, model.probB)
    return carried


def add_sigmoids(model, classes, A: np.ndarray, B: np.ndarray) -> None:
    """Give a model the sigmoids of the pairs of classes, in the order of its own labels.

    Parameters
    ----------
    model : LinearModel, KernelModel or CompactModel
    classes : list of int
        Their order in A and B, which have the shape (k (k - 1) / 2,).
    """
    place = [classes.index(label) for label in model.labels]
    model.probA, model.probB = sigmoids_among(A, B, place)
