"""The optima of heart_scale that two independent programs agree on to every digit shown:
LIBODM's coordinate descent at tolerance 1e-9, and an exact active-set Newton method."""

import numpy as np
import pytest
from problems import linearly_scaled_heart

from odmtool.machines import ODM

POLY = dict(kernel="poly", degree=2, gamma=0.1, coef0=0.5)
SIGMOID = dict(kernel="sigmoid", gamma=0.1, coef0=0.5)
RBF = dict(kernel="rbf", gamma=1 / 13)

# machine, (lambda, mu, theta), objective, training accuracy in percent, nonzero duals
OPTIMA = [
    ({}, (1, 0.8, 0.2), 0.5711542796, 83.7037, 257),
    (dict(bias=1), (1, 0.8, 0.2), 0.5692867087, 83.7037, 255),
    (RBF, (1, 0.8, 0.2), 0.8725911276, 83.3333, 270),
    (POLY, (1, 0.8, 0.2), 0.7880571181, 83.7037, 270),
    (SIGMOID, (1, 0.8, 0.2), 0.8739775844, 82.2222, 270),
    ({}, (64, 0.4, 0.6), 28.6845938998, 84.4444, 193),
    (dict(bias=1), (64, 0.4, 0.6), 27.2255009780, 85.1852, 180),
    (RBF, (64, 0.4, 0.6), 23.2365154541, 91.4815, 182),
    (POLY, (64, 0.4, 0.6), 22.8474391530, 90.3704, 172),
    ({}, (1024, 0.2, 0.1), 460.3417736, 84.4444, 227),
    (dict(bias=1), (1024, 0.2, 0.1), 438.8614704, 85.5556, 235),
    (RBF, (1024, 0.2, 0.1), 297.5197069569, 94.4444, 233),
    (POLY, (1024, 0.2, 0.1), 331.3477664780, 92.5926, 230),
]


@pytest.mark.parametrize("solver", ["newton", "dcd"])
@pytest.mark.parametrize("parameters, setting, objective, accuracy, support", OPTIMA)
def test_optimum(parameters, setting, objective, accuracy, support, solver):
    X, labels = linearly_scaled_heart()
    lambda_, mu, theta = setting
    machine = ODM(lambda_=lambda_, mu=mu, theta=theta, solver=solver, tolerance=1e-10,
                  max_iter=20000, **parameters)  # fmt: skip
    machine.fit(X, labels)
    assert machine.solution_.converged
    assert machine.solution_.primal == pytest.approx(objective, rel=1e-8)
    assert 100 * np.mean(machine.predict(X) == labels) == pytest.approx(accuracy, abs=1e-4)
    assert machine.support_count == support


@pytest.mark.parametrize("lambda_, mu, theta", [(64, 0.4, 0.6), (1024, 0.2, 0.1)])
def test_unbounded_sigmoid_is_recognised(lambda_, mu, theta):
    from odmtool.errors import DivergedError

    X, labels = linearly_scaled_heart()
    for solver in ("auto", "newton", "dcd"):
        machine = ODM(lambda_=lambda_, mu=mu, theta=theta, solver=solver, **SIGMOID)
        with pytest.raises(DivergedError, match="not positive definite"):
            machine.fit(X, labels)
