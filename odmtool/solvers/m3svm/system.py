"""The linear system of a Newton step for M3SVM and ISM3.

Problem     H P = -G for a symmetric positive definite H = loss + regulariser + ridge,
            where P and G have the shape (d+1, k) of the unknowns.
Method      with at most LARGEST_SYSTEM unknowns, Cholesky. H hardly determines what the
            classes have in common; as G has no such part, H may be anything there, and is
            made to be of the size of the rest. Otherwise, or if H is singular to working
            precision, conjugate gradients with products X'(C(XP)) on the examples whose
            curvature counts, preconditioned by the diagonal, and once that has taken more
            products than they cost by the blocks of the classes
            (:mod:`odmtool.solvers.m3svm.blocks`). Every P is freed of what the classes have
            in common, which either would bring in.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from odmtool.solvers.linear_cost import nonzeros
from odmtool.solvers.m3svm.blocks import ClassBlocks, is_worth, largest_numbers
from odmtool.solvers.newton.factor import cholesky_in_place, cholesky_solve, conjugate_gradients

LARGEST_SYSTEM = 2000
"""Unknowns up to which H is formed and factored."""
LARGEST_PAIRED = 50
"""Classes up to which H is formed: it is made of one block for each pair of them."""
# speed only: so many cells of dense rows stay in the processor's cache while they are used
_BLOCK_CELLS = 2**18
# speed only: the gap decides when it ends, not how precise a step was
_MOST_STEPS = 500
# A gradient is long in directions that are much curved: a step that sees to these only lowers F
# little, and promises that another would not lower it either.
# speed only: the gap decides when it ends, not how precise a step was
_SHARE = 0.2
# Examples whose curvature is below this share of the largest one are left out of products.
# speed only: the gap decides when it ends, not how precise a step was
_LEAST_SHARE = 1e-5


class System(NamedTuple):
    """H, by its parts."""

    X: object  # csr_matrix or ndarray, shape (m, d)
    curvature: object  # Star or Simplex: second derivatives of the loss by the scores
    pairs: object  # Pairs
    ridge: float
    # Shape (m,): of the examples; a heavy one does not make the others negligible.
    weight: np.ndarray

    def direction(
        self, gradient: np.ndarray, accuracy: float, known: int = 0
    ) -> tuple[np.ndarray, int]:
        """P with H P = -G; by conjugate gradients, to this share of the size of G.

        Also the most products that a step has taken by the diagonal, ``known`` before.
        """
        if gradient.size <= LARGEST_SYSTEM and gradient.shape[1] <= LARGEST_PAIRED:
            with contextlib.suppress(LinAlgError):
                return self._factored(gradient), known
        return self._iterated(gradient, accuracy, known)

    def _factored(self, gradient: np.ndarray) -> np.ndarray:
        n, k = gradient.shape
        H = self._between_classes(n, k)
        for a in range(k):
            for b in range(a):
                H[a, :-1, b, :-1] -= self.pairs.block(a, b)
                # What all classes have in common changes neither loss nor regulariser.
                H[a, :, a, :] -= H[a, :, b, :]
                H[b, :, b, :] -= H[a, :, b, :]
        diagonal = np.einsum("ajaj->aj", H)
        size = diagonal.mean(axis=0) / k
        for a in range(k):
            for b in range(a + 1):
                H[a, range(n), b, range(n)] += size
        H = H.reshape(n * k, n * k)
        H.flat[:: n * k + 1] += 2 * self.ridge
        solved = cholesky_solve(cholesky_in_place(H), -gradient.T.ravel())
        if not np.all(np.isfinite(solved)):
            raise LinAlgError
        return _without_common(solved.reshape(k, n).T)

    def _between_classes(self, n: int, k: int) -> np.ndarray:
        """The blocks of H of a class and one before it, of the loss, in shape (k, n, k, n)."""
        H, m = np.zeros((k, n, k, n)), self.X.shape[0]
        # speed only: rows at a time
        step = max(1, _BLOCK_CELLS // n)
        for start in range(0, m, step):
            part = slice(start, start + step)
            rows, curvature = self.X[part], self.curvature.part(part)
            X = np.ones((rows.shape[0], n))
            X[:, :-1] = rows if isinstance(rows, np.ndarray) else rows.toarray()
            for a in range(k):
                for b in range(a):
                    between, weights = curvature.between(a, b)
                    H[a, :, b, :] -= _gram(X[between], weights)
        return H

    def _iterated(self, gradient, accuracy: float, known: int) -> tuple[np.ndarray, int]:
        X, curvature, weight = self.X, self.curvature, self.weight
        own = curvature.diagonal()
        heights = own.max(axis=1, initial=0.0) / weight
        rows = np.flatnonzero(heights > _LEAST_SHARE * heights.max(initial=0.0))
        if len(rows) < len(heights):
            X, curvature, own, weight = X[rows], curvature.part(rows), own[rows], weight[rows]
        blocks, products = self._blocks(X, own / weight[:, None], weight, known), 0
        # speed only: of a preconditioner
        inverse = 1.0 / (self._loss_diagonal(X, own) + 2 * self.ridge) if blocks is None else None

        def product(P):
            nonlocal products
            products += 1
            T = curvature.product(np.asarray(X @ P[:-1]) + P[-1])
            result = np.vstack([np.asarray(X.T @ T), T.sum(axis=0)]) + 2 * self.ridge * P
            result[:-1] += self.pairs.product(P[:-1])
            return result

        P = conjugate_gradients(
            product, -gradient,
            lambda P: _without_common(inverse * P if blocks is None else blocks.divide(P)),
            atol=accuracy * np.linalg.norm(gradient), most=_MOST_STEPS, share=_SHARE,
        )  # fmt: skip
        return P, (max(known, products) if blocks is None else known)

    # speed only: of a preconditioner
    def _blocks(self, X, heights: np.ndarray, weight: np.ndarray, known: int) -> ClassBlocks | None:
        """The blocks of the classes, where they cost less than so many products."""
        if not is_worth(X, heights, known, largest_numbers(nonzeros(self.X))):
            return None
        with contextlib.suppress(LinAlgError):
            return ClassBlocks(X, heights, weight, self.pairs, self.ridge)
        return None

    # speed only: of a preconditioner
    def _loss_diagonal(self, X, own: np.ndarray) -> np.ndarray:
        squares = X * X if isinstance(X, np.ndarray) else X.multiply(X)
        diagonal = np.vstack([np.asarray(squares.T @ own), own.sum(axis=0)])
        diagonal[:-1] += self.pairs.diagonal()
        return diagonal


def _gram(X: np.ndarray, s: np.ndarray) -> np.ndarray:
    """X'SX with S = diag(s), s >= 0, of dense rows that need no blocks, most of which count."""
    scaled = np.sqrt(s)[:, None] * X
    return scaled.T @ scaled


def _without_common(P: np.ndarray) -> np.ndarray:
    """P with rows that sum to zero over the classes."""
    return P - P.mean(axis=1, keepdims=True)
