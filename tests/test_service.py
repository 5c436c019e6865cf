"""odm-predict as a service: an answer for every row when it has arrived, also without labels."""

import array
import fcntl
import os
import select
import subprocess
import termios

import pytest

from odmtool.errors import DataError
from odmtool.io import row_labels, svmlight
from odmtool.io.row_labels import RowLabels
from odmtool.io.svmlight import iter_svmlight


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


def test_a_client_opens_the_pipe_of_its_requests_first(start, model, tmp_path):
    """As with svm-predict; and the answer comes before the pipe is closed."""
    for name in ("in", "out"):
        os.mkfifo(tmp_path / name)
    start("predict", "--line-buffered", "in", model, "out")
    client = 'exec 3>in; exec 4<out; echo "1 1:0.5" >&3; read answer <&4; echo "$answer"'
    told = subprocess.run(["sh", "-c", client], cwd=tmp_path, timeout=60, capture_output=True)
    assert told.stdout in (b"1\n", b"-1\n")


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


def test_empty_lines_before_the_first_row_are_rows_whenever_they_come(run, start, model, tmp_path):
    text = b"\n# a comment\n \t\r\n1:0.5\n2:-3\n"
    (tmp_path / "u").write_bytes(text)
    expected = run("predict", "u", model, "-").out.encode()
    assert expected.count(b"\n") == 4
    process = start("predict", "--line-buffered", "-", model, "-", stdin=subprocess.PIPE)
    for cut in (1, 3, len(text)):  # each is read before the next one comes
        process.stdin.write(text[:cut])
        process.stdin.flush()
        text = text[cut:]
        while unread(process.stdin):
            assert process.poll() is None
    process.stdin.close()
    process.stdin = None
    assert process.stdout.read() == expected and process.wait() == 0


def unread(pipe) -> int:
    """Bytes that nobody has read."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def test_lines_before_the_first_row_count(tmp_path, monkeypatch):
    path = tmp_path / "u"
    for content, line, reason in (
        (b"\n\n\n1:1\n1:x\n", 5, "the value in '1:x' is not a number"),
        (b"\n\n\n1:x\n", 4, "the value in '1:x' is not a number"),
        (b"\n\n\n1:1\n3 1:1\n", 5, "a row begins with '3'"),
        (b"\n\n\n1 1:1\n3 x\n", 5, "expected index:value"),
        (b"\n\n\0", 3, "NUL"),
    ):
        path.write_bytes(content)
        for size in (1, 2, 3, 100):
            blocks = iter_svmlight(path, block_bytes=size, labels=RowLabels(may_miss=True))
            with pytest.raises(DataError, match=f":{line}: .*{reason}"):
                list(blocks)
    path.write_bytes(b"\n# \n\n")
    with pytest.raises(DataError, match="only blank lines"):
        list(iter_svmlight(path, block_bytes=1, labels=RowLabels(may_miss=True)))
    monkeypatch.setattr(row_labels, "_MOST_WITHOUT_A_ROW", 9)
    path.write_bytes(b"\n" * 30)
    monkeypatch.setattr(svmlight, "READ_BYTES", 5)
    with pytest.raises(DataError, match=":11: the first 9 bytes have no row"):
        list(iter_svmlight(path, block_bytes=svmlight.AT_ONCE, labels=RowLabels(may_miss=True)))


def test_a_label_among_rows_without_is_one_sentence(run, model, tmp_path):
    (tmp_path / "u").write_text(" 1:1\n\n# 1 2:3\n2:1 # 1\n1 2:1\n1:1\n")
    outcome = run("predict", "u", model, "-")
    assert outcome.code == 1 and "u:5: " in outcome.err and "begins with '1'" in outcome.err


def test_what_has_arrived_is_a_block_and_a_torn_line_waits(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    # Both ends in this process: what is read is what was written so far.
    end = os.open(path, os.O_RDWR)
    blocks = iter_svmlight(str(path), block_bytes=svmlight.AT_ONCE)
    os.write(end, b"1 1:1 2:2\n-1 1:3")
    assert next(blocks).labels.tolist() == [1]
    os.write(end, b" 2:4\n1 1:5\n")
    assert next(blocks).labels.tolist() == [-1, 1]
    os.close(end)
