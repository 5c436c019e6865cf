"""What becomes of the options of LIBLINEAR, LIBSVM and grid.py."""

from __future__ import annotations

from odmtool.messages.words import listed, sentence


def machine_number(
    number: str, tool: str, what: str, taken: str, closest: str, lacks_intercept: bool
) -> str:
    nearest = f"; the nearest margin distribution machine is -s {closest}" if closest else ""
    intercept = "; -B 10 gives nearly the intercept of svm-train" if lacks_intercept else ""
    return f"-s {number} is {tool}'s {what}: taking {taken}{nearest}{intercept}"


option_value_missing = sentence("Option '{flag}' requires an argument")
unknown_number = sentence(
    "-s {number}: {tool} has no such machine; write a name, such as -s odm (see --help)"
)


def no_counterpart(number: str, tool: str, what: str, threads: str | None = None) -> str:
    """``threads`` is the value of -m that makes it svm-train's, if LIBLINEAR's may be meant."""
    meant = f"; for the threads of LIBLINEAR write -j {threads} instead of -m" if threads else ""
    return (
        f"-s {number} is {tool}'s {what}, which odmtool does not have; write -s odm or -s l2svm, "
        f"or leave -s out{meant}"
    )


option_of_stock_tool = sentence("{flag} {value} of {tool} is ignored")
shrinking_option = sentence("-h {value} is ignored: odmtool decides itself when to shrink")
bias_is_regularised = sentence(
    "-R is ignored: the intercept of -B is always regularised, with a larger -B less"
)
cache_or_threads = sentence(
    "-m {size} is ignored: here -m is mu, 0 < mu <= 1; for the size of LIBSVM's cache write "
    "--memory {size}M, for the threads of LIBLINEAR -j {size}"
)
threads_of_liblinear = sentence(
    "-m {count}: taking -j {count}, threads as in the multi-core LIBLINEAR"
)
multiclass_number = sentence("-M {value}: write -M 0 (one against the rest) or -M 1 (pairs)")
nu_of_svm = sentence(
    "-n {value}: odmtool has no nu-SVM; as in LIBLINEAR, -n N is the number of threads (-j N)"
)


def grid_program(flags: list[str]) -> str:
    return f"{listed(flags)}: ignored, odm-cv trains and draws itself"


grid_resume = sentence(
    "-resume: finished fits are kept in {path!l} (--journal), and read from there"
)
resume_without_name = sentence(
    "-resume: data that are no file have no name for the journal: write -resume FILE"
)
not_a_grid_table = sentence(
    "grid.py writes its results to this file, which holds something else: "
    "-out FILE names another, -out null writes none"
)
log2_and = sentence("{flag} and {ours} set the same parameter: give one")
log2_range = sentence(
    "{flag} {value}: expected begin,end,step, where steps lead from begin to end, as in {flag} "
    "-5,15,2; or write {ours} 2^-5:15:2"
)
grid_of_kernels = sentence(
    "-t {kernels}: the last line of grid.py names no kernel; give one, or write -c and -g in "
    "place of -log2c and -log2g"
)
rbf_for_gamma = sentence("-g without -t: taking -t rbf, the default of svm-train")


def not_of_kernel(flags: list[str], kernel: str, is_linear_only: bool) -> str:
    verb = "is" if len(flags) == 1 else "are"
    hint = "" if is_linear_only else "; add -t poly"
    return f"{listed(flags)} {verb} ignored with the {kernel} kernel{hint}"


def lists_ignored(flags: list[str], kernels: str) -> str:
    """``kernels``: as -t names them."""
    return f"{listed(flags)}: the values are ignored with -t {kernels}"


def best_cost(cost: float, accuracy: float) -> str:
    """LIBLINEAR's line, which scripts parse."""
    return f"Best C = {cost:g}  CV accuracy = {100 * accuracy:g}%"


def best_point(values: list[float], accuracy: float) -> str:
    """grid.py's last line, which easy.py and other scripts parse."""
    return " ".join([*map(str, values), f"{100 * accuracy:g}"])


def grid_row(values: dict[str, float], accuracy: float) -> str:
    """A line of grid.py's -out."""
    words = [f"log2{name}={value:g}" for name, value in values.items()]
    return " ".join([*words, f"rate={100 * accuracy:g}"])
