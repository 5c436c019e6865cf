"""Options as LIBLINEAR, LIBSVM and grid.py spell them, in the words of odm-train and odm-cv.

A script that calls ``train``, ``svm-train`` or ``grid.py`` runs with the name changed: what has a
counterpart is replaced and reported in one line, what changes no result is left out with a
warning, what has no counterpart is refused. Sources: the help texts of LIBLINEAR 2.50 and LIBSVM
3.37. Imports click only.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import click

from odmtool.cli import messages
from odmtool.cli.options import Command, OptionalChoice, parse_number
from odmtool.cli.ranges import expand
from odmtool.cli.report import Report
from odmtool.cli.sections import SECTIONS
from odmtool.core.kernel_table import KERNELS, KernelRow
from odmtool.core.loss_table import MACHINES, OF_PAIRS
from odmtool.errors import UsageError

# The number of -s -> what it is, and our machine; without one it has no counterpart.
_LIBLINEAR = {
    0: ("L2-regularised logistic regression, whose probabilities take -b 1 here", "l2svm"),
    1: ("L2-loss SVM", "l2svm"),
    2: ("L2-loss SVM", "l2svm"),
    3: ("L1-loss SVM", "l1svm"),
    4: ("multi-class SVM of Crammer and Singer", "mcsvm"),
    5: ("L1-regularised L2-loss SVM", None),
    6: ("L1-regularised logistic regression", None),
    7: ("L2-regularised logistic regression, whose probabilities take -b 1 here", "l2svm"),
    11: ("support vector regression", None),
    12: ("support vector regression", None),
    13: ("support vector regression", None),
    21: ("one-class SVM", None),
}
_LIBSVM = {
    0: ("C-SVC", "l1svm"),
    1: ("nu-SVC", None),
    2: ("one-class SVM", None),
    3: ("support vector regression", None),
    4: ("support vector regression", None),
}
# With a number of -s these mean what they do there; the long names of ours stay ours.
_OF_STOCK_TOOL = ("-e", "-m", "-p")
# Options that svm-train has, and LIBLINEAR's train has not.
_OF_LIBSVM = ("-t", "-g", "-d", "-r", "-h")
# LIBSVM's -m is the size of its cache in megabytes, that of the multi-core LIBLINEAR the threads.
_LIKE_A_CACHE = 10
_LIBLINEAR_COSTS = "2^-10:10:1"
_GRID_COSTS, _GRID_GAMMAS = "-5,15,2", "3,-15,-2"
# Options of grid.py with one value; -resume may have one.
_OF_GRID = ("-log2c", "-log2g", "-svmtrain", "-gnuplot", "-out", "-png")
_OF_KERNEL = {"-g": "gamma", "-d": "degree", "-r": "coef0"}
_LINEAR_ONLY = tuple(name for name, row in MACHINES.items() if row.kind == OF_PAIRS)
# Options that are read here, so that click does not see that their value is missing.
_NEED_A_VALUE = ("-c", "-e", "-m", "-p", "-M", "-n", *_OF_GRID)


class Word(NamedTuple):
    """An option with its values, or an argument (``flag`` is empty), and how it was typed."""

    flag: str
    values: tuple[str, ...]
    typed: tuple[str, ...]


def word(flag: str, *values: str) -> Word:
    """An option, as if it had been typed."""
    return Word(flag, values, (flag, *values))


class Manner(NamedTuple):
    """What a stock program prints or writes at the end of a search, besides our own lines."""

    last_line: str = ""  # "" for nothing, ``C`` for that of LIBLINEAR's -C, ``grid`` for grid.py's
    table: str | None = None  # grid.py's -out
    table_was_named: bool = False  # otherwise grid.py chooses its name
    grid: tuple[str, ...] = ()  # the parameters that grid.py would have searched: cost, gamma
    flag: str = ""  # the option that asked for it


class TrainingCommand(Command):
    """odm-train or odm-cv: a command that also takes the stock tools' options."""

    sections = SECTIONS

    def translated(self, ctx, args):
        reader = Reader(self, args)
        reader.translate()
        ctx.meta["stock"] = reader
        return [token for one in reader.words for token in one.typed]


def say_remarks(ctx: click.Context, report: Report) -> None:
    """Report what became of options of the stock tools."""
    reader = ctx.meta["stock"]
    for line in reader.notes:
        report.note(line)
    for line in reader.warnings:
        report.warning(line)


class Reader:
    """The words of a command line, and what becomes of them."""

    def __init__(self, command: click.Command, args: list[str]):
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.manner = Manner()
        self._is_cv = command.name == "cv"
        self._arity = dict.fromkeys(("-C", "-R"), 0) | dict.fromkeys(("-M", "-n", *_OF_GRID), 1)
        self._long: dict[str, str] = {}
        for param in command.params:
            if isinstance(param, click.Option):
                is_flag = param.is_flag or isinstance(param, OptionalChoice)
                self._arity |= dict.fromkeys(param.opts, 0 if is_flag else param.nargs)
                short = param.opts[0]
                keeps_long = short in _OF_STOCK_TOOL
                self._long |= {name: name if keeps_long else short for name in param.opts}
        self.words = list(self._read(args))

    # ---- reading -----------------------------------------------------------------

    def _read(self, args: list[str]):
        rest = list(args)
        while rest:
            token = rest.pop(0)
            if token == "--":
                yield Word("--", (), ("--", *rest))
                return
            if (token, *rest[:1]) == ("-w", "balanced"):
                yield word("--balanced")
                rest.pop(0)
                continue
            flag, values, typed = self._option(token, rest)
            count = self._arity.get(flag, 0) - len(values) if flag else 0
            more, rest = rest[: max(0, count)], rest[max(0, count) :]
            if len(more) < count and flag in _NEED_A_VALUE:
                raise UsageError(messages.option_value_missing(flag))
            yield Word(flag, (*values, *more), (*typed, *more))

    def _option(self, token: str, rest: list[str]) -> tuple[str, tuple, tuple]:
        """The option of a token, the values in it, and what was typed of it."""
        if token.startswith("--") and "=" in token:
            flag, _, value = token.partition("=")
            return self._long.get(flag, flag), (value,), (token,)
        if token in self._long or token in self._arity:
            return self._long.get(token, token), (), (token,)
        if token == "-resume":
            has_name = len(rest) > 1 and not rest[0].startswith("-")
            values = (rest.pop(0),) if has_name else ()
            return token, values, (token, *values)
        if token[:2] == "-h" and (token[2:] or " ".join(rest[:1])) in ("0", "1"):
            values = (token[2:],) if token[2:] else (rest.pop(0),)
            return "-h", values, (token, *values)
        if token == "-h":
            return "--help", (), (token,)
        short = token[:2]
        is_option = token.startswith("-") and not token.startswith("--") and len(token) > 2
        # -mu is answered with --mu.
        if is_option and self._arity.get(short) and f"--{token[1:]}" not in self._long:
            return self._long.get(short, short), (token[2:],), (token,)
        return (token if token.startswith("-") and token != "-" else ""), (), (token,)

    # ---- translating -------------------------------------------------------------

    def translate(self) -> None:
        """Replace what the stock tools say by what we say."""
        self._machine()
        self._without_effect()
        self._renamed()
        if self._take("-C"):
            self._search_of_liblinear()
        if self.has(*_OF_GRID, "-resume"):
            self._grid()
        self._kernel()

    def has(self, *flags: str) -> bool:
        """Whether one of these options stands on the command line."""
        return any(one.flag in flags for one in self.words)

    @property
    def is_search(self) -> bool:
        """Whether one is asked for as LIBLINEAR and grid.py are."""
        return self.has("-C", *_OF_GRID, "-resume")

    def without_model(self) -> list[str]:
        """What was typed, but the second argument: a search writes no model."""
        dropped = [id(one) for one in self.words if not one.flag][1:]
        return [token for one in self.words if id(one) not in dropped for token in one.typed]

    def _take(self, flag: str) -> list[tuple[str, ...]]:
        """Remove an option; the values with which it stood there."""
        found = [one.values for one in self.words if one.flag == flag]
        self.words = [one for one in self.words if one.flag != flag]
        return found

    def _last(self, flag: str) -> str | None:
        found = [one.values[0] for one in self.words if one.flag == flag and one.values]
        return found[-1] if found else None

    def _add(self, *words: Word) -> None:
        self.words[:0] = words

    def _machine(self) -> None:
        """``-s`` with a number: the machine, and the cost and tolerance that go with it."""
        number = self._last("-s")
        if number is None or not number.isdigit():
            return
        is_libsvm = self.has(*_OF_LIBSVM) or self._has_cache()
        table, tool = (_LIBSVM, "svm-train") if is_libsvm else (_LIBLINEAR, "LIBLINEAR")
        if int(number) not in table:
            raise UsageError(messages.unknown_number(number, tool))
        what, machine = table[int(number)]
        if machine is None:
            threads = None if self.has(*_OF_LIBSVM) else self._last("-m")
            raise UsageError(messages.no_counterpart(number, tool, what, threads))
        self._take("-s")
        taken = [word("-s", machine)]
        if is_libsvm and not self.has("-t"):
            taken.append(word("-t", "rbf"))
        if not self._is_cv and not self.has("-l", "-c", "-C"):
            taken.append(word("-c", "1"))
        # Of a linear machine svm-predict reads no other form.
        writes = not (self._is_cv or self.has("-v", "-C", "--format"))
        if is_libsvm and self._last("-t") == "0" and writes:
            taken.append(word("--format", "libsvm"))
        self._add(*taken)
        if is_libsvm and not self._is_cv:  # 1 / number of features, whatever their values are
            self._add(*(word(flag, "0") for flag in ("-g", "-r") if not self.has(flag)))
        shown = " ".join(token for one in taken for token in one.typed)
        closest = "mcodm" if machine == "mcsvm" else "odm"
        lacks_intercept = is_libsvm and not self.has("-B")
        self.notes.append(
            messages.machine_number(number, tool, what, shown, closest, lacks_intercept)
        )
        threads = self._last("-m") or ""
        if not is_libsvm and threads.isdigit() and threads != "0":
            self._take("-m")
            self._add(word("-j", threads))
            self.notes.append(messages.threads_of_liblinear(threads))
        for flag in _OF_STOCK_TOOL:
            for (value,) in self._take(flag):
                self.notes.append(messages.option_of_stock_tool(flag, value, tool))

    def _without_effect(self) -> None:
        for (value,) in self._take("-h"):
            self.notes.append(messages.shrinking_option(value))
        if self._take("-R"):
            self.warnings.append(messages.bias_is_regularised())
        if self._has_cache():
            self.notes.append(messages.cache_or_threads(self._last("-m")))
            self._take("-m")

    def _has_cache(self) -> bool:
        """Whether -m is too large for our mu, and for LIBLINEAR's threads as a rule."""
        size = self._last("-m")
        try:
            return size is not None and parse_number(size) >= _LIKE_A_CACHE
        except ValueError:
            return False  # a list, or a mistake that is told later

    def _renamed(self) -> None:
        for (value,) in self._take("-M"):
            if value not in ("0", "1"):
                raise UsageError(messages.multiclass_number(value))
            self._add(word("--multiclass", "ovo" if value == "1" else "ovr"))
        for (value,) in self._take("-n"):
            if not value.isdigit() or value == "0":
                raise UsageError(messages.nu_of_svm(value))
            self._add(word("-j", value))

    def _search_of_liblinear(self) -> None:
        """``-C``: a search over the cost, from that of -c on."""
        self.manner, costs = Manner("C", flag="-C"), _LIBLINEAR_COSTS
        for (first,) in self._take("-c"):
            try:
                least = parse_number(first)
            except ValueError:
                raise UsageError(f"-c: {messages.not_a_number(first)}") from None
            costs = ",".join(f"{least * 2**k:.17g}" for k in range(11))
        self._add(word("-c", costs))

    def _grid(self) -> None:
        """The options of grid.py."""
        asked = next(flag for flag in ("-out", *_OF_GRID, "-resume") if self.has(flag))
        ignored = [flag for flag in ("-svmtrain", "-gnuplot") if self._take(flag)]
        if ignored:
            self.notes.append(messages.grid_program(ignored))
        if not self.has("-t"):
            self._add(word("-t", "rbf"))
        has_costs = self._powers("-log2c", "-c", _GRID_COSTS)
        with_gamma = {"gamma" in row.parameters for row in self._kernels()}
        has_gammas = self._powers("-log2g", "-g", _GRID_GAMMAS if any(with_gamma) else "null")
        if has_gammas and len(with_gamma) > 1:
            raise UsageError(messages.grid_of_kernels(self._last("-t")))
        if has_gammas and not any(with_gamma):
            self._take("-g")
            self.warnings.append(messages.lists_ignored(["-log2g"], self._last("-t")))
            has_gammas = False
        named = self._take("-out")
        data = self._data()
        # What is no file, as a pipe, has no name for others.
        table = named[-1][0] if named else _beside(data, "out") if os.path.isfile(data) else "null"
        pictures = [one for one in self._take("-png") if one != ("null",)]
        searched = ("cost",) * has_costs + ("gamma",) * has_gammas
        table = None if table == "null" else table
        self.manner = Manner("grid", table, bool(named), searched, asked)
        if pictures:
            self._add(word("--plot", pictures[-1][0]))
        resumed = self._take("-resume")
        if resumed:
            if not resumed[-1] and _is_nameless(data):
                raise UsageError(messages.resume_without_name())
            name = (resumed[-1] or (_beside(data, "journal"),))[0]
            self._add(word("--journal", name))
            self.notes.append(messages.grid_resume(name))

    def _data(self) -> str:
        """The name of the data file."""
        arguments = [one.typed for one in self.words if one.flag in ("", "--")]
        return next((name for typed in arguments for name in typed if name != "--"), "")

    def _kernels(self) -> list[KernelRow]:
        """Those of -t, without names that no kernel has."""
        names = {*(self._last("-t") or "").split(",")}
        return [row for row in KERNELS.values() if {row.name, str(row.number)} & names]

    def _powers(self, flag: str, ours: str, default: str) -> bool:
        """``-log2c -5,15,2`` becomes ``-c 2^-5:15:2``; whether there is something to search."""
        (value,) = (self._take(flag) or [(default,)])[-1]
        if value == "null":
            return False
        if self.has(ours):
            raise UsageError(messages.log2_and(flag, ours))
        parts = value.split(",")
        if len(parts) != 3:
            raise UsageError(messages.log2_range(flag, value, ours))
        first, last, step = parts
        powers = f"2^{first}:{last}:{step}"
        try:
            expand(powers)
        except ValueError:
            raise UsageError(messages.log2_range(flag, value, ours)) from None
        self._add(word(ours, powers))
        return True

    def _kernel(self) -> None:
        """``-g``, ``-d`` and ``-r`` are not svm-train's without its default kernel."""
        if self.has("-t"):
            self._lists_of_kernel()
            return
        machine = self._last("-s")
        if self.has("-g") and machine not in _LINEAR_ONLY:
            self._add(word("-t", "rbf"))
            self.notes.append(messages.rbf_for_gamma())
            others, kernel = ("-d", "-r"), "rbf"
        else:
            others, kernel = ("-g", "-d", "-r"), "linear"
        unused = [flag for flag in others if self.has(flag)]
        if unused:
            self.warnings.append(messages.not_of_kernel(unused, kernel, machine in _LINEAR_ONLY))

    def _lists_of_kernel(self) -> None:
        """Several values that no kernel reads are a mistake; one is sent by scripts of grid.py."""
        used = {name for row in self._kernels() for name in row.parameters}
        lists = [
            flag for flag, name in _OF_KERNEL.items()
            if name not in used and {",", ":"} & {*(self._last(flag) or "")}
        ]  # fmt: skip
        if lists and self._kernels():
            self.warnings.append(messages.lists_ignored(lists, self._last("-t")))


def _is_nameless(data: str) -> bool:
    """Whether the data are there, but no file after which others can be called."""
    from odmtool.io.files import is_stream

    return is_stream(data) or (os.path.exists(data) and not os.path.isfile(data))


def _beside(data: str, ending: str) -> str:
    """What grid.py calls a file that goes with the data: it stands in the working folder."""
    return f"{os.path.basename(data)}.{ending}"
