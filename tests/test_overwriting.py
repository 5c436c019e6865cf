"""What is read is never written over, under whichever of its names, and products do not mix."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_no_input_is_ever_written_over(run, heart, tmp_path):
    data = tmp_path / "data"
    data.write_bytes(Path(heart).read_bytes())
    (tmp_path / "link").symlink_to("data")
    (tmp_path / "weights").write_text("1\n" * 270)
    before = data.read_bytes()
    for command, arguments in [
        ("train", ["data", "data"]), ("train", ["data", "link"]), ("train", ["link", "data"]),
        ("train", ["--json", "data", "data", "m"]), ("train", ["--json", "m", "data", "m"]),
        ("train", ["--json", "-", "data", "-"]), ("train", ["-W", "weights", "data", "weights"]),
        ("cv", ["--csv", "data", "data"]), ("cv", ["-o", "link", "data"]),
        ("cv", ["--csv", "x", "--json", "x", "data"]), ("cv", ["--journal", "data", "data"]),
    ]:  # fmt: skip
        outcome = run(command, *arguments)
        assert outcome.code == 2 and outcome.err.count("\n") == 1
    assert data.read_bytes() == before
    assert (tmp_path / "weights").read_text() == "1\n" * 270


FROM_STDIN = [
    *(("d", f"predict {rest}") for rest in ("- m d", "- m d2", "--json d - m o",
                                            "--margins d2 - m o")),
    ("d", "margins --csv d - m"),
    *(("d", f"train {rest}") for rest in ("- d", "--json d - o", "--json d2 -v 2 -")),
    *(("d", f"cv {rest}") for rest in ("--csv d -", "-o d2 -", "--journal d -")),
    ("d", "scale -s d -"), ("d", "scale -s d2 -"), ("r", "scale -r - -o r d"),
    ("m", "predict d - m"), ("m", "predict --json m2 d - o"), ("m", "margins --csv m d -"),
    ("w", "train --weights - d w"), ("m", "train --from - --json m d o"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "command"), FROM_STDIN)
def test_the_file_that_is_stdin_is_not_replaced(run, tmp_path, file, command):
    """``- < FILE``, also by another of its names."""
    for name in "dmrw":
        (tmp_path / name).write_text("as it was")
        os.link(tmp_path / name, tmp_path / f"{name}2")
    kept = os.dup(0)
    with open(tmp_path / file) as stream:
        os.dup2(stream.fileno(), 0)
    try:
        outcome = run(*command.split())
    finally:
        os.dup2(kept, 0)
        os.close(kept)
    assert outcome.code == 2 and "name another" in outcome.err and outcome.err.count("\n") == 1
    assert all((tmp_path / name).read_text() == "as it was" for name in "dmrw")


@pytest.mark.parametrize("command", [
    "predict d m -", "predict - m -", "predict d m /dev/stdout", "predict m d -", "scale d",
    "scale -r r d", "scale -o - -", "scale -r d r", "train d -", "cv --csv - d",
    "margins --csv - d m",
])  # fmt: skip
def test_the_file_that_is_stdout_is_not_read(heart, tmp_path, command):
    """``FILE >> FILE`` would read what it writes, without an end."""
    for name in "dmr":
        (tmp_path / name).write_text(Path(heart).read_text())
    with open(tmp_path / "d", "ab") as output, open(tmp_path / "d") as stdin:
        program = [sys.executable, "-m", "odmtool", *command.split()]
        done = subprocess.run(
            program, cwd=tmp_path, stdin=stdin, stdout=output, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2 and "name another" in done.stderr, done.stderr
    assert ": -:" not in done.stderr
    is_scaled = command in ("scale d", "scale -r r d", "scale -o - -")
    assert ("or write -o FILE, which may be that file" in done.stderr) == is_scaled
    assert (tmp_path / "d").read_text() == Path(heart).read_text()


@pytest.mark.parametrize("command", [
    "cv --csv - --json f d", "scale -s f d", "predict d m f --json -", "predict d m - --json f",
    "train --json f d -",
])  # fmt: skip
def test_a_file_does_not_replace_that_of_stdout(heart, tmp_path, command):
    """What was printed to ``> FILE`` would be gone."""
    for name in "dm":
        (tmp_path / name).write_text(Path(heart).read_text())
    with open(tmp_path / "f", "wb") as output:
        program = [sys.executable, "-m", "odmtool", *command.split()]
        done = subprocess.run(
            program, cwd=tmp_path, stdout=output, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2 and "name another" in done.stderr, done.stderr


@pytest.mark.parametrize("option", ["--json", "--margins", "--trace"])
def test_the_model_that_a_training_starts_from_is_replaced_by_a_model_only(run, heart, option):
    assert run("train", "-q", heart, "m").code == 0
    before = Path("m").read_text()
    outcome = run("train", "--from", "m", option, "m", heart, "n")
    assert outcome.code == 2 and "name another one" in outcome.err
    assert Path("m").read_text() == before and not Path("n").exists()
    assert run("train", "-q", "--from", "m", heart, "m").code == 0


def test_products_do_not_mix(run, heart, tmp_path):
    """``-`` and ``/dev/stdout`` are one place, and a range file that is read is not written."""
    for arguments in (
        ("train", heart, "-", "--json", "/dev/stdout"), ("train", heart, "/dev/fd/7", "--json",
        "/dev/fd/7"), ("cv", heart, "--csv", "/dev/stdout", "-o", "-"), ("scale", "-s",
        "/dev/stdout", heart),
    ):  # fmt: skip
        outcome = run(*arguments)
        assert outcome.code == 2 and "can be named only once" in outcome.err
        assert outcome.out == ""
    run("scale", "-s", "ranges", "-o", "scaled", heart)
    before = (tmp_path / "ranges").read_text()
    outcome = run("scale", "-r", "ranges", "-o", "./ranges", heart)
    assert outcome.code == 2 and "-r 'ranges' would be overwritten" in outcome.err
    assert (tmp_path / "ranges").read_text() == before
    # What scripts parse goes where it does not mix with a product.
    run("train", heart, "m")
    outcome = run("predict", heart, "m", "/dev/stdout")
    assert outcome.code == 0 and "Accuracy = " in outcome.err and "Accuracy" not in outcome.out
