"""The error of a training whose numbers grow without bound, and why they do."""

from __future__ import annotations

import numpy as np

from odmtool import messages
from odmtool.core.gram import Gram
from odmtool.errors import DivergedError


def diverged(gram: Gram | None, *values: float) -> DivergedError:
    """What to raise; ``gram`` is None in linear problems, ``values`` are those that say nothing."""
    if gram is None or gram.kernel.is_positive_semidefinite:
        is_rounding = values and np.all(np.isfinite(values))
        return DivergedError(messages.rounding_hides() if is_rounding else messages.overflow())
    # Loaded by the few who come here.
    from odmtool.solvers.indefinite import why_none

    return DivergedError(why_none(gram))
