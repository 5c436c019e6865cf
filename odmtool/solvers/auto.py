"""What ``auto`` takes: Newton's method, landmarks, coordinate descent, or one after the other.

Coordinate descent needs few epochs when lambda is small and more than anyone can wait for when
it is large; Newton's method needs a few steps for every lambda, but a step costs as much as
many epochs. So a small problem gets Newton's method at once, and a large one coordinate descent
for about as long as Newton's method would take, or until its gap falls too slowly for that
(:mod:`odmtool.solvers.descent.trend`), and Newton from there if that was not enough: whichever
is right, little is lost. For linear problems both are estimated
(:mod:`odmtool.solvers.linear_cost`; benchmarks/solvers.py measures what comes of it). Where
Newton's method does not apply, it is coordinate descent only. Large problems with a kernel get
landmarks (docs/kernel-engine.md), and Newton's method on the whole matrix where these, in single
precision, do not reach the tolerance and there is room for it; or the matrix at once where no
example is near another, so that landmarks would have to be all.
"""

from __future__ import annotations

from typing import NamedTuple

from odmtool.core import losses
from odmtool.core.gram import BYTES, Gram
from odmtool.core.kernel_table import DISTANCES, STORED
from odmtool.core.kernels import Kernel, are_apart
from odmtool.core.loss_table import JUMPS, OF_KMOMD, SMOOTH
from odmtool.solvers import linear_cost, table
from odmtool.solvers.base import Problem

# Up to these sizes Newton is done before compiled code has been loaded.
_SMALL_GRAM = 1500
# A Newton step on a kernel costs as much as m / 120 epochs, of 1000 examples as half of that.
_EPOCHS_PER_EXAMPLE = 1 / 40
_MOST_EPOCHS = 1000
DESCENT_GRAM = 2500
"""Up to this size, of many problems each gets coordinate descent first, and no landmarks."""
# Up to this size coordinate descent follows where landmarks are far from enough: that for which
# 1 GB holds the matrices of Newton's method, which may have to follow it.
_MIDDLING = 7900
# u l'' k(x, x) from which single precision hides the 1 in 1 + u l'' k; and double precision.
_SINGLE, _DOUBLE = 2.0**24, 2.0**53
# Bytes that it may take where landmarks are not enough.
_OF_NEWTON = 1e9
# So much more than its matrices it takes with 7800 examples.
_OVER = 1.15
# With a jump Newton's steps are more, and for LDM a dense matrix is made first; both take
# operations in proportion to m^3, or m d min(m, d) for a linear problem. Of many features nothing
# tells how many epochs Newton's method costs.
_SMALL_PRODUCT = 5e8
_SMALL_NONZEROS_WITH_JUMP = 200_000
_EPOCHS_WITH_JUMP = 1 / 20
_LINEAR_EPOCHS_WITH_JUMP, _LEAST_EPOCHS_WITH_JUMP = 100, 20
# Bytes for the fewest landmarks, for each example and for the sample; for some tens, where
# nothing but coordinate descent follows.
_ROOM, _ROOM_WITH_JUMP = (80, 2.4e6), (512, 1e7)


class Schedule(NamedTuple):
    """One solver, or another after it where it has not converged.

    ``epochs`` end dcd earlier where it is first, ``last_epochs`` where it follows. :data:`EITHER`
    is landmarks, or dcd where that is cheaper than what these need.
    """

    first: str
    epochs: int | None = None
    then: str | None = "newton"
    last_epochs: int | None = None


EITHER = "landmarks or dcd"

# Where rounding stops Newton's method far away, coordinate descent can be nearer.
_SMALL = Schedule("newton", then="dcd")


def choose(problem: Problem, is_one_of_many: bool = False) -> Schedule:
    """What ``auto`` does with a problem, alone or one of so many that compiled code pays."""
    kind = problem.loss.kind
    newton = table.SOLVERS["newton"].way(kind, problem.kernel_name)
    if kind == OF_KMOMD:
        return Schedule("newton")
    if kind != SMOOTH and takes_landmarks(problem.gram, kind):
        return Schedule("landmarks")
    if newton is None:
        return Schedule("dcd")
    if kind != SMOOTH:
        return _choose_with_jump(problem, is_one_of_many)
    is_first = is_one_of_many and problem.gram is not None and problem.size <= DESCENT_GRAM
    is_large = takes_landmarks(problem.gram) and not _is_for_matrix(problem)
    if is_first and newton.fits(problem.gram):
        then = "landmarks" if is_large else "newton"
        return _descent_first(problem.size * _EPOCHS_PER_EXAMPLE)._replace(then=then)
    if is_large and problem.size <= _MIDDLING and newton.fits(problem.gram):
        return _descent_first(problem.size * _EPOCHS_PER_EXAMPLE)._replace(first=EITHER)
    if is_large:
        return Schedule("landmarks")
    if not newton.fits(problem.gram):
        return Schedule("dcd")
    if problem.gram is not None:
        if problem.size <= _SMALL_GRAM:
            return _SMALL
        return _descent_first(problem.size * _EPOCHS_PER_EXAMPLE)
    newton_cost, (m, d) = linear_cost.newton_cost(problem), problem.X.shape
    descent_cost = linear_cost.descent_cost(problem)
    if m < d:
        # Of so few examples rows may be so far from each other that few epochs do for any lambda.
        descent_cost = min(descent_cost, linear_cost.trial_cost(problem.X))
    if newton_cost <= descent_cost:
        return Schedule("newton")
    return Schedule("dcd", max(1, int(newton_cost / linear_cost.epoch_cost(problem.X))))


def _is_for_matrix(problem: Problem) -> bool:
    """Whether landmarks say little, and there is room for the matrices of Newton's method.

    Single precision, that of features, hides the solution, and double does not; or the examples
    are so far from each other that none of them spans others, and the matrix is nearly diagonal.
    """
    gram = problem.gram
    if not has_room(gram.size, gram.memory):
        return False
    return _SINGLE < largest_slope(problem) < _DOUBLE or are_apart(gram.kernel, gram.X)


def is_for_single(problem: Problem, tolerance: float) -> bool:
    """Whether coordinate descent, if something follows it, takes values in single precision.

    They are those of distances, the matrix is made for it, and they hide little.
    """
    gram = problem.gram
    if problem.loss.kind != SMOOTH or not is_of_distances(gram) or gram.bytes > gram.memory:
        return False
    return holds_single(largest_slope(problem), gram.size, tolerance)


def is_of_distances(gram: Gram | None) -> bool:
    """Whether there are kernel values of distances to be made."""
    is_made = gram is not None and gram.X is not None and not gram.is_computed
    return is_made and gram.kernel.row.of == DISTANCES


def holds_single(largest: float, m: int, tolerance: float) -> bool:
    """Whether rounding values to single precision hides less than the tolerance, about.

    Margins of m duals c are off by m c / 2^24, and the losses by l'' / 2 times the square, of which
    P has m c / 2 in all. With c about 1, l'' (m / 2^24)^2 is the share of P.
    """
    return largest * (m / _SINGLE) ** 2 <= tolerance


def largest_slope(problem: Problem) -> float:
    """The largest u l'' k(x, x)."""
    slope = losses.largest_slope(problem.loss)
    return float(slope * problem.weight.max() * problem.gram.diagonal().max())


def newton_follows(problem: Problem) -> bool:
    """Whether Newton's method takes a kernel problem where landmarks are not enough."""
    gram = problem.gram
    return problem.loss.kind == SMOOTH and has_room(gram.size, gram.memory)


def newton_bytes(m: int, memory: float, pairs: int = 0) -> float:
    """What Newton's method takes at most after landmarks of m examples; 0 if it does not follow.

    With ``pairs`` of classes at a time, each of these has some of the examples.
    """
    matrices = newton_matrices_bytes(m)
    if pairs:
        return min(memory, _OVER * pairs * min(matrices, _OF_NEWTON))
    return min(memory, _OVER * matrices) if has_room(m, memory) else 0.0


def has_room(m: int, memory: float) -> bool:
    """Whether Newton's method on m examples takes 1 GB at most, or no more than landmarks may."""
    from odmtool.solvers.engine.room import needed_bytes

    most = min(memory, max(_OF_NEWTON, needed_bytes(m, memory)))
    return newton_matrices_bytes(m) <= most


def newton_matrices_bytes(m: int, kind: str = SMOOTH) -> float:
    """What the kernel matrix of m examples, and what Newton's method makes of it, take."""
    return table.newton_matrices(kind) * BYTES * m * m


def _descent_first(epochs: float) -> Schedule:
    return Schedule("dcd", min(_MOST_EPOCHS, int(epochs)))


def takes_landmarks(gram: Gram | None, kind: str = SMOOTH) -> bool:
    """Whether a kernel problem with such a loss gets landmarks; its rows must be here."""
    if gram is None or gram.X is None:
        return False
    return has_landmarks(gram.kernel, gram.size, gram.memory, kind)


def has_landmarks(kernel: Kernel, m: int, memory: float, kind: str = SMOOTH) -> bool:
    """Whether ``auto`` takes landmarks for m examples, if the loss is of this kind.

    The kernel must be positive semidefinite and computed from rows, the examples many, and
    in ``memory`` bytes there must be room for some landmarks.
    """
    if kernel.row.of == STORED or not kernel.is_positive_semidefinite or kind == OF_KMOMD:
        return False
    # Where the derivative jumps, the problem in the span takes coordinate descent, too.
    least = _SMALL_GRAM if kind == SMOOTH else DESCENT_GRAM
    return m > least and memory >= landmarks_memory(m, kind)


def landmarks_memory(m: int, kind: str = SMOOTH) -> float:
    """Bytes from which ``auto`` takes landmarks for m examples."""
    an_example, sample = _ROOM if kind == SMOOTH else _ROOM_WITH_JUMP
    return an_example * m + sample


def _choose_with_jump(problem: Problem, is_one_of_many: bool) -> Schedule:
    """The same for LDM and for losses with a jump, where Newton takes more steps."""
    from odmtool.solvers.ldm import newton as ldm_newton

    has_two = problem.loss.kind == JUMPS
    newton = table.SOLVERS["newton"].way(problem.loss.kind, problem.kernel_name)
    if not (newton.fits(problem.gram) and ldm_newton.fits(problem)):
        return Schedule("dcd")
    if problem.gram is not None:
        # Where the loss jumps twice, Newton's method has every example twice.
        size = 2 * problem.size if has_two else problem.size
        if has_two and size > DESCENT_GRAM:
            return Schedule("dcd")
        is_small = size**3 <= _SMALL_PRODUCT
        if is_small and not is_one_of_many:
            return _SMALL
        return _descent_first(problem.size * _EPOCHS_WITH_JUMP)
    X, kind = problem.X, problem.loss.kind
    has_few = linear_cost.nonzeros(X) <= _SMALL_NONZEROS_WITH_JUMP
    if not linear_cost.has_few_columns(X):
        m, d = X.shape
        is_small = m * d * min(m, d) <= _SMALL_PRODUCT and has_few
        return _SMALL if is_small else Schedule("dcd", _LINEAR_EPOCHS_WITH_JUMP)
    cost = linear_cost.jump_newton_cost(X, kind)
    if cost <= linear_cost.least_descent_cost(X, kind):
        return _SMALL if has_few else _SMALL._replace(last_epochs=_LINEAR_EPOCHS_WITH_JUMP)
    epochs = int(cost / linear_cost.epoch_cost(X, kind))
    return Schedule("dcd", max(_LEAST_EPOCHS_WITH_JUMP, epochs))
