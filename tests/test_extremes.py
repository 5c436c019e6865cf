"""Every machine on data and lambdas at the ends of what numbers can be.

Either the judge confirms that the solution is optimal, or it is said not to be, in one sentence.
pytest turns every warning of NumPy into an error.
"""

import numpy as np
import pytest
from problems import StoreInMemory, judged_matrix
from scipy import sparse

from odmtool import solvers
from odmtool.core.loss_table import MACHINES
from odmtool.errors import OdmError
from odmtool.judge import binary, m3svm, mcodm, mcsvm
from odmtool.machines import machine_named
from odmtool.rows.examples import Examples
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.large import block_descent, dsvrg, passes, sodm
from odmtool.solvers.settings import Settings
from odmtool.solvers.stochastic import asgd, svrg

# How often mcODM begins is asked in test_mcodm_starts.py.
pytestmark = pytest.mark.usefixtures("two_starts")

_A = np.random.default_rng(0).standard_normal((12, 3))
DATA = {
    "constant": np.ones((12, 3)),
    "opposite labels": np.vstack([_A[:6], _A[:6]]),
    "no features": np.zeros((12, 0)),
    "zeros": np.zeros((12, 3)),
    "subnormal": 5e-320 * _A,
    "tiny": 1e-160 * _A,
    "large": 1e150 * _A,
    "huge": 1e300 * _A,
    "mixed": _A * [1e-300, 1.0, 1e150],
}
# Where these converge at all, here, they do within 304, 301, 3 and 0; the others would go on to the
# limit, to be judged no more than now.
MOST = {"mcodm": 400, "mcsvm": 400, "svr": 20, "kmomd": 4}
# The same of the other machines with a kernel, which do within one.
MOST_WITH_KERNEL = 50
# With the least lambda none of these converges: nothing is judged, whatever the limit.
MOST_WITH_LEAST_LAMBDA = {"mcodm": 40}
# Objectives of LDM are differences of numbers of this size, times a rounding.
_ROUNDING = 1e-14


def judged(machine, prepared, solution):
    """The judge's opinion of a solution, primal and dual value and gap.

    Of m3svm and ism3, whose rule is the gradient: its size, and none, relative to that at 0.
    """
    rows, gram, u = prepared.rows, prepared.gram, prepared.u
    if gram is None:
        K = None
    elif gram.kernel.name == "poly":
        # As floating point numbers they would be rounded more than what is judged.
        K = binary.exact_polynomials(gram.kernel, gram.X, gram.X)
    else:
        K = judged_matrix(gram)
    if MACHINES[machine.name].is_binary:
        known = prepared.y, u, machine.loss(prepared.total_weight)
        if K is None:
            return binary.certify_linear(
                sparse.csr_matrix(rows), *known, solution.w, solution.eta
            )  # fmt: skip
        return binary.certify_kernel(K, *known, solution.coef, solution.eta)
    known = prepared.target, u, machine.parameters(prepared.total_weight)
    if machine.name in ("m3svm", "ism3"):
        sizes = [
            np.hypot(*map(np.linalg.norm, m3svm.gradient(rows, *known, factor * W, factor * b)))
            for W, b in [(solution.W, solution.bias)] for factor in (1.0, 0.0)
        ]  # fmt: skip
        return binary.Certificate(sizes[0], 0.0, sizes[0] / sizes[1] if sizes[1] else 0.0)
    judge = {"mcodm": mcodm, "mcsvm": mcsvm}[machine.name]
    if K is None:
        return judge.certify_linear(rows, *known, solution.W, solution.duals)
    return judge.certify_kernel(K, *known, solution.coef, solution.duals)


@pytest.mark.parametrize("lambda_", [1e-300, 1.0, 1e20, 1e300])
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("name", MACHINES)
def test_optimal_or_one_sentence(name, kernel, data, lambda_):
    row, X = MACHINES[name], sparse.csr_matrix(DATA[data])
    labels = np.repeat([1, 2], 6) if row.is_binary else np.repeat([1, 2, 3, 1], 3)
    most = MOST.get(name, None if kernel == "linear" else MOST_WITH_KERNEL)
    if lambda_ == 1e-300:
        most = MOST_WITH_LEAST_LAMBDA.get(name, most)
    machine = machine_named(name)(kernel=kernel, lambda_=lambda_, gamma=1.0, max_iter=most)
    try:
        machine.fit(X, labels)
    except OdmError as error:
        assert str(error) and "\n" not in str(error) and "nan" not in str(error)
        return
    solution = machine.solution_
    assert np.isfinite(solution.gap)
    assert set(machine.predict(X).tolist()) <= set(labels.tolist())
    if not solution.converged:
        return
    with np.errstate(all="ignore"):
        verdict = judged(machine, machine.prepare(X, labels), solution)
    is_rounding = abs(verdict.primal - verdict.dual) <= _ROUNDING
    assert verdict.gap <= machine.tolerance * (1 + 1e-6) or is_rounding


_SCHEME = Settings(partitions=2, strata=2)
PASSES = {
    "svrg": (svrg.solve, "odm"),
    "svrg of ldm": (svrg.solve, "ldm"),
    "asgd": (asgd.solve, "ldm"),
    "dsvrg": (lambda p, stop: dsvrg.solve(p, stop, _SCHEME), "l2svm"),
    "sodm": (lambda p, stop: sodm.solve(p, stop, _SCHEME), "l1svm"),
    "passes": (lambda p, stop: passes.solve(stored(p), p.loss, stop), "odm"),
    "blocks": (lambda p, stop: block_descent.solve(stored(p), p.loss, stop), "l1svm"),
}


def stored(p):
    """The examples of a problem in blocks."""
    return Examples(StoreInMemory(p.X, p.y), {1: 1.0, -1: -1.0}, {1: 1.0, -1: 1.0})


@pytest.mark.parametrize("lambda_", [1e-20, 1.0, 1e10])
@pytest.mark.parametrize("data", ["opposite labels", "large", "mixed", "offset"])
@pytest.mark.parametrize("way", PASSES)
def test_solvers_in_passes_bound_rounding_too(way, data, lambda_):
    X = np.hstack([_A + 1e8, np.full((12, 1), 1e8)]) if data == "offset" else DATA[data]
    y, (solve, name) = np.repeat([1.0, -1.0], 6), PASSES[way]
    loss = machine_named(name)(lambda_=lambda_).loss(12.0)
    p = Problem(X, None, y, np.ones(12), loss)
    try:
        found = solve(p, Stop(1e-3, 100))
    except OdmError as error:
        assert "\n" not in str(error) and "nan" not in str(error)
        return
    assert np.isfinite(found.gap)
    if not found.converged:
        return
    # The best dual value known: its own, or that of another solver.
    with np.errstate(all="ignore"):
        other = solvers.solve(p, solver="newton", tolerance=1e-9)
        verdicts = [
            binary.certify_linear(X, y, p.weight, loss, found.w, eta)
            for eta in (getattr(found, "eta", other.eta), other.eta)
        ]
    gap = min(verdict.gap for verdict in verdicts)
    assert gap <= 1e-3 * (1 + 1e-6) or abs(verdicts[0].primal) <= _ROUNDING


_HARD = {
    "jump of the hinge": ("l1svm", "poly", 5, 1e10, (7, 4)),
    "jumps of the tube": ("svr", "poly", 5, 1e20, (18, 4)),
    "smooth": ("lssvm", "poly", 5, 1e10, (0, 12)),
    "landmarks": ("odm", "poly", 5, 1e10, (7, 4)),
}


@pytest.mark.parametrize("case", _HARD)
def test_rounding_is_part_of_the_gap(case):
    # Kernel values of 1e20 and costs of 1e9: margins are not known well enough.
    name, kernel, degree, lambda_, (seed, m) = _HARD[case]
    X = sparse.csr_matrix(20 * np.random.default_rng(seed).standard_normal((m, 3)))
    labels = np.repeat([1, 2], 6) if m == 12 else [1, 2, 1, 2]
    machine = machine_named(name)(
        kernel=kernel, degree=degree, gamma=1.0, lambda_=lambda_,
        solver="landmarks" if case == "landmarks" else "auto",
    ).fit(X, labels)  # fmt: skip
    verdict = judged(machine, machine.prepare(X, labels), machine.solution_)
    assert verdict.gap <= machine.solution_.gap


@pytest.mark.parametrize("name", ["odm", "l2svm", "lssvm", "l1svm", "ldm"])
def test_more_exact_margins_prove_what_double_precision_cannot(name):
    # Kernel values of 1e10 and margins of 1, as of features that nobody has scaled.
    generator = np.random.default_rng(5)
    X = sparse.csr_matrix(np.rint(30 * generator.random((40, 3))))
    labels = 1 + (generator.random(40) < 0.5)
    machine = machine_named(name)(kernel="poly", degree=3, gamma=0.2, lambda_=1e6).fit(X, labels)
    assert machine.solution_.converged
    verdict = judged(machine, machine.prepare(X, labels), machine.solution_)
    assert verdict.gap <= machine.solution_.gap <= machine.tolerance
