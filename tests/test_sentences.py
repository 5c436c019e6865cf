"""What sentences call parameters: their names in Python, and options on the command line."""

import ast
import functools
import pickle
import re
from pathlib import Path

import pytest

import odmtool
from odmtool import messages
from odmtool.cli import cv, entry, flags, margins, predict, scale, train, umbrella
from odmtool.core.loss_table import MACHINES, SMOOTH
from odmtool.errors import DataError, UsageError
from odmtool.estimators.names import EstimatorNames
from odmtool.machines import MACHINES as CLASSES
from odmtool.machines import ODM
from odmtool.messages.words import listed, written
from odmtool.solvers.table import names_for

PACKAGE = Path(odmtool.__file__).parent
CORE = [path for path in sorted(PACKAGE.rglob("*.py")) if "cli" not in path.parts]
COMMANDS = (train.train, cv.cv, predict.predict, scale.scale, margins.margins)

FLAG = re.compile(r"(?<![\w-])(?:--[a-zA-Z{]|-[a-zA-Z]\b)")
# Of programs that are not ours.
OTHERS = re.compile(r"tail -c|iconv -f|-t ASCII|zstd -d|--memory-limit")

# The solvers of odm.
SERVING = {kernel: listed(names_for(SMOOTH, kernel), "or") for kernel in ("linear", "rbf")}


@functools.cache
def strings(path):
    """Line and text of every string of a file that is no docstring; {x} where one is formatted."""
    return list(found_strings(path))


def found_strings(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    known = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            known |= {id(value) for value in node.values}
            parts = (v.value if isinstance(v, ast.Constant) else "{x}" for v in node.values)
            yield node.lineno, "".join(parts)
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in known:
            yield node.lineno, node.value


def test_no_sentence_of_the_core_names_an_option():
    found = {
        f"{path.relative_to(PACKAGE)}:{line}": text
        for path in CORE
        for line, text in strings(path)
        if FLAG.search(OTHERS.sub("", text))
    }
    assert found == {}


def test_every_mark_is_an_option_of_a_command():
    known = {name for command in COMMANDS for name in flags.Flags(command).flag_of}
    marked = {
        name
        for path in [*CORE, *PACKAGE.glob("cli/**/*.py")]
        for _, text in strings(path)
        for name in re.findall(r"‹(\w+)[=:›]", text)
    }
    assert marked >= {"kernel", "solver", "machine", "memory"}
    assert marked - known == {"label", "command", "or"}


@pytest.mark.parametrize("name", MACHINES)
def test_every_parameter_of_a_machine_is_an_option_of_that_name(name):
    known = flags.Flags(train.train).flag_of.keys()
    assert MACHINES[name].parameters.keys() <= known
    assert written(f"‹machine={name}›") == CLASSES[name].__name__


@pytest.mark.parametrize("parameters, arguments, python, command", [
    (dict(mu=5), ["-m", "5"], "mu must satisfy 0 < mu <= 1, not 5",
     "-m: mu must satisfy 0 < mu <= 1, not 5"),
    (dict(lambda_=0), ["-l", "0"], "lambda_ must be positive, not 0",
     "-l: lambda must be positive, not 0"),
    (dict(max_iter=-1), ["--max-iter", "-1"], "max_iter must not be negative, but is -1",
     "--max-iter must not be negative, but is -1"),
    (dict(solver="dcd-dense"), ["--solver", "dcd-dense"],
     f"solver='dcd-dense' is for LDM; take solver {SERVING['linear']}",
     f"--solver dcd-dense is for -s ldm; take --solver {SERVING['linear']}"),
    (dict(kernel="rbf", solver="svrg"), ["-t", "rbf", "--solver", "svrg"],
     f"solver='svrg' is for linear machines; leave kernel out, or take solver {SERVING['rbf']}",
     f"--solver svrg is for linear machines; leave -t out, or take --solver {SERVING['rbf']}"),
    (dict(kernel="rbf", model_format="liblinear"), ["-t", "rbf", "--format", "liblinear"],
     "model_format='liblinear' holds linear models only, and the kernel is rbf: leave "
     "model_format out or write model_format='libsvm'",
     "--format liblinear holds linear models only, and the kernel is rbf: leave --format out or "
     "write --format libsvm"),
])  # fmt: skip
def test_python_and_the_command_line_call_parameters_as_they_are_written_there(
    run, heart, parameters, arguments, python, command
):
    with pytest.raises(UsageError) as raised:
        ODM(**parameters).check()
    assert str(raised.value) == python
    assert run("train", *arguments, heart).err == f"odm-train: {command}\n"
    assert run("cv", *arguments, heart).err == f"odm-cv: {command}\n"


def test_advice_is_for_those_who_can_follow_it():
    sentence = "scale‹command=scale› or take less‹or=l1svm›‹or=ldm›"
    assert written(sentence) == "scale or take less, L1SVM, LDM"
    assert written(sentence, EstimatorNames()) == "scale or take less, LDMClassifier"
    for_commands = written(sentence, flags.Flags(train.train))
    assert for_commands == "scale (odm-scale) or take less, -s l1svm, -s ldm"


def test_the_group_names_the_options_of_its_commands(capfd, heart):
    assert entry.run(umbrella.odmtool, ["train", "-p", "1", heart], "odmtool") == 2
    error = capfd.readouterr().err
    assert error == "odmtool: -p: theta must satisfy 0 <= theta < 1, not 1\n"


def test_an_error_from_another_process_can_be_said_either_way():
    error = pickle.loads(pickle.dumps(DataError(messages.index_zero(b"0:1"), "a.svm", 3)))
    assert str(error).startswith("a.svm:3: index 0 in '0:1'") and "(zero_based if" in str(error)
    assert repr(error).count("‹") == 0
    error.names = flags.Flags(train.train)
    assert "(--zero-based if" in str(error)


def test_marks_in_what_the_user_wrote_are_left_alone():
    error = UsageError(f"{messages.quoted('‹mu›')} is no machine")
    assert str(error) == "'\\u2039mu\\u203a' is no machine"
