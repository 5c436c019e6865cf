"""Machines: parameters, a loss and a solver make a model from labelled data."""

from odmtool.machines.base import Machine
from odmtool.machines.binary import L1SVM, L2SVM, LDM, LSSVM, MAMC, ODM, SVR
from odmtool.machines.data import Prepared, class_order, gamma_for
from odmtool.machines.multiclass import ISM3, M3SVM, MCODM

_ALL = (ODM, LDM, MCODM, M3SVM, ISM3, L1SVM, L2SVM, LSSVM, SVR, MAMC)
MACHINES = {machine.name: machine for machine in _ALL}
"""Machines by name."""

__all__ = [
    "ISM3",
    "L1SVM",
    "L2SVM",
    "LDM",
    "LSSVM",
    "M3SVM",
    "MACHINES",
    "MAMC",
    "MCODM",
    "ODM",
    "SVR",
    "Machine",
    "Prepared",
    "class_order",
    "gamma_for",
]
