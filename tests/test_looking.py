"""odmtool check and describe, and balanced weights."""

import io

import pytest

from odmtool.cli import entry
from odmtool.cli.umbrella import odmtool


@pytest.fixture
def ask(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        capfd.readouterr()
        code = entry.run(odmtool, [str(a) for a in arguments], "odmtool")
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


def test_check_counts_and_names_the_first_mistake_of_each_file(ask, heart, tmp_path):
    (tmp_path / "bad").write_text("1 1:1\n2 1:x\n3 1:y\n")
    (tmp_path / "large").write_text("5 2:300\n5 1:7\n")
    code, out, err = ask("check", heart, "bad", "large")
    lines = [line.split(": ", 1) for line in out.splitlines()]
    assert code == 1 and "1 of 3 files" in err
    assert [text for name, text in lines if name == heart] == [
        "270 examples, 13 features, 3378 values (96.2 %), from -1 to 1",
        "2 classes: -1 (150), 1 (120)",
    ]
    assert [text for name, text in lines if name.startswith("bad")] != []
    assert "bad:2:" in out and "bad:3" not in out
    assert "large: 2 examples, 2 features, 2 values (50 %), from 0 to 300" in out
    assert "large: 1 class: 5 (2)" in out and "odm-scale" in out
    assert ask("train", "--check", heart)[1].splitlines() == out.splitlines()[:2]
    code, told, _ = ask("check", "-q", heart, "bad", "large")
    assert code == 1 and told.splitlines() == [line for line in out.splitlines() if "bad:2" in line]
    assert ask("train", "--check", "--quiet", heart) == (0, "", "")


def test_check_shows_names_as_errors_do(ask, tmp_path, monkeypatch):
    """Those of the standard input, and of files with line breaks, in all lines."""
    text = b"# nothing\n1 1:300\n-1 1:1\n"
    (tmp_path / "a\nb").write_bytes(text)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    for name, shown in (("-", "stdin"), ("a\nb", "a\\nb")):
        code, out, _ = ask("check", name)
        assert code == 0 and len(out.splitlines()) == 4
        assert all(line.startswith(f"{shown}: ") for line in out.splitlines())


def test_the_standard_input_is_one_file(ask, heart):
    assert ask("train", "-q", heart, "m")[0] == 0
    for words in (["describe", "--names", "-", "-"], ["check", "-", heart, "-"],
                  ["train", "--from", "-", "-", "n"],
                  ["train", "-W", "-", "--from", "-", heart, "n"]):  # fmt: skip
        code, out, err = ask(*words)
        assert (code, out) == (2, "") and "'-' is stdin and can be named only once" in err


def test_describe_tells_how_a_model_was_trained_and_what_weighs_most(ask, tmp_path):
    (tmp_path / "d").write_text("1 1:1 2:4\n-1 1:-1 2:-4\n1 1:2 2:3\n-1 2:-3\n")
    (tmp_path / "names").write_text("age\nheight\n")
    assert ask("train", "-q", "-l", "4", "d", "m")[0] == 0
    code, out, _ = ask("describe", "--names", "names", "--top", "1", "m")
    assert code == 0 and "classes: 1 -1\n" in out and "lambda: 4.0\n" in out and "\ngap: " in out
    assert "height" in out and "age" not in out
    assert ask("train", "-q", "-t", "rbf", "-g", "0.5", "d", "m")[0] == 0
    assert "kernel of the model: rbf, gamma 0.5" in ask("describe", "m")[1]
    (tmp_path / "names").write_bytes(b"\xff\n")
    assert ask("describe", "--names", "names", "m")[0] == 1


def test_weights_of_many_classes_have_a_line_for_each(ask, tmp_path):
    """Beside each other they filled 300 columns."""
    rows = [f"{k + 1} {k % 9 + 1}:1 10:{k % 2}" for k in range(18)]
    for k, expected in ((8, "feature "), (9, "the largest weights for each class")):
        chosen = [row for row in rows if int(row.split()[0]) % 9 < k]
        text = "".join(f"{int(row.split()[0]) % 9} {row.split(' ', 1)[1]}\n" for row in chosen)
        (tmp_path / "d").write_text(text)
        assert ask("train", "-q", "-s", "odm", "d", "m")[0] == 0
        told = ask("describe", "--top", "1", "m")[1]
        assert expected in told and told.count("for each class") == k - 8
        if k == 9:
            line = next(line for line in told.splitlines() if line.startswith("for 4: "))
            assert line.endswith(" (4)") and "," not in line


def test_a_forgotten_class_weight_is_named(ask, heart):
    code, _, err = ask("train", "-w1", heart, "m")
    assert code == 2 and f"{heart!r} is not a number; write the weight behind the label" in err


def test_describe_tells_the_form_of_a_linear_model(ask, tmp_path):
    (tmp_path / "d").write_text("1 1:1 2:4\n-1 1:-1 2:-4\n")
    assert ask("train", "-q", "-B", "2", "d", "m")[0] == 0
    told = ask("describe", "m")[1]
    assert "solver type: L2R_L2LOSS_SVC_DUAL\n" in told and "bias of the model: 2\n" in told


@pytest.mark.parametrize("words", [["check"], ["train", "--check"]])
def test_data_of_a_precomputed_kernel_are_checked(ask, tmp_path, words):
    (tmp_path / "d").write_text("1 0:1 1:99 2:0.5\n-1 0:2 1:0.5 2:1\n")
    code, out, _ = ask(*words, "-t", "4", "d")
    assert code == 0 and out.startswith("d: 2 examples, 2 kernel values, 4 values (100 %), ")
    assert "scale" not in out
    (tmp_path / "d").write_text("1 0:1 1:1 2:0.5\n-1 0:2 1:0.25 2:1\n")
    code, out, _ = ask(*words, "-t", "precomputed", "d")
    assert code == 1 and out.startswith("d: the precomputed kernel is not symmetric: K(1,2) is ")
    (tmp_path / "t").write_text("1 0:1 1:1 2:0.5 3:2\n-1 0:2 1:0.25 2:1 3:1\n")  # test examples
    assert ask(*words, "-t", "4", "t")[0] == 0
    code, out, _ = ask(*words, "d")
    assert code == 1 and "(--zero-based if all" in out


def test_the_columns_of_a_precomputed_kernel_are_its_values(ask, tmp_path):
    (tmp_path / "d").write_text("1 0:1 1:1 2:0.5\n-1 0:2 1:0.5 2:1\n")
    assert ask("train", "-q", "-t", "4", "d", "m")[0] == 0
    assert "features: 2\n" in ask("describe", "m")[1]


def test_balanced_weights(ask, tmp_path):
    (tmp_path / "d").write_text("1 1:1\n" * 3 + "2 1:-1\n")
    weights = ["-w1", 4 / 6, "-w2", 2]
    assert ask("train", "-q", "-w", "balanced", "d", "a")[0] == 0
    assert ask("train", "-q", *weights, "d", "b")[0] == 0
    facts = [
        [line for line in (tmp_path / name).read_text().splitlines() if "class_weight" in line]
        for name in "ab"
    ]
    assert facts[0] == facts[1] == [f"class_weight_1 {4 / 6!r}", "class_weight_2 2.0"]
    # Weights of the examples count; what is given stays.
    (tmp_path / "v").write_text("1\n1\n0\n2\n")
    assert ask("train", "-q", "--balanced", "-W", "v", "-w1", "5", "d", "a")[0] == 0
    text = (tmp_path / "a").read_text()
    assert "class_weight_1 5.0\n" in text and "class_weight_2 1.0\n" in text
    assert ask("train", "-q", "--cache", ".", "--balanced", "-W", "v", "-w1", "5", "d", "b")[0] == 0
    text = (tmp_path / "b").read_text()
    assert "class_weight_1 5.0\n" in text and "class_weight_2 1.0\n" in text


def test_an_option_that_check_has_not_is_told_with_the_help_of_check(ask, heart):
    code, _, err = ask("train", "--check", "-s", "odm", heart)
    assert code == 2 and "train --check --help)" in err
    assert "FILE..." in ask("train", "--check", "--help")[1]
