"""Write the man pages: ``make man``, or ``python man/make_man.py [FOLDER]``.

NAME, SYNOPSIS, DESCRIPTION and OPTIONS of a command are taken from the command
itself; the sections after them from ``PAGE.in``, then those of all commands
from ``common.in``. The pages of ``TEXTS`` are written from their ``.in`` file alone.

An ``.in`` file is plain text: ``# HEADING``; paragraphs between blank lines;
lines indented by four blanks stay as they are; ``- `term` text`` (continued by
lines indented by two) is an entry of a list; `bold` stands between backquotes;
a line ``@NAME`` is replaced by what the package knows of NAME (``_TABLES``).
"""

from __future__ import annotations

import importlib
import math
import re
import sys
from pathlib import Path

import click

from odmtool import __version__
from odmtool.cli.flags import Flags
from odmtool.cli.sections import entries
from odmtool.messages.words import written

HERE = Path(__file__).parent
#: Command -> its page; those of odmtool alone are called as "odmtool NAME".
COMMANDS = {
    "train": "odm-train", "predict": "odm-predict", "cv": "odm-cv", "scale": "odm-scale",
    "margins": "odmtool-margins",
}  # fmt: skip
#: Pages written from their ``.in`` file alone.
TEXTS = ("odmtool.1", "odm-format.5", "odm-migrate.7")
PAGES = (*(f"{page}.1" for page in COMMANDS.values()), *TEXTS)
#: The date on the pages; change it together with the version.
DATE = "2026-11-22"

# The exit status that only a command with --strict can have.
_STRICT_ONLY = r"- `3`.*?\n\n"
_ESCAPES = str.maketrans(
    {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}
)


def kernels() -> str:
    """A literal line for every kernel."""
    from odmtool.core.kernel_table import KERNELS

    return "\n".join(f"    {row.name:<13} {row.formula}" for row in KERNELS.values())


def losses() -> str:
    """The losses of the machines for two classes, as literal lines."""
    from odmtool.core.loss_table import MACHINES

    rows = [row for row in MACHINES.values() if row.is_binary]
    return "\n".join(
        f"    {name:<7} {line}"
        for row in rows
        for name, line in zip([row.name, "", ""], row.formula.split("\n"), strict=False)
    )


def machines() -> str:
    """An entry for every machine for two classes."""
    from odmtool.core.loss_table import MACHINES

    rows = (row for row in MACHINES.values() if row.is_binary)
    return "\n\n".join(f"- `{row.name}` {row.about}" for row in rows)


def solvers() -> str:
    """An entry for every solver."""
    from odmtool.cli.solver_tables import manual

    return manual()


def grids() -> str:
    """A literal line for every grid that a parameter has a row of."""
    from odmtool import defaults
    from odmtool.cli.machine_options import FLAGS

    values = {"quick": defaults.QUICK_GRID, "tkde": defaults.PAPER_GRID, "kdd": defaults.KDD_GRID}
    lines = {
        name: ", ".join(f"{FLAGS[parameter]} {of}" for parameter, of in grid.items())
        for name, grid in values.items()
    }
    sigmoid = f"-l {defaults.QUICK_SIGMOID_SHARES}, times its default"
    pairs = f"-l {defaults.QUICK_PAIRS_GRID['lambda_']}, less where its default is less"
    lines |= {"quick, -t sigmoid": sigmoid, "quick, m3svm and ism3": pairs}
    return "\n".join(f"    {name:<21} {line}" for name, line in lines.items())


def adapted() -> str:
    """An entry for every kind of data to which defaults are adapted."""
    from odmtool import defaults
    from odmtool.messages.words import listed

    slower = listed(f"of {name} from {m:g}" for name, m in defaults.MANY_OF_SLOWER.items())
    (lower, upper), (least, most) = defaults.SPREAD_OF["rbf"], defaults.LEAST_SPREADS
    of_poly, of_sigmoid = (1 / defaults.SPREAD_OF[kernel][1] for kernel in ("poly", "sigmoid"))
    entries = {
        "Linear, wide data": "with more features that occur than examples odm takes at most the "
        "number of examples over their mean squared length, and up to (d / M)^2 times as much "
        "(d features, M examples) where much of this length is common to all, or lies in a few "
        "directions; mcodm the number of examples over the sum of the variances of the features, "
        "one above 16 medians of them all counting as that, and more where much of it lies in a "
        "few directions. With more examples than features mcodm takes, from "
        f"{defaults.WIDE_FROM['mcodm']} features on, at most the number of examples over their "
        "mean squared length, of which a feature counts up to 8 medians, and with fewer features "
        f"and up to {defaults.FEW_PER_FEATURE['mcodm']} examples for each (M / d)^2 times the "
        "number of examples over that sum of variances. odm takes less than usual with up "
        f"to {defaults.FEW_PER_FEATURE['odm']} examples per feature; and with "
        f"{defaults.SPARSE_FROM} features or more, most of whose values are 0, and up to "
        f"{defaults.FEW_PER_SPARSE_FEATURE['odm']} examples for each, at most the number of "
        "examples over the sum of the variances of the features. mcodm of two classes is as odm.",
        "m3svm and ism3": f"these take (V / {defaults.M3SVM_VARIANCE:g})^(p / 2) if that is less "
        "than usual, with rows in memory and one power p; V is the sum of the features' variances, "
        f"counted in the same way. With more than {defaults.M3SVM_CLASSES} classes and more "
        "features than examples it is as usual, for the time.",
        "Linear, other machines": f"{listed(defaults.WITH_COST_OF_ONE)} take one for each example, "
        f"from {defaults.COMPARATOR_LAMBDA:g} to {defaults.LAMBDA:g}, where the mean squared "
        "length is at most the number of features: the C = 1 of LIBLINEAR, for features in [0, 1].",
        "With a kernel": f"{listed(defaults.WITH_KERNEL_LAMBDA)} take {defaults.LAMBDA:g} or "
        f"{defaults.LAMBDA_PER_EXAMPLE:g} times the number of examples, whichever is more; from "
        f"{defaults.LAMBDA_OF_MANY:g} on their number. With rbf and poly and one gamma "
        f"{listed(defaults.WITH_KINK)} take {defaults.LAMBDA_OF_KINK:g}, or "
        f"2^{math.log2(defaults.LAMBDA_TIMES_EXAMPLES):g} over the number of examples if that is "
        f"less, but not less than {defaults.COMPARATOR_LAMBDA:g}.",
        "rbf": "with one gamma and rows in memory these take at most "
        f"{defaults.LAMBDA_OF_NARROW:g}, or the number of examples if that is more, over gamma "
        "times the sum of the features' variances, or over 1 if that is less: that matters most "
        f"where features are standardised. gamma times that sum is at most {upper:g}, with rows in "
        "memory: that matters where features are not scaled. It is at least M / "
        f"{defaults.EXAMPLES_OF_SPREAD:g}, but between 1/{1 / least:g} and 1/{1 / most:g} (from M "
        f"= {defaults.MANY_TO_SPREAD:g} on, {slower}, this times the square of that number over "
        f"M, down to 1/{1 / lower:g}): that matters for features in [0, 1] and smaller ones. With "
        "up to "
        f"{defaults.FEW_FEATURES} features that vary the largest is (M / "
        f"{defaults.EXAMPLES_OF_FEW:g})^(2 / d) if that is more, and at most "
        f"{defaults.SPREAD_OF_FEW:g}.",
        "sigmoid": f"these take {defaults.LAMBDA_OF_SIGMOID:g} over gamma times the sum of the "
        "features' variances to the power 1.5, or over 1 if that is less: with much more there is "
        f"no minimum. gamma times that sum is 1/{of_sigmoid:g}, with rows in memory.",
        "poly": "with one gamma, degree and coef0 and rows in memory these take at most "
        f"{defaults.LAMBDA_OF_POLY:g} times {defaults.LAMBDA_OF_NARROW:g}, or times the number of "
        "examples if that is more, over the median k(x, x), or over the mean / 2^20 if that is "
        "more: that matters where features are not scaled. gamma times the sum of the features' "
        f"variances is kept between 1/{1 / lower:g} and 1/{of_poly:g}, with rows in memory; coef0 "
        f"is {defaults.COEF0_OF['poly']:g}.",
    }
    return "\n\n".join(f"- `{of}` {text}" for of, text in entries.items())


_TABLES = {
    "adapted": adapted, "grids": grids, "kernels": kernels, "losses": losses,
    "machines": machines, "solvers": solvers,
}  # fmt: skip


def filled(text: str) -> str:
    """The text of an ``.in`` file with its tables."""
    return re.sub(r"^@(\w+)$", lambda found: _TABLES[found.group(1)](), text, flags=re.MULTILINE)


def escape(text: str) -> str:
    """Text that roff shows as it is, wherever in a line it stands."""
    text = text.translate(_ESCAPES)
    return r"\&" + text if text.startswith(".") else text


def inline(text: str) -> str:
    """One paragraph: blanks joined, `backquotes` bold."""
    pieces = re.split(r"`([^`]+)`", " ".join(text.split()))
    shown = (rf"\fB{escape(p)}\fR" if i % 2 else escape(p) for i, p in enumerate(pieces))
    return re.sub(r"^\.", r"\\&.", "".join(shown))


def literal(lines: list[str]) -> list[str]:
    """Lines shown as they are, indented."""
    return [".PP", ".RS 4", ".nf", *(escape(line) or r"\&" for line in lines), ".fi", ".RE"]


def heading(name: str) -> str:
    return f'.SH "{escape(name)}"'


def markup(text: str) -> list[str]:
    """The lines of an ``.in`` file as lines of roff."""
    out: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = block.split("\n")
        if lines[0].startswith("# "):
            out.append(heading(lines.pop(0)[2:]))
        if not lines:
            continue
        if lines[0].startswith("    "):
            out += literal([line[4:] for line in lines])
        elif lines[0].startswith("- `"):
            for entry in re.split(r"\n(?=- `)", "\n".join(lines)):
                term, words = re.fullmatch(r"- `([^`]+)`\s*(.*)", entry, re.DOTALL).groups()
                out += [".TP", rf"\fB{escape(term)}\fR", inline(words)]
        else:
            out += [".PP", inline("\n".join(lines))]
    # A paragraph directly under its heading needs no .PP (mandoc says so).
    return [
        line for i, line in enumerate(out) if line != ".PP" or i == 0 or ".SH" not in out[i - 1]
    ]


def one_line(text: str) -> str:
    """The first sentence of a help text, without what stands in parentheses."""
    first = " ".join(text.strip().partition("\n\n")[0].split())
    sentence = re.split(r"\.(?: |$)", re.sub(r" ?\([^()]*\)", "", first))[0]
    return sentence[0].lower() + sentence[1:]


def help_text(text: str) -> list[str]:
    """The paragraphs of a command's help; those that begin with \\b are literal."""
    out: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        if paragraph.startswith("\b"):
            out += literal(paragraph.strip("\b\n").split("\n"))
        else:
            out += [".PP", inline(paragraph)]
    return out[1:] if out[0] == ".PP" else out


def option_entry(names: str, words: str) -> list[str]:
    """``-l, --lower NUMBER`` with the names bold and the value italic."""
    shown = [
        re.sub(r"^(-\S+)", r"<B>\1<R>", part).replace("<R> ", "<R> <I>") + "<R>"
        for part in re.split(r", (?=-)", names)
    ]
    text = escape(", ".join(shown))
    for mark, font in (("<B>", r"\fB"), ("<I>", r"\fI"), ("<R>", r"\fR")):
        text = text.replace(mark, font)
    # click puts a default that is a sentence in parentheses.
    words = re.sub(r"\[default: \((.*?)\)", r"[default: \1", words)
    return [".TP", text.replace(r"\fR\fR", r"\fR"), inline(words)]


def command_page(name: str) -> str:
    """The page of a command."""
    command = getattr(importlib.import_module(f"odmtool.cli.{name}"), name)
    page = COMMANDS[name]
    program = page.replace("odmtool-", "odmtool ")
    context = click.Context(command, info_name=program, **command.context_settings)
    out = [
        title(page, 1),
        heading("NAME"),
        rf"{escape(page)} \- {escape(one_line(command.help))}",
        heading("SYNOPSIS"),
        rf"\fB{escape(program)}\fR {escape(' '.join(command.collect_usage_pieces(context)))}",
        heading("DESCRIPTION"),
        *help_text(command.help),
        heading("OPTIONS"),
    ]
    for section, records in entries(command.get_params(context), context, command.sections):
        out += [f'.SS "{escape(section)}"'] if command.sections else []
        out += [line for record in records for line in option_entry(*record)]
    for source in (f"{page}.in", "common.in"):
        text = (HERE / source).read_text(encoding="utf-8")
        if not any(param.name == "strict" for param in command.params):
            text = re.sub(_STRICT_ONLY, "", text, flags=re.DOTALL)
        out += markup(written(filled(text), Flags(command)))
    return finish(out, f"{page}.1")


def title(page: str, section: int) -> str:
    return f'.TH "{escape(page.upper())}" {section} "{DATE}" "odmtool {__version__}" "odmtool"'


def finish(lines: list[str], page: str) -> str:
    """Add SEE ALSO: every other page."""
    others = [other.rsplit(".", 1) for other in PAGES if other != page]
    links = [rf"\fB{escape(name)}\fR({section})" for name, section in others]
    return "\n".join([*lines, heading("SEE ALSO"), ",\n".join(links)]) + "\n"


def render() -> dict[str, str]:
    """File name -> text of every page."""
    pages = {f"{page}.1": command_page(name) for name, page in COMMANDS.items()}
    for page in TEXTS:
        name, section = page.rsplit(".", 1)
        text = (HERE / f"{name}.in").read_text(encoding="utf-8")
        pages[page] = finish([title(name, int(section)), *markup(text)], page)
    return pages


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for page, text in render().items():
        (folder / page).write_text(text, encoding="utf-8", newline="\n")
