"""Searches that do not try every setting on all data.

halving   Successive halving: every setting is cross validated on a small stratified
          subset; the better third goes on to a subset three times as large, until
          three settings or fewer are left, or the part would be too small; these are
          cross validated on all data, or on a part whose standard error is about a tenth
          of a point. Settings whose accuracy is plainly worse than the best one's, by three
          standard errors, do not go on. Source:
          Jamieson & Talwalkar, "Non-stochastic best arm identification and
          hyperparameter optimization", AISTATS 2016; Maron & Moore, "Hoeffding races",
          NIPS 1993.
coarse    Coarse to fine: the grid with steps of four in every parameter, then the
          neighbours of the best setting with steps of two, then of one, until the best
          has no better neighbour.

Both end with rows from which the best is taken as in a full search. While the best row has the
smallest or the largest gamma of its kernel, full search and the first round of halving go on to the
settings with the next one, if the plan has settings past its ends (``SearchPlan.first``). The
subsets are seeded and depend on the labels only. After the deadline
(:mod:`odmtool.core.deadline`) halving has the rows of the last round that was done, or what the
first one has; the others have the rows that were done.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from odmtool.search.search import SearchPlan, Trial, best, ranking
from odmtool.search.validation import folds

FACTOR = 3
"""Growth of the subsets, and the share of settings that is dropped less one."""

# The first subset of halving has at least so many examples, and so many per fold and class.
_SMALLEST = 200
_LEAST_PER_FOLD = 2
MANY = 100_000
"""About so many examples the last round of halving has, where there are twice as many or more."""
# Standard errors of a difference between two accuracies that are not taken for chance.
_PLAIN = 3.0
_FIRST_STRIDE = 4

Evaluate = Callable[[SearchPlan], Iterator[Trial]]
Announce = Callable[[int, int], None]


def full(plan: SearchPlan, evaluate: Evaluate, announce: Announce, seed: int) -> Iterator[Trial]:
    """Every setting on all data."""
    part = plan.at_first()
    announce(len(part.settings), len(part.fold))
    rows = []
    for row in evaluate(part):
        rows.append(row)
        yield row
    yield from _farther(plan, part, rows, evaluate, announce)


def halving(plan: SearchPlan, evaluate: Evaluate, announce: Announce, seed: int) -> Iterator[Trial]:
    """Rows of the settings that reach the last round.

    Parameters
    ----------
    evaluate : callable
        Cross validates the settings of a plan, as :func:`odmtool.search.search.search`.
    announce : callable
        Told, before a round, the number of its settings and of its examples.
    """
    survivors, before, sizes = list(plan.at_first().named().items()), [], subset_sizes(plan)
    for level, size in enumerate(sizes):
        is_last = level == len(sizes) - 1
        if len(survivors) == 1 and not is_last:
            continue
        part = plan if size == len(plan.fold) else _on_subset(plan, size, seed)
        # Rounds are told apart in a journal by the numbers of their settings.
        numbers = [number + level * len(plan.settings) for number, _ in survivors]
        part = part._replace(settings=[s for _, s in survivors], numbers=numbers, first=None)
        announce(len(survivors), len(part.fold))
        rows = list(evaluate(part))
        is_cut, kept = len(rows) < len(survivors), -(-len(survivors) // FACTOR)
        if level == 0 and not is_cut:
            rows += _farther(plan, part, rows, evaluate, announce)
            survivors = list(plan.named().items())
        if is_cut or is_last:
            yield from before if is_cut and before else rows
            return
        order, before = ranking(rows, plan.machine, plan.metric), rows
        better = {
            tuple(row.setting.items()) for row in order[:kept]
            if plan.metric != "accuracy" or not is_plainly_worse(row, order[0])
        }  # fmt: skip
        survivors = [(n, s) for n, s in survivors if tuple(s.items()) in better]


def _farther(
    plan: SearchPlan, part: SearchPlan, rows: list[Trial], evaluate: Evaluate, announce: Announce
) -> Iterator[Trial]:
    """Rows of settings past the ends: of one gamma after another, while the best is the last.

    ``rows`` are those of ``part``, which has the settings that are tried at first; after the
    deadline, some of them.
    """
    rows, count = list(rows), len(part.settings)
    while len(rows) == count and (following := _past_the_end(plan, rows)):
        announce(len(following), len(part.fold))
        settings = [plan.settings[number] for number in following]
        count += len(following)
        for row in evaluate(part._replace(settings=settings, numbers=following)):
            rows.append(row)
            yield row


def _past_the_end(plan: SearchPlan, rows: list[Trial]) -> list[int]:
    """The numbers of the settings with the gamma next to the best one's, if that is at an end.

    Empty if not, if a row with another gamma is as good, or if there are no more.
    """
    top = best(rows, plan.machine, plan.metric)
    kernel, gamma = (top.setting.get(name) for name in ("kernel", "gamma"))
    others = [row for row in rows if row.setting.get("gamma") != gamma]
    tried = [row.setting["gamma"] for row in others if row.setting.get("kernel") == kernel]
    has_ends = plan.first is not None and gamma is not None and tried
    if not has_ends or any(row.score(plan.metric) >= top.score(plan.metric) for row in others):
        return []
    is_smallest = gamma < min(tried)
    if not is_smallest and gamma < max(tried):
        return []
    left = {
        number: setting["gamma"] for number, setting in enumerate(plan.settings)
        if number >= plan.first and setting["kernel"] == kernel
    }  # fmt: skip
    past = [other for other in left.values() if (other < gamma) == is_smallest and other != gamma]
    following = min(past, key=lambda other: abs(math.log(other / gamma)), default=None)
    return [number for number, other in left.items() if other == following]


def is_plainly_worse(row: Trial, best: Trial) -> bool:
    """Whether chance does not explain why the accuracy of a row is lower than the best one's.

    As if both had been tested on examples of their own: on the same ones, differences vary less.
    It holds for as many training examples: with more, the order may be another one.
    """
    variance = sum(a * (1 - a) for a in (row.accuracy, best.accuracy)) / row.examples
    return best.accuracy - row.accuracy > _PLAIN * math.sqrt(variance)


def subset_sizes(plan: SearchPlan) -> list[int]:
    """Sizes of the rounds: all examples or ``MANY``, before that a third of the next round.

    No more rounds than it takes to come down to a few settings, and none too small.
    """
    m, counts = len(plan.fold), np.unique(plan.data.labels, return_counts=True)[1]
    smallest = max(_SMALLEST, _LEAST_PER_FOLD * plan.n_folds * m / counts.min())
    sizes, settings = [m if m < 2 * MANY else MANY], len(plan.at_first().settings)
    while settings > FACTOR and sizes[0] / FACTOR >= smallest:
        sizes.insert(0, sizes[0] // FACTOR)
        settings = -(-settings // FACTOR)
    return sizes


def largest_round(plan: SearchPlan, strategy: str, seed: int) -> SearchPlan:
    """The plan of the round with the most examples, which takes the most memory."""
    size = subset_sizes(plan)[-1] if strategy == "halving" else len(plan.fold)
    plan = plan.at_first()
    return plan if size == len(plan.fold) else _on_subset(plan, size, seed)


def _on_subset(plan: SearchPlan, size: int, seed: int) -> SearchPlan:
    """The plan on a stratified subset of about this many examples."""
    labels = plan.data.labels
    # The first of as many stratified folds as the subset fits into the data.
    rows = np.flatnonzero(folds(labels, max(2, round(len(labels) / size)), seed) == 0)
    data = plan.data.part(rows)
    return plan._replace(data=data, fold=folds(data.labels, plan.n_folds, seed))


def coarse(plan: SearchPlan, evaluate: Evaluate, announce: Announce, seed: int) -> Iterator[Trial]:
    """Rows of the settings that were tried; parameters as in :func:`halving`."""
    plan = plan.at_first()
    named = plan.named()
    places = _places([(plan.coordinates or dict)(setting) for setting in plan.settings])
    number_at = {place: number for number, place in zip(named, places, strict=True)}
    number_of = {tuple(setting.items()): number for number, setting in named.items()}
    largest = np.max(places, axis=0)
    stride, tried = _FIRST_STRIDE, {}
    candidates = [
        p for p in places
        if all(i % stride == 0 or i == end for i, end in zip(p, largest, strict=True))
    ]  # fmt: skip
    while True:
        new = sorted(number_at[place] for place in candidates if number_at[place] not in tried)
        if new:
            announce(len(new), len(plan.fold))
            part, count = plan._replace(settings=[named[n] for n in new], numbers=new), len(tried)
            for row in evaluate(part):
                tried[number_of[tuple(row.setting.items())]] = row
                yield row
            if len(tried) < count + len(new):
                return
        elif stride == 1:
            return
        if stride > 1:
            stride //= 2
        top = best(list(tried.values()), plan.machine, plan.metric)
        centre = places[plan.settings.index(top.setting)]
        candidates = [
            p for p in places
            if all(abs(i - c) <= stride and (i - c) % stride == 0
                   for i, c in zip(p, centre, strict=True))
        ]  # fmt: skip


def _places(settings: list[dict]) -> list[tuple[int, ...]]:
    """The place of every setting in the grid: the rank of each of its values.

    A kernel may have values of its own, among which they are ranked.
    """
    names = list(dict.fromkeys(name for setting in settings for name in setting))
    kernels = [setting.get("kernel") for setting in settings]
    ranks = {(None, "kernel"): _ranks(kernels)}
    for kernel in ranks[None, "kernel"]:
        own = [setting for setting in settings if setting.get("kernel") == kernel]
        for name in names:
            ranks[kernel, name] = _ranks([setting.get(name) for setting in own])
    return [
        tuple(
            ranks[None if name == "kernel" else kernel, name][setting.get(name)] for name in names
        )
        for kernel, setting in zip(kernels, settings, strict=True)
    ]


def _ranks(values: list) -> dict:
    """The rank of each different value, of numbers by their size."""
    found = list(dict.fromkeys(values))
    if all(isinstance(value, (int, float)) for value in found):
        found.sort()
    return {value: rank for rank, value in enumerate(found)}


STRATEGIES = {"full": full, "halving": halving, "coarse": coarse}
