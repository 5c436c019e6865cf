"""``odm-train --loo``: leave-one-out errors of the machine that was trained."""

from __future__ import annotations

from odmtool.cli import messages
from odmtool.cli.files import naming
from odmtool.cli.report import Report
from odmtool.core.loss_table import OF_KMOMD
from odmtool.errors import UsageError

# Of machines that Newton's method does not serve; their margins must have the right sign.
_TOLERANCE = 1e-8


def checked_data(machine, data, data_file: str):
    """The data as the machine takes them, if leaving one out makes sense; before training.

    Returns Prepared. Raises UsageError: there are not two classes, or the bound would not hold.

    Parameters
    ----------
    machine
        Not fitted yet.
    data : odmtool.places.place.TrainingData
    data_file : str
        As the user wrote it.
    """
    from odmtool.measures import loo

    if not hasattr(machine, "problem"):
        raise UsageError(messages.loo_not_for(machine.name))
    if machine.kind == OF_KMOMD:
        raise UsageError(messages.loo_needs_own_losses(machine.name))
    with naming(data_file):
        if len(data.classes) > 2:
            raise UsageError(messages.loo_is_for_two_classes(len(data.classes)))
        prepared = machine.prepare(data.matrix(), data.labels, data.weight)
    if len(prepared.classes) > 2:
        raise UsageError(messages.loo_needs_two_classes())
    loo.check_leaving_out(machine.problem(prepared))
    return prepared


def leave_one_out(machine, prepared, is_wanted_exactly: bool, report: Report) -> dict:
    """Say the bound, the papers' estimates and, if wanted, the errors of a fitted machine.

    Returns the same numbers, for ``--json``.
    """
    from odmtool.core.losses import MarginLoss
    from odmtool.measures import loo

    problem, m = machine.problem(prepared), len(prepared.u)
    if problem.gram is not None and problem.gram.bytes <= problem.gram.memory:
        problem.gram.matrix()  # once, for all that follows
    is_exact, solve = _solver(machine, prepared)
    solution = machine.solution_
    if is_exact or is_wanted_exactly:
        solution = solve(problem, solution.eta)
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
    if is_wanted_exactly:
        found["loo_errors"] = _count(problem, solution, solve, report)
        report.result(messages.loo_error(found["loo_errors"], m))
    return found


def _solver(machine, prepared):
    """Whether Newton's method serves, and a function that solves to a small gap."""
    from odmtool import solvers
    from odmtool.search.validation import EXACT, is_exact
    from odmtool.solvers.table import IN_PARTS

    exactly = is_exact(machine, prepared)
    # Of large data's solvers there is no part for what is missing one example only.
    named = "auto" if machine.solver in IN_PARTS else machine.solver
    name = "newton" if exactly else named
    tolerance = min(EXACT if exactly else _TOLERANCE, machine.tolerance)

    def solve(problem, start):
        return solvers.solve(
            problem, solver=name, tolerance=tolerance, max_iter=machine.max_iter,
            seed=machine.seed, start=start,
        )  # fmt: skip

    return exactly, solve


def _count(problem, solution, solve, report: Report) -> int:
    """The leave-one-out errors."""
    from odmtool.measures import loo

    def progress(done: int, total: int) -> None:
        report.live(messages.loo_progress(done, total))

    result = loo.exact(problem, solution, solve, progress=progress)
    report.end_progress()
    if result.uncertain:
        report.warning(messages.loo_uncertain(result.uncertain))
    report.detail(messages.loo_refits(result.refits, problem.size))
    return int(result.is_error.sum())
