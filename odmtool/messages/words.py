"""How messages show what they talk about.

Who calls a machine from Python writes ``max_iter=9``, who runs a command ``--max-iter 9``. So
a sentence names parameters between marks, and who shows it says how they are called there:

==============  ===================  ==================  =========================================
mark            from Python          on a command line   for
==============  ===================  ==================  =========================================
‹kernel›        kernel               -t                  a parameter
‹kernel=rbf›    kernel='rbf'         -t rbf              a parameter and its value
‹mu:›           mu                   -m: mu              a parameter that must be something
‹machine=ldm›   LDM                  -s ldm              a machine
‹label=0›       0                    spam                a class, in the words of the data
‹command=scale› nothing              (odm-scale)         a command that helps, and a space before
‹or=l1svm›      , L1SVM              , -s l1svm          a machine in a list of advice; nothing
                                                         where estimators are used and none has it
==============  ===================  ==================  =========================================

:func:`written` puts the names in; an error does so for Python (:mod:`odmtool.errors`), a command
for its options (:mod:`odmtool.cli.flags`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from odmtool._pattern import Pattern

_MARK = Pattern("‹([a-z][a-z0-9_]*)(?:(:)|=([^‹›]*))?›")


class PythonNames:
    """What parameters are called where a machine is made in Python."""

    def parameter(self, name: str) -> str:
        return name

    def subject(self, name: str) -> str:
        return self.parameter(name)

    def setting(self, name: str, value: str) -> str:
        if name == "label":
            return value
        if name == "machine":
            return value.upper()
        if name == "command":
            return ""
        if name == "or":
            return f", {self.setting('machine', value)}"
        return f"{name}={value if value.isdigit() else repr(value)}"


PYTHON = PythonNames()


def written(sentence: str, names=PYTHON) -> str:
    """The sentence, with names in the place of its marks.

    ``names``: has the methods of :class:`PythonNames`.
    """

    def name_of(mark: re.Match) -> str:
        name, is_subject, value = mark.groups()
        if value is not None:
            return names.setting(name, value)
        return names.subject(name) if is_subject else names.parameter(name)

    return _MARK.sub(name_of, sentence)


def quoted(token: object) -> str:
    """The token as the user wrote it, shortened, with control characters escaped."""
    text = token.decode("utf-8", "backslashreplace") if isinstance(token, bytes) else str(token)
    return f"'{shortened(text)}'"


def shortened(text: str) -> str:
    """At most 60 characters of a text, on one line and without marks."""
    text = one_line(text if len(text) <= 60 else text[:57] + "...")
    return text.replace("‹", "\\u2039").replace("›", "\\u203a")


def one_line(text: str) -> str:
    """The text with line breaks and other control characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def some_labels(labels) -> str:
    """The first labels; integers are those of the data, which may have words for them."""
    shown = [shortened(n) if isinstance(n, str) else f"‹label={n}›" for n in labels[:5]]
    return ", ".join(shown + ["..."] * (len(labels) > 5))


def listed(names, last: str = "and") -> str:
    """a, b and c."""
    *others, end = names
    return f"{', '.join(others)} {last} {end}" if others else end


def counted(count: int, one: str, many: str = "") -> str:
    """1 example, 2 examples; ``many`` is the plural, if it is not ``one`` with an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def size(amount: float) -> str:
    """Bytes in a unit a person reads."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} TB"


def clock(seconds: float) -> str:
    """Minutes and seconds, 1:05."""
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02d}"


def aligned(rows: list, first=str.rjust) -> list[str]:
    """Lines of columns that end below each other; ``first`` places the cells of the first."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([first(row[0], widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]


_SHOWN = {"q": quoted, "l": one_line, "b": size}


def sentence(template: str) -> Callable[..., str]:
    """A function of the names in the template, in the order in which they first stand there.

    ``{name!q}`` is quoted, ``{name!l}`` on one line, ``{name!b}`` a size in bytes.
    """

    def filled(*values) -> str:
        from odmtool.messages import formatter

        return formatter.filled(template, values, _SHOWN)

    return filled
