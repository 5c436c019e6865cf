"""``--trace``: the course of a training, iteration by iteration, as CSV."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

COLUMNS = ("iteration", "objective", "gap", "seconds", "accuracy")


class Trace:
    """What a solver tells, kept until the training is over.

    ``tell``: is also told.
    """

    def __init__(self, tell: Callable):
        self._tell, self._began, self._rows = tell, time.perf_counter(), []
        self._problems: list[Trace] = []

    def of_problem(self, number: int) -> Trace:
        """That of one of several problems that are solved side by side; tells nobody."""
        while len(self._problems) <= number:
            self._problems.append(Trace(lambda _state: None))
            self._problems[-1]._began = self._began
        return self._problems[number]

    def __call__(self, state) -> None:
        """The progress callback of the solvers."""
        # The objective is None, and the gap NaN, where the solver does not know it.
        objective = "" if state.primal is None else format(state.primal, ".17g")
        gap = "" if math.isnan(state.gap) else format(state.gap, ".6g")
        seconds, began = time.perf_counter() - self._began, time.perf_counter()
        accuracy = _accuracy(state.margins)
        self._rows.append(f"{state.iteration},{objective},{gap},{seconds:.6f},{accuracy}\n")
        self._tell(state)
        # What the trace itself takes is no time of the training.
        self._began += time.perf_counter() - began

    def write(self, path: str) -> None:
        """One line for each iteration; raises FileError."""
        from odmtool.io.files import atomic_output

        with atomic_output(path) as stream:
            stream.write(",".join(COLUMNS) + "\n")
            for trace in (self, *self._problems):
                stream.writelines(trace._rows)


def _accuracy(margins) -> str:
    """The share of positive margins in percent; nothing where they are not known.

    All examples may have f(x) = 0 at the beginning, which counts as wrong.
    """
    margins = margins() if callable(margins) else margins
    return "" if margins is None else format(100 * (margins > 0).mean(), ".6g")
