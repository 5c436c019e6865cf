"""One class against the rest, where classes overlap so much that mcodm, the default, finds nothing.

See :mod:`odmtool.machines.overlap`. Of a training the machine is judged once it is trained; before
a search it is tried, with its default lambda, on some of the examples.
"""

from __future__ import annotations

from collections.abc import Callable

from odmtool.cli import messages
from odmtool.cli.machine_choice import MachineChoice
from odmtool.cli.report import Report
from odmtool.errors import OdmError

# Examples on which a machine is tried before a search.
_TRIED = 2**14


def or_against_the_rest(
    choice: MachineChoice, machine, data, fit: Callable, report: Report
) -> tuple[object, list[str]]:
    """The machine, fitted, or the one that takes its place; and what is to be warned of.

    Parameters
    ----------
    choice : MachineChoice
        Before it was settled.
    machine : Machine
        Fitted.
    data : odmtool.places.place.TrainingData
    fit : callable
        Makes and fits the machine of a choice; returns it and what is to be warned of.
    """
    from odmtool.machines import overlap

    if not overlap.finds_nothing(machine, data):
        return machine, []
    if choice.asked != "auto":
        return machine, [messages.finds_nothing(machine.name)]
    other, sentences = fit(choice.against_the_rest())
    before, after = _shares((machine, other), data.matrix(), data.labels, data.weight)
    if after <= before:
        return machine, []
    report.note(messages.against_the_rest(f"{100 * after:.3g}", f"{100 * before:.3g}"))
    return other, sentences


def searched(
    choice: MachineChoice, data, scaling: tuple | None, seed: int, report: Report
) -> MachineChoice:
    """The choice that is searched, not settled; parameters as those of ``settled``."""
    import numpy as np

    from odmtool.machines import overlap

    if choice.asked != "auto" or choice.settled(data, scaling).name != "mcodm":
        return choice
    own = choice.parameters | {"lambda_": None, "cost": None}
    tried = [other._replace(parameters=own) for other in (choice, choice.against_the_rest())]
    scaled = data if scaling is None else data.scaled(*scaling)
    rows = np.arange(len(data.labels))
    if len(rows) > _TRIED:
        rows = np.sort(np.random.default_rng(seed).permutation(rows)[:_TRIED])
    part = scaled.part(rows)
    machine, other = (each.settled(data, scaling).make() for each in tried)
    X = part.matrix()
    try:
        machine.fit(X, part.labels, part.weight)
        if not overlap.finds_nothing(machine, part):
            return choice
        other.fit(X, part.labels, part.weight)
    except OdmError:
        return choice  # the search will say what is wrong
    before, after = _shares((machine, other), X, part.labels, part.weight)
    if after <= before:
        return choice
    report.note(messages.searched_against_the_rest())
    return choice.against_the_rest()


def _shares(machines: tuple, X, labels, weight) -> list[float]:
    from odmtool.machines import overlap

    return [overlap.share_right(machine, X, labels, weight) for machine in machines]
