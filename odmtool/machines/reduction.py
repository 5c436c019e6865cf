"""More than two classes by a binary machine: one against the rest, one against one, or a code.

ovr   one problem per class, the class against all others; the largest f_l wins, at a tie
      the first. As LIBLINEAR does it.
ovo   one problem per pair of classes, on their examples only; every pair votes, the class
      with most votes wins, at a tie the first. As LIBSVM does it.
ecoc  one problem per letter of an error-correcting code (:mod:`odmtool.machines.codes`), some
      classes against all others; their functions make one per class, and the largest wins.

lambda stands for the whole data's, so that lambda / M, the cost of one example, is the same in
every problem. Problems on all examples share landmarks and passes over kernel values where these
are taken (:mod:`odmtool.solvers.engine.solve`); else all share one kernel matrix, and threads work
on them side by side.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from odmtool.core import deadline, losses
from odmtool.core.gram import Gram
from odmtool.core.loss_table import SMOOTH
from odmtool.machines import codes, small_pairs
from odmtool.machines.data import Prepared
from odmtool.machines.pairs import PairGrams
from odmtool.rows.executor import local_executor
from odmtool.solvers import table
from odmtool.solvers.auto import newton_follows
from odmtool.solvers.base import (
    Problem,
    ProgressCallback,
    Solution,
    Stop,
    better,
    ignore_progress,
    progress_of,
)
from odmtool.solvers.large import scale as scaling_out
from odmtool.solvers.large import tasks
from odmtool.solvers.multi import MultiSolution
from odmtool.solvers.table import IN_PARTS, newton_matrices
from odmtool.solvers.untrained import NONE


class Subproblem(NamedTuple):
    """One of the binary problems."""

    examples: np.ndarray | None  # integers: those that take part; None for all
    y: np.ndarray  # +1.0 and -1.0: one per example that takes part


def problems(k: int, reduction: str) -> list[tuple[int, int | None]]:
    """The binary problems of k classes: which class is +1, and which -1; None is all others.

    Those of ovo in LIBSVM's order of pairs (0-1, 0-2, ..., 1-2, ...); one for two classes.
    """
    if k <= 2:
        return [(0, None)]
    if reduction == "ovr":
        return [(label, None) for label in range(k)]
    return [(i, j) for i in range(k) for j in range(i + 1, k)]


def decoder(machine, k: int) -> np.ndarray | None:
    """Of ecoc, what the values of the problems are multiplied by to make those of the classes.

    None of the others, whose values are taken as they are; else of shape (problems, k).
    """
    if k <= 2 or machine.reduction(k) != "ecoc":
        return None
    words = codes.code(k, machine.seed)
    return words.T / words.shape[1]


def parts(target: np.ndarray, k: int, machine) -> list[Subproblem]:
    """The binary problems of examples whose classes, 0..k-1, are ``target``."""
    reduction = machine.reduction(k)
    if reduction == "ecoc" and k > 2:
        return [Subproblem(None, letter[target]) for letter in codes.code(k, machine.seed).T]
    members = [np.flatnonzero(target == label) for label in range(k)]
    return [
        Subproblem(None, np.where(target == first, 1.0, -1.0)) if second is None
        else _pair(members[first], members[second])
        for first, second in problems(k, reduction)
    ]  # fmt: skip


def _pair(first: np.ndarray, second: np.ndarray) -> Subproblem:
    y = np.repeat([1.0, -1.0], [len(first), len(second)])
    return Subproblem(np.concatenate([first, second]), y)


def solve(machine, prepared: Prepared, start=None, progress=ignore_progress) -> MultiSolution:
    """Solve all problems of a machine.

    Parameters
    ----------
    machine : BinaryMachine
        Its ``reduction`` says which problems, its ``jobs`` how many threads.
    start : sequence of ndarrays, optional
        The ``duals`` of an earlier solution.
    progress : callable
        Told of all problems where they are solved together, else of one after the other; with
        several threads by :func:`odmtool.solvers.base.progress_of`.
    """
    k = len(prepared.classes)
    if _are_pairs_of_kernels(machine, prepared):
        return _pairs(machine, prepared, start, progress)
    todo = parts(prepared.target, k, machine)
    starts = [None] * len(todo) if start is None else start
    if is_for_cluster(machine):
        solutions = _on_cluster(machine, prepared, todo, starts)
    elif _shares_landmarks(machine, prepared, todo):
        solutions = _side_by_side(machine, prepared, todo, progress)
    else:
        # Solvers in parts have threads of their own.
        jobs = 1 if machine.solver in IN_PARTS else machine.jobs
        solve_each = _in_shares if prepared.gram is None else _in_threads
        solutions = solve_each(machine, prepared, todo, starts, progress, jobs)
    return _together(machine, prepared, todo, solutions)


def is_for_cluster(machine) -> bool:
    """Whether the problems are tasks on a cluster; solvers for large data use it themselves."""
    return machine.settings.scheduler is not None and machine.solver not in IN_PARTS


def _shares_landmarks(machine, prepared: Prepared, todo: list[Subproblem]) -> bool:
    """Whether all problems are solved together, with the same landmarks."""
    gram, is_on_all = prepared.gram, all(part.examples is None for part in todo)
    if gram is None or len(todo) == 1 or not is_on_all or machine.kind != SMOOTH:
        return False
    return machine.takes_landmarks(gram.size) and gram.kernel.is_positive_semidefinite


def _side_by_side(machine, prepared, todo, progress) -> list[Solution]:
    # Not before it is needed: it imports SciPy.
    from odmtool.solvers.engine.solve import solve_all
    from odmtool.solvers.run import SolverRun

    problems = [part_problem(machine, prepared, part) for part in todo]
    follows = machine.solver == "auto" and newton_follows(problems[0])
    found = solve_all(
        problems, stop_of_landmarks(machine)._replace(follows=follows),
        seed=machine.seed, progress=progress, executor=local_executor(machine.jobs),
    )  # fmt: skip
    if not follows:
        return found
    run = SolverRun(
        machine.tolerance, machine.max_iter, machine.seed, machine.settings, progress, machine.jobs
    )
    return [run.after_landmarks(*each) for each in zip(problems, found, strict=True)]


def _on_cluster(machine, prepared, todo, starts) -> list[Solution]:
    with scaling_out.cluster(machine) as executor:
        rows = prepared.rows if prepared.gram is None else prepared.gram.X
        tasks.check_task(machine, rows, executor.task_memory)
        alone = machine.copy(jobs=1, memory=executor.task_memory)
        if prepared.gram is not None:
            prepared = prepared._replace(gram=prepared.gram.within(executor.task_memory))
        shared, count = executor.put((alone, prepared)), len(todo)
        return executor.map(_solve_shared, [shared] * count, todo, starts)


def _solve_shared(shared: tuple, part: Subproblem, first) -> Solution:
    machine, prepared = shared
    return machine.solve_part(part_problem(machine, prepared, part), first, ignore_progress)


def _are_pairs_of_kernels(machine, prepared: Prepared) -> bool:
    if prepared.gram is None or machine.solver in IN_PARTS or is_for_cluster(machine):
        return False
    return machine.reduction(len(prepared.classes)) == "ovo"


def _pairs(machine, prepared, start, progress) -> MultiSolution:
    k = len(prepared.classes)
    members = [np.flatnonzero(prepared.target == label) for label in range(k)]
    C, pairs, small = np.zeros((len(prepared.target), k - 1)), problems(k, "ovo"), None
    starts, left = [None] * len(pairs) if start is None else start, np.arange(len(pairs))
    none, untrained = None, 0
    if small_pairs.are_small(machine, prepared, members):
        small, are_left = small_pairs.solve(machine, prepared, members, C, progress)
        left = np.flatnonzero(are_left)
        if deadline.is_over() and start is None:
            # Half a million calls that do nothing would take minutes.
            none, untrained, left = _without_time(machine, prepared, are_left), len(left), left[:0]
    found = _one_by_one(machine, prepared, members, [(pairs[n], starts[n]) for n in left], progress)
    duals, bias = [None] * len(pairs), np.zeros(len(pairs))
    for number, solution in zip(left, found, strict=True):
        put_pair(C, members, pairs[number], solution)
        duals[number], bias[number] = solution.warm_start, solution.bias
    whole = joined(
        found + [some for some in (small, none) if some], coef=C, duals=tuple(duals),
        support_count=int(np.count_nonzero(C.any(axis=1))),
    )  # fmt: skip
    optimal = all(solution.optimal for solution in found)
    untrained = untrained or whole.untrained
    return whole._replace(bias=bias, optimal=optimal, problems=len(pairs), untrained=untrained)


def _without_time(machine, prepared, are_left: np.ndarray) -> Solution | None:
    """The pairs that no time is left to begin, in all: w = 0, and no loss is below 0."""
    k, nothing = len(prepared.classes), np.empty(0)
    first, second = np.triu_indices(k, 1)
    counts = np.bincount(np.concatenate([first[are_left], second[are_left]]), minlength=k)
    loss = losses.scaled(machine.loss(prepared.total_weight), prepared.u)
    primal = float(losses.value(loss, np.zeros(len(prepared.u))) @ counts[prepared.target])
    if not are_left.any():
        return None
    return Solution(None, nothing, nothing, primal, 0.0, 1.0, 0, False, NONE)


def put_pair(C: np.ndarray, members: list[np.ndarray], pair: tuple, solution: Solution) -> None:
    """Put the coefficients of a pair of classes where C, shape (m, k - 1), has them."""
    (i, j), first = pair, len(members[pair[0]])
    C[members[i], j - 1] = solution.coef[:first]
    C[members[j], i] = -solution.coef[first:]


def _one_by_one(machine, prepared, members, todo: list[tuple], progress) -> list[Solution]:
    """The solutions of pairs, each with its start, that are solved apart."""
    if not todo:
        return []
    loss = machine.loss(prepared.total_weight)
    steepest = losses.largest_slope(loss) * prepared.u.max() if machine.kind == SMOOTH else np.inf
    grams = PairGrams(machine, prepared.gram, members, steepest)
    alone = machine.copy(jobs=1)
    told = _told(progress, len(todo), grams.jobs)

    def one(pair, first, tell):
        part = _pair(*(members[label] for label in pair))
        problem = Problem(None, grams.of(*pair), part.y, prepared.u[part.examples], loss)
        return alone.solve_part(problem, first, tell, grams.are_many)

    return local_executor(grams.jobs).map(one, *zip(*todo, strict=True), told)


def _told(progress: ProgressCallback, count: int, jobs: int) -> list[ProgressCallback]:
    """What each of the problems tells its progress."""
    return [progress if jobs == 1 else progress_of(progress, k) for k in range(count)]


def stop_of_landmarks(machine) -> Stop:
    """When the kernel engine ends for a machine."""
    way = table.way_of("landmarks", machine.kind, machine.kernel)
    return Stop(machine.tolerance, way.limit if machine.max_iter is None else machine.max_iter)


def _in_threads(machine, prepared, todo, starts, progress, jobs: int) -> list[Solution]:
    """The solutions of problems with a kernel, in as many threads as there is memory for."""
    alone = machine
    if jobs > 1:
        alone, jobs = machine.copy(jobs=1), _threads_for(machine, prepared.gram)
        prepared = prepared._replace(gram=_shared_gram(prepared.gram, jobs))

    def one(part, first, tell):
        return alone.solve_part(part_problem(alone, prepared, part), first, tell)

    return local_executor(jobs).map(one, todo, starts, _told(progress, len(todo), jobs))


def _in_shares(machine, prepared, todo, starts, progress, jobs: int) -> list[Solution]:
    """The solutions of linear problems, which have an equal share of the time each.

    In what the others leave, those that it was too short for are solved again, from where they
    began: duals of a solution that has not converged lead to one that is worse. (With a kernel
    the first look at its values takes most of the time, and shares would end before it does.)
    """
    told = _told(progress, len(todo), jobs)
    alone = machine.copy(jobs=1) if jobs > 1 else machine
    found, left = {}, list(range(len(todo)))
    while left:
        one = partial(_in_share, deadline.Shares(len(left), jobs), alone, prepared)
        rows = [(todo[n], starts[n], told[n]) for n in left]
        solved = local_executor(jobs).map(one, *zip(*rows, strict=True))
        for n, (solution, _) in zip(left, solved, strict=True):
            found[n] = better(found[n], solution) if n in found else solution
        left = [n for n, (_, was_short) in zip(left, solved, strict=True) if was_short]
        if deadline.is_over():
            break
    return [found[n] for n in range(len(todo))]


def _in_share(
    shares: deadline.Shares, machine, prepared, part: Subproblem, start, tell
) -> tuple[Solution, bool]:
    """A solution, and whether the next share was too short for it."""
    with shares.next() as seconds:
        solution = machine.solve_part(part_problem(machine, prepared, part), start, tell)
        was_short = deadline.is_over() and not solution.converged
    if was_short and not np.any(solution.w):
        shares.lost(seconds)
    return solution, was_short


def _threads_for(machine, gram: Gram) -> int:
    """As many threads as leave room for Newton's method where one has: -j changes no solver."""
    needed = newton_matrices(machine.kind) * gram.bytes
    if machine.solver == "newton" and needed > gram.memory:
        return 1  # refused, in terms of the whole of --memory
    fits = needed <= gram.memory
    return next(n for n in range(machine.jobs, 0, -1) if (needed <= _share(gram, n)) == fits)


def _share(gram: Gram, jobs: int) -> float:
    """What a thread may take: the matrix that all have, and its share of what is left."""
    if gram.bytes > gram.memory:
        return gram.memory / jobs
    return gram.bytes + (gram.memory - gram.bytes) / jobs


def _shared_gram(gram: Gram, jobs: int) -> Gram:
    """The kernel values with a thread's share of the memory; the matrix is made once."""
    if gram.bytes <= gram.memory and not deadline.is_over():
        gram.matrix()
    return gram.within(_share(gram, jobs))


def part_problem(machine, prepared: Prepared, part: Subproblem) -> Problem:
    """What the solvers minimise for one of the problems."""
    rows, gram, u = prepared.rows, prepared.gram, prepared.u
    loss = machine.loss(prepared.total_weight)
    if part.examples is None:
        return Problem(rows, gram, part.y, u, loss)
    if gram is None:
        return Problem(rows[part.examples], None, part.y, u[part.examples], loss)
    return Problem(None, gram.subset(part.examples), part.y, u[part.examples], loss)


def joined(
    solutions: list, *, W=None, coef=None, support_count: int | None, duals: tuple | None = None
) -> MultiSolution:
    """The solutions of all problems as one; W and coef as in :class:`MultiSolution`."""
    return MultiSolution(
        W, coef,
        objective=sum(solution.primal for solution in solutions),
        gap=max(solution.gap for solution in solutions),
        iterations=sum(solution.iterations for solution in solutions),
        converged=all(solution.converged for solution in solutions),
        solver=" / ".join(sorted({solution.solver for solution in solutions} - {""})),
        duals=duals, support_count=support_count, failure=_failure(solutions),
        problems=len(solutions), untrained=sum(each.solver == NONE for each in solutions),
    )  # fmt: skip


def _failure(solutions: list) -> float | None:
    """The probability that one of the gaps is wrong; None where none is a bound."""
    bounds = [solution.failure for solution in solutions if solution.failure is not None]
    return float(sum(bounds)) if bounds else None


def _together(
    machine, prepared: Prepared, todo: list[Subproblem], solutions: list[Solution]
) -> MultiSolution:
    k, has_pairs = len(prepared.classes), todo[0].examples is not None
    W, coef, used = None, None, np.zeros(len(prepared.target), dtype=bool)
    for part, solution in zip(todo, solutions, strict=True):
        used[slice(None) if part.examples is None else part.examples] |= solution.coef != 0
    if prepared.gram is None:
        W = np.column_stack([solution.w for solution in solutions])
    elif has_pairs:
        coef = np.zeros((len(prepared.target), k - 1))
        members = [np.flatnonzero(prepared.target == label) for label in range(k)]
        for pair, solution in zip(problems(k, "ovo"), solutions, strict=True):
            put_pair(coef, members, pair, solution)
    else:
        coef = np.column_stack(
            [part.y * solution.coef for part, solution in zip(todo, solutions, strict=True)]
        )
    bias = np.array([solution.bias for solution in solutions])
    if (decoding := decoder(machine, k)) is not None:
        W, coef, bias = (None if C is None else C @ decoding for C in (W, coef, bias))
    solution = joined(
        solutions, W=W, coef=coef, support_count=int(np.count_nonzero(used)),
        duals=tuple(solution.warm_start for solution in solutions),
    )  # fmt: skip
    return solution._replace(bias=bias, optimal=all(solution.optimal for solution in solutions))
