"""A call to the system fails, or a signal arrives there; what is left must be whole.

Every command with several products runs in a fork of this process, in a folder that has old
files of all the names. The calls that it makes there (open, read, write, fsync, rename, unlink)
are numbered; one of them fails, is heard as a signal, or is the last one. Then

* every product is the old file or the new one, and the new ones come first in the order that
  docs/security.md tells;
* the exit code is 0 with all products new, 1 with a sentence that names a file and the reason,
  that of the signal with a sentence that names what was changed, or the process was killed;
* nothing else is in the folder; after a kill, and where nothing could be unlinked, the same
  command runs again and leaves what it leaves in an empty folder.

Import this before odmtool: files are opened for writing by :class:`_File` from then on.
"""

from __future__ import annotations

import builtins
import errno
import io
import json
import os
import random
import re
import shutil
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple


class _Calls:
    """The calls of this process, numbered once it is watched; one of them is to go wrong."""

    def __init__(self):
        self.made: list[tuple[str, str]] = []
        self.is_watched, self.number, self.act, self._full = False, -1, "", None

    def call(self, kind: str, place: str, do, *arguments, **options):
        """Do what was asked for, unless it is this call's turn to go wrong."""
        if not self.is_watched:
            return do(*arguments, **options)
        self.made.append((kind, place))
        if kind == "write" and place == self._full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if len(self.made) - 1 != self.number:
            return do(*arguments, **options)
        what, _, moment = self.act.partition(" ")
        if hasattr(errno, what):
            raise OSError(getattr(errno, what), os.strerror(getattr(errno, what)), place)
        if what == "HALF":  # a disk that is just full takes a part
            self._full = place
            *others, content = arguments
            return do(*others, bytes(content)[: len(content) // 2])
        if moment == "before":
            _signalled(what)
        try:
            return do(*arguments, **options)
        finally:
            if moment == "after":
                _signalled(what)


def _signalled(name: str) -> None:
    os.kill(os.getpid(), signal.Signals["SIG" + name])
    files._ending.wait(60)  # the main thread has heard it


_calls = _Calls()
_open, _os = builtins.open, {name: getattr(os, name) for name in ("open", "write")}


class _File(io.FileIO):
    """A file of which reading and writing are calls."""

    _shown_name = ""

    def readinto(self, target):
        return _calls.call("read", self._shown_name, super().readinto, target)

    def write(self, data):
        return _calls.call("write", self._shown_name, super().write, data)


def _watch(folder: str) -> None:
    """From now on count the calls that concern the folder, which is the current one."""

    def is_inside(path) -> bool:
        return not isinstance(path, int) and os.path.abspath(os.fsdecode(path)).startswith(folder)

    def opened(path, mode="r", *arguments, **options):
        if not is_inside(path) or "b" not in mode:
            return _open(path, mode, *arguments, **options)
        file = _calls.call("open", path, _File, path, mode.replace("b", ""))
        file._shown_name = os.fsdecode(path)
        if options.get("buffering") == 0:
            return file
        kind = io.BufferedReader if mode == "rb" else io.BufferedWriter
        return (io.BufferedRandom if "+" in mode else kind)(file)

    def watched(name: str, kind: str) -> None:
        do = getattr(os, name)

        def call(first, *arguments, **options):
            if not isinstance(first, int) and not is_inside(first):
                return do(first, *arguments, **options)
            return _calls.call(kind, str(first), do, first, *arguments, **options)

        setattr(os, name, call)

    builtins.open = opened
    for name, kind in _CALLS.items():
        watched(name, kind)
    _calls.is_watched = True


assert "odmtool.io.files" not in sys.modules
io.FileIO = _File

from odmtool.cli import entry, process  # noqa: E402
from odmtool.io import files  # noqa: E402
from odmtool.search import journal  # noqa: E402

# Every line is synchronised, so that the number of calls does not depend on the clock.
journal._SYNC_SECONDS = -1.0

_SIGNALS = ("INT", "TERM", "HUP", "KILL")
_MOMENTS = tuple(f"{name} {moment}" for name in _SIGNALS for moment in ("before", "after"))
_CALLS = {"open": "open", "write": "write", "fsync": "fsync", "replace": "rename",
          "unlink": "unlink"}  # fmt: skip
_ACTS = {
    "open": ("ENOSPC", "EIO", "EMFILE", *_MOMENTS), "read": ("EIO", *_MOMENTS),
    "write": ("ENOSPC", "EIO", "HALF", *_MOMENTS), "fsync": ("ENOSPC", "EIO", *_MOMENTS),
    "rename": ("ENOSPC", "EIO", "EINTR", *_MOMENTS), "unlink": ("EIO", "EINTR", *_MOMENTS),
}  # fmt: skip
_ROWS = b"1 1:1 2:.5\n-1 1:-1 3:1\n1 1:2 2:1\n-1 2:-3\n" * 2
_STREAMS = {1: "stdout", 2: "stderr"}
_LONGEST_SECONDS = 120
_OLD = b"an old file\n"
_SECONDS = re.compile(rb'("(?:seconds|reading|training|writing|compiling)": )[0-9.e+-]+')
# Gaps that are rounding only, which depends on where a fit started.
_GAP = re.compile(rb"[0-9.]+e-[1-3][0-9]")


class Scenario(NamedTuple):
    """A command and its products, in the order in which they take their places."""

    words: str
    products: str = ""
    journal: str | None = None


SCENARIOS = {
    "train": Scenario("odm-train rows m --margins g --json j", "m g j"),
    "rbf": Scenario("odm-train -t rbf -g 1 rows m --json j", "m j"),
    "stdout": Scenario("odm-train rows - --json j", "- j"),
    "disk": Scenario("odm-train -l 1 --cache . rows m --json j", "m j"),
    "kept": Scenario("odm-train -l 1 --cache . --keep-cache rows m", "m"),
    "predict": Scenario("odm-predict rows model o --margins g --json j", "o g j"),
    "service": Scenario("odm-predict rows model - -d --json j", "- j"),
    "cv": Scenario("odm-cv -l 1,4 -v 2 rows --journal n --csv c --json j -o m", "c j m", "n"),
    "splits": Scenario("odm-cv -l 1 -v 2 --repeat 2 rows --csv c --json j", "c j"),
    "scale": Scenario("odm-scale -s s rows -o o", "o s"),
    "ranges": Scenario("odm-scale -s s rows", "s -"),
}


class Ended(NamedTuple):
    """What a command left: its status, both streams, and the files of its folder."""

    status: int
    out: bytes
    err: str
    files: dict[str, bytes]


class Faults:
    """One call of one command goes wrong; ``judge`` says whether the command went on."""

    weight, separator = 2, None

    def __init__(self, folder: Path):
        folder.mkdir(exist_ok=True)
        self._folder, self._around = folder / "faults", folder
        self._start = {"rows": _ROWS, "model": b""}
        whole = self._run(Scenario("odm-train rows model", "model"))
        assert whole.status == 0, whole.err
        self._start["model"] = whole.files["model"]
        self._calls, self._whole = {}, {}
        for name, scenario in SCENARIOS.items():
            self._in_this_process(scenario)  # what is compiled or imported here, forks have
            self._whole[name] = self._run(scenario)
            assert self._whole[name].status == 0, self._whole[name]
            self._calls[name] = json.loads((folder / "calls").read_text())
        self._every = [
            (name, number, act) for name, calls in self._calls.items()
            for number, (kind, _) in enumerate(calls) for act in _ACTS[kind]
        ]  # fmt: skip

    def draw(self, generator: random.Random) -> bytes:
        """A scenario, the number of a call, and what happens there."""
        return ", ".join(map(str, generator.choice(self._every))).encode()

    def judge(self, content: bytes) -> bool:
        name, number, act = content.decode().split(", ")
        kind, _ = self._calls[name][int(number)]
        ended = self._run(SCENARIOS[name], int(number), act)
        self.check(name, ended, kind, act)
        return ended.status == 0

    def check(self, name: str, ended: Ended, kind: str, act: str) -> None:
        """Raise AssertionError unless what is left is as it should be."""
        scenario, whole = SCENARIOS[name], self._whole[name]
        products = scenario.products.split()
        for file in self._start:
            assert ended.files.pop(file) == self._start[file], (file, "was changed")
        temporary = [file for file in ended.files if files._TEMPORARY.fullmatch(file)]
        is_new = []
        for product in products:
            if product == "-":
                assert whole.out.startswith(ended.out), ended
                is_new.append(ended.out == whole.out)
                continue
            content = _known(ended.files[product])
            is_new.append(content != _OLD)
            assert content in (_OLD, _known(whole.files[product])), (product, ended)
        kept = [new for new, product in zip(is_new, products, strict=True) if product != "-"]
        assert kept == sorted(kept, reverse=True), ("order", ended)
        caches = [file for file in ended.files if file.endswith(".odmcache")]
        assert not caches or "--keep-cache" in scenario.words
        others = ended.files.keys() - {*products, *temporary, *caches, scenario.journal}
        assert not others, others
        assert "Traceback" not in ended.err and "internal error" not in ended.err, ended.err
        self._check_end(scenario, ended, act, dict(zip(products, is_new, strict=True)))
        was_killed = act.startswith("KILL")
        assert not temporary or was_killed or kind == "unlink", temporary
        if was_killed or temporary or scenario.journal or caches:
            self._check_again(name, temporary)

    def _check_end(self, scenario, ended: Ended, act: str, is_new: dict[str, bool]) -> None:
        what, last = act.partition(" ")[0], (ended.err.splitlines() or [""])[-1]
        program = scenario.words.split()[0]
        if what == "KILL":
            assert ended.status == -signal.SIGKILL, ended
        elif what in _SIGNALS:
            number = signal.Signals["SIG" + what]
            changed = [f"./{file}" for file in ended.files if file.endswith(".odmcache")]
            changed += [name for name, new in is_new.items() if new and name != "-"]
            if re.search(r" but the journal\b", last):
                changed.insert(0, "the journal")
            but = " but " + ", ".join(changed) if changed else ""
            sentence = f"{program}: {process._SENTENCES[number]}; no file{but} was changed"
            assert (ended.status, last) == (process.EXIT_CODES[number], sentence), ended
        elif ended.status == 0:
            assert all(is_new.values()), ended
        else:
            reason = os.strerror(errno.ENOSPC if what == "HALF" else getattr(errno, what))
            pattern = rf"{program}: (\S+): cannot be (?:read|written): {re.escape(reason)}"
            match = re.fullmatch(pattern, last)
            assert ended.status == 1 and match, ended
            assert not is_new.get("-" if match[1] == "stdout" else match[1]), ended

    def _check_again(self, name: str, temporary: list[str]) -> None:
        """The same command goes on, and removes what is left, once that is a minute old."""
        for file in temporary:
            os.utime(self._folder / file, (0, 0))
        again, whole = self._run(SCENARIOS[name], keep=True), self._whole[name]
        assert again.status == 0, again
        for file, content in whole.files.items():
            if file != SCENARIOS[name].journal and not file.endswith(".odmcache"):
                found, wanted = (_known(part) for part in (again.files[file], content))
                # A search that goes on starts some of its fits elsewhere.
                assert _GAP.sub(b"", found) == _GAP.sub(b"", wanted), (file, again)
        assert again.files.keys() == whole.files.keys(), again

    # ---- a command in a fork of this process -----------------------------------

    def _prepare(self, scenario: Scenario) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        olds = dict.fromkeys(scenario.products.split(), _OLD)
        olds.pop("-", None)
        for file, content in (olds | self._start).items():
            (self._folder / file).write_bytes(content)

    def _in_this_process(self, scenario: Scenario) -> None:
        self._prepare(scenario)
        here, out, err = os.getcwd(), sys.stdout, sys.stderr
        os.chdir(self._folder)
        try:
            sys.stdout = io.TextIOWrapper(io.BytesIO())
            sys.stderr = io.StringIO()
            program, *arguments = scenario.words.split()
            code = entry.run(_command(program), arguments, program)
            assert code == 0, sys.stderr.getvalue()
        finally:
            sys.stdout, sys.stderr = out, err
            os.chdir(here)

    def _run(self, scenario: Scenario, number: int = -1, act: str = "", keep=False) -> Ended:
        if not keep:
            self._prepare(scenario)
        child = os.fork()
        if child == 0:
            _calls.number, _calls.act = number, act
            self._be(scenario)
        status = self._accompany(child)
        left = {file.name: file.read_bytes() for file in self._folder.iterdir()}
        out, err = ((self._around / name).read_bytes() for name in _STREAMS.values())
        return Ended(os.waitstatus_to_exitcode(status), out, err.decode(), left)

    def _begin(self) -> None:
        """What a child does before its command."""

    def _accompany(self, child: int) -> int:
        """Wait until a child ends."""
        return os.waitpid(child, 0)[1]

    def _be(self, scenario: Scenario) -> None:
        """The command, in this process, which ends."""
        status = 99
        try:
            os.chdir(self._folder)
            sys.stdout, sys.stderr = (self._stream(n, name) for n, name in _STREAMS.items())
            for number in process.EXIT_CODES:
                signal.signal(number, signal.SIG_DFL)
            signal.alarm(_LONGEST_SECONDS)
            # What the process that was forked has written is not of this command.
            files._replaced_names.clear()
            journal.in_use = False
            sys.argv = scenario.words.split()
            process.prepare(sys.argv[0])
            _watch(os.getcwd())
            self._begin()
            entry.main(_command(sys.argv[0]), sys.argv[0])
        except SystemExit as stop:
            status = stop.code
        finally:
            _calls.is_watched = False
            if _calls.number < 0:
                _os["write"](self._around_file("calls"), json.dumps(_calls.made).encode())
            os._exit(status)

    def _stream(self, descriptor: int, name: str):
        os.dup2(self._around_file(name), descriptor)
        raw = _File(descriptor, "w", closefd=False)
        raw._shown_name = name
        is_error = name == "stderr"
        return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", line_buffering=is_error)

    def _around_file(self, name: str) -> int:
        return _os["open"](self._around / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)


def _known(content: bytes) -> bytes:
    """What is the same whenever the command runs."""
    return _SECONDS.sub(rb"\1", content)


def _command(program: str):
    name = program.partition("-")[2]
    return getattr(import_module(f"odmtool.cli.{name}"), name)
