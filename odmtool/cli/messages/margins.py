"""Margins and leave-one-out errors."""

from __future__ import annotations

from odmtool.messages.words import aligned, one_line, sentence


def labels_without_margin(count: int, model: str) -> str:
    examples = "1 example has" if count == 1 else f"{count} examples have"
    return f"{examples} a label that is not in {one_line(model)}, and no margin"


no_norm = sentence(
    "{model!l} has no normalised margins: |w| is 0, or not known from the model "
    "(precomputed kernel), or the kernel is not positive definite"
)


def number(value: float | None) -> str:
    """A statistic; '-' where there is none."""
    return "-" if value is None or value != value else format(value, ".6g")


def margin_table(rows: list[dict], examples: int, data: str) -> str:
    """The statistics of several models, aligned."""
    heads = list(rows[0])
    cells = [heads, *([_cell(row[head]) for head in heads] for row in rows)]
    title = f"# {examples} examples of {one_line(data)}"
    return "\n".join([title, *aligned(cells, str.ljust)])


def _cell(value) -> str:
    return one_line(value) if isinstance(value, str) else number(value)


name_count = sentence(
    "--names: {names} names for {models} models; give one per model, separated by commas"
)
empty_name = sentence("--names: a name is empty")
named_twice = sentence("two models are called {name!q}; name them apart with --names")
precomputed_among_others = sentence(
    "{model!l} has a precomputed kernel, whose test file the others cannot use; "
    "compare it with models of the same kernel matrix only"
)
loo_not_for = sentence(
    "--loo is for machines of two classes with a convex loss, not for {machine}; take -v"
)
loo_needs_own_losses = sentence(
    "--loo needs a loss of every example by itself, and that of {machine} is one of all; take -v"
)
loo_is_for_two_classes = sentence("--loo is for two classes, and the data have {classes}; take -v")


def loo_bound(errors: int, examples: int) -> str:
    """The largest number of leave-one-out errors."""
    return f"Leave-one-out bound = {_share(errors, examples)}"


def loo_papers_count(errors: int, examples: int) -> str:
    return f"Leave-one-out papers' count = {_share(errors, examples)}"


def loo_papers_total(errors: float, examples: int) -> str:
    told = _share(errors, examples)
    if errors >= examples:
        told = f"no information ({errors:.3g} errors of {examples} examples)"
    return f"Leave-one-out papers' estimate = {told}"


def loo_error(errors: int, examples: int) -> str:
    return f"Leave-one-out error = {_share(errors, examples)}"


def _share(errors: float, examples: int) -> str:
    return f"{100 * errors / examples:g}% ({errors:.10g}/{examples})"


loo_progress = sentence("leaving one out: {done} of {total} machines trained")
loo_refits = sentence(
    "leave-one-out: {refits} of {examples} machines trained, the bounds settle the others"
)


def loo_uncertain(count: int) -> str:
    examples = "1 example is" if count == 1 else f"{count} examples are"
    return (
        f"{examples} so near the boundary of the machine trained without it that the gap reached "
        f"does not tell on which side; the leave-one-out error may be off by as much"
    )
