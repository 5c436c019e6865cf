"""What is in other units has the same solution: of powers of two to the last bit, in as many steps.

With features 2^k times as large, and costs 4^k times as small, every number of a solver is
multiplied by some power of two, which no rounding sees. A bound that is compared with a number of
other units, or an absolute one, shows: the model of someone's data would depend on whether
lengths were given in metres.
"""

import m3svm_problems
import mcodm_problems
import numpy as np
import pytest
import test_mcsvm
from problems import examples, problem
from test_steps import BINARY, LOSSES

from odmtool import solvers
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.core.losses import KMOMD, LDM, MarginLoss
from odmtool.machines import ODM
from odmtool.solvers.base import Stop
from odmtool.solvers.m3svm import newton as m3svm
from odmtool.solvers.mcodm import auto as mcodm
from odmtool.solvers.mcsvm import descent as mcsvm
from odmtool.solvers.mcsvm import newton as mcsvm_newton
from odmtool.solvers.settings import Settings

SCALES = 2.0**-4, 2.0**8  # of which roots are powers of two, too


def times(loss, factor):
    """The loss, of every margin so many times as large."""
    if isinstance(loss, MarginLoss):
        return MarginLoss(*loss[:2], *(field * factor for field in loss[2:]))
    fields = {LDM: ("mu1", "mu2", "lambda_"), KMOMD: ("cost",)}.get(type(loss))
    fields = fields or [name for name in ("c1", "c2", "cost") if name in loss._fields]
    return loss._replace(**{name: getattr(loss, name) * factor for name in fields})


def in_units(p, scale):
    """What the kernel maps rows to times ``scale``, and the loss divided by its square."""
    field = "loss" if hasattr(p, "loss") else "parameters"
    other = p._replace(**{field: times(getattr(p, field), scale**-2)})
    if p.gram is None:
        return other._replace(X=p.X * scale)
    kernel = p.gram.kernel
    if kernel.name == "poly":  # of degree 2
        kernel = kernel._replace(gamma=kernel.gamma * scale, coef0=kernel.coef0 * scale)
        return other._replace(gram=Gram(kernel, p.gram.X, p.gram.memory))
    K = p.gram.matrix() * scale**2
    return other._replace(gram=Gram.of_matrix(Kernel("precomputed"), K, p.gram.memory))


# Landmarks need the rows, and distances in other units have the same kernel values.
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    "machine, solver, kernel", [case for case in BINARY if case[1:] != ("landmarks", "rbf")]
)
def test_two_classes(machine, solver, kernel, scale):
    for lambda_ in (64.0, 2.0**14)[: len(BINARY[machine, solver, kernel]) - 1]:
        p = problem(kernel, loss=LOSSES[machine](lambda_))
        one, other = (
            solvers.solve(in_units(p, s), solver=solver, tolerance=1e-6, max_iter=400)
            for s in (1.0, scale)
        )  # fmt: skip
        # Of KM-OMD the margins, and with them the objective, are larger by scale^2.
        size = scale**2 if machine == "kmomd" else scale**-2
        of_duals = 1.0 if machine == "kmomd" else scale**-2
        assert (other.iterations, other.converged) == (one.iterations, one.converged)
        assert (other.primal, other.dual) == (one.primal * size, one.dual * size)
        assert other.gap == one.gap and other.solver == one.solver
        assert np.array_equal(other.eta, one.eta * of_duals)
        assert np.array_equal(other.coef, one.coef * of_duals)
        if kernel is None:
            assert np.array_equal(other.w, one.w * of_duals * scale)


MULTI = [
    ("mcodm", kernel, solver) for kernel, solver in
    [(None, "dcd"), (None, "newton"), (None, "auto"), ("rbf", "dcd"), ("rbf", "auto"),
     ("poly", "auto"), ("poly", "landmarks")]
] + [("mcsvm", None, mcsvm), ("mcsvm", "rbf", mcsvm), ("mcsvm", None, mcsvm_newton)]  # fmt: skip


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("machine, kernel, solver", MULTI)
def test_several_classes(machine, kernel, solver, scale):
    stop = Stop(1e-5, 200)
    if machine == "mcodm":
        p = mcodm_problems.problem(kernel, lambda_=64.0)
        found = [mcodm.solve(in_units(p, s), stop, solver=solver, starts=2) for s in (1.0, scale)]
    else:
        p = test_mcsvm.problem(kernel, lambda_=64.0)
        found = [solver.solve(in_units(p, s), stop) for s in (1.0, scale)]
    one, other = found
    assert other.iterations == one.iterations and other.solver == one.solver
    assert (other.objective, other.gap) == (one.objective * scale**-2, one.gap)
    if kernel is None:
        assert np.array_equal(other.W, one.W / scale)
    else:
        assert np.array_equal(other.coef, one.coef * scale**-2)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("loss, power, solver", [
    ("hinge", 4.0, m3svm), ("hinge", 1.5, m3svm), ("pairwise", 2.0, m3svm),
    ("softmax", 4.0, m3svm), ("hinge", 0.5, m3svm),
])  # fmt: skip
def test_pairs_of_classes(loss, power, solver, scale):
    """All that is minimised times ``scale``; not by Adam, of which a constant is absolute."""
    found = [
        solver.solve(
            m3svm_problems.problem(loss, power, 0.3 * s, np.full(60, s), ridge=2.0**-20 * s),
            Stop(1e-6, 60),
        ) for s in (1.0, scale)
    ]  # fmt: skip
    one, other = found
    assert other.iterations == one.iterations and np.array_equal(other.W, one.W)
    assert (other.objective, other.gap) == (one.objective * scale, one.gap)


@pytest.mark.parametrize("solver, kernel, settings", [
    ("sodm", {}, {"partitions": 4}), ("sodm", {"kernel": "poly", "degree": 2}, {"partitions": 4}),
    ("nystrom", {"kernel": "poly", "degree": 2}, {"landmarks": 12}),
    ("dsvrg", {}, {"partitions": 3}),
])  # fmt: skip
def test_data_in_parts(solver, kernel, settings):
    X, y = examples()
    scale, found = 2.0**5, []
    for s in (1.0, scale):
        own = dict(kernel, gamma=0.3 * s, coef0=0.5 * s) if kernel else {}
        machine = ODM(
            lambda_=64.0 * s**-2, solver=solver, tolerance=1e-4, max_iter=50, **own,
            settings=Settings(**settings),
        )  # fmt: skip
        rows = X if kernel else X * s
        found.append(machine.fit(rows, y.astype(int)).decision_function(rows))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)
