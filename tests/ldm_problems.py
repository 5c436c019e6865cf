"""Problems of LDM, the judge's verdict on their solutions."""

import numpy as np
import pytest
from problems import problem
from test_certificates import certificate

from odmtool.core import losses
from odmtool.solvers.ldm import dense as ldm_dense
from odmtool.solvers.ldm import descent as ldm
from odmtool.solvers.ldm import newton as ldm_newton
from odmtool.solvers.paths import path

ALL_KERNELS = [None, "rbf", "poly", "rbf with bias", "precomputed"]
SOLVERS = {"dcd": ldm, "newton": ldm_newton, "path": path, "dcd-dense": ldm_dense}
SETTINGS = [(1.0, 1.0, 16.0), (3.0, 0.5, 0.25), (16.0, 16.0, 256.0), (0.0, 2.0, 16.0)]


def ldm_problem(kernel=None, setting=(1.0, 1.0, 16.0), weight=None, dense=False, memory=np.inf):
    total = 60 if weight is None else weight.sum()
    loss = losses.ldm(*setting, total)
    return problem(kernel, loss=loss, weight=weight, dense=dense, memory=memory)


def assert_confirmed(p, solution, tolerance):
    judged = certificate(p, solution)
    assert solution.converged and solution.gap <= tolerance
    assert judged.gap <= tolerance + 1e-12
    # The gap is a bound, which includes what rounding may have done.
    assert judged.gap - 1e-12 <= solution.gap <= judged.gap + 1e-9
    assert judged.primal == pytest.approx(solution.primal, rel=1e-11, abs=1e-11)
    assert judged.dual == pytest.approx(solution.dual, rel=1e-9, abs=1e-9)
