"""Too little address space, as batch systems give it: one sentence, and no trace."""

import re
import subprocess
import sys

import pytest

resource = pytest.importorskip("resource")

# OpenBLAS ends a process by itself when it cannot allocate, and so does, seldom, the C library.
_SAID = re.compile(r"odm\S+: out of memory.*\n|OpenBLAS error: .*\n")
_OF_THREADS = (127, "cannot allocate memory for thread-local data: ABORT\n")


@pytest.mark.parametrize("megabytes", [60, 120, 160, 200, 300])
@pytest.mark.parametrize("options", [["train"], ["train", "--solver", "dcd", "-t", "rbf"]])
def test_little_address_space_is_one_sentence(heart, tmp_path, options, megabytes):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20,) * 2)

    model = tmp_path / "model"
    found = subprocess.run(
        [sys.executable, "-m", "odmtool", *options, "-q", heart, str(model)],
        preexec_fn=limit, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if found.returncode == 0:
        assert megabytes > 60 and model.exists() and found.stderr == ""
    else:
        is_said = found.returncode == 1 and _SAID.fullmatch(found.stderr)
        assert is_said or (found.returncode, found.stderr) == _OF_THREADS, found.stderr
        assert list(tmp_path.iterdir()) == []
