"""odmtool completion: what the shells are told is what the commands have."""

import shutil
import subprocess

import pytest

from odmtool.cli import completion, entry
from odmtool.cli.umbrella import odmtool


def script(capfd, shell):
    capfd.readouterr()
    assert entry.run(odmtool, ["completion", shell], "odmtool") == 0
    return capfd.readouterr().out


def test_bash_completes_options_choices_and_files(capfd, tmp_path):
    (tmp_path / "c").write_text(script(capfd, "bash"))
    asked = [["odm-train", "--solv"], ["odm-train", "-t", "r"], ["odmtool", "cv", "--grid", ""],
             ["odmtool", "pre"], ["/usr/bin/odm-scale", "--sav"], ["odm-train", "hea"]]  # fmt: skip
    lines = [
        f"COMP_WORDS=({' '.join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}; "
        'COMPREPLY=(); _odmtool; echo "${COMPREPLY[*]}"'
        for words in asked
    ]
    program = "\n".join([". ./c", *lines, "complete -p odm-train"])
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == ""
    *found, registered = done.stdout.splitlines()
    assert found == ["--solver", "rbf", "quick tkde kdd arxiv paper", "predict", "--save", ""]
    # Where nothing is found, file names are completed.
    assert registered == "complete -o default -F _odmtool odm-train"


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_every_option_and_choice_is_there(capfd, shell):
    text = script(capfd, shell)
    for name, command in odmtool.commands.items():
        for opts, choices, _, _ in completion.described(command):
            assert all(choice in text for choice in choices)
            shown = [o[2:] if shell == "fish" and o.startswith("--") else o for o in opts]
            assert all(word.removeprefix("-" * (shell == "fish")) in text for word in shown), name


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_shell_reads_it(capfd, tmp_path, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "c").write_text(script(capfd, shell))
    done = subprocess.run([shell, "-n", str(tmp_path / "c")], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_completion_of_click_prints_nothing_either():
    from click.shell_completion import BashComplete

    from odmtool.cli.train import train

    completer = BashComplete(train, {}, "odm-train", "_ODM_TRAIN_COMPLETE")
    found = completer.get_completions([], "--solv")
    assert [item.value for item in found] == ["--solver"]
