"""The papers' protocol: random splits, a search in each training part, one test of its best.

Protocol    for every split: cross validate all settings within the training part, train the
            best one on the whole training part (solved as exactly as the fits of a cross
            validation; one without a solution there makes way for the next), predict the test
            part. Of the test part nothing is used before.
Splits      stratified; the test part of split r depends on the labels, the test size, the
            seed and r only, so that machines are compared on the same splits.
Comparison  the paired t-test over the splits: t = mean(d) / (std(d) / sqrt(R)) for the R
            differences d, with R - 1 degrees of freedom, two-sided.
Source      Zhang & Zhou, TKDE 2019, section 5 (30 splits, 4/5 of the data for training).
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from odmtool import messages
from odmtool.errors import DataError, UsageError
from odmtool.machines import Machine
from odmtool.search.journal import Writer
from odmtool.search.metrics import score
from odmtool.search.processes import in_processes
from odmtool.search.search import SearchPlan, Trial, ranking, search
from odmtool.search.strategies import STRATEGIES
from odmtool.search.validation import NO_SOLUTION, FoldResult, check_classes, folds

_FINGERPRINT_DIGITS = 16
# So many examples of every class stay for training: with fewer, a fold would have none.
_LEAST_FOR_TRAINING = 2
# A standard error of shares that is rounding only.
_ROUNDING = 1e-14


class Split(NamedTuple):
    """One division of the examples."""

    number: int  # from 1
    # train, test: integers, rows of the two parts, ascending.
    train: np.ndarray
    test: np.ndarray
    # machine, settings: those of this split, where they depend on the training part; else the
    # plan's.
    machine: Machine | None = None
    settings: list[dict] | None = None

    @property
    def fingerprint(self) -> str:
        """The beginning of the SHA-256 of the test rows (from 0, as 64-bit integers)."""
        rows = self.test.astype("<i8").tobytes()
        return hashlib.sha256(rows).hexdigest()[:_FINGERPRINT_DIGITS]


def splits(labels: np.ndarray, count: int, test_size: float, seed: int) -> list[Split]:
    """Random splits with the same share of every class in the test part.

    Parameters
    ----------
    labels : int array, shape (m,)
    count : int, >= 1
    test_size : float, between 0 and 1
        Share of the test part; of every class the nearest whole number of examples.

    Raises
    ------
    UsageError
        The test size is out of range.
    DataError
        A class is too small.
    """
    if not 0 < test_size < 1:
        raise UsageError(messages.test_size_range(test_size))
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    sizes = [math.floor(test_size * len(members) + 0.5) for members in classes]
    for members, size in zip(classes, sizes, strict=True):
        if not 1 <= size <= len(members) - _LEAST_FOR_TRAINING:
            label = labels[members[0]]
            raise DataError(messages.class_too_small(label, len(members), size, test_size))
    chosen = []
    for number in range(1, count + 1):
        generator = np.random.default_rng([seed, number])
        tested = np.zeros(len(labels), dtype=bool)
        for members, size in zip(classes, sizes, strict=True):
            tested[generator.permutation(members)[:size]] = True
        chosen.append(Split(number, np.flatnonzero(~tested), np.flatnonzero(tested)))
    return chosen


class Protocol(NamedTuple):
    """What is done."""

    plan: SearchPlan  # the search that is repeated; its folds count, but not who is in them
    splits: list[Split]
    seed: int  # of the folds and the strategy within a training part
    strategy: str = "full"  # one of :data:`odmtool.search.strategies.STRATEGIES`

    def plan_of(self, split: Split) -> SearchPlan:
        """The plan with the machine and the settings of a split."""
        if split.settings is None:
            return self.plan
        machine = split.machine.copy(memory=self.plan.machine.memory)
        return self.plan._replace(machine=machine, settings=split.settings)


class SplitResult(NamedTuple):
    """What came out of one split; a line of the journal."""

    split: int  # its number
    setting: int  # the best one in the cross validation, its number among those of the split
    # cv, cv_score: its accuracy in the cross validation (the share of all examples that were
    # predicted correctly), and the mean of the metric over the folds.
    cv: float
    cv_score: float
    # correct, size: examples of the test part that were predicted correctly, and in all.
    correct: int
    size: int
    score: float  # the metric on the test part
    unconverged: int  # fits that did not reach the tolerance

    @property
    def accuracy(self) -> float:
        """On the test part."""
        return self.correct / self.size


def check_protocol(protocol: Protocol) -> None:
    """Raise UsageError or DataError if the training parts are too small for the folds."""
    plan, part = protocol.plan, protocol.splits[0].train  # all have as many of a class
    if plan.n_folds > len(part):
        raise UsageError(messages.fold_count(plan.n_folds, len(part)))
    check_classes(plan.data.labels[part], plan.n_folds, plan.metric, is_part=True)


def repeat(
    protocol: Protocol, *, jobs: int = 1, finished: list[SplitResult] = (),
    journal: str | None = None, progress: Callable[[int], None] = lambda done: None,
) -> Iterator[SplitResult]:  # fmt: skip
    """Do every split; the results in the order of the splits, the same for every ``jobs``.

    Parameters
    ----------
    jobs : int
        Processes; each does whole splits.
    finished : list of SplitResult
        Results of an earlier run, from :func:`odmtool.search.journal.open_journal`.
    journal : str, optional
        Where new results are appended.
    progress : callable
        Called with the number of splits done so far.
    """
    sizes = {split.number: len(split.test) for split in protocol.splits}
    known = {r.split: r for r in finished if 0 <= r.correct <= r.size == sizes.get(r.split)}
    check_protocol(protocol)
    # A process may have another working directory.
    journal = None if journal is None else os.path.abspath(journal)
    left = [split for split in protocol.splits if split.number not in known]
    done = len(protocol.splits) - len(left)
    results = _run(protocol, left, jobs, journal, lambda: progress(done))
    for split in protocol.splits:
        if split.number not in known:
            known[split.number] = next(results)
            done += 1
            progress(done)
        yield known[split.number]
    # Lets the processes' generator end.
    for _ in results:
        pass


def _run(protocol: Protocol, left: list[Split], jobs: int, journal, alive) -> Iterator[SplitResult]:
    alive()
    protocol = protocol._replace(splits=[])
    if jobs == 1:
        for split in left:
            yield run_split(protocol, split, journal, alive)
        return
    # A process plans with its share of the memory.
    machine = protocol.plan.machine
    machine = machine.copy(memory=machine.memory_limit() / jobs)
    protocol = protocol._replace(plan=protocol.plan._replace(machine=machine))
    yield from in_processes(run_split, ((protocol, split, journal) for split in left), jobs)


def run_split(
    protocol: Protocol, split: Split, journal: str | None = None,
    alive: Callable[[], None] = lambda: None,
) -> SplitResult:  # fmt: skip
    """Search in the training part, train the best setting, and predict the test part.

    ``alive`` is called now and then.
    """
    whole = protocol.plan_of(split)
    data = whole.data.part(split.train)
    plan = whole._replace(data=data, fold=folds(data.labels, whole.n_folds, protocol.seed))
    rows = list(STRATEGIES[protocol.strategy](
        plan, lambda part: search(part, progress=lambda done, total: alive()),
        lambda settings, examples: None, protocol.seed,
    ))  # fmt: skip
    winner, test = _tested(whole, split, ranking(rows, plan.machine, plan.metric))
    labels = whole.data.labels[split.test]
    result = SplitResult(
        split.number, whole.settings.index(winner.setting), winner.accuracy, winner.mean,
        int((test.predicted == labels).sum()), len(labels),
        score(whole.metric, whole.data.class_order(), labels, test),
        sum(row.unconverged for row in rows) + (not test.converged),
    )  # fmt: skip
    with Writer(journal) as writer:
        writer.write(result)
    return result


def _tested(whole: SearchPlan, split: Split, order: list[Trial]) -> tuple[Trial, FoldResult]:
    """The best row with a solution on the whole training part, too, and what that predicts.

    Raises DivergedError if there is none.
    """
    known = whole.data.scaled_by(split.train)
    for row in order:
        machine = whole.machine.copy(**row.setting)
        if not row.has_solution:  # nor has any behind it
            break
        (test,) = whole.evaluate(
            whole.machine, [row.setting], known, split.train, split.test, machine.gram(known.X)
        )
        if test is not NO_SOLUTION:
            return row, test
    raise whole.machine.copy(**order[0].setting).no_solution()


class Summary(NamedTuple):
    """Mean and standard deviation over the splits (0 for one split)."""

    mean: float
    std: float
    count: int


def summarise(scores: list[float]) -> Summary:
    """Mean and standard deviation of one number per split."""
    std = float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0
    return Summary(float(np.mean(scores)), std, len(scores))


class Comparison(NamedTuple):
    """Two runs on the same splits, ours less theirs."""

    # mean, error: mean difference and its standard error.
    mean: float
    error: float
    # t, p: statistic and two-sided p-value of the paired t-test. Equal differences in all splits
    # have no standard error: then t is 0 and p is 1 if they are zero, else t is infinite and p is
    # 0.
    t: float
    p: float
    # wins, ties, losses: splits in which ours is the greater, equal, or smaller.
    wins: int
    ties: int
    losses: int


def compare(ours: list[float], theirs: list[float]) -> Comparison:
    """The paired t-test of the scores of two runs, at least two splits each."""
    from scipy.stats import ttest_rel

    difference = np.subtract(ours, theirs)
    mean = float(difference.mean())
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    if error > _ROUNDING:
        t, p = map(float, ttest_rel(ours, theirs))
    else:
        error, t, p = 0.0, math.copysign(math.inf, mean) if mean else 0.0, float(mean == 0)
    wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
    return Comparison(mean, error, t, p, wins, len(difference) - wins - losses, losses)
