"""Probabilities: ``-b 1``."""

from __future__ import annotations

from itertools import combinations

from odmtool.messages.words import sentence


def probabilities_fitted(A, B, folds: int, seed: int) -> str:
    what = f"A = {A[0]:.6g}, B = {B[0]:.6g}" if len(A) == 1 else f"{len(A)} sigmoids"
    return f"probabilities: {what}, fitted on the decision values of {folds} folds (seed {seed})"


probabilities_in_linear_model = sentence(
    "the probabilities of this LIBLINEAR model are for odm-predict -b 1 only; with odm-train "
    "--format libsvm, svm-predict -b 1 has them too"
)
probabilities_reversed = sentence(
    "on held-out examples the decision values do not separate the classes (A = {A:.3g} "
    "is not negative): the probabilities are useless"
)


def pairs_not_separated(A, labels: list[int]) -> str:
    """``A`` of the pairs of more than two classes, one of them at least not negative."""
    pairs = list(combinations(labels, 2))
    number, largest = sum(a >= 0 for a in A), max(range(len(pairs)), key=lambda p: A[p])
    named = "‹label={}› and ‹label={}›".format(*pairs[largest])
    which = f"{number} of {len(pairs)} pairs of classes, such as {named}"
    return (
        f"on held-out examples the decision values do not separate "
        f"{f'classes {named}' if number == 1 else which} (A = {A[largest]:.3g} is not negative): "
        "between them the probabilities say nothing"
    )


probabilities_all_the_same = sentence(
    "the decision values of held-out examples are all the same (A = 0): the probabilities are "
    "useless"
)
no_probabilities = sentence(
    "the model has no probabilities: train it with odm-train -b 1, or leave -b 1 out "
    "(-d writes decision values)"
)
probability_or_decision_values = sentence(
    "-b 1 and -d both write numbers after the label: give one"
)
