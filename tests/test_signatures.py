"""A machine's signature: the parameters that it really has, with their defaults."""

import inspect

import numpy as np
import pytest

from odmtool.core.loss_table import MACHINES as ROWS
from odmtool.machines import LDM, MACHINES, MCODM, ODM

# Of all machines.
SHARED = {
    "cost", "kernel", "gamma", "coef0", "degree", "bias", "class_weight", "solver", "tolerance",
    "max_iter", "seed", "memory", "model_format", "settings",
}  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_shows_its_own_parameters_and_no_other(name):
    shown = inspect.signature(MACHINES[name]).parameters
    row = ROWS[name]
    own = {n for n in ("multiclass", "ism3_loss") if n in row.options}
    if "multiclass" in own:
        own.add("jobs")
    assert shown.keys() == SHARED | own | row.parameters.keys()
    assert all(parameter.kind == parameter.KEYWORD_ONLY for parameter in shown.values())
    assert {n: shown[n].default for n in row.parameters} == row.parameters


@pytest.mark.parametrize("make, sentence", [
    (lambda: ODM(lamda=1.0), r"^ODM\b.*'lamda'"),
    (lambda: MCODM(multiclass="ovo"), r"^MCODM\b.*'multiclass'"),
    (lambda: LDM().copy(theta=0.1), r"^LDM\b.*'theta'"),
])  # fmt: skip
def test_an_unknown_parameter_is_refused_and_the_machine_named(make, sentence):
    with pytest.raises(TypeError, match=sentence):
        make()


def test_a_copy_is_not_fitted_and_keeps_the_other_parameters():
    machine = ODM(lambda_=4.0, mu=0.5, jobs=2)
    machine.fit(np.array([[0.0], [1.0]]), [1, -1])
    other = machine.copy(mu=1.0)
    assert (other.lambda_, other.mu, other.jobs, machine.mu) == (4.0, 1.0, 2, 0.5)
    assert hasattr(machine, "model_") and not hasattr(other, "model_")
