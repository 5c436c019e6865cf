"""Wrong options."""

from __future__ import annotations

from odmtool.messages.parameters import mu_range
from odmtool.messages.words import quoted


def not_a_number(text: str) -> str:
    return f"{quoted(text)} is not a number; write 0.5, 1e-3, 2^4, 2**-3 or 1/3"


def not_a_list(part: str) -> str:
    return (
        f"{quoted(part)} is not a number or range; write 0.2,0.4 or 0.2:0.8:0.2 (from, to, step) "
        f"or 2^0:20:2 (2^0, 2^2, ... 2^20)"
    )


def no_arguments(command_path: str, pieces: list[str]) -> str:
    return f"missing arguments: {command_path} {' '.join(pieces)} (see {command_path} --help)"


def shrinking_option(value: str) -> str:
    return (
        f"-h {value}: LIBSVM's -h turns shrinking on or off; here the solvers decide that "
        f"themselves: leave '-h {value}' out (-h alone is help)"
    )


def one_dash(name: str) -> str:
    return f"-{name}: a long option has two dashes: write --{name}"


def machine_number(number: str, machines) -> str:
    return (
        f"-s {number}: machines have names here, the numbers of LIBSVM and LIBLINEAR mean "
        f"other ones; write -s {' or -s '.join(machines)}, or leave it out"
    )


def not_whole(text: str) -> str:
    return f"{quoted(text)} is not a whole number; write 100, 1e3 or 2^4"


def not_a_size(text: str) -> str:
    return f"{quoted(text)} is not a size; write 4G, 500M or 100K"


def size_not_positive(number: float) -> str:
    return f"memory must be positive, not {number:g}"


def too_small(number: float, least: int) -> str:
    return f"{number:g} is too small; it must be at least {least}"


def cache_size(mu: float) -> str:
    return f"{mu_range(mu)}; for LIBSVM's cache size write --memory {mu:g}M"


def lambda_and_cost() -> str:
    return "-l and -c say the same thing (lambda = C times the sum of the weights): give one"


def kdd_and(flag: str) -> str:
    return f"--kdd stands for --mu1, --mu2 and -l: leave {flag} out"


def kdd_is_for_ldm() -> str:
    return "--kdd names the parameters of LDM: write -s ldm with it"


def unused_options(flags: list[str], user: str) -> str:
    """``user``: "machine ldm", for instance."""
    return f"{user} has no use for {', '.join(flags)}"


def write_over(path: str) -> str:
    return f"{path}: this file is read or written already in the same run; name another one"


def precomputed_alone() -> str:
    return "-t precomputed cannot stand in a list: its data file is of no use to other kernels"


def two_from_stdin(first: str, second: str) -> str:
    return f"{first} and {second} cannot both come from stdin: give one as a file"


def name_the_model() -> str:
    return "the training data come from a pipe: name the MODEL_FILE (- is stdout)"
