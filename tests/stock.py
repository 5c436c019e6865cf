"""The programs of LIBLINEAR and LIBSVM, for the tests in which they are the judges."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

# Debian's name first, then that of other installations.
PROGRAMS = {
    "liblinear-train": ("liblinear-train", "train"),
    "liblinear-predict": ("liblinear-predict", "predict"),
    "svm-train": ("svm-train", "libsvm-train"),
    "svm-predict": ("svm-predict", "libsvm-predict"),
}


def program(name: str) -> str:
    for candidate in PROGRAMS[name]:
        found = shutil.which(candidate)
        if found:
            return found
    if os.environ.get("ODMTOOL_REQUIRE_STOCK") == "1":
        pytest.fail(f"{name} is not installed")
    pytest.skip(f"{name} is not installed")


def run(name: str, *args: str) -> str:
    """Standard output of a stock program."""
    result = subprocess.run([program(name), *args], capture_output=True, text=True)
    assert result.returncode == 0, (args, result.stderr)
    return result.stdout


def percentage(output: str) -> str:
    return re.search(r"Accuracy = \S+% \(\d+/\d+\)", output).group()
