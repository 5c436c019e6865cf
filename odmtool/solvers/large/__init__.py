"""Training beyond one matrix and one machine: partitions, landmarks, several processes.

================  ================================================================
sodm.py           scalable ODM: local solutions, merged level by level
parts.py          the parts of it, here or where workers keep them
nystrom.py        landmarks as a basis, and the linear solver on it
dsvrg.py          distributed SVRG for linear machines
blocks.py         a matrix too large for the memory, read or made block by block
passes.py         Newton's method by passes over it, linear and for nystrom
block_descent.py  coordinate descent block by block, for wide data and any loss
tasks.py          how many parts, and what a task takes of the memory
scale.py          which of these a machine asked for, and where its tasks run
================  ================================================================

Rows in pieces, partitions and executors are in :mod:`odmtool.rows`.
"""
