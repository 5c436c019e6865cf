"""Values that overflow: training ends before it begins, with the example that has them."""

from __future__ import annotations

import numpy as np

from odmtool import messages
from odmtool.core import kernels
from odmtool.core.gram import Gram
from odmtool.core.kernel_table import DISTANCES
from odmtool.core.kernels import Kernel
from odmtool.errors import DataError


def refuse_huge_values(rows, gram: Gram | None, X, kept: np.ndarray | slice) -> None:
    """Raise DataError if a squared norm, of a row or in feature space, is not finite.

    ``rows`` or those of ``gram`` are made of the rows X, of which some are ``kept``.
    """
    if gram is not None:
        rows = gram.matrix() if gram.X is None else gram.X
    with np.errstate(over="ignore", invalid="ignore"):
        squares = kernels.diagonal(Kernel("linear"), rows)
        if gram is not None:
            squares = squares + gram.diagonal()
    if np.all(np.isfinite(squares)):
        return
    bad = int(np.argmin(np.isfinite(squares)))
    if gram is not None and gram.kernel.row.of == DISTANCES:
        # The mean that was taken off makes all rows as large.
        bad = _farthest(X[kept])
    raise DataError(messages.values_too_large(np.arange(X.shape[0])[kept][bad] + 1))


def _farthest(X) -> int:
    """The row of the largest value in size."""
    values = X if isinstance(X, np.ndarray) else X.data
    place = int(np.argmax(np.abs(values)))
    if isinstance(X, np.ndarray):
        return place // X.shape[1]
    return int(np.searchsorted(X.indptr, place, side="right")) - 1
