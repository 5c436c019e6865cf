"""odm-predict as a service: an answer for every row when it has arrived, also without labels."""

import os
import select
import subprocess

import pytest


@pytest.fixture
def model(run, heart):
    assert run("train", "-q", heart, "m").code == 0
    return "m"


def test_comments_are_no_rows(run, model, tmp_path):
    """Neither in a file without labels, nor for knowing whether there are some."""
    (tmp_path / "t").write_text("# 1:1 first\n1:1\n\n  # more\n2:1 # end\n")
    assert run("predict", "t", "m", "o").code == 0
    assert len((tmp_path / "o").read_text().split()) == 3
    (tmp_path / "t").write_text("1#x:y\n-1 1:-1\n")
    assert run("predict", "t", "m", "o").out.startswith("Accuracy = ")


def test_a_row_is_answered_before_the_next_one_is_sent(run, start, heart, model):
    with open(heart) as stream:
        rows = stream.readlines()[:3]
    process = start("predict", "-", model, "-", stdin=subprocess.PIPE)
    answers = []
    for row in rows:
        process.stdin.write(row.encode())
        process.stdin.flush()
        answers.append(process.stdout.readline())
    process.stdin.close()
    process.stdin = None
    assert process.stdout.read() == b"" and process.wait() == 0
    run("predict", heart, model, "o")
    with open("o", "rb") as stream:
        assert answers == stream.readlines()[:3]


@pytest.mark.parametrize("row", [b"1:2\n", b"1\n"])
def test_a_first_row_shorter_than_the_mark_of_a_compressed_file_is_answered(start, model, row):
    process = start("predict", "-", model, "-", stdin=subprocess.PIPE)
    process.stdin.write(row)
    process.stdin.flush()
    # Without an answer the row that comes later would be none, too.
    assert select.select([process.stdout], [], [], 60)[0] and process.stdout.readline()


def test_rows_without_labels(run, heart, model, tmp_path):
    with open(heart) as stream:
        rows = [line.partition(" ")[2] for line in stream]
    (tmp_path / "u").write_text("# no labels\n" + "".join(rows))
    labelled = run("predict", "-d", heart, model, "-").out.splitlines()
    outcome = run("predict", "-d", "u", model, "o")
    assert outcome.code == 0 and outcome.out == "" and "no accuracy" in outcome.err
    found = (tmp_path / "o").read_text().splitlines()
    assert found == labelled
    for wish in (["--report"], ["--json", "j"], ["--margins", "x"]):
        refused = run("predict", *wish, "u", model, "p")
        assert refused.code == 1 and f"{wish[0]} compares predictions" in refused.err
        assert not os.path.exists("p")


def test_a_label_among_rows_without_is_one_sentence(run, model, tmp_path):
    (tmp_path / "u").write_text(" 1:1\n\n# 1 2:3\n2:1 # 1\n1 2:1\n1:1\n")
    outcome = run("predict", "u", model, "-")
    assert outcome.code == 1 and "u:5: " in outcome.err and "begins with '1'" in outcome.err


def test_what_has_arrived_is_a_block_and_a_torn_line_waits(tmp_path):
    from odmtool.io.svmlight import AT_ONCE, iter_svmlight

    path = tmp_path / "fifo"
    os.mkfifo(path)
    # Both ends in this process: what is read is what was written so far.
    end = os.open(path, os.O_RDWR)
    blocks = iter_svmlight(str(path), block_bytes=AT_ONCE)
    os.write(end, b"1 1:1 2:2\n-1 1:3")
    assert next(blocks).labels.tolist() == [1]
    os.write(end, b" 2:4\n1 1:5\n")
    assert next(blocks).labels.tolist() == [-1, 1]
    os.close(end)
