"""Machines: parameters, a loss and a solver make a model from labelled data."""

from odmtool.machines.base import Machine
from odmtool.machines.binary import L1SVM, L2SVM, LDM, LSSVM, MAMC, ODM, SVR
from odmtool.machines.data import Prepared, class_order, gamma_for, with_constant_feature

MACHINES = {machine.name: machine for machine in (ODM, LDM, L1SVM, L2SVM, LSSVM, SVR, MAMC)}
"""Machines by the name of ``-s``."""

__all__ = [
    "L1SVM",
    "L2SVM",
    "LDM",
    "LSSVM",
    "MACHINES",
    "MAMC",
    "ODM",
    "SVR",
    "Machine",
    "Prepared",
    "class_order",
    "gamma_for",
    "with_constant_feature",
]
