"""The kernel matrices of pairs of classes, for which every kernel value is made once.

Values within a class are those of all its pairs, and are kept; values between two classes belong
to one pair, and are made when it is solved. Where coordinate descent comes first, they are kept in
single precision, which halves what an epoch reads: the gap counts what that may hide, and
where that is too much, values are made in double precision
(:meth:`odmtool.core.gram.Gram.make_exact`).
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from odmtool.core import deadline, kernels
from odmtool.core.gram import BYTES, Gram
from odmtool.core.kernel_table import DISTANCES, STORED
from odmtool.rows.executor import Serial
from odmtool.solvers.auto import DESCENT_GRAM, holds_single, newton_matrices_bytes

# The share of the memory that values within classes may take.
_WITHIN = 0.25
# Above this sum of the pairs' m^3 compiled code pays, which takes .1 s to be loaded.
_LARGE = 1e10
# Solvers that want no matrix.
_WITHOUT = ("landmarks", "nystrom")


def needed_bytes(machine, sizes: np.ndarray) -> float:
    """What kernel values of pairs of classes take at most; ``sizes`` are those of the classes.

    Values within classes, and what Newton's method makes of the pairs that are solved at a time;
    without room for that, as many rows of their matrices as there is room for.
    """
    memory, squares = machine.memory_limit(), BYTES * np.square(sizes, dtype=float)
    largest = int(np.sort(sizes)[-2:].sum())
    newton, matrix = newton_matrices_bytes(largest, machine.kind), BYTES * largest**2
    each = newton if newton <= memory else matrix
    within = min(_WITHIN * memory, squares.sum())
    return float(min(memory, within + machine.jobs * each))


class PairGrams:
    """What the pairs of one problem share.

    Parameters
    ----------
    machine : BinaryMachine
    gram : Gram
        Of all examples.
    members : list of int arrays
        The examples of every class, ascending.
    steepest : float
        The largest u l'' of an example; infinite where l' jumps.

    Attributes
    ----------
    are_many : bool
        Compiled code is worth loading: see :func:`odmtool.solvers.auto.choose`.
    jobs : int
        Threads that leave each as much room as changes nothing: models do not depend on -j.
    memory : float
        Bytes for each of them.
    """

    def __init__(self, machine, gram: Gram, members: list[np.ndarray], steepest: float):
        self._machine, self._gram, self._members = machine, gram, members
        self._steepest = steepest
        counts = [len(rows) for rows in members]
        sizes = np.array([a + b for a, b in combinations(counts, 2)], dtype=float)
        sizes = sizes[sizes > 0]  # of two classes without examples there is nothing to solve
        self.are_many = float((sizes[sizes <= DESCENT_GRAM] ** 3).sum()) > _LARGE
        self._is_known = gram.is_computed or gram.X is None or gram.kernel.row.of == STORED
        self._within, self.jobs, self.memory = {}, 1, gram.memory
        least = [min(counts[:i] + counts[i + 1 :]) for i in range(len(counts))]
        shared = [i for i, n in enumerate(counts) if self._wants_matrix(n + least[i])]
        room = BYTES * sum(counts[i] ** 2 for i in shared)
        if not self._is_known and room <= _WITHIN * gram.memory:
            self._within, self.memory = dict.fromkeys(shared), gram.memory - room
        self._dtype = np.dtype(np.float32) if self._are_single(sizes) else gram.dtype
        self._share_among(machine.jobs, sizes)

    def _are_single(self, sizes: np.ndarray) -> bool:
        """Whether every matrix is for coordinate descent, of values of distances."""
        machine, kernel = self._machine, self._gram.kernel
        is_first = self.are_many and machine.solver == "auto"
        if not is_first or self._is_known or kernel.row.of != DISTANCES:
            return False
        wanted = [m for m in sizes if self._wants_matrix(m)]
        most = max(wanted, default=0)
        largest = self._steepest * (1 + kernel.bias**2)
        return most <= DESCENT_GRAM and holds_single(largest, most, machine.tolerance)

    def _share_among(self, jobs: int, sizes: np.ndarray) -> None:
        if self._machine.solver == "newton" and not self._fits(sizes.max(), self.memory):
            return  # refused, in terms of the whole of --memory
        alone = self._ways(sizes, self.memory)
        shares = range(jobs, 0, -1)
        self.jobs = next(n for n in shares if self._ways(sizes, self.memory / n) == alone)
        self.memory /= self.jobs

    def _fits(self, m: float, memory: float) -> bool:
        return newton_matrices_bytes(m, self._machine.kind) <= memory

    def _ways(self, sizes: np.ndarray, memory: float) -> list[tuple]:
        """What is solved how in so many bytes: by a matrix, or by how many landmarks."""
        return [
            (self._fits(m, memory), self._most_landmarks(m, memory))
            for m in map(int, sorted(set(sizes)))
        ]

    def _most_landmarks(self, m: int, memory: float) -> int:
        if not self._machine.takes_landmarks(m):
            return 0
        from odmtool.solvers.engine.room import landmarks_in

        return landmarks_in(m, memory)

    def _wants_matrix(self, m: int) -> bool:
        machine = self._machine
        if machine.solver in _WITHOUT or not self._fits(m, self.memory):
            return False
        return (self.are_many and m <= DESCENT_GRAM) or not machine.takes_landmarks(m)

    def of(self, first: int, second: int) -> Gram:
        """The Gram of the examples of two classes, those of the first before the second's."""
        members = self._members[first], self._members[second]
        rows = np.concatenate(members)
        gram = self._gram.within(self.memory)
        if self._is_known or not self._wants_matrix(len(rows)) or deadline.is_over():
            return gram.subset(rows)
        K, cut = np.empty((len(rows), len(rows)), self._dtype), len(members[0])
        K[:cut, :cut], K[cut:, cut:] = self._values_within(first), self._values_within(second)
        self._fill(gram.X[members[0]], gram.X[members[1]], K[:cut, cut:], K[cut:, :cut])
        return Gram.of_matrix(gram.kernel, K, self.memory, gram.X[rows])

    def _values_within(self, label: int) -> np.ndarray:
        """The kernel values between the examples of a class; two threads may make them twice."""
        found = self._within.get(label)
        if found is None:
            X = self._gram.X[self._members[label]]
            found = np.empty((X.shape[0], X.shape[0]), self._dtype)
            self._fill(X, X, found, found)
            if label in self._within:
                self._within[label] = found
        return found

    def _fill(self, A, B, out: np.ndarray, turned: np.ndarray) -> None:
        """As :func:`odmtool.rows.whole.fill`; by NumPy where compiled code does not pay."""
        kernel = self._gram.kernel
        if self.are_many:
            from odmtool.rows.whole import fill

            fill(kernel, A, B, out, turned, Serial())
            return
        out[:] = kernels.gram(kernel, A) if A is B else kernels.block(kernel, A, B)
        if A is not B:
            turned[:] = out.T
