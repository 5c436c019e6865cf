"""What a solver cannot do, and problems that none can solve."""

from __future__ import annotations

from odmtool.messages.words import size


def solver_is_linear(name: str) -> str:
    return f"‹solver={name}› is for linear machines; leave ‹kernel› out, or take ‹solver=dcd›"


def solver_for_ldm(name: str) -> str:
    return f"‹solver={name}› is for ‹machine=ldm›; take ‹solver=auto›"


def solver_of_machine(name: str, machine: str, solvers: tuple[str, ...]) -> str:
    return f"‹solver={name}› is not for ‹machine={machine}›; take {', '.join(solvers)}"


def solver_of_others(name: str, solvers: tuple[str, ...]) -> str:
    return (
        f"‹solver={name}› is for ‹machine=m3svm› and ‹machine=ism3› only; take {', '.join(solvers)}"
    )


def machine_is_linear(machine: str) -> str:
    return f"‹machine={machine}› is linear: leave ‹kernel› out, or take ‹machine=mcodm›"


def machine_has_biases(machine: str) -> str:
    return f"‹machine={machine}› has an intercept for every class: leave ‹bias› out"


def linear_only(machine: str) -> str:
    return f"machine {machine} has no kernels: leave ‹kernel› out or write ‹kernel=linear›"


def svrg_needs_smooth() -> str:
    return (
        "‹solver=svrg› needs a loss without jumps in its derivative, or ‹machine=ldm›; take "
        "‹solver=dcd›"
    )


def newton_needs_smooth() -> str:
    return "‹solver=newton› needs a loss whose derivative jumps once at most; take ‹solver=dcd›"


def newton_needs_convex(eigenvalue: float) -> str:
    return (
        "‹solver=newton› needs a convex dual, but the kernel's smallest eigenvalue is "
        f"{eigenvalue:.3g}; take a smaller lambda or ‹solver=dcd›"
    )


def ldm_needs_convex(eigenvalue: float) -> str:
    return (
        "this solver of ldm needs a positive semidefinite kernel, but the smallest eigenvalue is "
        f"{eigenvalue:.3g}; take ‹solver=dcd›"
    )


def ldm_newton_too_large(m: int, d: int) -> str:
    return (
        f"‹solver=newton› for ldm needs few examples or few features; {m} examples with {d} "
        "features are too many; take ‹solver=dcd›"
    )


def dense_too_large(m: int, most: int) -> str:
    return (
        f"‹solver=dcd-dense› takes at most {most} examples, there are {m}; take ‹solver=dcd›, "
        "which solves the same problem without the dense matrix"
    )


def matrix_too_large(m: int, needed: float, memory: float) -> str:
    return (
        f"the kernel matrix of {m} examples and its factor need {size(needed)}, more than the "
        f"{size(memory)} of ‹memory›; take ‹solver=dcd› or give more ‹memory›"
    )


def dual_unbounded(eigenvalue: float | None = None) -> str:
    why = "" if eigenvalue is None else f" (its smallest eigenvalue here is {eigenvalue:.3g})"
    return (
        f"no solution: the kernel is not positive definite{why} and the dual is unbounded; take a "
        "smaller lambda, another gamma or coef0, or ‹kernel=rbf›"
    )


def overflow() -> str:
    return (
        "numbers overflow: scale the features (odm-scale), or take a smaller lambda, weight, "
        "bias or gamma"
    )


def scalable_not_for_ldm(solver: str) -> str:
    return f"‹solver={solver}› is not for ‹machine=ldm›; take ‹solver=auto›"


def scalable_needs_rows(solver: str) -> str:
    return f"‹solver={solver}› needs the examples, not ‹kernel=precomputed›; take ‹solver=auto›"


def nystrom_needs_kernel() -> str:
    return "‹solver=nystrom› is for kernels: write ‹kernel=rbf›, or take ‹solver=auto›"


def dsvrg_needs_smooth() -> str:
    return (
        "‹solver=dsvrg› needs a loss without jumps in its derivative, as that of ‹machine=odm›; "
        "take ‹solver=sodm›"
    )


def features_too_large(m: int, needed: float, memory: float) -> str:
    return (
        f"the features of {m} examples need {size(needed)}, more than the {size(memory)} of "
        "‹memory›; take fewer ‹landmarks›, a machine with a smooth loss (odm), or more ‹memory›"
    )
