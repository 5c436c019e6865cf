"""odm-train."""

from __future__ import annotations

from odmtool.messages.words import quoted, size


def compiling(is_kept: bool) -> str:
    if is_kept:
        return "compiling, first run only"
    return "compiling (every run: no folder for the code can be written; set NUMBA_CACHE_DIR)"


def version() -> str:
    from odmtool import __version__

    return f"odmtool {__version__}"


def wrong_weight(token: bytes) -> str:
    return f"expected a weight, a number >= 0, got {quoted(token)}"


def weight_count(weights: int, examples: int) -> str:
    return f"{weights} weights for {examples} examples: give one weight per example"


def weights_negative() -> str:
    return "weights must be finite and not negative"


def all_weights_zero() -> str:
    return "all weights are zero: there is nothing to train on"


def no_such_class(label: int) -> str:
    return f"class {label} of -w{label} does not occur in the data"


def one_class(label: int) -> str:
    return f"the data have one class only, {label}: the model will always answer {label}"


def one_class_weighs(label: int) -> str:
    return f"only the examples of class {label} have a weight above 0: no other class is learned"


def serial_beyond(example: int, serial: int, width: int) -> str:
    return (
        f"example {example} has the serial number {serial}, but the rows have only {width} "
        f"kernel values"
    )


def not_symmetric(i: int, j: int, value: float, mirrored: float) -> str:
    return (
        f"the precomputed kernel is not symmetric: K({i},{j}) is {value:g}, "
        f"but K({j},{i}) is {mirrored:g}"
    )


def lines_skipped(count: int) -> str:
    return f"{count} blank or comment lines skipped"


def progress(state) -> str:
    objective = "" if state.primal is None else f"objective {state.primal:.6g}, "
    about = "" if state.primal is not None else "about "
    is_known = state.gap == state.gap  # NaN is not
    gap = f"gap {about}{state.gap:.2g}, " if is_known else ""
    return f"iteration {state.iteration}, {objective}{gap}active {state.active}"


def summary(machine, examples: int, seconds: dict[str, float]) -> str:
    solution = machine.solution_
    what = "" if not solution.converged else "optimal, " if solution.optimal else "stationary, "
    count = machine.support_count
    vectors = "" if count is None else f"{count} support vectors of {examples}; "
    spent = ", ".join(f"{name} {value:.3f}" for name, value in seconds.items())
    return (
        f"objective {solution.primal:.10g}, {_how_near(solution)} ({what}tolerance "
        f"{machine.tolerance:g}), {_iterations(solution)} ({solution.solver}), "
        f"{vectors}seconds: {spent}"
    )


def _iterations(solution) -> str:
    return f"{solution.iterations} iteration{'' if solution.iterations == 1 else 's'}"


def _how_near(solution) -> str:
    gradient = getattr(solution, "gradient", None)
    if gradient is None:
        return f"gap {solution.gap:.2g}"
    return f"gradient {gradient:.2g} of the first"


def not_converged(solution, tolerance: float, has_newton: bool) -> str:
    is_other = has_newton and "newton" not in solution.solver
    other = ", --solver newton" if is_other else ""
    constant = " (the model is constant)" if solution.support_count == 0 else ""
    return (
        f"the tolerance {tolerance:g} was not reached: {_how_near(solution)} after "
        f"{_iterations(solution)} of {solution.solver}{constant}; scale the features "
        f"(odm-scale), or take a smaller lambda{other} or a larger --max-iter"
    )


def no_model_written(sentence: str) -> str:
    return f"{sentence}; no model was written (--strict)"


def mu_range(mu: float) -> str:
    hint = f"; for LIBSVM's cache size write --memory {mu:g}M" if mu >= 10 else ""
    return f"-m is mu and must satisfy 0 < mu <= 1, not {mu:g}{hint}"


def dual_unbounded(eigenvalue: float | None = None) -> str:
    why = "" if eigenvalue is None else f" (its smallest eigenvalue here is {eigenvalue:.3g})"
    return (
        f"no solution: the kernel is not positive definite{why} and the dual is unbounded; "
        f"take a smaller lambda, another gamma or coef0, or -t rbf"
    )


def values_too_large(example: int) -> str:
    return (
        f"the values of example {example} are so large that numbers overflow; "
        f"scale the features (odm-scale)"
    )


def overflow() -> str:
    return (
        "numbers overflow: scale the features (odm-scale), or take a smaller lambda, weight, "
        "bias or gamma"
    )


def newton_needs_convex(eigenvalue: float) -> str:
    return (
        f"--solver newton needs a convex dual, but the kernel's smallest eigenvalue is "
        f"{eigenvalue:.3g}; take a smaller lambda or --solver dcd"
    )


def ldm_needs_convex(eigenvalue: float) -> str:
    return (
        f"this solver of ldm needs a positive semidefinite kernel, but the smallest eigenvalue is "
        f"{eigenvalue:.3g}; take --solver dcd"
    )


def ldm_newton_too_large(m: int, d: int) -> str:
    return (
        f"--solver newton for ldm needs few examples or few features; {m} examples with {d} "
        f"features are too many; take --solver dcd"
    )


def dense_too_large(m: int, most: int) -> str:
    return (
        f"--solver dcd-dense takes at most {most} examples, there are {m}; take --solver dcd, "
        f"which solves the same problem without the dense matrix"
    )


def newton_needs_smooth() -> str:
    return "--solver newton needs a loss whose derivative jumps once at most; take --solver dcd"


def solver_is_linear(name: str) -> str:
    return f"--solver {name} is for linear machines; leave -t out, or take --solver dcd"


def solver_for_ldm(name: str) -> str:
    return f"--solver {name} is for -s ldm; take --solver auto"


def solver_of_machine(name: str, machine: str, solvers: tuple[str, ...]) -> str:
    return f"--solver {name} is not for -s {machine}; take {', '.join(solvers)}"


def solver_of_others(name: str, solvers: tuple[str, ...]) -> str:
    return f"--solver {name} is for -s m3svm and -s ism3 only; take {', '.join(solvers)}"


def machine_is_linear(machine: str) -> str:
    return f"-s {machine} is linear: leave -t out, or take -s mcodm"


def machine_has_biases(machine: str) -> str:
    return f"-s {machine} has an intercept for every class: leave -B out"


def svrg_needs_smooth() -> str:
    return (
        "--solver svrg needs a loss without jumps in its derivative, or -s ldm; take --solver dcd"
    )


def unknown_solver(name: str, solvers: tuple[str, ...]) -> str:
    return f"unknown solver {quoted(name)}; choose {', '.join(solvers)}"


def matrix_not_kept(m: int, memory: float) -> str:
    return (
        f"the kernel matrix of {m} examples does not fit in --memory ({size(memory)}) as often as "
        f"needed; kernel values are computed again and again, which takes longer"
    )


def matrix_too_large(m: int, needed: float, memory: float) -> str:
    return (
        f"the kernel matrix of {m} examples and its factor need {size(needed)}, more than the "
        f"{size(memory)} of --memory; take --solver dcd or give more --memory"
    )


def theta_range(theta: float) -> str:
    return f"-p is theta and must satisfy 0 <= theta < 1, not {theta:g}"


def unknown_multi_class_loss(name: str, losses: tuple[str, ...]) -> str:
    return f"unknown loss {name}: choose one of {', '.join(losses)}"


def power_range(power: float) -> str:
    return f"power must be a number >= 1 (below 1 the problem is not convex), got {power:g}"


def linear_only(machine: str) -> str:
    return f"machine {machine} has no kernels: leave -t out or write -t linear"
