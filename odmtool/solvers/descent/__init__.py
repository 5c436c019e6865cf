"""Dual coordinate descent for every margin loss.

==============  ===============================================================
coordinate      the step of one example, which mcODM's descent takes too
dcd_epochs      compiled epochs, linear and kernel
kernel_block    blocks of examples on kernel values, for every such descent
extrapolation   Anderson's extrapolation of epochs
trend           whether the epochs left will do
dcd             the solver: epochs, extrapolated, until the gap is small
==============  ===============================================================
"""
