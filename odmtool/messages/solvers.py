"""What a solver cannot do, and problems that none can solve."""

from __future__ import annotations

from odmtool.messages.words import sentence, size, some_labels

cannot_start_from = sentence(
    "‹start_from› needs a machine of two classes with a smooth loss, not ‹machine={machine}›"
)


def start_of_other_classes(classes, others) -> str:
    return (
        f"‹start_from› needs data and a model of the same two classes: the data have "
        f"{some_labels(classes)}, the model has {some_labels(others)}"
    )


machine_is_linear = sentence(
    "‹machine={machine}› is linear: leave ‹kernel› out, or take ‹machine=mcodm›"
)
machine_has_biases = sentence(
    "‹machine={machine}› has an intercept for every class: leave ‹bias› out"
)
machine_has_intercept = sentence(
    "‹machine={machine}› has an intercept of its own: leave ‹bias› out"
)
linear_only = sentence(
    "machine {machine} has no kernels: leave ‹kernel› out or write ‹kernel=linear›"
)
needs_convex = sentence(
    "‹solver={name}› needs a convex dual, but the kernel's smallest eigenvalue is "
    "{eigenvalue:.3g}; take a smaller lambda or ‹solver=dcd›"
)
ldm_needs_convex = sentence(
    "this solver of ldm needs a positive semidefinite kernel, but the smallest eigenvalue is "
    "{eigenvalue:.3g}; take ‹solver=dcd›"
)
kmomd_needs_convex = sentence(
    "‹machine=kmomd› needs a positive semidefinite kernel, but the smallest eigenvalue is "
    "{eigenvalue:.3g}"
)
ldm_newton_too_large = sentence(
    "‹solver=newton› for ldm needs few examples or few features; {m} examples with {d} "
    "features are too many; take ‹solver=dcd›"
)
path_too_large = sentence(
    "‹solver=path› takes at most {most} examples of a linear problem, there are {m}; take "
    "‹solver=newton› or ‹solver=dcd›"
)

mcsvm_newton_too_large = sentence(
    "‹solver=newton› takes at most {most} weights of ‹machine=mcsvm›, and {d} features of {k} "
    "classes are more; take ‹solver=dcd›"
)


def dense_too_large(m: int, most: int) -> str:
    return (
        f"‹solver=dcd-dense› takes at most {most} examples, there are {m}; take ‹solver=dcd›, "
        "which solves the same problem without the dense matrix"
    )


def matrix_too_large(m: int, needed: float, memory: float, has_dcd: bool = True) -> str:
    other = "take ‹solver=dcd› or " if has_dcd else ""
    return (
        f"the kernel matrix of {m} examples and its factor need {size(needed)}, more than the "
        f"{size(memory)} of ‹memory›; {other}give more ‹memory›"
    )


def dual_unbounded(eigenvalue: float | None = None, is_stored: bool = False) -> str:
    return (
        f"no solution: {_not_definite(eigenvalue)} and the dual is unbounded; take a "
        f"smaller lambda‹or=l1svm› or {_another_kernel(is_stored)}"
    )


def none_found(
    eigenvalue: float | None = None, is_stored: bool = False, has_fallen: bool = False
) -> str:  # fmt: skip
    end = "found no end of the objective's fall" if has_fallen else (
        "ended above the objective of no model"
    )  # fmt: skip
    return (
        f"no solution was found: {_not_definite(eigenvalue)} and coordinate descent {end}; "
        f"take a smaller lambda or {_another_kernel(is_stored)}"
    )


def _another_kernel(is_stored: bool) -> str:
    return "another kernel" if is_stored else "another gamma, coef0 or kernel (‹kernel=rbf›)"


def _not_definite(eigenvalue: float | None) -> str:
    why = "" if eigenvalue is None else f" (its smallest eigenvalue here is {eigenvalue:.3g})"
    return f"the kernel is not positive definite{why}"


overflow = sentence(
    "numbers overflow: scale the features‹command=scale›, or take a smaller lambda, weight, "
    "bias or gamma"
)

rounding_hides = sentence(
    "the numbers are so large that rounding hides the solution: scale the features‹command=scale›, "
    "or take a smaller gamma or degree"
)


def no_solution(is_definite: bool) -> str:
    """Why a training has none, with a kernel that is positive semidefinite or may not be."""
    return overflow() if is_definite else dual_unbounded()


landmarks_need_definite = sentence(
    "‹solver=landmarks› needs a kernel without negative eigenvalues; take ‹solver=auto›"
)
features_too_large = sentence(
    "the features of {m} examples need {needed!b}, more than the {memory!b} of "
    "‹memory›; take fewer ‹landmarks›, a machine with a smooth loss (odm), or more ‹memory›"
)
