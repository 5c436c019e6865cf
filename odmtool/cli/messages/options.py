"""Wrong options."""

from __future__ import annotations

from odmtool.messages.words import one_line, sentence

not_finite = sentence("the value of {text!q} is not a finite number")
not_a_class_weight = sentence(
    "{text!q} is not a number; write the weight behind the label, as in -w 1 0.5 or -w1 0.5"
)
not_a_number = sentence("{text!q} is not a number; write 0.5, 1e-3, 2^4, 2**-3 or 1/3")
not_a_list = sentence(
    "{part!q} is not a number or range; write 0.2,0.4 or 0.2:0.8:0.2 (from, to, step) "
    "or 2^0:20:2 (2^0, 2^2, ... 2^20): at most {longest} values, and a step that leads to the last"
)


def no_arguments(command_path: str, pieces: list[str]) -> str:
    return f"missing arguments: {command_path} {' '.join(pieces)} (see {command_path} --help)"


help_with_value = sentence("-h {value}: -h is help; LIBSVM's shrinking is an option of training")
one_dash = sentence("-{name}: a long option has two dashes: write --{name}")
not_whole = sentence("{text!q} is not a whole number; write 100, 1e3 or 2^4")
not_a_size = sentence("{text!q} is not a size; write 4G, 500M or 100K")
size_not_positive = sentence("memory must be positive, not {number:g}")
too_large = sentence("{number:g} is too large; it must be at most {most}")
too_small = sentence("{number:g} is too small; it must be at least {least}")


lambda_and_cost = sentence(
    "-l and -c set the same parameter (lambda = C times the sum of the weights): give one"
)
not_together = sentence("{flag} does not go with {other}: leave one out")
not_with_folds = sentence("{flag} does not go with -v, which trains no model")
form_and = sentence("{form} stands for {others}: leave {flag} out")
form_of_machine = sentence("{form} names the parameters of {machine}: write -s {machine} with it")
arxiv_grid_alone = sentence(
    "--grid arxiv has values of C1, C2 and D together: it goes without -l, -c, -m and -p"
)
arxiv_range = sentence(
    "--arxiv C1 C2 D needs 0 < C2 <= C1 and 0 <= D < 1 (mu = C2 / C1, theta = D), got "
    "{c1:g} {c2:g} {band:g}"
)


def unused_options(flags: list[str], user: str) -> str:
    """``user``: "machine ldm", for instance."""
    verb = "is" if len(flags) == 1 else "are"
    return f"{', '.join(flags)} {verb} ignored by {user}"


def write_over(path: str) -> str:
    what = "stdout goes to a file that" if path == "-" else f"{one_line(path)}: this file"
    return f"{what} is read or written already in the same run; name another one"


file_in_use = sentence("{flag} {path!q}: this file is read or written already; name another one")
precomputed_alone = sentence(
    "-t precomputed cannot stand in a list: other kernels cannot use its data file"
)
dash_twice = sentence("'-' is {stream} and can be named only once")
two_from_stdin = sentence("{first} and {second} cannot both come from stdin: give one as a file")


def stream_twice(descriptor: int) -> str:
    name = {0: "stdin", 1: "stdout", 2: "stderr"}.get(descriptor, f"descriptor {descriptor}")
    return f"{name} can be named only once ('-' is stdout, too)"
