"""What the tests of commands share."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from odmtool.cli import entry
from odmtool.cli.options import limit_threads, processor_count

# Of these a failing assertion is to be told as one of a test is.
pytest.register_assert_rewrite(
    "ldm_problems", "m3svm_problems", "mcodm_problems", "model_texts"
)

# As the commands do it, before a test imports NumPy: BLAS threads that wait for each other on
# a busy machine make small fits twenty times slower.
limit_threads(1)


# What a test writes need not outlive a power failure; processes that it starts do as ever.
os.fsync = lambda descriptor: None


# Of the files, which pytest-xdist's loadfile gives to processes: while one of these compiles all
# functions, once, another one runs what compiles least; then comes what takes longest, so that at
# the end no process waits for another.
FIRST = [
    "test_compiled", "test_models", "test_tables", "test_model_file", "test_m3svm", "test_plots",
    "test_errors", "test_project", "test_cluster", "test_search", "test_search_memory",
    "test_processes", "test_mcodm", "test_multiclass_machines", "test_engine_bounds", "test_fuzz",
    "test_out_of_core",
]  # fmt: skip


def pytest_collection(session):
    """Of two processes one begins at the last file, so that pytest rewrites the assertions of each
    file in one of them, and the other one reads from the disk what that kept."""
    if os.environ.get("PYTEST_XDIST_WORKER") != "gw1" or sys.dont_write_bytecode:
        return
    for path in sorted(Path(__file__).parent.glob("test_*.py"), reverse=True):
        # What cannot be imported, or is skipped, says so when its turn comes.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(path.stem)


def pytest_collection_modifyitems(items):
    places = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(FIRST)))


def pytest_collection_finish():
    """What thousands of collected tests are made of is no garbage, however often it is sought."""
    gc.collect()
    gc.freeze()


class Outcome:
    """Exit code, stdout and stderr of a command."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


# A command has no more processes and threads than it may use processors.
needs_two_processors = pytest.mark.skipif(processor_count() < 2, reason="needs two processors")


@pytest.fixture(autouse=True)
def processes_do_little_work_too(monkeypatch):
    """Or -j 2 would say nothing about processes; ``test_search_memory.py`` has some without."""
    monkeypatch.setattr("odmtool.search.search._SOON", -1.0)


@pytest.fixture
def run(capfd, monkeypatch, tmp_path):
    """Run a command in this process: run("train", "-l", "2^4", file) in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run_command(name, *arguments):
        from importlib import import_module

        command = getattr(import_module(f"odmtool.cli.{name}"), name)
        capfd.readouterr()
        code = entry.run(command, [str(a) for a in arguments], f"odm-{name}")
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run_command


@pytest.fixture
def start(tmp_path):
    """Start a command as a process of its own, in an empty folder."""
    processes = []

    def start_command(name, *arguments, before="", **options):
        code = f"{before}\nfrom odmtool.cli import {name}_main; {name}_main()"
        # No warning of Python or NumPy reaches a user; those of deprecation never would.
        strict = {"PYTHONWARNINGS": "error,ignore::DeprecationWarning"}
        environment = os.environ | strict | options.pop("environment", {})
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)], cwd=tmp_path, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=restore_signals, **options,
        )  # fmt: skip
        processes.append(process)
        return process

    yield start_command
    for process in processes:
        process.kill()
        process.communicate()


def restore_signals() -> None:
    """Under nohup a process inherits that it ignores SIGHUP, in the background SIGINT."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def zygote():
    """A process that has imported numba, and forks for every script.

    zygote(code, home, path) runs code that imports from ``path``, in the folder ``home``, where
    the script and the cache are, too.
    """
    command = [sys.executable, Path(__file__).parent / "zygote.py"]
    with subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:

        def run_script(code, home, path, warnings=None, variables=None):
            script = home / "script.py"
            if not script.exists() or script.read_text() != code:  # its time matters to older numba
                script.write_text(code)
            cleared = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "XDG_"))}
            request = {
                "script": str(script), "path": str(path), "warnings": warnings, "folder": str(home),
                "environment": {**cleared, "HOME": str(home), **(variables or {})},
            }  # fmt: skip
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            code, out, err = json.loads(process.stdout.readline())
            assert code == 0, err
            assert err == ""
            return out.strip()

        yield run_script
        process.stdin.close()


@pytest.fixture(scope="session")
def iris():
    """150 examples, 4 features, 3 classes; X and y."""
    from estimator_cases import scaled

    return scaled("iris")


@pytest.fixture(scope="session")
def cancer():
    """120 examples of breast cancer, 30 features, 2 classes; X and y."""
    from estimator_cases import scaled

    X, y = scaled("breast-cancer")
    return X[:120], y[:120]


@pytest.fixture
def heart():
    """Path of heart_scale."""
    from problems import HEART_SCALE

    return str(HEART_SCALE)


# Coordinate descent and dsvrg on the data of `ill_conditioned`: nothing else ends them.
ENDLESS = ["-l", "2^40", "-e", "1e-300", "--max-iter", "999999999"]


@pytest.fixture
def ill_conditioned(heart, tmp_path_factory):
    """Path of heart_scale with one feature more, of about 10000.

    With ENDLESS the gap is still above 1/2 after a million epochs of dcd or 40,000 of dsvrg. On
    heart_scale itself rounding ends them within a second: a computed gap may be negative.
    """
    path = tmp_path_factory.mktemp("data") / "ill_conditioned"
    with open(heart) as stream:
        rows = [f"{line.strip()} 14:{10000 + row}\n" for row, line in enumerate(stream)]
    path.write_text("".join(rows))
    return str(path)


@pytest.fixture(scope="module")
def scheduler():
    """The address of a real Dask scheduler with two worker processes on loopback.

    Workers, also those that take the place of killed ones, are forks of a process that has
    imported what they need. A cluster without work takes a tenth of a processor, so it ends with
    its module, and looks at itself less often than Dask's do.
    """
    distributed = pytest.importorskip("distributed")
    import dask

    quieter = {
        "distributed.worker.multiprocessing-method": "forkserver",
        "distributed.worker.profile.enabled": False,
        "distributed.admin.tick.interval": "1s",
    }
    with dask.config.set(quieter):
        workers = distributed.utils.get_mp_context()  # with what Dask wants to be imported
        modules = ["distributed", "odmtool.rows.cluster", "odmtool.solvers.descent.dcd"]
        workers.set_forkserver_preload(modules)
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0",
            host="127.0.0.1", worker_dashboard_address=None, silence_logs="CRITICAL",
        ) as running:  # fmt: skip
            yield running.scheduler_address


@pytest.fixture
def read(tmp_path):
    """Write bytes or text to a file and read it as a model."""
    from odmtool.io.model_file import read_model

    def function(content, **options):
        path = tmp_path / "m.model"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_model(str(path), **options)

    return function


@pytest.fixture
def two_starts(monkeypatch):
    """mcODM begins at two places in place of up to seven, where another model does as well."""
    from odmtool.solvers.mcodm import rounds, starts

    monkeypatch.setattr(
        rounds, "start_count", lambda problem, most: starts.start_count(problem, min(most, 2))
    )


@pytest.fixture
def open_store():
    """row_store.open_store, for files that are closed after the test."""
    from odmtool.io import row_store

    with contextlib.ExitStack() as stack:

        def opened(*arguments, **options):
            store, was_known = row_store.open_store(*arguments, **options)
            stack.callback(store.close)
            return store, was_known

        yield opened


@pytest.fixture
def tiny_blocks(monkeypatch):
    """Rows on the disk lie in blocks of 700 bytes."""
    from odmtool.places import disk

    monkeypatch.setattr(disk, "_LEAST_BLOCK", 700)
    monkeypatch.setattr(disk, "_LARGEST_BLOCK", 700)


@pytest.fixture
def force(monkeypatch):
    """Every problem takes this way to its certificate, with so many landmarks at first."""
    from odmtool.solvers.engine import choice

    def forced(way, stages=(48,)):
        monkeypatch.setattr(choice, "STAGES", stages)
        monkeypatch.setattr(choice, "_ways", lambda *_: [choice.Choice(way, 0.0, 60)])

    return forced
