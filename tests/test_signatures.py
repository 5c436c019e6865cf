"""A machine's signature: the parameters that it really has, with their defaults."""

import inspect
from importlib import import_module

import numpy as np
import pytest

from odmtool import solvers
from odmtool.core import kernels
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.core.loss_table import MACHINES as ROWS
from odmtool.machines import LDM, MACHINES, MCODM, ODM
from odmtool.rows import kmeans, partition
from odmtool.rows.examples import Examples
from odmtool.solvers.auto import Schedule
from odmtool.solvers.base import Solution, Stop, ignore_progress
from odmtool.solvers.engine import certificate, choice
from odmtool.solvers.engine.choice import Choice
from odmtool.solvers.engine.room import Room, needed_bytes
from odmtool.solvers.engine.shared import Found
from odmtool.solvers.engine.solve import solve_all
from odmtool.solvers.m3svm.adam import RATE
from odmtool.solvers.m3svm.objective import M3SVMParameters
from odmtool.solvers.mcodm.starts import MOST_STARTS, start_count
from odmtool.solvers.mcodm.way import Way as McODMWay
from odmtool.solvers.multi import MultiSolution
from odmtool.solvers.rounding import Rounding
from odmtool.solvers.run import SolverRun
from odmtool.solvers.settings import DEFAULTS, Settings
from odmtool.solvers.table import SOLVERS
from odmtool.solvers.table import Way as TableWay

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
    if "multiclass" in own or name == "mcodm":
        own.add("jobs")
    if "multiclass" in own:
        own.add("most_in_pairs")
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


def defaults(thing):
    """The defaults of a function or of a NamedTuple."""
    fields = getattr(thing, "_field_defaults", None)
    if fields is not None:
        return fields
    shown = inspect.signature(thing).parameters.values()
    return {p.name: p.default for p in shown if p.default is not p.empty}


@pytest.mark.parametrize("module", sorted(
    {way.module for row in SOLVERS.values() for way in row.ways} - {"auto"}
))  # fmt: skip
def test_solvers_begin_at_nothing_with_the_seed_0_and_say_nothing(module):
    """What a solver is not told is the same for all of them."""
    found = defaults(import_module(f"odmtool.solvers.{module}").solve)
    usual = {"seed": 0, "start": None, "progress": ignore_progress, "executor": None}
    own = {
        "snapshot": "last", "outer": "cccp", "solver": "auto", "starts": MOST_STARTS, "rate": RATE,
        "values": None, "space": None, "rivals": None, "basis": None, "sample": None,
        "slope": None, "together": 1,
    }  # fmt: skip
    if module == "large.sodm":
        assert found.pop("report")(None) is None
    assert found.items() <= (usual | own).items()


@pytest.mark.parametrize("thing, expected", [
    (Stop, {"tolerance": 1e-3, "limit": 1000, "follows": False}),
    (solvers.solve, {
        "solver": "auto", "tolerance": 1e-3, "max_iter": None, "seed": 0, "settings": DEFAULTS,
        "jobs": 1, "is_one_of_many": False, "start": None, "progress": None,
    }),
    (SolverRun, {"jobs": 1, "is_one_of_many": False}),
    (Settings, {
        "snapshot": "last", "outer": "cccp", "partitions": None, "strata": 64, "branch": 4,
        "stop_level": 0, "partition_by": "stratified", "cascade": False, "landmarks": 1000,
        "scheduler": None,
    }),
    (Solution, {"optimal": True, "failure": None, "track": None, "bias": 0.0}),
    (MultiSolution, {
        "optimal": True, "bias": None, "duals": None, "rounds": (), "support_count": None,
        "gradient": None, "failure": None, "problems": 1, "untrained": 0,
    }),
    (Kernel, {"gamma": 0.0, "coef0": 0.0, "degree": 3, "bias": 0.0}),
    (M3SVMParameters, {"power": 4.0, "delta": 1e-3, "ridge": 1e-6}),
    (Schedule, {"epochs": None, "then": "newton", "last_epochs": None}), (McODMWay, {
        "is_sparse": False, "has_landmarks": False, "is_continued": False,
    }),
    (TableWay, {
        "limit": None, "linear": True, "kernel": True, "stored": True, "places": ("memory",),
        "matrices": 0, "reads": (), "has_jobs": False,
    }),
    (partition.partition, {"by": "stratified", "count": 64, "seed": 0, "memory": np.inf}),
    (partition.landmarks, {"seed": 0, "memory": np.inf}),
    (kmeans.clusters, {"seed": 0, "memory": np.inf}), (Gram, {"memory": np.inf, "is_own": False}),
    (Gram.of_matrix, {"memory": np.inf, "X": None}), (kernels.prepare, {"limit": 1e9}),
    (Examples, {"weight": None, "bias": -1.0}),
    (Rounding.gap, {"enough": 0.0, "w": None, "apart": 0.0}),
    (Rounding.of_demanded, {"w": None, "apart": 0.0}), (needed_bytes, {"q": 1}),
    (Room.in_double, {"q": 1}), (Room.of, {"q": 1}), (Choice, {"count": 0, "forecast": None}),
    (choice.choose, {"known": 0, "further": 0}), (choice.is_better_left, {"further": 0}),
    (solve_all, {"seed": 0, "progress": ignore_progress, "executor": None}),
    (certificate.drawn, {"delta": 1e-6}),
    (Found, {"failure": 0.0}), (start_count, {"most": MOST_STARTS}),
], ids=lambda thing: getattr(thing, "__qualname__", None))  # fmt: skip
def test_what_the_parts_take_when_they_are_told_nothing(thing, expected):
    assert defaults(thing) == expected
