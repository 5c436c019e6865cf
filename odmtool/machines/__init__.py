"""Machines: parameters, a loss and a solver make a model from labelled data.

Every machine is found here by the name of its class, too: ODM, LDM, MCODM, ... A class is made
when it is first asked for.
"""

from odmtool.core import loss_table
from odmtool.machines.base import Machine
from odmtool.machines.data import Prepared, class_order, gamma_for

__all__ = ["MACHINES", "Machine", "Prepared", "class_order", "gamma_for", "machine_named"]


def machine_named(name: str) -> type[Machine]:
    """The machine of a name; raises UsageError if there is none."""
    row = loss_table.row_of(name)
    if row.is_binary:
        from odmtool.machines.binary import machine_of

        return machine_of(row.name)
    from odmtool.machines import multiclass

    return getattr(multiclass, row.name.upper())


def __getattr__(name: str):
    """MACHINES, all by name, or one of the classes."""
    if name == "MACHINES":
        return {name: machine_named(name) for name in loss_table.MACHINES}
    if name.isupper() and name.lower() in loss_table.MACHINES:
        return machine_named(name.lower())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
