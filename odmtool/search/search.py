"""Search over settings by cross validation: in parallel, and resumed from a journal.

A setting is a dict from parameter names of a machine to values. The unit of work is one
kernel on one fold: its kernel matrix is made once, and all settings with this kernel run
through it as one chain (:func:`odmtool.search.validation.evaluate_chain`), or in parts where no
fit starts another. Where machines take landmarks, it is one kernel on all folds
(:mod:`odmtool.search.together`). After the deadline (:mod:`odmtool.core.deadline`) nothing is
begun, and what it ended early does not count. Results depend neither on how many processes or
threads share the work nor on where an earlier run was killed. Where processes take landmarks, each
of those that its share of the memory has room for, they are the same within the tolerance.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from itertools import groupby, product, takewhile
from typing import NamedTuple

import numpy as np

from odmtool.core import deadline
from odmtool.core.gram import Gram
from odmtool.core.kernel_table import row_of
from odmtool.machines import Machine
from odmtool.places.memory import bytes_of
from odmtool.search.calibration import FOLDS, evaluate_calibrated
from odmtool.search.journal import Fit, Writer
from odmtool.search.metrics import score
from odmtool.search.processes import in_processes
from odmtool.search.together import Together, shares_landmarks
from odmtool.search.validation import (
    NO_SOLUTION,
    Data,
    FoldResult,
    begins_anew,
    but_mu,
    evaluate_chain,
    goes_on,
    shared_gram,
)
from odmtool.solvers.large import scale as scaling_out
from odmtool.solvers.large import tasks
from odmtool.solvers.linear_cost import nonzeros

MOST_SETTINGS = 100_000
"""Of one search; more would take gigabytes and days."""

# Seconds of work for which processes are not worth beginning; those of a fit for m^3 with a kernel,
# for m where landmarks are taken, and for a nonzero and a class without one.
# speed only: processes do what this one does
_SOON, _OF_TRIPLE, _OF_ROW, _OF_NONZERO = 3.0, 2e-11, 3e-5, 2.5e-8

# Units of work for each process, of chains that can be divided.
# speed only: no fit depends on the others of its unit
_PIECES = 6

SCALED_SHARE = 1 / 8
"""Of the memory: what the scaled examples of all folds may take, so that all kernels share them."""

KERNEL_PARAMETERS = ("kernel", "gamma", "coef0", "degree")


class SearchPlan(NamedTuple):
    """What is searched."""

    machine: Machine  # gives what a setting does not name; it is not fitted
    settings: list[dict]  # those that share their kernel stand together, as :func:`grid` makes them
    data: Data
    fold: np.ndarray  # integers, shape (m,): see :func:`odmtool.search.validation.folds`
    metric: str = "accuracy"  # one of :data:`odmtool.search.metrics.METRICS`
    # What the settings are called in a journal; by default their places in the list.
    numbers: list[int] | None = None
    # Labels are those of the largest probability (:mod:`odmtool.search.calibration`).
    probability: bool = False
    # From a setting to the values whose grid was made, where these are not its own.
    coordinates: Callable[[dict], dict] | None = None
    # So many settings are tried at first, all if None. The others are past their ends
    # (:mod:`odmtool.search.strategies`).
    first: int | None = None

    @property
    def evaluate(self) -> Callable[..., Iterator[FoldResult]]:
        """What evaluates a chain of settings on one fold."""
        return evaluate_calibrated if self.probability else evaluate_chain

    def machine_of(self, number: int) -> Machine:
        """The machine with the setting of this number."""
        place = number if self.numbers is None else self.numbers.index(number)
        return self.machine.copy(**self.settings[place])

    def named(self) -> dict[int, dict]:
        """The settings by their numbers."""
        numbers = range(len(self.settings)) if self.numbers is None else self.numbers
        return dict(zip(numbers, self.settings, strict=True))

    def at_first(self) -> SearchPlan:
        """The plan without settings past the ends of the others."""
        if self.first is None:
            return self
        return self._replace(
            settings=self.settings[: self.first], numbers=[*range(self.first)], first=None
        )

    @property
    def n_folds(self) -> int:
        return int(self.fold.max()) + 1


class Trial(NamedTuple):
    """One setting on all folds."""

    setting: dict
    accuracy: float  # share of all examples that were predicted correctly (not the mean over folds)
    scores: np.ndarray  # shape (n,): the metric by fold
    unconverged: int  # folds that did not reach the tolerance
    has_solution: bool = True  # on every fold
    gap: float = 0.0  # the largest of the folds
    seconds: float = 0.0  # that training on all folds took
    examples: int = 0  # in all folds together

    @property
    def mean(self) -> float:
        return float(self.scores.mean())

    @property
    def std(self) -> float:
        """Standard deviation over the folds."""
        return float(self.scores.std(ddof=1)) if len(self.scores) > 1 else 0.0

    def score(self, metric: str) -> float:
        """What is compared: the accuracy over all examples, or the mean of the metric."""
        return self.accuracy if metric == "accuracy" else self.mean


def grid(values: dict[str, tuple]) -> list[dict]:
    """All combinations of the values: kernel parameters vary slowest, lambda fastest.

    A setting does not name what its kernel ignores, and none comes twice.
    """
    speed = {"lambda_": 2, "cost": 2} | dict.fromkeys(KERNEL_PARAMETERS, 0)
    names = sorted(values, key=lambda name: speed.get(name, 1))
    settings = {}
    for chosen in product(*(values[name] for name in names)):
        setting = dict(zip(names, chosen, strict=True))
        unused = set(KERNEL_PARAMETERS) - {"kernel", *row_of(setting["kernel"]).parameters}
        setting = {name: value for name, value in setting.items() if name not in unused}
        settings[tuple(setting.items())] = setting
    return list(settings.values())


def search(
    plan: SearchPlan, *, jobs: int = 1, finished: list[Fit] = (), journal: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[Trial]:  # fmt: skip
    """Cross validate the settings on the same folds; one row each, in their order.

    After the deadline there are rows only of the settings that were done before it on all folds.

    Parameters
    ----------
    jobs : int
        Processes.
    finished : list of Fit
        Results of an earlier run, from :func:`odmtool.search.journal.open_journal`.
    journal : str, optional
        Where new results are appended.
    progress : callable
        Called with the fits done so far and the fits in all.
    """
    total, n = len(plan.settings) * plan.n_folds, plan.n_folds
    plan = plan._replace(data=plan.data._replace(classes=plan.data.class_order()))
    # A process may have another working directory.
    journal = None if journal is None else os.path.abspath(journal)
    named = plan.named()
    sizes = np.bincount(plan.fold, minlength=n)
    fits = {
        (fit.setting, fit.fold): fit
        for fit in finished
        if fit.setting in named and 0 <= fit.fold < n and 0 <= fit.correct <= sizes[fit.fold]
    }
    known = set(fits)
    # Chains that share landmarks have the memory to themselves while they are solved.
    for shared, group in groupby(chains(plan), lambda chain: is_together(plan, chain)):
        some = list(group)
        units = [
            _unit(plan, piece, k, known)
            for chain in some for piece in pieces(plan, chain, jobs) for k in range(n)
        ]  # fmt: skip
        others = None if shared else _run(plan, units, n, jobs, journal, known)
        for chain in some:
            own = _chain(plan, chain, known, jobs, journal) if shared else others
            missing = {(i, k) for i in chain for k in range(n)} - fits.keys()
            # Nothing more comes only after the deadline.
            while missing and (some_fits := next(own, None)) is not None:
                found = {(fit.setting, fit.fold): fit for fit in some_fits}
                fits |= found
                missing -= found.keys()
                progress(len(fits), total)
            for number in chain:
                own_fits = [fits[number, k] for k in range(n) if (number, k) in fits]
                if len(own_fits) == n:
                    yield summarise(named[number], len(plan.fold), own_fits)
            # Lets the processes' generator end, so that what follows finds them free.
            for _ in own if shared or chain is some[-1] else ():
                pass


def pieces(plan: SearchPlan, chain: list[int], jobs: int) -> list[list[int]]:
    """A chain, or parts of it for processes that would have nothing to do while others go on.

    Settings that follow each other, which differ in lambda, go to different parts.
    """
    # With another kernel all share a matrix.
    if jobs == 1 or plan.machine_of(chain[0]).kernel != "linear" or not begins_anew(plan.machine):
        return [chain]
    count = min(len(chain), -(-_PIECES * jobs // plan.n_folds))
    return [chain[first::count] for first in range(count)]


def _unit(plan: SearchPlan, chain: list[int], k: int, known: set) -> list[int]:
    """Which of a chain to solve on fold k: what is not known, and what starts it."""
    missing = [i for i in chain if (i, k) not in known]
    is_needed = missing and goes_on(plan.machine_of(chain[0]))
    return chain if is_needed else missing


def chains(plan: SearchPlan) -> list[list[int]]:
    """The numbers of the settings, those with one kernel together.

    Within a chain those that differ in mu only follow each other.
    """
    found: dict[tuple, dict[tuple, list[int]]] = {}
    for number, setting in plan.named().items():
        kernel = [setting.get(name, getattr(plan.machine, name)) for name in KERNEL_PARAMETERS]
        groups = found.setdefault(tuple(kernel), {})
        groups.setdefault(but_mu(setting), []).append(number)
    return [[number for group in groups.values() for number in group] for groups in found.values()]


def is_together(plan: SearchPlan, chain: list[int]) -> bool:
    """Whether all folds of a chain are solved at once; see :mod:`odmtool.search.together`."""
    machine = plan.machine_of(chain[0])
    # Folds that are scaled by themselves have kernel values of their own.
    is_apart = plan.probability or plan.data.scale is not None
    return not is_apart and shares_landmarks(machine, plan.data, plan.fold)


def _chain(
    plan: SearchPlan, chain: list[int], known: set, jobs: int, journal
) -> Iterator[list[Fit]]:
    """The fits of a chain on all folds, by threads; nothing if all are known.

    What is known is done again with the rest, so that an interruption changes no result.
    """
    n, named = plan.n_folds, plan.named()
    if deadline.is_over() or all((i, k) in known for i in chain for k in range(n)):
        return
    settings, alone = [named[number] for number in chain], [[] for _ in range(n)]
    with Writer(journal) as writer:
        together = Together(plan.machine, settings, plan.data, plan.fold, jobs)
        for place, k, result, seconds in together.results():
            if deadline.is_over():
                return
            if result is None:
                alone[k].append(chain[place])
            if result is None or (chain[place], k) in known:
                continue
            labels = plan.data.labels[plan.fold == k]
            fit = _fit(plan, chain[place], k, labels, result, seconds)
            writer.write(fit)
            yield [fit]
    count = together.newton_processes(jobs)
    machine = plan.machine.copy(jobs=1 if count > 1 else jobs, solver="newton")
    # In the chain's order, in which one solution starts the next.
    order = {number: i for i, number in enumerate(chain)}
    units = [
        sorted(unit, key=order.get) if any((i, k) not in known for i in unit) else []
        for k, unit in enumerate(alone)
    ]
    yield from _run(plan._replace(machine=machine), units, n, count, journal, known)


def _fit(plan: SearchPlan, number: int, k: int, labels, result: FoldResult, seconds) -> Fit:
    """What a result is worth."""
    correct, value = 0, 0.0
    if result is not NO_SOLUTION:
        correct = int((result.predicted == labels).sum())
        value = score(plan.metric, plan.data.class_order(), labels, result)
    gap, converged = float(result.gap), bool(result.converged)
    return Fit(number, k, correct, value, gap, converged, round(seconds, 6))


def _run(plan: SearchPlan, units, n: int, jobs: int, journal, known: set) -> Iterator[list[Fit]]:
    """The fits of every unit that is not empty; unit i is on fold i modulo n."""
    work = [(unit, i % n) for i, unit in enumerate(units) if unit]
    if plan.machine.settings.scheduler is not None:
        yield from _on_cluster(plan, work, journal, known)
        return
    room = SCALED_SHARE * plan.machine.memory_limit() if len(work) > n else 0.0
    if jobs > 1:
        # A process plans with its share of the memory.
        memory = plan.machine.memory_limit() / jobs
        plan = plan._replace(machine=plan.machine.copy(memory=memory))
    plan_of = _Folds(plan, room).plan
    # Those of the processor: where it is shared with others, processes begin more slowly, too.
    named, began = plan.named(), time.process_time()
    seconds_left = _forecast(plan, work) if jobs > 1 else None
    shared: tuple = (None, None)
    for done, (unit, k) in enumerate(work):
        if deadline.is_over():
            return
        # speed only: here, or in processes, which take a second and more to begin
        if seconds_left and seconds_left(done, time.process_time() - began) > _SOON:
            left = takewhile(lambda _: not deadline.is_over(), work[done:])
            tasks_of = ((plan_of(k), unit, k, journal, None, known) for unit, k in left)
            yield from in_processes(deadline.carried(run_unit), tasks_of, jobs)
            return
        kernel = {p: named[unit[0]].get(p) for p in KERNEL_PARAMETERS}
        if kernel != shared[0] and plan.data.scale is None:
            shared = (kernel, _gram(plan, unit))
        yield run_unit(plan_of(k), unit, k, journal, shared[1], known)


class _Folds:
    """The plan for each fold, whose examples are scaled once for all kernels where there is room.

    Without room, or where nothing is to be scaled, it is the plan itself.
    """

    def __init__(self, plan: SearchPlan, room: float):
        self._plan, self._scaled = plan, {}
        self._room = 0.0 if plan.data.scale is None else room / plan.n_folds

    def plan(self, k: int) -> SearchPlan:
        if k not in self._scaled and self._room > 0:
            data = self._plan.data.scaled_by(np.flatnonzero(self._plan.fold != k))
            if bytes_of(data.X) <= self._room:
                self._scaled[k] = self._plan._replace(data=data)
            else:
                self._room = 0.0
        return self._scaled.get(k, self._plan)


def _forecast(plan: SearchPlan, work: list[tuple]) -> Callable[..., float]:
    """A function of the units that are done, and of the processor seconds that they took.

    It returns about the seconds that are left: as guessed, or as what is done lets one expect.
    """
    units = [(len(unit), _seconds(plan, unit)) for unit, _ in work]
    left = np.array(units)[::-1].cumsum(axis=0)[::-1]  # from every unit on

    def seconds_left(done: int, taken: float) -> float:
        fits, seconds = left[done]
        return max(seconds, taken * fits / max(1, left[0, 0] - fits))

    return seconds_left


def _seconds(plan: SearchPlan, unit: list[int]) -> float:
    """About what a unit takes: to choose, not to predict."""
    machine, X = plan.machine_of(unit[0]), plan.data.X
    if machine.solver not in ("auto", "newton"):
        return math.inf  # as long as its iterations last
    fits = len(unit) * (1 + FOLDS * plan.probability)
    m = X.shape[0]
    if machine.kernel != "linear":
        return fits * (_OF_ROW * m if machine.takes_landmarks(m) else _OF_TRIPLE * m**3)
    return _OF_NONZERO * nonzeros(X) * len(plan.data.class_order()) * fits


def _on_cluster(plan: SearchPlan, work: list[tuple], journal, known: set) -> Iterator[list[Fit]]:
    """The same on the workers of ``--scheduler``; the journal is written here."""
    machine, count = plan.machine, len(work)
    with scaling_out.cluster(machine) as executor:
        tasks.check_task(machine, plan.data.X, executor.task_memory)
        # The same memory for every fit, so that its solver does not depend on the worker.
        alone = machine.copy(
            memory=executor.task_memory, settings=machine.settings._replace(scheduler=None)
        )
        if hasattr(alone, "jobs"):
            alone = alone.copy(jobs=1)
        shared = executor.put(plan._replace(machine=alone))
        columns = [shared] * count, [u for u, _ in work], [k for _, k in work], [None] * count
        columns += [None] * count, [{(i, k) for i in u if (i, k) in known} for u, k in work]
        with Writer(journal) as writer:
            for fits in executor.stream(run_unit, *columns):
                for fit in fits:
                    writer.write(fit)
                yield fits


def run_unit(
    plan: SearchPlan, unit: list[int], k: int, journal, gram: Gram | None = None,
    known: set = frozenset(),
) -> list[Fit]:  # fmt: skip
    """The settings with these numbers, which share their kernel, on fold k.

    Those that are known serve as starts only.
    """
    if deadline.is_over():
        return []
    train, test = np.flatnonzero(plan.fold != k), np.flatnonzero(plan.fold == k)
    plan = plan._replace(data=plan.data.scaled_by(train))
    gram = _gram(plan, unit) if gram is None else gram
    labels, fits = plan.data.labels[test], []
    named = plan.named()
    chain = [named[number] for number in unit]
    with Writer(journal) as writer:
        results = timed(plan.evaluate(plan.machine, chain, plan.data, train, test, gram))
        # Not strict: after the deadline the rest is not begun.
        for number, (result, seconds) in zip(unit, results, strict=False):
            if deadline.is_over():
                break
            if (number, k) in known:
                continue
            fit = _fit(plan, number, k, labels, result, seconds)
            fits.append(fit)
            writer.write(fit)
    return fits


def timed(results: Iterator) -> Iterator[tuple]:
    """Each result, and the seconds that it took."""
    began = time.perf_counter()
    for result in results:
        yield result, time.perf_counter() - began
        began = time.perf_counter()


def _gram(plan: SearchPlan, unit: list[int]) -> Gram | None:
    """Kernel values of all rows for the settings with these numbers."""
    return shared_gram(plan.machine_of(unit[0]), plan.data.X)


def summarise(setting: dict, m: int, fits: list[Fit]) -> Trial:
    """The fits of one setting on all folds, m examples together, as one row."""
    correct = sum(fit.correct for fit in fits)
    scores = np.array([fit.score for fit in fits])
    unconverged = sum(not fit.converged for fit in fits)
    has_solution = all(math.isfinite(fit.gap) for fit in fits)
    return Trial(
        setting, correct / m, scores, unconverged if has_solution else 0, has_solution,
        max(fit.gap for fit in fits), sum(fit.seconds for fit in fits), m,
    )  # fmt: skip


def best(rows: list[Trial], machine: Machine, metric: str = "accuracy") -> Trial:
    """The best row; among equals the stronger regularisation, then the smoother kernel."""
    return ranking(rows, machine, metric)[0]


def ranking(rows: list[Trial], machine: Machine, metric: str) -> list[Trial]:
    """The rows from the best to the worst, in the order of :func:`best`."""

    def preference(row: Trial):
        candidate = machine.copy(**row.setting)
        score = row.score(metric) if row.has_solution else -1.0
        used = row_of(candidate.kernel).parameters
        smoothness = [getattr(candidate, n) if n in used else 0 for n in ("gamma", "degree")]
        return -score, candidate.loss_weight, *smoothness

    return sorted(rows, key=preference)
