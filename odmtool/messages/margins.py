"""Margins and leave-one-out errors."""

from __future__ import annotations

from odmtool.messages.words import one_line, quoted, sentence, some_labels

margins_of_one_class = sentence("the model has only one class, ‹label={label}›: it has no margins")


def no_known_label(labels: list[int]) -> str:
    return f"no example has a label of the model ({some_labels(labels)}), so there is no margin"


def words_for_integers(word: str, model: str, labels: list[int]) -> str:
    return (
        f"the labels are words ({quoted(word)}), those of {one_line(model)} are numbers "
        f"({some_labels(labels)}); take a model that was trained on words"
    )


def margin_axis(is_normalised: bool) -> str:
    """What the horizontal axis of a picture shows."""
    return r"normalised margin $y f(x)\,/\,\|w\|$" if is_normalised else "margin $y f(x)$"


margin_share_axis = sentence("share of the examples")
nothing_normalised = sentence("no model has normalised margins to draw; take ‹panel=plain›")
loo_needs_two_classes = sentence("‹loo› needs examples of two classes")
loo_needs_positive_definite = sentence(
    "‹loo›: the kernel matrix has negative eigenvalues (or does not fit in ‹memory› to be "
    "looked at), so the leave-one-out bound does not hold; take ‹kernel=rbf› or ‹folds›"
)
