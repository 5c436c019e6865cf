"""Some thousand changed files and options, some faults; ``make soak`` goes on for half an hour."""

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parent / "fuzz" / "soak.py"
FILES = "data,compressed,models,stock,ranges,weights,journals,options"


@pytest.mark.parametrize("kinds, rounds, inputs", [(FILES, 6, 6030), ("faults,traced", 30, 60)])
def test_changed_inputs(tmp_path, kinds, rounds, inputs):
    command = [sys.executable, SOAK, "--kinds", kinds, "--rounds", str(rounds),
               "--processes", "1", "--keep", tmp_path / "findings"]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (total,) = (line.split() for line in ended.stdout.splitlines() if "in all" in line)
    assert int(total[2]) >= inputs and total[5] == "0" and not (tmp_path / "findings").exists()
