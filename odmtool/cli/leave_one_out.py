"""``odm-train --loo``: leave-one-out errors of the machine that was trained."""

from __future__ import annotations

from odmtool import messages
from odmtool.cli.report import Report
from odmtool.errors import UsageError

# Of the machines trained without an example: their margins must have the right sign.
_TOLERANCE = 1e-10


def leave_one_out(machine, data, options: dict, report: Report) -> dict:
    """Say the bound, the papers' estimates and, with ``exact``, the errors.

    Parameters
    ----------
    machine
        Fitted.
    data : odmtool.cli.training.TrainingData
    options : dict
        Those of odm-train.
    report : Report

    Returns
    -------
    dict
        The same numbers, for ``--json``.

    Raises
    ------
    UsageError
        There are no two classes, or the bound would not hold.
    """
    from odmtool import loo
    from odmtool.losses import MarginLoss
    from odmtool.solvers.base import Problem

    known = data.dataset
    if not hasattr(machine, "problem"):
        raise UsageError(messages.loo_not_for(machine.name))
    problem: Problem = machine.problem(machine.prepare(known.X, known.labels, data.weight))
    if problem.gram is not None and problem.gram.bytes <= problem.gram.memory:
        problem.gram.matrix()  # once, for all that follows
    loo.check(problem)
    solution, m = machine.solution_, problem.size
    found = {"loo_bound": loo.most_errors(problem, loo.bounds(problem, solution))}
    report.result(messages.loo_bound(found["loo_bound"], m))
    papers = loo.Papers(None, None)
    if machine.name == "odm":
        papers = loo.odm_papers(problem, solution)
    elif not isinstance(problem.loss, MarginLoss):
        papers = loo.ldm_papers(problem, solution)
    if papers.count is not None:
        found["loo_papers_count"] = papers.count
        report.result(messages.loo_papers_count(papers.count, m))
    if papers.total is not None:
        found["loo_papers_estimate"] = papers.total
        report.result(messages.loo_papers_total(papers.total, m))
    if options["loo"] == "exact":
        found["loo_errors"] = _exact(machine, problem, report)
        report.result(messages.loo_error(found["loo_errors"], m))
    return found


def _exact(machine, problem, report: Report) -> int:
    from odmtool import loo, solvers

    def solve(part, start):
        return solvers.solve(
            part, solver=machine.solver, tolerance=min(_TOLERANCE, machine.tolerance),
            max_iter=machine.max_iter, seed=machine.seed, start=start,
        )  # fmt: skip

    def progress(done: int, total: int) -> None:
        report.live(messages.loo_progress(done, total))

    result = loo.exact(problem, solve, progress=progress)
    report.end_progress()
    if result.unconverged:
        report.warning(messages.loo_not_converged(result.unconverged))
    report.detail(messages.loo_refits(result.refits, problem.size))
    return int(result.is_error.sum())
