"""odm-train."""

from __future__ import annotations

from odmtool.messages.words import sentence


def compiling(is_kept: bool) -> str:
    if is_kept:
        return "compiling, first run only"
    return "compiling (every run: no folder for the code can be written; set NUMBA_CACHE_DIR)"


def version() -> str:
    from odmtool import __version__

    return f"odmtool {__version__}"


no_such_class = sentence("class {label} of -w{label} does not occur in the data")
one_class = sentence("the data have one class only, {label}: the model will always answer {label}")
one_class_weighs = sentence(
    "only the examples of class {label} have a weight above 0: no other class is learned"
)
lines_skipped = sentence("{count} blank or comment lines skipped")


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
        return f"gap {solution.gap:.2g}{_certificate(solution)}"
    return f"gradient {gradient:.2g} of the first"


def _certificate(solution) -> str:
    if solution.failure is None:
        return ""
    if not solution.failure:
        return " proved"
    return f" proved with probability 1 - {solution.failure:g}"


def not_converged(solution, tolerance: float, has_newton: bool) -> str:
    is_other = has_newton and "newton" not in solution.solver
    other = ", --solver newton" if is_other else ""
    constant = " (the model is constant)" if solution.support_count == 0 else ""
    return (
        f"the tolerance {tolerance:g} was not reached: {_how_near(solution)} after "
        f"{_iterations(solution)} of {solution.solver}{constant}; scale the features "
        f"(odm-scale), or take a smaller lambda{other} or a larger --max-iter"
    )


no_model_written = sentence("{sentence}; no model was written (--strict)")
many_pairs = sentence(
    "{classes} classes make {pairs} pairs, with a training for each; --multiclass ovr has one for "
    "each class"
)
carrier_is_large = sentence(
    "LIBSVM's form takes {share:.1f} times as many numbers as --format compact, which only "
    "odm-predict reads"
)
