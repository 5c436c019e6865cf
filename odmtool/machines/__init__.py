"""Machines: parameters, a loss and a solver make a model from labelled data.

Every machine is found here by the name of its class, too: ODM, LDM, MCODM, ...
"""

from odmtool.core import loss_table
from odmtool.machines import binary, multiclass
from odmtool.machines.base import Machine
from odmtool.machines.data import Prepared, class_order, gamma_for

__all__ = ["MACHINES", "Machine", "Prepared", "class_order", "gamma_for", "machine_named"]

_OF_NAME = binary.MACHINES | multiclass.MACHINES
MACHINES = {name: _OF_NAME[name] for name in loss_table.MACHINES}
"""Machines by name."""

globals().update({machine.__name__: machine for machine in MACHINES.values()})


def machine_named(name: str) -> type[Machine]:
    """The machine of a name; raises UsageError if there is none."""
    return MACHINES[loss_table.row_of(name).name]
