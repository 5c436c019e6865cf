"""Signals, pipes, and what a second process finds compiled."""

import gc
import gzip
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import click
import pytest
from conftest import ENDLESS, needs_two_processors, restore_signals

from odmtool.cli import options, process
from odmtool.core import deadline


def training_for_ever(start, data, tmp_path, *options):
    """A training that has begun and would not end, and its old model file."""
    (tmp_path / "m").write_text("old")
    process = start("train", "--solver", "dcd", *ENDLESS, "--verbose", *options, data, "m")
    wait_for(process, b"iteration 3,")
    # Keep the pipe empty, so that the process never waits for us.
    threading.Thread(target=process.stderr.read, daemon=True).start()
    return process


def wait_for(process, words: bytes) -> bytes:
    """The first line on its stderr with these words."""
    return next(line for line in process.stderr if words in line)


@pytest.mark.parametrize("which, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143),
                                         (signal.SIGHUP, 129), (signal.SIGKILL, -9)])  # fmt: skip
def test_a_signal_leaves_the_old_model(start, ill_conditioned, tmp_path, which, code):
    process = training_for_ever(start, ill_conditioned, tmp_path)
    process.send_signal(which)
    assert process.wait(timeout=60) == code
    assert (tmp_path / "m").read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("strict, code", [([], 0), (["--strict"], 3)])
def test_a_signal_leaves_the_best_model_so_far(start, ill_conditioned, tmp_path, strict, code):
    (tmp_path / "m").write_text("old")
    options = ["--solver", "dcd", *ENDLESS, "--keep-best", "--verbose", *strict]
    process = start("train", *options, ill_conditioned, "m")
    wait_for(process, b"iteration 3,")
    process.send_signal(signal.SIGINT)
    wait_for(process, b"interrupted; training ends with the best")
    said = process.stderr.read()
    assert process.wait(timeout=60) == code
    assert b"interrupted: the model has not converged (gap" in said
    assert ((tmp_path / "m").read_text() == "old") == bool(strict)
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_a_second_signal_ends_at_once(start, ill_conditioned, tmp_path):
    # The solver does not look at the clock.
    code = "from odmtool.core.deadline import Limit; Limit.end = lambda self: None"
    options = ["--solver", "dcd", *ENDLESS, "--keep-best", "--verbose"]
    process = start("train", *options, ill_conditioned, "m", before=code)
    wait_for(process, b"iteration 3,")
    for words in (b"interrupted; training ends with the best", b"interrupted; no file was changed"):
        process.send_signal(signal.SIGINT)
        wait_for(process, words)
    assert process.wait(timeout=60) == 130 and not any(tmp_path.iterdir())


def test_a_signal_while_another_sentence_is_written(tmp_path):
    """Python refuses to enter a stream twice in one thread, which a second Ctrl-C would."""
    with open(tmp_path / "said", "wb") as file:

        class Entered:
            write, fileno = staticmethod(len), file.fileno

            def flush(self):
                raise RuntimeError("reentrant call inside <_io.BufferedWriter name='<stderr>'>")

        process.say("odm-train: interrupted; no file was changed", Entered())
    said = (tmp_path / "said").read_text()
    assert said == "odm-train: interrupted; no file was changed\n"


def test_garbage_is_collected_again_where_loading_fails():
    with pytest.raises(ImportError), process.without_garbage():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled()


def test_a_limit_that_is_left_ends_nothing():
    with deadline.time_limit(None) as limit:
        assert not deadline.is_over()
    limit.end()
    assert not deadline.is_over()
    with deadline.time_limit(None) as limit:
        limit.end()
        assert deadline.is_over()


def test_an_interrupted_search_says_that_its_journal_has_changed(start, ill_conditioned, tmp_path):
    process = start("cv", "--solver", "dcd", *ENDLESS, "--journal", "j", ill_conditioned)
    until = time.monotonic() + 60
    while not (tmp_path / "j").exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    assert b"terminated; no file but the journal was changed" in process.stderr.read()


def test_ctrl_c_while_the_input_is_awaited(start):
    process = start("train", "-", "m", stdin=subprocess.PIPE)
    process.stdin.write(b"1 1:1\n")
    process.stdin.flush()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=2)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert b"interrupted" in process.stderr.read()


def children(pid):
    """The numbers of the processes that a process has started; on Linux."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            parent = (entry / "stat").read_text().rsplit(")")[-1].split()[1]
        except (OSError, IndexError):
            continue
        if entry.name.isdigit() and int(parent) == pid:
            found.append(int(entry.name))
    return found


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[0] != "Z"
    except OSError:
        return False


def wait_for_workers(process, count=2, seconds=60):
    """The processes that a command has started, once there are ``count`` besides a helper."""
    until = time.monotonic() + seconds
    while len(workers := children(process.pid)) <= count and time.monotonic() < until:
        time.sleep(0.05)
    assert len(workers) > count and process.poll() is None
    return workers


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")


@needs_proc
@needs_two_processors
@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("after", [0.0, 2.0])
def test_no_worker_stays_behind(start, ill_conditioned, which, after):
    process = start("cv", "--solver", "dcd", *ENDLESS, "-j", "2", ill_conditioned)
    workers = wait_for_workers(process)
    time.sleep(after)
    process.send_signal(which)
    process.wait(timeout=60)
    until = time.monotonic() + 30
    while any(map(is_running, workers)) and time.monotonic() < until:
        time.sleep(0.2)
    assert not any(map(is_running, workers))
    # The end of the pipe comes when the last of them has gone.
    said = process.stderr.read().decode()
    assert "resource_tracker" not in said and "Traceback" not in said


@needs_proc
@needs_two_processors
@pytest.mark.parametrize("after", [0.0, 0.2, 0.5])
def test_ctrl_c_goes_to_the_workers_too(start, ill_conditioned, after):
    """A terminal sends it to all of them, perhaps while they are loading."""
    options = ["--solver", "dcd", *ENDLESS, "-j", "2", ill_conditioned]
    process = start("cv", *options, start_new_session=True)
    wait_for_workers(process)
    time.sleep(after)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    lines = [line for line in said.decode().splitlines() if "compiling" not in line]
    assert lines == ["odm-cv: interrupted; no file was changed"]


@needs_proc
@needs_two_processors
def test_a_killed_worker_ends_a_search_with_one_sentence(start, ill_conditioned):
    process = start("cv", "--solver", "dcd", *ENDLESS, "-j", "2", ill_conditioned)
    workers = wait_for_workers(process)
    time.sleep(2)
    # The last that was started works; the first is joblib's helper.
    os.kill(max(workers), signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    lines = [line for line in said.decode().splitlines() if "compiling" not in line]
    assert process.returncode == 1 and len(lines) == 1
    assert "a process that shared the work was killed" in lines[0]


@pytest.mark.parametrize("during", ["write", "replace"])
def test_killed_while_the_model_is_written(tmp_path, heart, during):
    """The process kills itself half-way through the model, or just before the rename."""
    (tmp_path / "m").write_text("old")
    code = f"""
import os, signal
from odmtool.cli import entry, train
from odmtool.io import files, model_write
die = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
if {during == "write"}:
    real = files.atomic_output
    import contextlib
    @contextlib.contextmanager
    def half(*arguments, **options):
        with real(*arguments, **options) as stream:
            stream.write(b"half" if options.get("binary") else "half")
            stream.flush()
            die()
    model_write.atomic_output = half
else:
    os.replace = die
entry.run(train.train, [{heart!r}, "m"], "odm-train")
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
    assert result.returncode == -9
    assert (tmp_path / "m").read_text() == "old"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_signal_at_the_rename_says_what_was_changed(tmp_path, heart, moment):
    """Of several products those that took their place are named."""
    (tmp_path / "m").write_text("old")
    code = f"""
import os, signal, sys
from odmtool.io import files
replace = os.replace
def signalled(source, target):
    if {moment == "before"}:
        os.kill(os.getpid(), signal.SIGTERM)
        files._ending.wait(30)  # the main thread has heard it
    replace(source, target)
    os.kill(os.getpid(), signal.SIGTERM)
    files._ending.wait(30)
os.replace = signalled
sys.argv = ["odm-train", {heart!r}, "m", "--json", "j"]
from odmtool.cli import train_main
train_main()
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
    assert result.returncode == 143
    assert result.stderr == b"odm-train: terminated; no file but m was changed\n"
    assert (tmp_path / "m").read_text() != "old"
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_pipes(start, heart, tmp_path):
    data = Path(heart).read_bytes()
    trainer = start("train", "-t", "2", "-l", "2^4", "-", "-", stdin=subprocess.PIPE)
    model, summary = trainer.communicate(gzip.compress(data), timeout=120)
    assert trainer.returncode == 0 and model.startswith(b"svm_type c_svc")
    assert b"objective" in summary
    (tmp_path / "m").write_bytes(model)
    predictor = start("predict", "-", "m", "-", stdin=subprocess.PIPE)
    labels, accuracy = predictor.communicate(data, timeout=120)
    assert predictor.returncode == 0 and len(labels.split()) == 270
    assert accuracy.startswith(b"Accuracy = ")


@pytest.mark.parametrize("arguments", [("-t", "rbf", "-"), ("--help",), ("--version",)])
def test_closed_pipe(start, heart, arguments):
    process = start("train", *arguments[:-1], heart, *arguments[-1:])
    process.stdout.close()
    code = process.wait(timeout=120)
    said = process.stderr.read()
    assert code == 141, said
    assert b"Traceback" not in said


COMPILED_WORK = """
import sys
from odmtool import _jit
from odmtool.cli import entry, train
for _ in range(2):
    code = entry.run(train.train, ["--solver", "svrg", sys.argv[1], "m"], "odm-train")
    assert code == 0
print(*_jit.statistics())
"""


def test_a_second_process_compiles_nothing(heart, tmp_path):
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("NUMBA_CACHE_DIR", None)
    if environment.get("NUMBA_DISABLE_JIT", "0") != "0":
        pytest.skip("numba is switched off")

    def work():
        result = subprocess.run(
            [sys.executable, "-c", COMPILED_WORK, heart], cwd=tmp_path, env=environment,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        hits, misses = map(int, result.stdout.split()[-2:])
        return hits, misses, result.stderr

    hits, misses, said = work()
    assert misses > 0
    assert said.count("compiling (once after an installation;") == 1
    hits, again, said = work()
    assert hits > 0 and again == 0
    assert "compiling" not in said


def test_small_data_never_load_numba(heart, tmp_path):
    """The fastest compilation is the one that is not needed."""
    code = f"""
import sys
from odmtool.cli import entry, train, predict
assert entry.run(train.train, [{heart!r}, "m"], "odm-train") == 0
assert entry.run(train.train, ["-t", "rbf", {heart!r}, "m"], "odm-train") == 0
assert entry.run(predict.predict, [{heart!r}, "m", "out"], "odm-predict") == 0
for name in ("numba", "joblib", "scipy.sparse"):
    assert name not in sys.modules, name
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.parametrize("module", ["click", "odmtool.io.compressed"])
def test_a_signal_while_the_imports_run(tmp_path, heart, module):
    """The handlers stand before anything heavy is imported, and while io.files is."""
    code = f"""
import os, signal, sys, time
class Killer:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)  # the main thread takes the signal now
sys.meta_path.insert(0, Killer())
from odmtool.cli import train_main
train_main()
"""
    result = subprocess.run(
        [sys.executable, "-c", code, heart], cwd=tmp_path, capture_output=True,
        preexec_fn=restore_signals,
    )  # fmt: skip
    assert result.returncode == 130
    assert result.stderr == b"odm-train: interrupted; no file was changed\n"


def test_work_without_a_thread_of_its_own(tmp_path, heart):
    """As where memory is limited: then it is done in the thread that there is."""
    code = """
import threading
def start(self):
    raise RuntimeError("can't start new thread")
threading.Thread.start = start
from odmtool.cli import train_main
train_main()
"""
    result = subprocess.run(
        [sys.executable, "-c", code, "-q", heart, "m"], cwd=tmp_path, capture_output=True
    )
    assert (result.returncode, result.stderr) == (0, b"")
    assert (tmp_path / "m").read_text().rsplit("\n", 2)[-2].startswith("end sha256 ")


def test_a_profile_is_printed_at_the_end(tmp_path, heart):
    """A command leaves Python at once, but not where something waits for its end."""
    result = subprocess.run(
        [sys.executable, "-m", "cProfile", "-m", "odmtool", "train", "-q", heart, "m"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0 and "function calls" in result.stdout


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", ">&-", "<&-"])
def test_missing_and_full_streams_do_not_cost_the_model(tmp_path, heart, redirection):
    command = f"{sys.executable} -c 'from odmtool.cli import train_main; train_main()'"
    line = f"{command} {heart} m {redirection}"
    result = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True)
    assert result.returncode == 0 and result.stdout == b""
    assert (tmp_path / "m").read_text().rsplit("\n", 2)[-2].startswith("end sha256 ")
    wrong = subprocess.run(["sh", "-c", f"{command} none {redirection}"], cwd=tmp_path)
    assert wrong.returncode == 1


def test_closed_streams_with_processes_and_products(tmp_path, heart):
    """Processes that share the work get a stderr, and a product that goes nowhere is an error."""
    command = f"{sys.executable} -c 'from odmtool.cli import %s_main; %s_main()'"
    line = f"{command % ('train', 'train')} -v 2 -j 2 {heart} 2>&-"
    result = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True)
    assert result.returncode == 0 and result.stdout.startswith(b"Cross Validation Accuracy")
    for target in ("-", "/dev/stdout"):
        line = f"{command % ('train', 'train')} {heart} {target} >&-"
        result = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True)
        assert result.returncode == 1
        assert result.stderr == b"odm-train: stdout: cannot be written: Bad file descriptor\n"


@pytest.mark.parametrize("command", ["train -v 2 heart", "cv -v 2 heart", "predict heart m out"])
def test_results_for_a_closed_stdout_are_an_error(tmp_path, heart, command):
    (tmp_path / "heart").symlink_to(heart)
    run = f"{sys.executable} -m odmtool"
    subprocess.run(["sh", "-c", f"{run} train -q heart m >&-"], cwd=tmp_path, check=True)
    result = subprocess.run(["sh", "-c", f"{run} {command} >&-"], cwd=tmp_path, capture_output=True)
    assert result.returncode == 1
    assert result.stderr.endswith(b"odmtool: stdout: cannot be written: Bad file descriptor\n")


def test_a_system_without_affinity_has_as_many_threads_as_processors(monkeypatch):
    """macOS has no ``os.sched_getaffinity``, without which every command with -j failed."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    command = click.command()(options.jobs_option("")(lambda jobs: jobs))
    assert command.main(["-j", "8"], standalone_mode=False) == 2
