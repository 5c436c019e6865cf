"""Memory, disk and workers answer the same questions, and train the same machine."""

import contextlib

import numpy as np
import pytest

from odmtool.core import kernels
from odmtool.core.kernels import Kernel
from odmtool.errors import DataError, UsageError
from odmtool.io.svmlight import read_svmlight
from odmtool.machines import LDM, M3SVM, MCODM, ODM
from odmtool.places import workers
from odmtool.places.disk import Disk
from odmtool.places.memory import Memory
from odmtool.places.place import Source
from odmtool.places.workers import Workers
from odmtool.rows.executor import Serial
from odmtool.solvers.settings import Settings

PLACES = ("memory", "disk", "workers")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A place by name; this process stands for the cluster."""
    monkeypatch.setattr(workers, "executor_for", lambda *_arguments: Serial())

    def make(name, path, weights=None):
        source = Source(str(path), None if weights is None else str(weights))
        if name == "disk":
            return stack.enter_context(contextlib.closing(Disk(source, str(tmp_path))))
        return Memory(source) if name == "memory" else Workers(source, "tcp://nowhere:8786")

    with contextlib.ExitStack() as stack:
        yield make


@pytest.mark.parametrize("name", PLACES)
def test_every_place_reads_the_same(place, heart, tmp_path, name):
    labels = read_svmlight(heart).labels
    (tmp_path / "w").write_text("".join("2\n" if label > 0 else "0\n" for label in labels))
    expected = place("memory", heart).read()
    found = place(name, heart).read()
    assert found.X.shape == expected.X.shape == (270, 13)
    assert found[2:] == expected[2:]
    assert found.classes == found.learned == {1, -1} and found.weight is None
    weighted = place(name, heart, tmp_path / "w").read()
    assert weighted.learned == {1} and weighted.classes == {1, -1}
    assert np.array_equal(weighted.weight, np.where(labels > 0, 2.0, 0.0))


@pytest.mark.parametrize("name", PLACES)
def test_weights_of_other_data_are_refused_by_their_file(place, heart, tmp_path, name):
    (tmp_path / "w").write_text("1\n" * 269)
    with pytest.raises(DataError, match="269 weights for 270 examples") as caught:
        place(name, heart, tmp_path / "w").read()
    assert caught.value.file == str(tmp_path / "w")


@pytest.mark.parametrize("name", PLACES)
def test_one_machine_is_the_same_wherever_the_rows_lie(place, heart, name):
    here = place(name, heart)
    machine = ODM(kernel="rbf", solver="nystrom", tolerance=1e-9, lambda_=2.0**4,
                  settings=Settings(landmarks=30))  # fmt: skip
    machine = here.suited(machine)
    data = here.read()
    plan = here.plan(machine, data)
    assert plan.sentence and plan.warnings == ()
    here.fit(machine, data, plan)
    here.close()
    whole = read_svmlight(heart)
    alone = machine.copy().fit(whole.X, whole.labels)
    assert machine.solution_.primal == pytest.approx(alone.solution_.primal, rel=1e-8)
    values = [m.model_.decision_values(whole.X) for m in (machine, alone)]
    np.testing.assert_allclose(*values, rtol=1e-3, atol=1e-4)


def test_each_place_has_its_refusals(place, heart):
    machine = LDM(solver="dcd-dense")
    assert place("memory", heart).suited(machine) is machine
    refused = {
        "disk": (LDM(), MCODM(), ODM(solver="svrg"), ODM(kernel="rbf")),
        "workers": (ODM(), MCODM(), M3SVM(), ODM(solver="sodm", multiclass="ovo")),
    }
    for name, machines in refused.items():
        for machine in machines:
            with pytest.raises(UsageError):
                place(name, heart).suited(machine)
        with pytest.raises(UsageError, match="^-v "):
            place(name, heart).refuse("-v")
    assert place("memory", heart).refuse("-v") is None


def test_only_the_place_knows_what_the_model_is_called(place, heart):
    for name in ("memory", "disk"):
        assert place(name, heart).model_name() == "heart_scale.model"
        assert place(name, heart, "w").inputs() == [str(heart), "w"]
        with pytest.raises(UsageError, match="from a pipe"):
            place(name, "-").model_name()
    with pytest.raises(UsageError, match="several files"):
        place("workers", heart).model_name()
    assert place("workers", heart, "w").inputs() == ["w"]


@pytest.mark.parametrize("name", PLACES)
def test_a_bias_that_drowns_the_kernel_is_refused_everywhere(place, heart, name):
    """b^2 = 1e16 swallows exp(...) whole: the rounded problem has a certificate of its own."""
    here = place(name, heart)
    data = here.read()
    for bias, is_refused in ((2e4, True), (0.9e4, False)):
        machine = ODM(kernel="rbf", solver="nystrom", bias=bias, settings=Settings(landmarks=30))
        plan = here.plan(machine, data)
        if is_refused:
            with pytest.raises(UsageError, match="bias 20000 is so large .* at most 1e[+]04"):
                here.fit(machine, data, plan)
        else:
            here.fit(machine, data, plan)
    # Nothing is lost where there is nothing.
    assert kernels.refuse_huge_bias(Kernel("rbf", 1.0, bias=1e9), 0.0) is None
