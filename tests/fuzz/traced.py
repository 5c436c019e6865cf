"""The same faults made by strace, in the calls that the system really gets.

Of the thread that does the work the n-th call of a kind fails, or brings a signal.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

from fuzz.faults import SCENARIOS, Faults

_CALLS = {"open": "openat", "write": "write", "fsync": "fsync", "rename": "rename",
          "unlink": "unlink"}  # fmt: skip
_ERRORS = ("ENOSPC", "EIO", "EINTR")
_SIGNALS = ("INT", "TERM", "HUP", "KILL")
# Beside the files of the command the system's are opened, too.
_MORE_OPENED = 6


class Traced(Faults):
    """``judge`` says whether the command went on."""

    weight, separator = 1, None

    def __init__(self, folder: Path):
        self._injection, self._trace = None, folder / "trace"
        super().__init__(folder / "traced")

    @staticmethod
    def obstacle() -> str | None:
        """Why there are no such faults here; None if there are.

        A system may let a process look at its own children only (ptrace_scope), or at none, as
        in many containers.
        """
        if shutil.which("strace") is None:
            return "strace is missing"
        with subprocess.Popen(["sleep", "60"]) as other:
            command = ["strace", "-o", os.devnull, "-p", str(other.pid)]
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
                said = strace.stderr.readline()
                other.kill()
                strace.stderr.read()
        return None if "attached" in said else said.strip() or "strace says nothing"

    def draw(self, generator: random.Random) -> bytes:
        """A scenario, a kind of call, which one of these, and what happens there."""
        name = generator.choice(list(SCENARIOS))
        kind = generator.choice(list(_CALLS))
        made = Counter(made for made, _ in self._calls[name])[kind]
        number = generator.randint(1, made + _MORE_OPENED * (kind == "open"))
        return f"{name}, {kind}, {number}, {generator.choice(_ERRORS + _SIGNALS)}".encode()

    def judge(self, content: bytes) -> bool:
        name, kind, number, act = content.decode().split(", ")
        what = f"error={act}" if act in _ERRORS else f"signal=SIG{act}"
        self._injection = f"{_CALLS[kind]}:{what}:when={number}"
        try:
            ended = self._run(SCENARIOS[name], 10**9)
        finally:
            self._injection = None
        trace = self._trace.read_text(errors="replace")
        if not re.search(r"\(INJECTED\)|--- SIG(INT|TERM|HUP) |killed by SIGKILL", trace):
            act = ""  # there was no such call
        self.check(name, ended, kind, act)
        assert ended.status == 0 or act != "EINTR" or kind in ("rename", "unlink"), ended
        return ended.status == 0

    def _begin(self) -> None:
        if self._injection:
            os.kill(os.getpid(), signal.SIGSTOP)

    def _accompany(self, child: int) -> int:
        if not self._injection:
            return super()._accompany(child)
        os.waitpid(child, os.WUNTRACED)
        kinds = "trace=" + ",".join(_CALLS.values())
        command = ["strace", "-f", "-o", str(self._trace), "-e", kinds,
                   "-e", f"inject={self._injection}", "-p", str(child)]  # fmt: skip
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
            said = strace.stderr.readline()
            os.kill(child, signal.SIGCONT if "attached" in said else signal.SIGKILL)
            status = super()._accompany(child)
            strace.stderr.read()
        assert "attached" in said, said
        return status
