"""Every solver's gap is confirmed by the judge, for every loss, kernel, dense and sparse."""

from itertools import product

import pytest
from problems import (
    DEFINITE,
    KERNELS,
    OTHER_LOSSES,
    allowed,
    distance,
    judged_matrix,
    problem,
    weights,
)

from odmtool import solvers
from odmtool.core import losses
from odmtool.core.loss_table import MARGIN, OF_LDM, SMOOTH
from odmtool.judge import binary as objective
from odmtool.solvers import table

ALL_KERNELS = [None, *KERNELS, "precomputed"]


def certificate(p, solution):
    """The judge's opinion; it knows the data, not the solver's matrices."""
    if p.gram is None:
        return objective.certify_linear(p.X, p.y, p.weight, p.loss, solution.w, solution.eta)
    K = judged_matrix(p.gram)
    return objective.certify_kernel(K, p.y, p.weight, p.loss, solution.coef, solution.eta)


def assert_confirmed(p, solution, tolerance):
    judged = certificate(p, solution)
    assert solution.converged
    assert solution.gap <= tolerance
    assert judged.gap <= tolerance + 1e-12
    assert judged.primal == pytest.approx(solution.primal, rel=1e-11, abs=1e-11)
    # The gap is a bound, which includes what rounding may have done.
    assert judged.gap <= solution.gap + 1e-12
    if solution.failure is not None:
        return
    assert solution.gap <= judged.gap + 1e-10
    assert judged.dual == pytest.approx(solution.dual, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-10])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("kernel", ALL_KERNELS)
@pytest.mark.parametrize("solver", ["dcd", "newton"])
def test_gap_of_odm(solver, kernel, dense, weighted, tolerance):
    p = problem(kernel, dense=dense, weight=weights() if weighted else None)
    solution = solvers.solve(p, solver=solver, tolerance=tolerance, max_iter=20000)
    assert_confirmed(p, solution, tolerance)
    assert solution.optimal


ALL_LOSSES = OTHER_LOSSES | {"LDM": losses.ldm(1.5, 0.7, 42.0, 60)}


# Those of binary problems that need no machine.
TRIED = [
    row.name for row in table.SOLVERS.values()
    if not row.in_parts and any(set(way.losses) & {*MARGIN, OF_LDM} for way in row.ways)
]  # fmt: skip
WITH_LANDMARKS = ("poly", "rbf", "rbf with bias")


def pairs():
    """Every other loss with every solver that is for it, by kernel."""
    for name, loss in ALL_LOSSES.items():
        for solver, kernel in product(TRIED, ALL_KERNELS):
            has_jump, by_matrix = loss.kind != SMOOTH, solver in ("newton", "path", "dcd-dense")
            if kernel in set(KERNELS) - set(DEFINITE) and has_jump and by_matrix:
                continue  # these need a positive semidefinite kernel
            if solver == "landmarks" and kernel not in WITH_LANDMARKS:
                continue
            kernel_name = "linear" if kernel is None else problem(kernel).kernel_name
            if table.SOLVERS[solver].way(loss.kind, kernel_name):
                yield name, solver, kernel


@pytest.mark.parametrize("dense, weighted", [(False, True), (True, False)])
@pytest.mark.parametrize("name, solver, kernel", list(pairs()))
def test_gap_of_every_other_loss(name, solver, kernel, dense, weighted):
    weight = weights() if weighted else None
    p = problem(kernel, loss=ALL_LOSSES[name], dense=dense, weight=weight)
    solution = solvers.solve(p, solver=solver, tolerance=1e-6, max_iter=20000)
    assert_confirmed(p, solution, 1e-6)


def test_every_solver_is_tried():
    tried = {(name, solver) for name, solver, _kernel in pairs()}
    assert {solver for _name, solver in tried} == set(TRIED)
    assert {("l1svm", "newton"), ("mamc", "newton"), ("l2svm", "svrg"), ("LDM", "asgd")} < tried
    assert ("svr", "newton") in tried and ("l1svm", "svrg") not in tried


@pytest.mark.parametrize("kernel", ALL_KERNELS)
def test_kkt_conditions_hold_at_the_optimum(kernel):
    p = problem(kernel, weight=weights())
    solution = solvers.solve(p, solver="newton", tolerance=1e-14)
    if p.gram is None:
        margins = p.y * (p.X @ solution.w)
    else:
        margins = p.y * (p.gram.matrix() @ (p.y * solution.coef))
    assert objective.kkt_violation(margins, p.weight, p.loss, solution.eta) < 1e-9
    wrong = solution.eta.copy()
    wrong[0] += 0.1
    assert objective.kkt_violation(margins, p.weight, p.loss, wrong) > 0.05


@pytest.mark.parametrize("kernel", ALL_KERNELS)
def test_solvers_agree_as_far_as_their_gaps_allow(kernel):
    p = problem(kernel)
    a = solvers.solve(p, solver="dcd", tolerance=1e-6, max_iter=20000)
    b = solvers.solve(p, solver="newton", tolerance=1e-12)
    assert distance(p, a, b) <= allowed(a, b)


def test_the_judge_rejects_a_wrong_solution():
    p = problem("rbf")
    solution = solvers.solve(p, tolerance=1e-12)
    judged = certificate(p, solution._replace(coef=solution.coef * 1.01))
    assert judged.gap > 1e-7
