"""``kill -9`` at random moments: ``python tests/fuzz/kills.py --kills 100``.

Every command is started in a session of its own and killed somewhere between its first moment and
the time that it takes; or one of its workers is, and then the command goes on, or ends with 1 and
one sentence. Five seconds later no process of that session may be left, nor one that has the
environment of the command. No product may be torn. What is left on the disk is made a minute old,
and must be gone after the next run of the same commands. Linux only: it looks into /proc.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SECONDS = 5.0
_ROWS, _REPEATS = 3000, 20
_MARK = "ODMTOOL_KILL"
_WITH_WORKERS = ("odm-train -v 3 -j 2", "odm-cv -j 2")
_MODULE = "from odmtool.cli import {0}_main; {0}_main()"

COMMANDS = {
    "odm-train": ("train", "-t", "rbf", "data", "trained"),
    "odm-train -v 3 -j 2": ("train", "-v", "3", "-j", "2", "-t", "rbf", "--max-iter", "3", "data"),
    "odm-cv -j 2": ("cv", "-j", "2", "-v", "3", "-t", "rbf", "-l", "1,2^4", "-g", "0.1,1",
                    "--journal", "journal", "--csv", "table", "-o", "best", "small"),
    "odm-scale": ("scale", "-q", "-s", "ranges", "-o", "scaled", "long"),
    "odm-predict": ("predict", "-q", "long", "model", "predicted"),
}  # fmt: skip


class Killed(NamedTuple):
    """A command that was killed: its name, its process, and the moment."""

    name: str
    pid: int
    at: float


def main() -> int:
    """Kill, look, count; 1 if anything is left."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chosen = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        lasts = {name: seconds_of(name, folder) for name in COMMANDS}
        for name, seconds in lasts.items():
            print(f"{name}: {seconds:.2f} s", flush=True)
        killed, ended, survivors = kill(options.kills, lasts, folder, chosen)
        for name in COMMANDS:
            print(f"{name}: {killed[name]} killed, {ended[name]} had ended, "
                  f"{survivors[name]} processes left after {SECONDS:g} s", flush=True)  # fmt: skip
        workers = kill_workers(options.kills // 5, lasts, folder, chosen)
        torn = torn_products(folder)
        left, after = leftovers(folder), clean(folder)
    print(f"workers killed: {workers['went on']} commands went on, {workers['ended']} ended with a "
          f"sentence, {workers['wrong']} otherwise")  # fmt: skip
    print(f"{killed.total()} kills, {survivors.total()} processes left, {len(torn)} products torn; "
          f"{len(left)} temporary files, {len(after)} after the next run")  # fmt: skip
    return int(bool(survivors.total() or workers["wrong"] or torn or after))


def prepare(folder: str) -> None:
    """Data that keep every command busy for a moment, and a model."""
    generator = random.Random(0)
    rows = []
    for _ in range(_ROWS):
        x = [generator.gauss(0, 1) for _ in range(20)]
        label = 1 if x[0] + x[1] * x[2] + generator.gauss(0, 0.3) > 0 else -1
        rows.append(f"{label} " + " ".join(f"{j}:{v:.6f}" for j, v in enumerate(x, 1)) + "\n")
    Path(folder, "data").write_text("".join(rows))
    Path(folder, "long").write_text("".join(rows) * _REPEATS)
    Path(folder, "small").write_text("".join(rows[:600]))
    subprocess.run(command("train", "-q", "-t", "rbf", "data", "model"), cwd=folder,
                   env=environment(), check=True)  # fmt: skip


def command(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", _MODULE.format(name), *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def start(name: str, folder: str, mark: str, stderr=subprocess.DEVNULL) -> subprocess.Popen:
    return subprocess.Popen(
        command(*COMMANDS[name]), cwd=folder, env=environment() | {_MARK: mark},
        stdout=subprocess.DEVNULL, stderr=stderr, text=True, start_new_session=True,
    )  # fmt: skip


def seconds_of(name: str, folder: str) -> float:
    """What an undisturbed second run takes: all is compiled then."""
    start(name, folder, "none").wait()
    begin_again(folder)
    began = time.monotonic()
    code = start(name, folder, "none").wait()
    if code:
        raise SystemExit(f"{name} ends with {code}")
    return time.monotonic() - began


def kill(count: int, lasts: dict[str, float], folder: str, chosen) -> tuple[Counter, ...]:
    """Kill ``count`` commands: how many were alive, how many not, and the processes left."""
    killed, ended, survivors, waiting = Counter(), Counter(), Counter(), []
    names = list(COMMANDS)
    while killed.total() < count or waiting:
        if killed.total() < count:
            name = names[killed.total() % len(names)]
            process = start(name, folder, mark=f"{os.getpid()}")
            time.sleep(chosen.uniform(0, lasts[name]))
            is_alive = process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()
            (killed if is_alive else ended)[name] += 1
            if not is_alive:
                begin_again(folder)
            if is_alive:
                waiting.append(Killed(name, process.pid, time.monotonic()))
        else:
            time.sleep(max(0.0, waiting[0].at + SECONDS - time.monotonic()))
        while waiting and time.monotonic() >= waiting[0].at + SECONDS:
            one = waiting.pop(0)
            left = processes_of(one.pid)
            for pid, words in left.items():
                print(f"left of {one.name}: {pid} {words}", flush=True)
            survivors[one.name] += len(left)
    time.sleep(SECONDS)
    # Who left the session of its command still has its environment.
    survivors["any"] += len(marked(f"{_MARK}={os.getpid()}"))
    return killed, ended, survivors


def begin_again(folder: str) -> None:
    """Without its journal a search has everything to do."""
    Path(folder, "journal").unlink(missing_ok=True)


def kill_workers(count: int, lasts: dict[str, float], folder: str, chosen) -> Counter:
    """Kill a worker of commands that have some, and look how they end."""
    found = Counter()
    while found.total() < count:
        name = _WITH_WORKERS[found.total() % len(_WITH_WORKERS)]
        begin_again(folder)
        process = start(name, folder, mark="none", stderr=subprocess.PIPE)
        time.sleep(chosen.uniform(0, lasts[name]))
        workers = sorted(processes_of(process.pid).keys() - {process.pid})
        if workers:
            os.kill(chosen.choice(workers), signal.SIGKILL)
        said = process.communicate()[1].splitlines()
        if not workers:
            continue
        is_sentence = process.returncode == 1 and sum("odm-" in line for line in said) == 1
        how = "went on" if process.returncode == 0 else "ended" if is_sentence else "wrong"
        found[how] += 1
        if how == "wrong":
            print(f"{name} with a worker killed: {process.returncode} {said}", flush=True)
    return found


def processes_of(session: int) -> dict[int, str]:
    """The processes of a session that run, and their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            state, _, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(of) == session and state not in "ZX":
                found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")[:200]
        except (OSError, ValueError):
            continue
    return found


def marked(mark: str) -> list[int]:
    """The processes with this line in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


def torn_products(folder: str) -> list[str]:
    """Products that are there and not whole."""
    sys.path.insert(0, str(ROOT))
    from odmtool.errors import OdmError
    from odmtool.io.model_file import read_model
    from odmtool.io.range_file import read_range

    torn, rows = [], {"scaled": _ROWS * _REPEATS, "predicted": _ROWS * _REPEATS, "table": 5}
    for name, read in {"trained": read_model, "best": read_model, "ranges": read_range}.items():
        try:
            read(str(Path(folder, name)))
        except OdmError as error:
            torn.append(f"{name}: {error}")
    for name, count in rows.items():
        if Path(folder, name).read_text().count("\n") != count:
            torn.append(name)
    for text in torn:
        print(f"torn: {text}", flush=True)
    return torn


def leftovers(folder: str) -> list[Path]:
    return sorted(Path(folder).glob(".odmtool-*"))


def clean(folder: str) -> list[Path]:
    """What is left on the disk after a run of every command when it is more than a minute old."""
    for path in leftovers(folder):
        os.utime(path, (time.time() - 120,) * 2)
    for name in COMMANDS:
        start(name, folder, "none").wait()
    return leftovers(folder)


if __name__ == "__main__":
    sys.exit(main())
