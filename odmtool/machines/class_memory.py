"""What several classes take in memory, and which of them fit nowhere."""

from __future__ import annotations

from odmtool import messages
from odmtool.core.gram import BYTES
from odmtool.core.memory import CLASS_DUALS, CLASS_SCORES, COPIES, PAIR, free
from odmtool.errors import MemoryLimitError
from odmtool.machines.codes import length
from odmtool.machines.data import features_in_use, weight_bytes
from odmtool.solvers.linear_cost import nonzeros
from odmtool.solvers.table import NEWTON_MATRICES


def refuse_classes(machine, X, k: int) -> None:
    """Refuse a training whose numbers for k classes fit nowhere.

    They come on top of ``--memory``, but where they need more than that and than all that is
    free, the system would end this process, or another one.

    Raises
    ------
    MemoryLimitError
    """
    has_scores = machine.name in CLASS_SCORES
    needed = class_bytes(machine, X, k) if has_scores else _least_bytes(machine, *X.shape, k)
    # Who asks what is free reads files of the system, and folds and settings are many.
    room = machine.memory_limit()
    if needed > room and needed > (room := max(room, free())):
        raise MemoryLimitError(messages.classes_too_large(k, X.shape[0], needed, room))


def _least_bytes(machine, m: int, d: int, k: int) -> float:
    """What a machine of two classes holds at least for k of them.

    These are the duals of every class; coefficients or weights of every pair, and the pair; the
    distances of the words of a code.
    """
    if k <= 2:
        return 0
    if (reduction := machine.reduction(k)) != "ovo":
        return BYTES * (m * k if reduction == "ovr" else k * k)
    pairs = k * (k - 1) // 2
    return PAIR * pairs + BYTES * (d * pairs if machine.kernel == "linear" else m * (k - 1))


def class_bytes(machine, X, k: int) -> float:
    """Bytes for what every class, or every pair of classes, has of its own."""
    m, has_one = X.shape[0], machine.name not in CLASS_SCORES and k <= 2
    weights = weight_bytes(X) if machine.kernel == "linear" else 0
    if has_one:
        return weights
    if machine.name in CLASS_SCORES:
        scores = CLASS_SCORES[machine.name] * m * k
        return BYTES * (scores + _system(machine, X, k)) + weights * k
    reduction = machine.reduction(k)
    if reduction == "ecoc":
        return BYTES * length(k) * CLASS_DUALS * m + weights * length(k)
    if reduction == "ovr":
        return BYTES * CLASS_DUALS * m * k + weights * k
    pairs = k * (k - 1) // 2
    functions = weights * pairs or BYTES * COPIES * m * (k - 1)
    return BYTES * CLASS_DUALS * m * (k - 1) + functions + PAIR * pairs


def _system(machine, X, k: int) -> float:
    """Numbers of the Hessian, or of mcodm's blocks of it, and of what they are made in."""
    from odmtool.solvers.multi import LARGEST_BLOCKS, LARGEST_FEATURE_FACTOR, LARGEST_WEIGHTS

    m, d = X.shape[0], features_in_use(X)
    unknowns, blocks = k * (d + 1), k * d * d
    if machine.kernel != "linear":
        return _features(m, k) if machine.name == "mcodm" else 0
    if machine.name == "mcsvm":
        return 2 * unknowns**2 if d * k <= LARGEST_WEIGHTS else 0
    if machine.name != "mcodm":
        return _system_of_pairs(m, d, k, nonzeros(X))
    if unknowns > LARGEST_FEATURE_FACTOR and blocks > LARGEST_BLOCKS:
        return 0
    whole = unknowns**2 if unknowns <= LARGEST_FEATURE_FACTOR else blocks
    return 3 * whole + _dual_system(m, d, k)


def _system_of_pairs(m: int, d: int, k: int, entries: int) -> float:
    """Numbers of the Hessian of m3svm or of blocks of it, and of the same in a span."""
    from odmtool.solvers.m3svm.blocks import planned_numbers
    from odmtool.solvers.m3svm.span import planned_side
    from odmtool.solvers.m3svm.system import LARGEST_SYSTEM

    def hessian(m: int, d: int, entries: int) -> float:
        unknowns = k * (d + 1)
        is_small = unknowns <= LARGEST_SYSTEM
        return 3 * unknowns**2 if is_small else planned_numbers(m, d + 1, k, entries)

    # X X', its factor and one on the way.
    side = planned_side(m, d, entries)
    return hessian(m, d, entries) + 3 * side**2 + hessian(side, side, side**2)


def _dual_system(m: int, d: int, k: int) -> float:
    """Numbers of mcodm's system among few duals, of what it is made in, and of X X'."""
    from odmtool.solvers.multi import MOST_DUALS

    return 3 * min(MOST_DUALS, m * k, d * k) ** 2 + m * m if m <= MOST_DUALS else 0


def _features(m: int, k: int) -> float:
    """Numbers of mcodm's features of a kernel, and of the matrices of their Hessian."""
    from odmtool.solvers.multi import (
        FEATURE_MATRICES,
        LARGEST_BLOCKS,
        LARGEST_FEATURE_FACTOR,
        LARGEST_FEATURES,
    )

    if m > LARGEST_FEATURES:
        return 0
    factors = min(LARGEST_FEATURE_FACTOR, m * k) ** 2 + min(k * m * m, LARGEST_BLOCKS)
    matrices = (FEATURE_MATRICES - NEWTON_MATRICES) * m * m
    return matrices + 2 * factors + _dual_system(m, m, k)
