"""Newton's method of :mod:`odmtool.solvers.mcodm.newton`: losses, their Hessian, and first points.

It serves rows, features of a kernel, and small problems, which are solved before compiled code has
been loaded: products are those of BLAS, or of sparse rows. Only the search for the classes in T
goes over all scores, because few classes are near an example's own: T is a list of them.

Losses      For scores z of an example with class y, a centre a (its alpha of the round before), and
            tau = rho / (2 c1 u) the loss from below is smoothed to

                h(z) = max over alpha of  -alpha.z + (1-theta) alpha^y - (alpha^y)^2 / (4 c1 u)
                                          - tau/2 |alpha - a|^2

            over the alpha of :mod:`odmtool.solvers.mcodm.step`, which is that file's problem with
            A = tau and B = z - tau a. Its gradient is -alpha(z). With T = {l != y: alpha^l < 0} and
            D = tau + 1/(2 c1 u) its (generalised) Hessian H_i maps a change v of the scores to

                s = sum_{l in T} (v_l - v_y) / (|T| D + tau)
                at y: -s        at l in T: (v_l - v_y - D s) / tau

            and the loss from above, where beta > 0, adds g (v_y - v_rival) at y and its negative at
            the rival, g = 2 c2 u. As tau goes to 0, h becomes the squared hinge of the maximum.
Start       of an array, where there are no duals yet, and steps are exact or unknowns many, the W
            of least squares: one Gram for all classes. At W = 0 all classes tie, and the first
            Hessian would have all pairs. Where unknowns are many it names the first rivals, too:
            the problem without constraints from above takes long then, and leads far from where
            all ends.
            Where rows are many for the unknowns a sample's solution is better than either
            (:mod:`odmtool.solvers.mcodm.sample`).
Hessian     H_i is the Laplacian of a graph of classes: of edges from y to T with the weight
            1 / (|T| D + tau), of edges within T with D / tau times that, and of one from y to the
            rival. So every pair of classes needs one Gram of the examples that have this edge.
Products    with the Hessian need the examples only whose loss is not flat.
Few         duals that are not at a bound, of few examples: the system is solved among these
            (:mod:`odmtool.solvers.mcodm.dual_system`), once gradients need so many products that
            it takes no longer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from odmtool.core import deadline
from odmtool.rows.executor import Serial
from odmtool.solvers.mcodm import dual_system
from odmtool.solvers.mcodm.newton import SmoothedNewton
from odmtool.solvers.mcodm.way import has_many_rows
from odmtool.solvers.multi import (
    LARGEST_FACTOR,
    LARGEST_FEATURE_FACTOR,
    MOST_DUALS,
    Duals,
    MultiProblem,
)
from odmtool.solvers.newton.factor import cholesky_in_place, cholesky_solve

# speed only: scores of so many rows that all that is made of them stays in a core's cache
_PART = 2**17
# speed only: parts of wide rows are smaller, because so many cells are enough for a thread
_CELLS = 2**20
# speed only: the Hessian is made of so many edges, and those of a part, at a time
_EDGES = 2**18
# speed only: multiplications for all scores from which these are made in several threads
_WORK = 3e7
# Steps are exact where a factor takes no longer than so many examples' scores for every unknown.
# speed only: exact steps or others, the gap decides
_EXACT = 120
# From so many unknowns on the W of least squares names the first rivals. (A first problem of 640
# took half of the time, optdigits 3.3 s instead of .5. Ends are lower or higher, mostly by 1 %.)
_MANY = 300
# Duals are few if they are at most this share of the unknowns.
# speed only: exact steps or others, the gap decides
_FEW = 0.7
# The factor of so many takes no longer than a few products.
# speed only: exact steps or others, the gap decides
_SOON = 500


class Members(NamedTuple):
    """The classes in T of some rows."""

    # classes, examples: integers, shape (n,), every pair of them once; examples are numbered from
    # the first of these rows.
    classes: np.ndarray
    examples: np.ndarray
    count: np.ndarray  # integers, shape (rows,): |T| of each


class Edges(NamedTuple):
    """Edges of the graphs of some examples."""

    examples: np.ndarray  # integers, shape (n,)
    # Two int arrays, shape (n,): classes; both the same for a loop, w e_a e_a'.
    ends: tuple[np.ndarray, np.ndarray]
    weight: np.ndarray  # shape (n,)


class Bend(NamedTuple):
    """The H_i of rows whose losses are not flat; places are those of a (k, n) array."""

    X: object  # ndarray or csr_matrix, shape (n, d)
    own: np.ndarray  # integers, shape (n,): places of their own classes
    # members, at, steepness: arrays, places of the classes in T, their examples, and 1 / tau of
    # these.
    members: np.ndarray
    at: np.ndarray
    steepness: np.ndarray
    share: np.ndarray  # shape (n,): 1 / (|T| D + tau)
    more: float  # D / tau
    # above, rival, weight: arrays, examples with a loss from above, places of their rivals, -1 for
    # none, and g.
    above: np.ndarray
    rival: np.ndarray
    weight: np.ndarray


class RowsNewton(SmoothedNewton):
    """The state of a problem whose X is an array or a csr_matrix.

    ``executor`` says where parts of the rows are worked on; what comes of it is always the same.
    Scores and the centre are stored class by class, so that what is done to all examples of a
    class needs no loop over few classes.
    """

    def __init__(
        self, problem: MultiProblem, duals: Duals, W: np.ndarray, tolerance: float,
        executor: Serial | None = None,
    ):  # fmt: skip
        m, k = problem.size, problem.k
        # speed only: threads that are started for less work gain nothing
        self._executor = Serial() if executor is None or problem.X.size * k < _WORK else executor
        self.is_exact = is_exact(problem)
        self._c1 = problem.parameters.c1 * problem.weight
        # speed only: rows at a time
        length = max(1, min(_PART // k, _CELLS * m // max(1, problem.X.size)))
        self._parts = [slice(first, first + length) for first in range(0, m, length)]
        none = np.zeros(0, dtype=int)
        self._members = [Members(none, none, np.zeros(m, dtype=int)[rows]) for rows in self._parts]
        self._bends = []
        self.is_large = is_array(problem) and W.size > _MANY and has_many_rows(problem)
        if (self.is_exact or self.is_large) and not duals.alpha.any():
            W = least_squares(problem, W)
            self.names_rivals = self.is_large
        super().__init__(problem, duals, W, tolerance)

    @property
    def active(self) -> int:
        is_active = self.duals.beta > 0
        for rows, members in zip(self._parts, self._members, strict=True):
            is_active[rows] |= members.count > 0
        return int(np.count_nonzero(is_active))

    def release(self) -> None:
        """Let go of the factors, and of what they are made of."""
        super().release()
        self._inner_products = None

    def rivals_changed(self, _examples: np.ndarray, _before: np.ndarray) -> None:
        """Betas of some examples go to other columns; W does not depend on them."""
        self._bends = []
        self._rebuild_dual_weights()

    def _product(self, W: np.ndarray) -> np.ndarray:
        return scores_of(self._X, W).T

    def _rebuild_dual_weights(self) -> None:
        self._dual_W[:] = (self.duals.coefficients(self._target).T @ self._X).T

    def _smooth(self) -> None:
        """Keep the centre a as tau a, as which it is always needed."""
        tau, centre = self._rho / (2 * self._c1), self._centre.T
        # What the smoothing subtracts whatever alpha is.
        self._constant = np.vdot(centre, centre * tau) / 2
        centre *= tau
        self._own_centre = centre.take(self._target * len(tau) + np.arange(len(tau)))

    def _losses(self, change: np.ndarray, step: float) -> float:
        def losses_of(rows: slice) -> tuple[Members, float]:
            with np.errstate(over="ignore", invalid="ignore"):  # a thread has its own settings
                return self._losses_of(rows, change, step)

        found = self._executor.map(losses_of, self._parts)
        self._members, self._bends = [members for members, _ in found], []
        return sum(value for _, value in found) - self._constant

    def _losses_of(self, rows: slice, change: np.ndarray, step: float) -> tuple[Members, float]:
        """The members of some rows, and the sum of their losses."""
        duals, target, c1 = self.duals, self._target[rows], self._c1[rows]
        B = self._scores.T[:, rows] - self._centre.T[:, rows]
        if step:
            B -= change.T[:, rows] if step == 1 else step * change.T[:, rows]
        (k, n), examples = B.shape, np.arange(len(target))
        # Places in a whole array are found several times as fast as pairs of indices.
        own_places = target * n + examples
        own = B.take(own_places)
        above = self._loss_above(rows, B, own)
        B.put(own_places, -np.inf)
        threshold = 1 - self.problem.parameters.theta
        members, p, below = nearest_alphas(B, own - threshold, self._rho / (2 * c1), c1)
        alpha = duals.alpha[rows].reshape(-1)
        alpha[:] = 0.0
        alpha[members.examples * k + members.classes] = -p
        alpha[examples * k + target] = np.bincount(members.examples, p, n)
        return members, float(below + above)

    def _loss_above(self, rows: slice, B: np.ndarray, own: np.ndarray) -> float:
        """The sum of the losses from above, and their betas, from scores less tau a."""
        duals, upper = self.duals, self.duals.upper[rows]
        if not np.isfinite(upper).any():
            duals.beta[rows] = 0.0
            return 0.0
        rival, examples = duals.rival[rows], np.arange(len(own))
        against = B.take(rival * len(own) + examples)
        against += self._centre.T.take(rival * self.problem.size + rows.start + examples)
        over = own + self._own_centre[rows] - np.where(rival < 0, 0.0, against) - upper
        over = np.maximum(0.0, over)
        c2 = self.problem.parameters.c2 * self.problem.weight[rows]
        duals.beta[rows] = 2 * c2 * over
        return over @ (c2 * over)

    def _preconditioner(self):
        # speed only: when a preconditioner is made anew
        self._patience, self._divides = 0, self._has_few_duals()
        if not self._divides:
            return super()._preconditioner()
        if self._inner_products is None:
            K = self._X @ self._X.T
            self._inner_products = K if is_array(self.problem) else K.toarray()
        try:
            columns, k = self._columns(), self.problem.k
            return dual_system.division(self._X, self._inner_products, columns, k)
        except LinAlgError:
            self._is_spoilt = True
            return self._preconditioner()

    def _has_few_duals(self) -> bool:
        """Whether the duals that are not at a bound are few, and so are examples.

        Not before the products of a step have taken as long as their system does, nor any more
        where rounding has spoilt it.
        """
        number = sum(members.classes.size for members in self._members)
        number += np.count_nonzero(self.duals.beta)
        # A product takes 2 m d k multiplications, a factor number^3 / 6.
        work = 12 * self._products * self._X.size * self.problem.k
        # speed only: exact steps or others, the gap decides
        is_worth = self._divides or number <= _SOON or number**3 <= work
        is_small = self.problem.size <= MOST_DUALS and not self._is_spoilt
        return is_small and is_worth and number <= min(MOST_DUALS, _FEW * self.W.size)

    def _columns(self) -> dual_system.Columns:
        """What H_i are made of at the present point."""
        duals, found = self.duals, []
        for rows, (classes, at, count) in zip(self._parts, self._members, strict=True):
            tau, D, _share = self._shares(rows, count)
            order = np.argsort(at, kind="stable")
            classes, at = classes[order], at[order]
            found.append((at + rows.start, classes, self._target[rows][at], tau[at], D[at]))
        above = np.flatnonzero(duals.beta > 0)
        curvature = 2 * self.problem.parameters.c2 * self.problem.weight[above]
        found.append(
            (above, self._target[above], duals.rival[above], 1 / curvature, np.zeros(above.size))
        )
        return dual_system.Columns(*map(np.concatenate, zip(*found, strict=True)))

    def _hessian_times(self, V: np.ndarray) -> np.ndarray:
        if not self._bends:
            self._bends = self._executor.map(self._bend, *self._parts_of_products())

        def times(bend: Bend) -> np.ndarray:
            with np.errstate(over="ignore", invalid="ignore"):
                return bend.X.T @ _curvatures(bend, scores_of(bend.X, V)).T

        return sum(self._executor.map(times, self._bends), start=V)

    def _parts_of_products(self) -> tuple[list[slice], list[Members]]:
        """The parts whose products are added: of sparse rows all, because each is as large as W."""
        if is_array(self.problem):
            return self._parts, self._members
        parts = zip(self._parts, self._members, strict=True)
        moved = [each._replace(examples=each.examples + rows.start) for rows, each in parts]
        whole = Members(*map(np.concatenate, zip(*moved, strict=True)))
        return [slice(0, self.problem.size)], [whole]

    def _bend(self, rows: slice, members: Members) -> Bend:
        """Of some rows, for all products with one Hessian."""
        duals, (classes, at, count) = self.duals, members
        used = np.flatnonzero((count > 0) | (duals.beta[rows] > 0))
        number = np.empty(len(count), dtype=int)
        number[used] = np.arange(len(used))
        tau, n, at = self._rho / (2 * self._c1[rows][used]), len(used), number[at]
        above = np.flatnonzero(duals.beta[rows][used] > 0)
        rival, target = duals.rival[rows][used][above], self._target[rows][used]
        weight = 2 * self.problem.parameters.c2 * self.problem.weight[rows][used][above]
        more = 1 + 1 / self._rho
        return Bend(
            rows_at(self._X, rows.start + used), target * n + np.arange(n),
            classes * n + at, at, 1 / tau[at], 1 / (tau * (count[used] * more + 1)), more,
            above, np.where(rival < 0, -1, rival * n + above), weight,
        )  # fmt: skip

    def _hessian_weights(self) -> np.ndarray:
        duals, weights = self.duals, np.zeros(self._scores.shape)
        examples = np.arange(len(weights))
        for rows, (classes, at, count) in zip(self._parts, self._members, strict=True):
            tau, D, share = self._shares(rows, count)
            weights[rows.start + at, classes] = ((1 - D * share) / tau)[at]
            weights[examples[rows], self._target[rows]] = count * share
        above = np.flatnonzero(duals.beta > 0)
        own, rival = self._target[above], duals.rival[above]
        weight = 2 * self.problem.parameters.c2 * self.problem.weight[above]
        weights[above, own] += weight
        named = rival >= 0
        weights[above[named], rival[named]] += weight[named]
        return weights

    def _shares(self, rows: slice, count: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """tau, D and 1 / (n D + tau) of some rows, n classes of which are in T."""
        tau = self._rho / (2 * self._c1[rows])
        D = tau + tau / self._rho
        return tau, D, 1 / (count * D + tau)

    def _hessian(self) -> np.ndarray | None:
        d, k = self.W.shape
        most = LARGEST_FEATURE_FACTOR if is_array(self.problem) else LARGEST_FACTOR
        if d * k > most or deadline.is_over():
            return None
        H, kept, number = np.zeros((d * k, d * k)), [], 0
        for edges in self._edges():
            kept.append(edges)
            number += edges.weight.size
            if number > _EDGES:
                if deadline.is_over():
                    return None
                add_laplacians(self._X, kept, H)
                kept, number = [], 0
        add_laplacians(self._X, kept, H)
        H.flat[:: d * k + 1] += 1.0
        if not np.any((self.duals.rival < 0) & np.isfinite(self.duals.upper)):
            # Where all classes move together the losses see nothing: there H is 1, which rounding
            # of large numbers would make negative. Gradients have no such part, nor have steps.
            blocks, features = H.reshape(k, d, k, d), np.arange(d)
            mean = np.einsum("apap->p", blocks) / k
            blocks[:, features, :, features] += mean[:, None, None] / k
        return H

    def _edges(self) -> Iterator[Edges]:
        """All of the graphs of which the H_i are Laplacians; a loop where no rival is named."""
        duals, c2 = self.duals, self.problem.parameters.c2 * self.problem.weight
        for rows, (classes, at, count) in zip(self._parts, self._members, strict=True):
            target, i = self._target[rows], at + rows.start
            tau, D, share = self._shares(rows, count)
            yield Edges(i, (classes, target[at]), share[at])
            above = np.flatnonzero(duals.beta[rows] > 0)
            own, rival = target[above], duals.rival[rows][above]
            above += rows.start
            yield Edges(above, (own, np.where(rival < 0, own, rival)), 2 * c2[above])
            several = np.flatnonzero(count[at] > 1)
            several = several[np.argsort(at[several], kind="stable")]
            classes, at, share = classes[several], at[several], share * D / tau
            for distance in range(1, int(count.max(initial=0))):
                first = np.flatnonzero(at[distance:] == at[:-distance])
                pairs = classes[first], classes[first + distance]
                yield Edges(at[first] + rows.start, pairs, share[at[first]])


def is_exact(problem: MultiProblem) -> bool:
    """Whether every step has a factor of its own, because that costs little."""
    unknowns = problem.X.shape[1] * problem.k
    is_soon = unknowns <= LARGEST_FACTOR and unknowns**2 <= _EXACT * problem.size
    return is_soon and is_array(problem)


def is_array(problem: MultiProblem) -> bool:
    """Whether rows are an array; else they are sparse."""
    return isinstance(problem.X, np.ndarray)


def rows_at(X, places: np.ndarray):
    """Some rows of either form."""
    # Several times as fast as by an index.
    return X.take(places, axis=0) if isinstance(X, np.ndarray) else X[places]


def scores_of(X, W: np.ndarray) -> np.ndarray:
    """Class by class, shape (k, m)."""
    return np.ascontiguousarray(W.T @ X.T)


def _curvatures(bend: Bend, change: np.ndarray) -> np.ndarray:
    """H_i times column i of a change of the scores, shape (k, n)."""
    own = change.take(bend.own)
    v = change.take(bend.members) - own.take(bend.at)
    s = np.bincount(bend.at, v, own.size) * bend.share
    result = np.zeros_like(change)
    result.put(bend.members, v * bend.steepness - bend.more * s.take(bend.at))
    against = np.where(bend.rival < 0, 0.0, change.take(bend.rival))
    move = bend.weight * (own.take(bend.above) - against)
    s[bend.above] -= move
    result.put(bend.own, -s)
    named = bend.rival >= 0
    # No two of them are at one place.
    places = bend.rival[named]
    result.put(places, result.take(places) - move[named])
    return result


def least_squares(problem: MultiProblem, W: np.ndarray) -> np.ndarray:
    """The W whose own scores are by 1 above all others, by squares with the weight of the loss.

    The given one where that is not to be had.
    """
    X, k, c = problem.X, problem.k, 2 * problem.parameters.c1 * problem.weight
    A = X.T @ (c[:, None] * X)
    A.flat[:: len(A) + 1] += 1.0
    wanted = np.full((problem.size, k), -1 / k)
    wanted[np.arange(problem.size), problem.target] += 1
    right = X.T @ (c[:, None] * wanted)
    with contextlib.suppress(LinAlgError):
        return np.asarray(cholesky_solve(cholesky_in_place(A), right), order="C")
    return W


def add_laplacians(X: np.ndarray, several: list[Edges], H: np.ndarray) -> None:
    """Add the sum of w (e_a - e_b)(e_a - e_b)' (x) x_i x_i' to the lower triangle of H."""
    d = X.shape[1]
    if not (several and d):
        return
    k = len(H) // d
    blocks = H.reshape(k, d, k, d)
    keys = np.concatenate([np.maximum(a, b) * k + np.minimum(a, b) for _, (a, b), _ in several])
    # Numbers of 16 bits are sorted by counting.
    keys = keys.astype(np.min_scalar_type(k * k))
    order, sizes = np.argsort(keys, kind="stable"), np.bincount(keys)
    examples = np.concatenate([edges.examples for edges in several])[order]
    roots = np.sqrt(np.concatenate([edges.weight for edges in several])[order])[:, None]
    # speed only: rows at a time
    ends, step = np.cumsum(sizes), max(1, _CELLS // d)
    for key in np.flatnonzero(sizes):
        end, G = ends[key], np.zeros((d, d))
        for first in range(end - sizes[key], end, step):
            some = slice(first, min(first + step, end))
            part = rows_at(X, examples[some])
            part = part if isinstance(part, np.ndarray) else part.toarray()
            part *= roots[some]
            G += part.T @ part
        a, b = divmod(int(key), k)
        blocks[a, :, a] += G
        if a != b:
            blocks[b, :, b] += G
            blocks[a, :, b] -= G


def nearest_alphas(B, e, tau, c1) -> tuple[Members, np.ndarray, float]:
    """The maximisers alpha of all examples; see :mod:`odmtool.solvers.mcodm.step`.

    B has shape (k, rows), with -inf at the examples' own classes, the others (rows,).

    Returns
    -------
    members : Members
    p : ndarray
        Their -alpha.
    value : float
        What is maximised, without what alpha does not change; the sum over examples.
    """
    rows, D = len(e), tau + 0.5 / c1
    least = np.maximum(0.0, B.max(axis=0) - e) * (D / (D + tau)) + e
    places = np.flatnonzero(least < B)
    classes = places // rows
    at = places - classes * rows
    over = B.ravel().take(places) - e.take(at)
    while True:
        count = np.bincount(at, minlength=rows)
        rest = np.bincount(at, over, rows) * (D / (count * D + tau))
        excess = over - rest.take(at)
        stays = np.flatnonzero(excess > 0)
        if stays.size == at.size:
            break
        classes, at, over = classes.take(stays), at.take(stays), over.take(stays)
    p = excess / tau.take(at)
    # A concave quadratic function without constant is half its linear part where it is largest.
    return Members(classes, at, count), p, p @ over / 2
