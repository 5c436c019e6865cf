"""Scripts for the stock tools: they run with them, and, their names changed, with ours."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "scripts"
NAMES = {"liblinear-train": "odm-train", "liblinear-predict": "odm-predict",
         "svm-train": "odm-train", "svm-predict": "odm-predict", "svm-scale": "odm-scale",
         "svm-grid": "odm-cv"}  # fmt: skip
RESULT = re.compile(r"C=([\d.e-]+) cv=([\d.]+)%? test=([\d.]+) rows=9[01]\n")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A folder with our commands, and with the python that svm-grid asks for by that name."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "python").symlink_to(sys.executable)
    for name in set(NAMES.values()):
        path = folder / name
        main = name.partition("-")[2]
        path.write_text(f"#!{sys.executable}\nfrom odmtool.cli import {main}_main\n{main}_main()\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return folder


def result(folder, script, programs):
    """What a script ends with, run in this folder on two thirds of heart_scale."""
    command = ["sh", script.name, "train", "test"]
    if script.suffix == ".mk":
        command = ["make", "-s", "-f", script.name, "TRAIN=train", "TEST=test"]
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    text = (folder / "result").read_text() if script.suffix == ".mk" else done.stdout
    found = RESULT.fullmatch(text)
    assert found, text
    return [float(number) for number in found.groups()]


@pytest.mark.parametrize("name", ["liblinear.sh", "easy.sh", "search.mk"])
@pytest.mark.parametrize("is_ours", [False, True])
def test_script(tmp_path, heart, programs, name, is_ours):
    text = (SCRIPTS / name).read_text()
    used = [program for program in NAMES if program in text]
    if is_ours:
        for program in used:
            text = text.replace(program, NAMES[program])
    elif missing := [program for program in used if shutil.which(program) is None]:
        if os.environ.get("ODMTOOL_REQUIRE_STOCK") == "1":
            pytest.fail(f"{missing} are not installed")
        pytest.skip(f"{missing} are not installed")
    (tmp_path / name).write_text(text)
    rows = Path(heart).read_text().splitlines(keepends=True)
    (tmp_path / "train").write_text("".join(rows[:180]))
    (tmp_path / "test").write_text("".join(rows[180:]))
    cost, cv, test = result(tmp_path, tmp_path / name, programs)
    # As good as it should be: a model of nothing has 56 % or 44 %.
    assert cost > 0 and cv > 75 and test > 70
