"""Replacing files so that nothing is ever lost."""

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from odmtool.errors import FileError
from odmtool.io import files
from odmtool.io.files import atomic_output, check_writable, stop_writing

unprivileged = pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may do everything"
)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(files.__file__).parents[2])}


def run(code: str, *arguments, **options):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(
        command, env=ENVIRONMENT, capture_output=True, timeout=60, check=False, **options
    )


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


# ---- what appears ------------------------------------------------------------


def test_new_file(tmp_path):
    path = tmp_path / "model"
    with atomic_output(str(path)) as stream:
        stream.write("grün\nx")
        assert not path.exists()
        (temporary,) = names(tmp_path)
        assert temporary.startswith(".odmtool-") and temporary.endswith(".tmp")
    assert path.read_bytes() == "grün\nx".encode()
    assert names(tmp_path) == ["model"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_binary_and_undecodable_text(tmp_path):
    with atomic_output(tmp_path / "a", binary=True) as stream:
        stream.write(b"\xff\0")
    assert (tmp_path / "a").read_bytes() == b"\xff\0"
    with atomic_output(tmp_path / "b") as stream:
        stream.write(os.fsdecode(b"name \xff"))
    assert (tmp_path / "b").read_bytes() == b"name \xff"


def test_old_file_stays_until_the_end(tmp_path):
    path = tmp_path / "model"
    path.write_text("old")
    path.chmod(0o640)
    with atomic_output(path) as stream:
        stream.write("new" * 100_000)
        stream.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new" * 100_000
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, OSError])
def test_old_file_stays_after_an_error(error, tmp_path):
    path = tmp_path / "model"
    path.write_text("old")
    with pytest.raises(error), atomic_output(path) as stream:
        stream.write("new" * 100_000)
        raise error
    assert (path.read_text(), names(tmp_path)) == ("old", ["model"])


def test_secret_stays_secret(tmp_path):
    """A file that only its owner may read is never readable under the temporary name either."""
    path = tmp_path / "model"
    path.write_text("old")
    path.chmod(0o600)
    with atomic_output(path):
        (temporary,) = (name for name in names(tmp_path) if name != "model")
        assert stat.S_IMODE((tmp_path / temporary).stat().st_mode) == 0o600


def test_symbolic_links(tmp_path):
    (tmp_path / "models").mkdir()
    target = tmp_path / "models" / "real"
    link = tmp_path / "link"
    link.symlink_to("models/real")
    for text in ("made through a dangling link", "replaced"):
        check_writable(link)
        with atomic_output(link) as stream:
            stream.write(text)
        assert link.is_symlink() and target.read_text() == text
    assert names(tmp_path / "models") == ["real"]


def test_relative_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_writable("model")
    with atomic_output("model") as stream:
        stream.write("x")
    assert names(tmp_path) == ["model"]


def test_two_writers_of_one_file(tmp_path):
    path = tmp_path / "model"
    with atomic_output(path) as first, atomic_output(path) as second:
        first.write("first")
        second.write("second")
    assert path.read_text() == "first"  # whoever ends last
    assert names(tmp_path) == ["model"]


# ---- what is no regular file -------------------------------------------------


def test_standard_output(capfdbinary):
    print("before")
    with atomic_output("-") as stream:
        stream.write("text\n")
    with atomic_output("-", binary=True) as stream:
        stream.write(b"bytes\n")
    print("after")
    assert capfdbinary.readouterr().out == b"before\ntext\nbytes\nafter\n"


def test_dev_null(tmp_path):
    check_writable("/dev/null")
    with atomic_output("/dev/null") as stream:
        stream.write("x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_fifo(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    received = []
    reader = threading.Thread(target=lambda: received.append(path.read_text()))
    reader.start()
    check_writable(path)
    with atomic_output(path) as stream:
        stream.write("text")
    reader.join()
    assert received == ["text"] and stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_dev_stdout_in_a_file(name, tmp_path):
    """The lines before, the product, and the lines after it stand one after the other."""
    code = (
        "import sys; from odmtool.io.files import *; print('before'); check_writable(sys.argv[1])\n"
        "with atomic_output(sys.argv[1]) as stream: stream.write('product\\n')\n"
        "print('after')"
    )
    out = tmp_path / "out"
    with open(out, "w") as stream:
        subprocess.run(
            [sys.executable, "-c", code, name], stdout=stream, env=ENVIRONMENT, check=True
        )
    assert out.read_text() == "before\nproduct\nafter\n"
    assert run(code, name).stdout == b"before\nproduct\nafter\n"


def test_closed_pipe_is_left_to_the_caller(tmp_path):
    code = (
        "from odmtool.io.files import *\n"
        "try:\n with atomic_output('-') as stream: stream.write('x' * 10**6)\n"
        "except BrokenPipeError: import os; os._exit(7)"
    )
    receive, send = os.pipe()
    os.close(receive)
    with os.fdopen(send, "wb") as stream:
        command = [sys.executable, "-c", code]
        assert subprocess.run(command, stdout=stream, env=ENVIRONMENT, check=False).returncode == 7


# ---- what goes wrong ---------------------------------------------------------


def test_full_device():
    with (
        pytest.raises(FileError, match="^/dev/full: cannot be written: No space left on device$"),
        atomic_output("/dev/full") as stream,
    ):
        stream.write("x")
    code = "from odmtool.io.files import *\nwith atomic_output('-') as stream: stream.write('x')"
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, stdout=full, stderr=-1, env=ENVIRONMENT, check=False)
    assert b"FileError: stdout: cannot be written: No space left on device" in done.stderr


@pytest.mark.parametrize("size", [2000, 10**6])
def test_full_disk_leaves_the_old_file(size, tmp_path):
    """Whether the error comes while writing or only with the last flush."""
    path = tmp_path / "model"
    path.write_text("old")
    code = (
        "import resource, sys; from odmtool.io.files import *\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "with atomic_output(sys.argv[1]) as stream: stream.write('x' * int(sys.argv[2]))"
    )
    done = run(code, path, size)
    assert f"FileError: {path}: cannot be written: File too large".encode() in done.stderr
    assert (path.read_text(), names(tmp_path)) == ("old", ["model"])


def test_failing_sync_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model"
    path.write_text("old")

    def fail(descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(files.os, "fsync", fail)
    with (
        pytest.raises(FileError, match=": cannot be written: Input/output error$"),
        atomic_output(path) as stream,
    ):
        stream.write("new")
    assert (path.read_text(), names(tmp_path)) == ("old", ["model"])


def test_mount_point_is_written_in_place(tmp_path, monkeypatch):
    path = tmp_path / "model"
    path.write_text("old")

    def fail(source, destination):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(files.os, "replace", fail)
    with atomic_output(path) as stream:
        stream.write("new")
    assert (path.read_text(), names(tmp_path)) == ("new", ["model"])


def test_outputs_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "into nothing").symlink_to("none/model")
    here = str(tmp_path)
    for path, sentence in (
        (here, f"{here}: is a folder, not a file"),
        (f"{here}/new/", f"{here}/new/: is a folder, not a file"),
        (
            f"{here}/none/model",
            f"{here}/none/model: cannot be written: there is no folder '{here}/none'",
        ),
        (
            f"{here}/into nothing",
            f"{here}/into nothing: cannot be written: there is no folder '{here}/none'",
        ),
        (f"{here}/file/model", f"{here}/file/model: cannot be written: Not a directory"),
        (f"{here}/{'x' * 300}", f"{here}/{'x' * 300}: cannot be written: File name too long"),
        ("a\0b", r"a\x00b: cannot be written: no name of a file has a null byte"),
        ("", "'': no such file"),
    ):
        for action in (check_writable, lambda path: atomic_output(path).__enter__()):
            with pytest.raises(FileError) as caught:
                action(path)
            assert quoted_short(str(caught.value)) == quoted_short(sentence)
    with pytest.raises(FileError, match="Too many levels of symbolic links$"):
        check_writable(tmp_path / "loop")
    assert names(tmp_path) == ["file", "into nothing", "loop"]


def quoted_short(sentence: str) -> str:
    """A sentence without the folder, which messages shorten when it is long."""
    return sentence.partition("there is no folder")[0]


@unprivileged
def test_write_protection(tmp_path):
    path = tmp_path / "model"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(FileError, match=": cannot be written: Permission denied$"):
        check_writable(path)
    path.chmod(0o644)
    tmp_path.chmod(0o555)
    for name in ("model", "new"):
        with pytest.raises(FileError, match=": no file can be made in the folder"):
            check_writable(tmp_path / name)
    tmp_path.chmod(0o755)
    check_writable(path)


def test_check_writable_leaves_no_trace(tmp_path):
    path = tmp_path / "model"
    check_writable("-")
    check_writable(path)
    assert names(tmp_path) == []
    path.write_text("old")
    before = path.stat()
    check_writable(path)
    assert path.stat() == before


# ---- sudden ends -------------------------------------------------------------


def test_nothing_is_replaced_once_a_process_ends(tmp_path, monkeypatch):
    """What the main thread does when Ctrl-C arrives while another thread writes."""
    path = tmp_path / "model"
    path.write_text("old")
    monkeypatch.setattr(files, "_lock", threading.Lock())
    monkeypatch.setattr(files, "_ending", threading.Event())
    monkeypatch.setattr(files, "_replaced_names", {})
    writing, go_on = threading.Event(), threading.Event()

    def work():
        with atomic_output(tmp_path / "first") as stream:
            stream.write("whole")
        with atomic_output(path) as stream:
            stream.write("new")
            writing.set()
            go_on.wait(10)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    writing.wait(10)
    assert len(names(tmp_path)) == 3
    assert stop_writing() == [str(tmp_path / "first")]
    assert names(tmp_path) == ["first", "model"]
    go_on.set()
    thread.join(0.2)
    assert thread.is_alive()  # until the process has gone
    assert (path.read_text(), names(tmp_path)) == ("old", ["first", "model"])


def test_what_killed_processes_left_is_removed(tmp_path):
    old, young, foreign = (f".odmtool-{digit * 16}.tmp" for digit in "abx")
    for name in (old, young, foreign):
        (tmp_path / name).write_text("half")
    fifo = f".odmtool-{'c' * 16}.tmp"
    os.mkfifo(tmp_path / fifo)  # nobody writes to it: opening it would wait for ever
    hour_ago = time.time() - 3600
    for name in (old, foreign):
        os.utime(tmp_path / name, (hour_ago, hour_ago))
    with atomic_output(tmp_path / "slow") as stream:
        stream.write("x")
        (writing,) = set(names(tmp_path)) - {young, foreign, old, fifo}
        os.utime(tmp_path / writing, (hour_ago, hour_ago))
        with atomic_output(tmp_path / "model") as other:
            other.write("y")
    assert names(tmp_path) == sorted([young, foreign, fifo, "model", "slow"])


def test_kill_at_any_moment(tmp_path):
    path = tmp_path / "model"
    code = (
        "import sys; from odmtool.io.files import *\n"
        "version = 0\n"
        "while True:\n"
        "    version += 1\n"
        "    with atomic_output(sys.argv[1]) as stream:\n"
        "        for line in range(20000): stream.write(f'{version}\\n')"
    )
    for delay in (0.01, 0.023, 0.037, 0.05, 0.071):
        process = subprocess.Popen([sys.executable, "-c", code, str(path)], env=ENVIRONMENT)
        deadline = time.monotonic() + 20
        path.unlink(missing_ok=True)
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        lines = path.read_text().split("\n")
        assert len(lines) == 20001 and lines.pop() == "" and len(set(lines)) == 1
        assert all(name.startswith(".odmtool-") for name in names(tmp_path) if name != "model")


def test_a_full_disk_is_found_before_the_work(tmp_path, monkeypatch):
    """Where the system tells of no room, it is tried: what it tells need not be true."""
    told = os.statvfs(tmp_path)
    values = {"f_bavail": 0, "f_files": told.f_files, "f_favail": told.f_favail}
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(**values))
    files.check_writable(tmp_path / "x")
    assert not list(tmp_path.iterdir())

    def fail(**_options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", fail)
    with pytest.raises(FileError, match="x: cannot be written: No space left on device"):
        files.check_writable(tmp_path / "x")
    values["f_bavail"] = 1
    files.check_writable(tmp_path / "x")
