"""What is planned of memory and of samples, against the arrays that it is made of."""

import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import mcodm_problems
import numpy as np
import pytest
from scipy import sparse
from test_choices import Rows, multi, of_kernel

from odmtool.core import losses, memory
from odmtool.core.loss_table import JUMPS, OF_LDM, SMOOTH
from odmtool.errors import MemoryLimitError
from odmtool.machines import MACHINES
from odmtool.places import memory as places
from odmtool.rows import cluster, kmeans, partition
from odmtool.solvers.base import Problem, path_bytes
from odmtool.solvers.engine import room as plan
from odmtool.solvers.engine import sample, shared
from odmtool.solvers.engine.choice import STAGES, most_landmarks
from odmtool.solvers.large import tasks
from odmtool.solvers.ldm import reduced
from odmtool.solvers.mcodm.starts import start_count
from odmtool.solvers.mcsvm import descent as mcsvm
from odmtool.solvers.settings import Settings


def doubles(*shape):
    return 8 * int(np.prod(shape))


def singles(*shape):
    return 4 * int(np.prod(shape))


def machine(solver, kernel="linear", kind=SMOOTH, **settings):
    settings = Settings(**settings)
    return SimpleNamespace(solver=solver, kernel=kernel, kind=kind, settings=settings)


def test_what_a_task_takes():
    m, d = 200_000, 30
    X, thin = Rows(m, d), sparse.csr_matrix((m, 40_000))
    thin.data, thin.indices = np.ones(7000), np.zeros(7000, np.int32)
    thin.indptr = np.minimum(np.arange(m + 1), 7000).astype(np.int32)
    rows = doubles(m, d)
    assert tasks.needs(machine("dcd"), X) == {
        "rows": 2 * rows, "matrices": 2 * 2 * doubles(d, d),
    }  # fmt: skip
    assert tasks.needs(machine("dcd"), thin) == {"rows": 2 * 12 * 7000, "matrices": 0}
    assert tasks.needs(machine("dcd", "rbf"), X)["kernel values"] == 2 * doubles(m, m)
    twice = tasks.needs(machine("dcd", "rbf", JUMPS), X)["kernel values"]
    assert twice == 2 * doubles(2 * m, 2 * m) + doubles(m, m)
    assert tasks.needs(machine("nystrom", "rbf", landmarks=50), X) == {
        "rows": pytest.approx(2 * doubles(2**16, d)),
        "landmarks": pytest.approx(doubles(50, d) + 2 * doubles(50, 50)),
        "features": doubles(2**20),
    }  # fmt: skip
    few = tasks.needs(machine("nystrom", "rbf"), Rows(20, d))
    assert few["rows"] == 2 * doubles(20, d) and few["landmarks"] == doubles(20, d) + 2 * 3200
    n, vectors = m / 64, doubles(4 * d) + 20 * 8 * m / 64
    assert tasks.needs(machine("sodm"), X) == {"rows": 2 * rows, "vectors": doubles(4 * d + 20 * m)}
    assert tasks.needs(machine("sodm", stop_level=3), X) == {
        "rows": 2 * rows / 64, "vectors": vectors,
    }  # fmt: skip
    found = tasks.needs(machine("sodm", "rbf", stop_level=9), X)
    assert found == {"rows": rows, "vectors": 20 * 8 * n, "kernel values": 8 * n * n}
    tasks.check_task(machine("sodm", "rbf", stop_level=9), X, rows + 20 * 8 * n)
    with pytest.raises(MemoryLimitError):
        tasks.check_task(machine("sodm", "rbf", stop_level=9), X, rows + 20 * 8 * n - 1)
    turns = tasks.needs(machine("dsvrg"), X)
    assert turns["rows"] == 2 * rows / 20


def test_rows_that_newtons_method_makes_are_planned_for():
    """Every example twice where a loss jumps twice; dense rows, and little more, for LDM."""
    X = sparse.random(60_000, 30, density=0.3, format="csr", random_state=0)
    sparse_rows = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    for kind, made in (
        (SMOOTH, 0), (JUMPS, 2 * sparse_rows + doubles(45, 60_000)), (OF_LDM, doubles(60_000, 30))
    ):  # fmt: skip
        for solver in ("auto", "newton", "path"):
            assert places.made_bytes(machine(solver, kind=kind), X) == made
        assert places.made_bytes(machine("dcd", kind=kind), X) == 0
        few = places.matrices(machine("auto", kind=kind), X, 2)
        assert few["copies"] == 2 * sparse_rows + made
    assert places.made_bytes(machine("auto", kind=OF_LDM), Rows(10, 11)) == 0
    y = np.ones(60_000)
    p = Problem(X, None, y, y, losses.ldm(1.0, 1.0, 1.0, 60_000))
    tracemalloc.start()
    reduced.by_rows(p)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.3 * doubles(60_000, 30)


def test_what_is_measured_stays_a_little_below_the_plan():
    """The measured numbers stand beside the planned ones in core/memory.py."""
    measured = {
        "NEWTON_NUMBERS": 44, "DESCENT_NUMBERS": 19, "SAMPLE_COPIES": 2.1, "HESSIAN_MATRICES": 3.4,
        "READER": 1.7e8,
    }  # fmt: skip
    for name, number in measured.items():
        assert number <= getattr(memory, name) <= 1.2 * number + 0.1
    assert np.dtype(float).itemsize + np.dtype(np.int32).itemsize == memory.ENTRY
    assert memory.SHARE == 0.25 and path_bytes(7) == 4 * doubles(7, 7)
    assert memory.CLASS_SCORES == {"mcodm": 8, "mcsvm": 8, "m3svm": 14, "ism3": 14}


def test_memory_by_what_the_system_tells(monkeypatch):
    files = {}

    def content(file):
        if file not in files:
            raise OSError
        return files[file]

    monkeypatch.setattr(memory, "_content", content)
    assert memory.free() == 4e9 and memory.resident() == 0 == memory.peak()
    files["/proc/meminfo"] = "MemTotal: 9 kB\nMemAvailable:    3000000 kB\n"
    files["/proc/self/status"] = "Name: x\nVmHWM:\t    77 kB\n"
    files["/proc/self/statm"] = "900 25 3 1 0 2 0"
    assert memory.free() == 1024 * 3e6 and memory.peak() == 1024 * 77
    assert memory.resident() == 25 * memory.os.sysconf("SC_PAGE_SIZE")
    old = "/sys/fs/cgroup/memory/memory"
    files |= {f"{old}.limit_in_bytes": "5000", f"{old}.usage_in_bytes": "1500"}
    assert memory.free() == 3500
    new = "/sys/fs/cgroup"
    files |= {f"{new}/memory.max": "900", f"{new}/memory.current": "950"}
    assert memory.free() == 0
    files[f"{new}/memory.max"] = "max"  # there is no limit
    assert memory.free() == 3500
    files["/proc/meminfo"] = "MemAvailable: much\n"
    files.pop(f"{old}.usage_in_bytes")
    assert memory.free() == 4e9


@pytest.mark.parametrize(
    ("free", "planned"),
    [(10000, 2000), (8000, 2000), (7999, 1000), (4000, 1000), (999, 125), (0, 0)],
)
def test_what_is_planned_with_changes_by_halves_of_a_fifth(monkeypatch, free, planned):
    """So that a model does not change with every program that comes or goes."""
    told = {"MemTotal": 10000.0, "MemAvailable": float(free)}
    monkeypatch.setattr(memory, "_told", lambda _file, name: told[name])
    monkeypatch.setattr(memory, "_group", lambda: (np.inf, 0.0))
    for function in (memory.default_memory, memory.free_share):
        monkeypatch.setattr(memory, function.__name__, function.__wrapped__)
    assert memory.default_memory() == planned <= memory.free_share() == free / 4
    monkeypatch.setattr(memory, "_group", lambda: (1000.0, 200.0))
    assert memory.default_memory() == (200 if free >= 800 else 0)


@pytest.mark.parametrize("count, numbers", [(3, 1e6), (40, 1e7), (700, 1e9), (9, 400)])
def test_the_sample_of_kernel_k_means_and_its_tables_fit(count, numbers):
    """As many as fit, up to 1000 or 10 for each centre, of a matrix and three tables."""
    size = kmeans.sample_size(10**9, count, 32 * numbers)

    def taken(n):
        return n * n + 3 * n * count

    wanted = max(1000, 10 * count)
    assert size == wanted or taken(size) <= numbers < taken(size + 1)
    assert (taken(wanted) <= numbers) == (size == wanted)
    assert kmeans.sample_size(50, 3, np.inf) == 50 and kmeans.sample_size(50, 3, 0) == 1


def test_the_sample_for_landmarks_of_strata():
    assert partition.sample_size(10**6, 64, np.inf) == 50_000
    assert partition.sample_size(10**6, 1000, np.inf) == 20_000  # 2e7 numbers
    assert partition.sample_size(10**6, 64, 32 * 64 * 777) == 777
    assert partition.sample_size(10**6, 64, 0) == 64
    assert partition.sample_size(300, 64, np.inf) == 300
    drawn = partition._sample(99, 4, 32 * 4 * 10, np.random.default_rng(3))
    assert len(drawn) == 10 == len(set(drawn)) and np.all(np.diff(drawn) > 0)
    assert np.array_equal(partition._sample(9, 4, np.inf, None), np.arange(9))


def test_the_engines_sample():
    for m, size in ((10_000, 10_000), (10_001, 8000), (512_000, 8000), (640_000, 10_000)):
        assert sample.sample_size(m) == size
    rows = sample.drawn_rows(10_001, 5)
    assert len(rows) == 8000 == len(np.unique(rows)) and np.all(np.diff(rows) > 0)
    assert rows[-1] > 9900 and not np.array_equal(rows, sample.drawn_rows(10_001, 6))
    assert np.array_equal(sample.drawn_rows(40, 5), np.arange(40))


@pytest.mark.parametrize("m, room, each, most", [
    (10**6, 1e12, 1e6, 2500), (10**6, 1e9, 1e6, 1000), (10**6, 0, 1e6, 48), (30, 1e12, 1.0, 30),
    (10**6, 1e9 - 1, 1e6, 999),
])  # fmt: skip
def test_landmarks_by_room_stages_and_examples(m, room, each, most):
    assert most_landmarks(m, room, each) == most
    assert STAGES[0] == 48 and STAGES[-1] == 2500 and list(STAGES) == sorted(set(STAGES))


@pytest.mark.parametrize("m, gigabytes", [(20_000, 1), (20_000, 64), (300_000, 4), (100, 1)])
def test_the_landmarks_of_several_problems_fit(m, gigabytes):
    room = 0.7 * gigabytes * 1e9
    r = shared.most_landmarks(m, gigabytes * 1e9)

    def taken(r):
        features = singles(m, r) + doubles(min(m, 12_000), r)
        return 2 * features + 3 * doubles(r, r)

    most = m if m <= 12_000 else 3000
    assert shared.needed_bytes(m, gigabytes * 1e9) == taken(r)
    assert r == max(200, most) if taken(most) <= room else taken(r) <= room < taken(r + 1)
    assert shared.most_landmarks(10**6, 0.0) == 200


@pytest.mark.parametrize("m, q", [(5000, 1), (200_000, 1), (200_000, 3), (30_000, 10)])
def test_the_engines_memory_is_divided(m, q):
    """Half for tiles where an eighth of those above the diagonal fits, the rest for features."""
    for all_of_it in (1e9, 2.0 * m * m / 8, 2.0 * m * m / 8 - 1):
        room = plan.Room.of(m, all_of_it, q)
        has_tiles = singles(m, m) / 2 <= 8 * all_of_it
        assert room.tiles == (all_of_it / 2 if has_tiles else 0)
        assert room.features == all_of_it - room.tiles and room.sample == sample.sample_size(m)
        r = room.landmarks
        halved = room.in_double(m, q)
        assert 0 < halved <= r
        if halved < r:
            all_in_single = r * (singles(min(m, 100_000)) + 12 * room.sample)
            all_in_single = max(all_in_single, singles(m, room.beyond(m, r)))
            all_in_single += min(room.tiles, 2 * m * (m + 1024))
            an_each = doubles(min(m, 100_000)) + 16 * room.sample
            assert halved * an_each <= all_in_single < (halved + 1) * an_each

        def taken(r):
            own = q * (16 * r * r + 200 * m) if q > 1 else 0
            return r * (singles(min(m, 100_000)) + doubles(sample.sample_size(m))) + own

        assert r in (48, 2500, m) or taken(r) <= room.features * (1 + 1e-9) < taken(r + 1)
        for few in (r // 3, r):
            own = q * 16 if q > 1 else 0
            spared = r * (singles(min(m, 100_000)) + 12 * room.sample)
            spared = max(spared, singles(m, room.beyond(m, r)))
            spared += (24 + own) * (r * r - few * few)
            for size in (4, 8):
                Z = SimpleNamespace(shape=(m, few), nbytes=size * m * few)
                expected = max(0.0, room.tiles + spared - Z.nbytes) if has_tiles else 0.0
                assert room.tiles_beside(Z, q) == pytest.approx(expected, rel=1e-12)
        assert room.beyond(m, 10**9) == int(room.features // (4 * m)) and room.beyond(m, 1) <= 1


def test_problems_that_are_solved_side_by_side():
    """Their vectors, 200 bytes for each example, fill a quarter of the memory at most."""
    assert plan.together(1000, 9, 4 * 200_000 * 5) == 5
    assert plan.together(1000, 9, 4 * 200_000 * 5 - 1) == 4
    assert plan.together(1000, 9, 1e12) == 9 and plan.together(1000, 9, 1.0) == 1
    m, memory_ = 10_000, 1e9
    one, three = (plan.needed_bytes(m, memory_, q) for q in (1, 3))
    r1, r3 = (plan.Room.of(m, 0.8 * memory_, q).landmarks for q in (1, 3))
    for found, r, own in ((one, r1, 0), (three, r3, 3 * (16 * r3 * r3 + 200 * m))):
        features = r * (singles(m) + 12 * m)
        tiles = min(0.8 * memory_ / 2, 2 * m * (m + 1024))
        assert found == pytest.approx(tiles + features + 24 * r * r + own, rel=1e-12)


def test_how_often_mcodm_begins():
    """As often as its numbers go into a million of narrow rows, into four millions of wide ones;
    with a kernel, as the square of its unknowns goes into 200 millions."""

    def of_rows(m, d, k=3):
        return start_count(multi(Rows(m, d), k))

    assert [of_rows(m, 10) for m in (4000, 5000, 9000, 30_000, 99_000)] == [7, 6, 3, 1, 1]
    assert [of_rows(1000, d) for d in (200, 201, 700)] == [1, 6, 1]
    assert of_rows(4000, 10, 2) == 1
    thin = sparse.csr_matrix((4000, 10))
    assert start_count(multi(thin), 5) == 5 and start_count(multi(thin)) == 7
    for m, count in ((1781, 7), (1782, 6), (2000, 5), (3000, 2), (4000, 1)):
        assert start_count(multi(None, gram=of_kernel(m).gram)) == count
    gram = of_kernel(100, 8 * 100**2).gram
    assert start_count(multi(None, gram=gram)) == 7
    assert start_count(multi(None, gram=gram.within(8 * 100**2 - 1))) == 1


def test_what_a_task_may_take_on_the_least_worker():
    """Seven tenths of a worker's limit without the program, by thread; a host is shared."""
    def worker(host, threads, limit, free):
        return cluster.WorkerMeans({}, host, threads, limit, free)

    one = worker("a", 2, 2e9, 9e9)
    assert cluster.task_memory([one]) == (0.7 * 2e9 - 2e8) / 2
    assert cluster.task_memory([one._replace(limit=np.inf)]) == 9e9 / 2
    assert cluster.task_memory([one._replace(limit=2e8)]) == 0
    many = [one, worker("a", 3, 9e9, 1e9), worker("b", 1, 9e9, 5e8)]
    assert cluster.task_memory(many) == 1e9 / 5
    assert cluster.task_memory(many[::-1]) == 1e9 / 5
    assert cluster.task_memory([one, worker("b", 1, 9e9, 5e7)]) == 5e7


OF_CLASSES = ["", "--multiclass ovr", "--multiclass ovo", "--multiclass ecoc", "-s m3svm", "-t rbf"]


@pytest.mark.parametrize("options", OF_CLASSES)
def test_classes_that_fit_nowhere_are_refused(options, run, monkeypatch):
    """A file of regression, whose labels are whole numbers, took the memory of the machine."""
    Path("prices").write_text("".join(f"{i // 2} 1:{i % 7}\n" for i in range(4000)))
    Path("m").write_text("as it was")
    monkeypatch.setattr("odmtool.machines.class_memory.free", lambda: 3e7)
    outcome = run("train", *options.split(), "--memory", "20M", "prices", "m")
    assert outcome.code == 1 and Path("m").read_text() == "as it was"
    assert "2000 classes of 4000 examples need about " in outcome.err
    assert "more than the 30 MB that there is" in outcome.err


def test_classes_that_fit_into_what_is_free_are_not_refused(run, monkeypatch):
    Path("d").write_text("".join(f"{i % 60} 1:{i % 60}\n" for i in range(600)))
    monkeypatch.setattr("odmtool.machines.class_memory.free", lambda: 3e7)
    assert run("train", "--max-iter", "1", "--memory", "100K", "d", "m").code == 0


def test_pairs_of_classes_and_what_they_share_are_planned():
    """LDM makes four matrices of the largest pair, with the values within every class beside."""
    rng = np.random.default_rng(0)
    labels = np.repeat([1, 2, 3], [50, 30, 20])
    X = sparse.csr_matrix(rng.random((100, 3)))
    squares = 8 * (50**2 + 30**2 + 20**2)
    for limit, jobs, expected in [
        (1e9, 1, squares + 4 * 8 * 80**2), (1e9, 2, squares + 2 * 4 * 8 * 80**2),
        (100e3, 1, 25e3 + 8 * 80**2), (20e3, 1, 20e3),
    ]:  # fmt: skip
        machine = MACHINES["ldm"](kernel="rbf", memory=limit, jobs=jobs)
        sizes = places.class_sizes(labels)
        assert places.matrices(machine, X, 3, sizes=sizes)["kernel values"] == expected
    plan = places.parts(machine, X, 3)
    assert plan["kernel values"] == 20e3 and plan["model"] > 0


def test_scores_of_mcsvm_are_made_without_a_copy_of_the_matrix():
    p = mcodm_problems.problem("rbf", m=600, loss_of=losses.mcsvm)
    state = mcsvm._Kernel(p, np.random.default_rng(0).uniform(-1, 1, (600, 4)))
    tracemalloc.start()
    scores = state.scores()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(scores, p.gram.matrix() @ state.alpha, rtol=1e-12, atol=1e-12)
    assert peak < p.gram.bytes / 10
