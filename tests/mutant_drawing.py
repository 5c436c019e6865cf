"""Small changes of a source, for :mod:`mutants`: every place where one is possible.

A mutant replaces the text of one node of the syntax tree. No line moves, because the disk cache
of compiled functions knows them by their lines. Left alone are docstrings, annotations,
decorators, strings, imports, and what is only said: the arguments of ``raise`` and of messages.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from typing import NamedTuple

OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.Mod: ast.Add, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}  # fmt: skip
COMPARISONS = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
PAIRS = (
    ("min", "max"), ("minimum", "maximum"), ("zeros", "ones"), ("zeros_like", "ones_like"),
    ("any", "all"), ("argmin", "argmax"), ("floor", "ceil"), ("nanmin", "nanmax"),
)  # fmt: skip
_MARK = "# speed only: "
OTHER_NAME = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}


class Mutant(NamedTuple):
    """A change of one file.

    Attributes
    ----------
    path : str
        Relative to the root of the repository.
    start, end : int
        The bytes that are replaced.
    text : str
    line : int
    function : int
        First line of the function around it, decorators included; 0 outside of functions.
    is_compiled : bool
        Whether compiled code depends on it.
    speed_only : str
        What a comment above the line, or the function, says after "speed only:".
    key : str
        The same as long as its function, or outside of functions its line, is the same.
    """

    path: str
    start: int
    end: int
    text: str
    line: int
    function: int
    is_compiled: bool
    speed_only: str
    key: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


def mutants(path: str, source: str) -> Iterator[Mutant]:
    """All possible mutants of a file; some of them are no valid Python (:func:`is_valid`)."""
    tree, starts = ast.parse(source), [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    reasons = marked(source, tree)
    used = {
        name.id
        for node in ast.walk(tree) if is_compiled(node)
        for name in ast.walk(node) if isinstance(name, ast.Name)
    }  # fmt: skip
    for parent, function, is_used in places(tree, None, False, used):
        first = 0
        if function:
            first = min(node.lineno for node in (function, *function.decorator_list))
        uses = is_compiled(function) or is_used
        for node, changed in changes(parent):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            text = ast.unparse(changed) if changed else "pass"
            # In brackets, so that a new line does not end it; a slice fits on a line.
            missing = "\n" * (node.end_lineno - node.lineno)
            is_bare = isinstance(node, ast.stmt | ast.Slice)
            text = text + missing if is_bare else f"({text}{missing})"
            lines = (first, function.end_lineno) if function else (node.lineno, node.lineno)
            begin = starts[lines[0] - 1]
            around, before = (
                without_marks(source.encode()[begin:until]) for until in (starts[lines[1]], start)
            )
            known = repr((path, around, len(before), len(before) + end - start, text)).encode()
            key, reason = hashlib.sha256(known).hexdigest()[:16], reasons.get(node.lineno, "")
            yield Mutant(path, start, end, text, node.lineno, first, uses, reason, key)


def without_marks(source: bytes) -> bytes:
    """Marks do not make another function of it."""
    lines = source.splitlines(keepends=True)
    return b"".join(line for line in lines if not line.strip().startswith(_MARK.encode()))


def marked(source: str, tree: ast.Module) -> dict[int, str]:
    """The lines of which a comment above says that they change only speed, and why.

    Above a function, all of its lines; above the first import, those of the file.
    """
    found = {}
    for number, line in enumerate(source.splitlines(), start=2):
        if line.strip().startswith(_MARK):
            found[number] = line.strip().removeprefix(_MARK)
    for node in ast.walk(tree):
        first = min((mark.lineno for mark in getattr(node, "decorator_list", ())), default=0)
        reason = found.get(first or getattr(node, "lineno", 0))
        is_whole = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if reason and is_whole:
            found |= dict.fromkeys(range(1, len(source.splitlines()) + 1), reason)
        if reason and isinstance(node, ast.FunctionDef | ast.ClassDef):
            found |= dict.fromkeys(range(node.lineno, node.end_lineno + 1), reason)
    return found


def is_compiled(function) -> bool:
    marks = getattr(function, "decorator_list", [])
    return any(ast.unparse(mark).split(".")[-1].endswith("njit") for mark in marks)


def is_valid(mutant: Mutant, source: bytes) -> bool:
    """Whether it can be parsed and differs in more than brackets."""
    try:
        changed = ast.parse(mutant.applied(source))
    except SyntaxError:
        return False
    return ast.dump(changed) != ast.dump(ast.parse(source))


def places(node, function, is_used, used) -> Iterator[tuple]:
    """The nodes that may be changed, the function around each, whether it sets a name of ``used``.

    ``used`` are the names in compiled functions.
    """
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for child in field if isinstance(field, list) else [field]:
            if not isinstance(child, ast.AST) or is_left_alone(child):
                continue
            inner, sets = function, is_used
            if isinstance(child, ast.FunctionDef):
                inner = child
            elif isinstance(node, ast.Module) and isinstance(child, ast.Assign | ast.AnnAssign):
                sets = any(isinstance(n, ast.Name) and n.id in used for n in ast.walk(child))
            if hasattr(child, "lineno"):
                yield child, inner, sets
            yield from places(child, inner, sets, used)


def is_left_alone(node) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Raise):
        return True
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return True  # an assertion
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return True
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith("messages.")


def changes(node) -> Iterator[tuple]:
    """What may be replaced: the node or a condition in it, and by what; None is nothing at all."""
    rule = globals().get(f"of_{type(node).__name__.lower()}")
    if rule:
        yield from ((node, changed) for changed in rule(node))
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield node.test, ast.UnaryOp(ast.Not(), node.test)


def like(node, **fields):
    """A copy of the node with other fields."""
    return type(node)(**{**dict(ast.iter_fields(node)), **fields})


# ---- what becomes of each kind of node -------------------------------------------------------


def of_binop(node):
    if type(node.op) in OPERATORS:
        yield like(node, op=OPERATORS[type(node.op)]())


def of_augassign(node):
    if type(node.op) in OPERATORS:
        yield like(node, op=OPERATORS[type(node.op)]())
    yield None


def of_unaryop(node):
    yield node.operand


def of_boolop(node):
    yield like(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())


def of_compare(node):
    for place, op in enumerate(node.ops):
        for other in COMPARISONS[type(op)]:
            yield like(node, ops=[*node.ops[:place], other(), *node.ops[place + 1 :]])


def of_constant(node):
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1 if isinstance(node.value, int) else 2 * node.value)


def of_call(node):
    name = node.func
    if isinstance(name, ast.Name) and name.id in OTHER_NAME:
        yield like(node, func=ast.Name(OTHER_NAME[name.id]))
    elif isinstance(name, ast.Attribute) and name.attr in OTHER_NAME:
        yield like(node, func=like(name, attr=OTHER_NAME[name.attr]))
    elif isinstance(name, ast.Name) and name.id == "abs":
        yield node.args[0]


def of_ifexp(node):
    yield like(node, body=node.orelse, orelse=node.body)


def of_slice(node):
    if (node.lower is None) != (node.upper is None):
        yield like(node, lower=node.upper, upper=node.lower)
    elif node.lower is not None:
        yield like(node, lower=None)
        yield like(node, upper=None)


def of_return(node):
    if node.value is not None and not isinstance(node.value, ast.Constant):
        yield ast.Return(ast.Constant(None))


def of_assign(node):
    """What is assigned to a name is needed further down; what to a place, may not be."""
    if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
        yield None


def of_expr(node):
    if isinstance(node.value, ast.Call):
        yield None


def of_continue(node):
    yield ast.Break()
    yield None


def of_break(node):
    yield ast.Continue()
    yield None
