"""The kernels: one row for each, and all that asks about a kernel asks its row.

To add a kernel, write its row here, and its definition for one pair of examples in the judge
(:mod:`odmtool.judge.binary`). Its parameters are some of degree, gamma and coef0.

``--help`` reads this table, so it imports nothing heavy: what a row computes with is handed to
it, NumPy for blocks of kernel values, the C library's functions where LIBSVM's own last bits
are wanted (:mod:`odmtool.models.rows`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from odmtool import messages
from odmtool.errors import UsageError

PRODUCTS, DISTANCES, STORED = "products", "distances", "stored"
_EPS = 2.0**-52


class _Fields(NamedTuple):
    name: str
    gamma: float = 0.0
    coef0: float = 0.0
    degree: int = 3
    bias: float = 0.0


class Kernel(_Fields):
    """A kernel and its parameters; those that its name does not use are ignored.

    Raises UsageError: there is no kernel of this name.
    """

    __slots__ = ()

    def __new__(cls, name: str, *parameters, **named):
        row_of(name)
        return super().__new__(cls, name, *parameters, **named)

    @property
    def row(self) -> KernelRow:
        """Its row of the table; raises UsageError if there is none."""
        return row_of(self.name)

    @property
    def is_positive_semidefinite(self) -> bool:
        """Whether every Gram matrix is known to have no negative eigenvalue."""
        return self.row.is_positive_semidefinite(self)


def _as_they_are(kernel: Kernel, z, maths):
    return z


class KernelRow(NamedTuple):
    """What there is to know about a kernel."""

    name: str
    word: str  # the name in a model file; LIBSVM's, if it has one
    formula: str  # as the help texts print it
    parameters: tuple[str, ...] = ()  # those that it uses, in the order of a model file
    number: int | None = None  # LIBSVM's, if LIBSVM has the kernel
    # "products", "distances" or "stored": what the values are computed from: inner products u'v,
    # squared distances |u - v|^2, or nothing, because they stand in the data.
    of: str = PRODUCTS
    # From the kernel, an array of these numbers, which may be overwritten, and the functions exp
    # and tanh (``maths``) to the kernel values.
    values: Callable = _as_they_are
    # From the kernel to whether no Gram matrix has a negative eigenvalue.
    is_positive_semidefinite: Callable[[Kernel], bool] = lambda kernel: True
    # From the kernel, the largest |z|, the share of it by which z may be off, and ``maths``, to how
    # far values may be off then: relatively, and absolutely.
    rounding: Callable = lambda kernel, size, share, maths: (0.0, share * size)
    factors: bool = False  # of distances: whether k(d + e) = k(d) k(e)
    is_polynomial: bool = False  # whether the values are sums and products of inner products


def integer_power(base, degree: int):
    """base**degree by repeated squaring, in LIBSVM's order of multiplications."""
    result = base**0
    while degree > 0:
        if degree % 2:
            result = result * base
        base = base * base
        degree //= 2
    return result


def _affine(kernel: Kernel, z):
    z *= kernel.gamma
    z += kernel.coef0
    return z


def _poly(kernel: Kernel, z, maths):
    return integer_power(_affine(kernel, z), kernel.degree)


def _sigmoid(kernel: Kernel, z, maths):
    z = _affine(kernel, z)
    return maths.tanh(z, out=z)


def _rbf(kernel: Kernel, z, maths):
    z *= -kernel.gamma
    return maths.exp(z, out=z)


def _largest(kernel: Kernel, size):
    return abs(kernel.gamma) * size + abs(kernel.coef0)


def _poly_rounding(kernel: Kernel, size, share, maths):
    degree, largest = kernel.degree, _largest(kernel, size)
    off = share * largest
    slope = degree * (largest + off) ** max(degree - 1, 0)
    return 0.0, slope * off + (2 * degree + 4) * _EPS * largest**degree


def _sigmoid_rounding(kernel: Kernel, size, share, maths):
    return 0.0, share * _largest(kernel, size) + 8 * _EPS


def _rbf_rounding(kernel: Kernel, size, share, maths):
    # A larger power would overflow; it says as little.
    off = maths.minimum(abs(kernel.gamma) * (share * size), 700.0)
    # Of a value that is next to nothing, or 0, a share says nothing; see tile_loops.exponentials.
    return maths.expm1(off) + 16 * _EPS, 2 * maths.exp(off - 700.0)


_ROWS = (
    KernelRow("linear", "linear", "u'v", (), 0, is_polynomial=True),
    KernelRow(
        "poly", "polynomial", "(gamma u'v + coef0)^degree", ("degree", "gamma", "coef0"), 1,
        values=_poly, rounding=_poly_rounding, is_polynomial=True,
        is_positive_semidefinite=lambda kernel: kernel.gamma >= 0 and kernel.coef0 >= 0,
    ),
    KernelRow(
        "rbf", "rbf", "exp(-gamma |u - v|^2)", ("gamma",), 2, DISTANCES,
        values=_rbf, rounding=_rbf_rounding, factors=True,
    ),
    KernelRow(
        "sigmoid", "sigmoid", "tanh(gamma u'v + coef0)", ("gamma", "coef0"), 3,
        values=_sigmoid, rounding=_sigmoid_rounding,
        is_positive_semidefinite=lambda kernel: False,
    ),
    KernelRow(
        "precomputed", "precomputed", "read from the file, see odm-format(5)", (), 4, STORED,
        is_positive_semidefinite=lambda kernel: False,
    ),
)  # fmt: skip

KERNELS = {row.name: row for row in _ROWS}
"""The rows by name."""


def row_of(name: str) -> KernelRow:
    """The row of a kernel; raises UsageError if there is none of this name."""
    if not isinstance(name, str) or name not in KERNELS:
        raise UsageError(messages.unknown_kernel(name, KERNELS))
    return KERNELS[name]
