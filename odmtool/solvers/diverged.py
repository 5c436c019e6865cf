"""The error of a training whose numbers grow without bound, and why they do."""

from __future__ import annotations

from odmtool import messages
from odmtool.core.gram import Gram
from odmtool.errors import DivergedError


def diverged(gram: Gram | None) -> DivergedError:
    """What to raise; ``gram`` is None in linear problems."""
    if gram is None or gram.kernel.is_positive_semidefinite:
        return DivergedError(messages.overflow())
    # Loaded by the few who come here.
    from odmtool.solvers.indefinite import why_none

    return DivergedError(why_none(gram))
