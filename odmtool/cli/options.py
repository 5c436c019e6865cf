"""What the commands' options have in common: number grammar, help, look-alikes.

Imports click only: ``--help`` must be fast.
"""

from __future__ import annotations

import math
import os
from contextlib import contextmanager

import click

from odmtool import __version__
from odmtool._pattern import Pattern
from odmtool.cli import messages, process
from odmtool.cli.flags import names_in
from odmtool.cli.sections import entries
from odmtool.defaults import BLAS_THREADS, DECIMAL
from odmtool.errors import ClosedPipeError, FileError, OdmError, UsageError

_NUMBER = Pattern(rf"({DECIMAL})(?:(\^|\*\*|/)({DECIMAL}))?")


class NotFiniteError(ValueError):
    """A number that is infinite, or not real."""


def parse_number(text: str) -> float:
    """A finite number: ``0.5``, ``1e-3``, ``2^4``, ``2**-3`` or ``1/3``.

    Raises
    ------
    ValueError
        The text is no such number.
    NotFiniteError
        It has no finite real value.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    left, operator, right = match.groups()
    try:
        value = float(left)
        if operator == "/":
            value /= float(right)
        elif operator:
            value **= float(right)
    except (OverflowError, ZeroDivisionError):
        raise NotFiniteError(text) from None
    if isinstance(value, complex) or not math.isfinite(value):
        raise NotFiniteError(text)
    return value


class Number(click.ParamType):
    """A number in the grammar of :func:`parse_number`."""

    name = "number"
    not_a_number = staticmethod(messages.not_a_number)

    def convert(self, value, param, ctx):
        if not isinstance(value, str):
            return value
        try:
            return parse_number(value)
        except NotFiniteError:
            self.fail(messages.not_finite(value), param, ctx)
        except ValueError:
            self.fail(self.not_a_number(value), param, ctx)


class Whole(Number):
    """A whole number, in the grammar of numbers (``1e3``, ``2^4``)."""

    name = "integer"
    not_a_number = staticmethod(messages.not_whole)

    def __init__(self, least: int | None = None, most: int | None = None):
        self.least, self.most = least, most

    def convert(self, value, param, ctx):
        number = super().convert(value, param, ctx)
        if number is None:
            return None
        if number != int(number):
            self.fail(messages.not_whole(value), param, ctx)
        if self.least is not None and number < self.least:
            self.fail(messages.too_small(number, self.least), param, ctx)
        if self.most is not None and number > self.most:
            self.fail(messages.too_large(number, self.most), param, ctx)
        return int(number)


class ClassWeight(Number):
    """The weight of a class, which follows its label."""

    not_a_number = staticmethod(messages.not_a_class_weight)


class Label(Whole):
    """A label: a whole number, or a word as data files have it."""

    name = "label"

    def convert(self, value, param, ctx):
        try:
            parse_number(value)
        except (TypeError, ValueError):
            return value
        return super().convert(value, param, ctx)


class OptionalChoice(click.Option):
    """An option whose value, one of a few words, may be left out: then it is the first.

    ``--loo exact``, ``--loo=exact`` and ``--loo`` alone. The word after the option is its
    value only if it is one of these words, so that no file name is swallowed.
    """

    def __init__(self, *names, choices, **attributes):
        super().__init__(*names, type=click.Choice(choices), **attributes)

    def completed(self, args: list[str]) -> list[str]:
        """The arguments, with the first word behind each bare occurrence of this option."""
        end = args.index("--") if "--" in args else len(args)
        words, result = self.type.choices, []
        for position, token in enumerate(args):
            result.append(token)
            following = args[position + 1] if position + 1 < end else None
            if position < end and token in self.opts and following not in words:
                result.append(words[0])
        return result


@contextmanager
def pipes_closed():
    """Make a ClosedPipeError of what click would make exit code 1 of."""
    try:
        yield
    except BrokenPipeError:
        raise ClosedPipeError from None


@contextmanager
def help_printed():
    """What click prints while it parses, help and version, may not reach stdout."""
    try:
        with pipes_closed():
            yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise FileError(messages.cannot_write("stdout", error.strerror)) from None


class Plain:
    """That arguments, or room for the help, are missing is said in one sentence."""

    def make_context(self, *arguments, **attributes):
        with help_printed():
            return super().make_context(*arguments, **attributes)

    def parse_args(self, ctx, args):
        if not args and not ctx.resilient_parsing:
            pieces = self.collect_usage_pieces(ctx)
            raise UsageError(messages.no_arguments(ctx.command_path, pieces))
        return super().parse_args(ctx, args)


class Command(Plain, click.Command):
    """A command whose users come from LIBSVM and LIBLINEAR.

    A long name with one dash (``-mu 3``), which would be read as ``-m u``, is answered with
    the spelling that works.
    """

    sections = {}
    """Headings of the help and their options (:mod:`odmtool.cli.sections`)."""

    def translated(self, ctx, args: list[str]) -> list[str]:
        """The arguments in our words."""
        return args

    def parse_args(self, ctx, args):
        ctx.meta["args"] = list(args)
        return self.parse_options(ctx, self.translated(ctx, list(args)))

    def parse_options(self, ctx, args: list[str]):
        """Parse arguments in our words."""
        self._refuse_lookalikes(args)
        for param in self.params:
            if isinstance(param, OptionalChoice):
                args = param.completed(args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx, formatter):
        for title, records in entries(self.get_params(ctx), ctx, self.sections):
            with formatter.section(title):
                formatter.write_dl(records)

    def invoke(self, ctx):
        process.collect_garbage()
        try:
            with pipes_closed():
                return super().invoke(ctx)
        except OdmError as error:
            error.names = names_in(ctx)
            raise

    def _refuse_lookalikes(self, args):
        long_names = {
            name[2:] for param in self.params for name in param.opts if name.startswith("--")
        }
        for token, following in zip(args, [*args[1:], ""], strict=False):
            if token == "--":
                return
            if token == "-h" and following in ("0", "1"):
                raise UsageError(messages.help_with_value(following))
            if token.startswith("-") and len(token) > 2 and token[1:] in long_names:
                raise UsageError(messages.one_dash(token[1:]))


def limit_threads(count: int) -> None:
    """Import NumPy such that its BLAS uses ``count`` threads.

    One by default: BLAS threads of several processes on one machine (a shell loop, a
    grid search) wait for each other and can make each run ten times slower. What the
    user has set in the environment stands.

    Where memory is limited OpenSSL, for checksums and for NumPy's seeds, comes first, too: it ends
    the process when it is loaded where NumPy has left too little.
    """
    from resource import RLIM_INFINITY, RLIMIT_AS, RLIMIT_DATA, getrlimit

    if any(getrlimit(limit)[0] != RLIM_INFINITY for limit in (RLIMIT_AS, RLIMIT_DATA)):
        import hashlib  # noqa: F401

    for name in BLAS_THREADS:
        os.environ.setdefault(name, str(count))
    with process.without_garbage():
        import numpy  # noqa: F401


CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def command(cls=Command, **attributes):
    """Decorator: a click command in our manners."""
    return click.command(cls=cls, context_settings=CONTEXT_SETTINGS, **attributes)


version_option = click.version_option(__version__, "--version", message="odmtool %(version)s")


def quiet_option_of(text: str):
    """Decorator: ``-q``, and what it leaves."""
    return click.option("-q", "--quiet", is_flag=True, help=text)


quiet_option = quiet_option_of("Print only results, warnings and errors.")
verbose_option = click.option(
    "--verbose", is_flag=True,
    help="Print progress on stderr; show a traceback for internal errors.",
)  # fmt: skip


def stacked(options: list):
    """Decorator: these options, in this order in the help."""

    def decorate(function):
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


voice_options = stacked([quiet_option, verbose_option, version_option, click.pass_context])
"""Decorator: what the Report of a command needs; the function gets the context first."""


def jobs_option(text: str):
    """Decorator: ``-j``, and what the threads are for."""
    return click.option(
        "-j", "--jobs", type=Whole(least=1), default=1, show_default=True, help=text,
        callback=lambda _ctx, _param, jobs: min(jobs, processor_count()),
    )  # fmt: skip


def processor_count() -> int:
    """Those that this process may use; macOS only tells how many there are."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
