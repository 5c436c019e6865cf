"""Every line of docs/python.md and of README's Python is run, and its output compared."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from stock import PROGRAMS, program

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = ("train", "predict", "cv", "scale")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the data, and the commands of this Python on the path."""
    monkeypatch.chdir(tmp_path)
    for name in ("data", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    scripts = tmp_path / "bin"
    scripts.mkdir()
    for name in COMMANDS:
        line = f"from odmtool.cli import {name}_main; {name}_main()"
        _executable(scripts / f"odm-{name}", f"#!{sys.executable}\n{line}\n")
    _executable(scripts / "python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for name in PROGRAMS:
        (scripts / name).symlink_to(program(name))
    # The process that serves shall not need scikit-learn.
    (tmp_path / "sklearn.py").write_text("raise ImportError\n")
    monkeypatch.setenv("PATH", f"{scripts}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def _executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def run_shell(text: str) -> None:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, expected), (command, done.stderr)


def run_python(text: str, names: dict, page: str) -> None:
    examples = doctest.DocTestParser().get_doctest(text, names, page, None, None)
    runner = doctest.DocTestRunner()
    report: list[str] = []
    runner.run(examples, out=report.append, clear_globs=False)
    names.update(examples.globs)
    assert examples.examples and not runner.failures, "".join(report)


@pytest.mark.parametrize("page", ["docs/python.md", "README.md"])
def test_the_page_is_true(folder, page):
    names: dict = {}
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    for language, text in blocks:
        if language == "console":
            run_shell(text)
        elif text.startswith("# serve.py"):
            Path("serve.py").write_text(text)
        else:
            run_python(text, names, page)
    assert blocks
