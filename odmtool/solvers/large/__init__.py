"""Training beyond one matrix and one machine: partitions, landmarks, several processes.

================  ================================================================
partition.py      landmarks by pivoted Cholesky, strata, partitions
tiles.py          the kernel matrix of ordered examples, filled block by block
sodm.py           scalable ODM: local solutions, merged level by level
nystrom.py        the landmarks as a basis, and the linear solver on it
dsvrg.py          distributed SVRG for linear machines
spread.py         rows that workers have read and keep
blocks.py         a matrix too large for the memory, read or made block by block
examples.py       labelled rows from a store on the disk
passes.py         Newton's method by passes over them, linear and for nystrom
block_descent.py  coordinate descent block by block, for wide data and any loss
executor.py       where the tasks run: here, in threads, on a Dask cluster
================  ================================================================
"""
