"""Margins and leave-one-out errors."""

from __future__ import annotations

from odmtool.messages.words import aligned, one_line, quoted


def labels_without_margin(count: int, model: str) -> str:
    examples = "1 example has" if count == 1 else f"{count} examples have"
    return f"{examples} a label that {one_line(model)} does not know, and no margin"


def no_norm(model: str) -> str:
    return (
        f"{one_line(model)} has no normalised margins: |w| is 0, or cannot be told from the model "
        f"(precomputed kernel), or the kernel is not positive definite"
    )


def file_in_use(flag: str, path: str) -> str:
    return f"{flag} {quoted(path)}: this file is read or written already; name another one"


def not_with_folds(flag: str) -> str:
    return f"{flag} does not go with -v, which trains no model"


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


def name_count(names: int, models: int) -> str:
    return f"--names: {names} names for {models} models; give one per model, separated by commas"


def named_twice(name: str) -> str:
    return f"two models are called {quoted(name)}; name them apart with --names"


def precomputed_among_others(model: str) -> str:
    return (
        f"{one_line(model)} has a precomputed kernel, whose test file is of no use to the others; "
        f"compare it with models of the same kernel matrix only"
    )


def loo_not_for(machine: str) -> str:
    return f"--loo is for machines of two classes with a convex loss, not for {machine}; take -v"


def loo_is_for_two_classes(classes: int) -> str:
    return f"--loo is for two classes, and the data have {classes}; take -v"


def loo_bound(errors: int, examples: int) -> str:
    """The largest number of leave-one-out errors."""
    return f"Leave-one-out bound = {_share(errors, examples)}"


def loo_papers_count(errors: int, examples: int) -> str:
    return f"Leave-one-out papers' count = {_share(errors, examples)}"


def loo_papers_total(errors: float, examples: int) -> str:
    return f"Leave-one-out papers' estimate = {_share(errors, examples)}"


def loo_error(errors: int, examples: int) -> str:
    return f"Leave-one-out error = {_share(errors, examples)}"


def _share(errors: float, examples: int) -> str:
    return f"{100 * errors / examples:g}% ({errors:.10g}/{examples})"


def loo_progress(done: int, total: int) -> str:
    return f"leaving one out: {done} of {total} machines trained"


def loo_refits(refits: int, examples: int) -> str:
    return f"leave-one-out: {refits} of {examples} machines trained, the bounds settle the others"


def loo_uncertain(count: int) -> str:
    examples = "1 example is" if count == 1 else f"{count} examples are"
    return (
        f"{examples} so near the boundary of the machine trained without it that the gap reached "
        f"does not tell on which side; the leave-one-out error may be off by as much"
    )
