"""Folds, splits, journals and pictures of a search; the probabilities that folds give."""

from __future__ import annotations

from odmtool.messages.words import counted, sentence

fold_count = sentence(
    "‹folds={folds}›: cross validation needs 2 to {examples} folds for {examples} examples"
)
one_class_to_search = sentence(
    "the data have only one class, ‹label={label}›: there is nothing to search"
)


def class_smaller_than_folds(label: int, examples: int, folds: int, is_part: bool) -> str:
    """``is_part``: of the training part of a split."""
    few = counted(examples, "example") + (" in the training part" if is_part else "")
    if examples == 1:
        return (
            f"class ‹label={label}› has only {few}: the fold that it is in leaves none of the "
            "class to train on; remove the class from the data, or add examples of it"
        )
    return (
        f"class ‹label={label}› has only {few}, fewer than the {folds} folds: write "
        f"‹folds={examples}› or less"
    )


test_size_range = sentence("‹test_size› must be between 0 and 1, not {test_size:g}")


def class_too_small(label: int, examples: int, tested: int, test_size: float) -> str:
    return (
        f"class ‹label={label}› is too small to be split: of its {counted(examples, 'example')} "
        f"a test size of {test_size:g} takes {tested}; it must take at least 1 and leave at least 2"
    )


probability_one_class = sentence(
    "‹probability=1›: the data have only one class, ‹label={label}›; probabilities need two"
)


def probability_class_too_small(label: int, examples: int, folds: int) -> str:
    some = counted(examples, "example")
    return (
        f"‹probability=1›: class ‹label={label}› has {some} to train on; probabilities are fitted "
        f"on {folds} folds and need at least {folds} examples of every class"
    )


process_lost = sentence(
    "a process that shared the work was killed, possibly for lack of memory; "
    "fewer processes need less"
)
journal_not_regular = sentence(
    "is not a regular file: a journal is read again later; choose another file"
)
no_journal = sentence("is not an odm-cv journal; choose another file or delete it")
grid_results = sentence(
    "is a list of results, as grid.py writes it, and no odm-cv journal: it does not say of which "
    "data and folds they are, and none can be taken over; choose another file"
)
newer_journal = sentence(
    "the journal has version {version}, which a newer odmtool writes; use that one"
)

# What a journal is checked for that is no parameter, or is called otherwise.
_OF_JOURNAL = {
    "version": "the version of odmtool", "data": "the data", "grid": "the settings to try",
    "examples": "the number of examples", "defaults": "the defaults that depend on the data",
    "search": "‹strategy›", "test size": "‹test_size›", "name": "‹machine›",
    "most_in_pairs": "‹multiclass›",
}  # fmt: skip


def other_journal(key: str) -> str:
    what = _OF_JOURNAL.get(key, f"‹{key}›")
    return f"belongs to another search (they differ in {what}); choose another file or delete it"


journal_in_use = sentence(
    "{path!l}: another odm-cv goes on with this journal; wait for it, or choose another file"
)
no_matplotlib = sentence("pictures need matplotlib: pip install 'odmtool[plot]'")
broken_matplotlib = sentence("pictures need matplotlib, which does not load: {reason!l}")


def score_label(metric: str) -> str:
    """What an axis or a colour bar shows."""
    words = {"balanced": "balanced accuracy", "auc": "area under the ROC curve", "f1": "F1"}
    return f"CV {words.get(metric, metric)} (%)"


best_mark = sentence("best: {percent:.4g} %")


def plot_title(title: str | None, kernel: str | None = None) -> str:
    """The title, shortened to what fits, and the kernel if it needs to be said."""
    title = title or ""
    if len(title) > 30:
        title = title[:27] + "..."
    return ", ".join(part for part in (title, kernel and f"{kernel} kernel") if part)
