"""Landmarks, partitions, blocks and clusters."""

from __future__ import annotations

from odmtool.messages.words import size


def features_too_large(m: int, needed: float, memory: float) -> str:
    return (
        f"the features of {m} examples need {size(needed)}, more than the {size(memory)} of "
        f"--memory; take fewer --landmarks, a machine with a smooth loss (odm), or more --memory"
    )
