"""odm-train."""

from __future__ import annotations

from odmtool.core.kernel_table import row_of
from odmtool.messages.words import clock, counted, quoted, sentence, shortened


def compiling(is_kept: bool) -> str:
    if is_kept:
        return "compiling (once after an installation; not counted as training)"
    return "compiling (in every run: no folder for the code can be written; set NUMBA_CACHE_DIR)"


def version() -> str:
    from odmtool import __version__

    return f"odmtool {__version__}"


def other_kind_of_label(label, has_words: bool) -> str:
    return f"-w {quoted(label)}: the labels of the data are {'words' if has_words else 'numbers'}"


one_class = sentence(
    "the data have only one class, ‹label={label}›: the model will always answer ‹label={label}›"
)
one_class_weighs = sentence(
    "only the examples of class ‹label={label}› have a weight above 0: no other class is learned"
)
# More words than this are not listed.
_MOST_NAMES = 10
# A gap below 0 that is nearer to it is one of rounding.
_ROUNDING = 1e-9


def no_such_class(label, classes: list) -> str:
    """``classes`` are those of the data, as they stand there."""
    some = ", ".join(shortened(str(name)) for name in classes[:_MOST_NAMES])
    more = ", ..." if len(classes) > _MOST_NAMES else ""
    return f"class {label} of -w{label} does not occur in the data, which have {some}{more}"


def numbers_as_classes(classes: int, examples: int) -> str:
    return (
        f"{classes} different labels of {examples} examples: each is a class of its own, "
        "there is no regression"
    )


def label_numbers(names: dict[int, str]) -> str:
    """Which integers of the model file stand for which words."""
    return f"labels in the model file, for the stock programs: {numbered(names)}"


def numbered(names: dict[int, str]) -> str:
    """Integers, and the words for which they stand."""
    if len(names) > _MOST_NAMES:
        return f"{min(names)} to {max(names)}, in alphabetical order of the words"
    return ", ".join(f"{code} {shortened(name)}" for code, name in names.items())


_SCALED_IS_BETTER = "Features in [0, 1] (--scale 0,1, or odm-scale -l 0) are often better"


def gamma_of_large_values(kernel: str, gamma: float, has_large: bool) -> str:
    """``has_large``: some features are much larger than most; if not, they may be of one unit."""
    large, advice = "the features vary by more than 1", f"odm-cv -t {kernel} may find a better one"
    if has_large:
        large, advice = "some features are much larger than others", _SCALED_IS_BETTER
    return f"{large}: gamma is {gamma:g} in place of 1 / number of features. {advice}"


lambda_of_large_values = sentence(
    "the values of the features are large: lambda is {lambda_:g}. " + _SCALED_IS_BETTER
)


finds_nothing = sentence(
    "the classes overlap so much that the objective of {name} is hardly below that without a "
    "model: -s odm, one class against the rest, may predict better"
)
_NOTHING_BY_DEFAULT = (
    "the classes overlap so much that the objective of mcodm, the default of several classes, is "
    "hardly below that without a model: "
)
against_the_rest = sentence(
    _NOTHING_BY_DEFAULT + "-s odm --multiclass ovr takes its place, which is right for {after} % "
    "of these examples, not for {before} %"
)
searched_against_the_rest = sentence(_NOTHING_BY_DEFAULT + "-s odm --multiclass ovr is searched")


no_intercept = sentence(
    "--scale moves the features, and there is no intercept: -B 1 gives the model one"
)


def long_passes(tolerance: float, stage, seconds: float) -> str:
    """``stage`` is that of the pass which begins."""
    some = f"{stage.count - 1}"
    if stage.count <= stage.most:
        some += f" of about {stage.most}"
    return _passes_follow(tolerance, f"{some} in {clock(seconds)}")


def long_pass(tolerance: float, stage) -> str:
    """The same of the first, before it begins."""
    some = f"about {stage.most}, each of" if stage.most else "each takes"
    return _passes_follow(tolerance, f"{some} {clock(stage.seconds)} or so on one processor")


def _passes_follow(tolerance: float, how_long: str) -> str:
    return (
        f"landmarks are not enough for a gap of {tolerance:g}: passes over the kernel matrix "
        f"follow ({how_long}). --max-time SECONDS ends sooner, with the best model so far"
    )


def lines_skipped(count: int) -> str:
    return f"{counted(count, 'blank or comment line')} skipped"


def _stage(stage) -> str:
    """What a solver is doing; ``stage`` is an :class:`odmtool.solvers.base.Stage`."""
    name, count, most, _seconds = stage
    if name == "passes":
        return f"pass {count}" + (f" of about {most}" if count <= most else "")
    landmarks = counted(count, "landmark")
    return {
        "landmarks": f"choosing more than {landmarks}" if count else "choosing landmarks",
        "span": f"solving with {landmarks}",
        "certificate": f"bounding the gap with {landmarks}",
        "features": "preparing passes over the kernel matrix",
    }[name]


def progress(phase: str, stage, state, elapsed: float, left: float | None) -> str:
    """The line that shows how far a phase is; ``stage`` and ``state`` are what was told last."""
    words = [phase] if stage is None else [phase, _stage(stage)]
    if state is not None:
        words.append(f"iteration {state.iteration}")
        if state.primal is not None:
            words.append(f"objective {state.primal:.6g}")
        if state.gap == state.gap:  # NaN is not
            words.append(f"gap {'~' if state.primal is None else ''}{state.gap:.2g}")
        words.append(counted(state.active, "active example"))
    words.append(f"{clock(elapsed)} elapsed")
    return ", ".join(words + ([] if left is None else [f"about {clock(left)} left"]))


def summary(machine, data, seconds: dict[str, float]) -> str:
    """What was trained on what, how well, and what it took."""
    solution, (m, d) = machine.solution_, data.X.shape
    columns = counted(d, "feature")
    if machine.kernel == "precomputed":  # the first is the serial number
        columns = counted(d - 1, "kernel value")
    facts = machine.model_.facts
    kernel = f"{machine.kernel} kernel" if machine.kernel != "linear" else "linear"
    gamma = getattr(machine.model_, "kernel", None) and machine.model_.kernel.gamma
    gamma = f" (gamma {gamma:g})" if gamma and "gamma" in row_of(machine.kernel).parameters else ""
    k = len(data.classes)
    classes = counted(k, "class", "classes")
    if k > 2 and hasattr(machine, "reduction"):
        classes += f" ({machine.reduction(k)})"
    count = machine.support_count
    vectors = "" if count is None else f", {counted(count, 'support vector')}"
    spent = ", ".join(f"{name} {value:.3f}" for name, value in seconds.items())
    return (
        f"{machine.name}, {kernel}{gamma}, lambda {float(facts['lambda']):.6g}, "
        f"{counted(m, 'example')}, {columns}, {classes}: "
        f"{_end(solution, machine.tolerance)}, "
        f"objective {solution.primal:.10g}, {_iterations(solution)} ({solution.solver}){vectors}; "
        f"seconds: {spent}"
    )


def _end(solution, tolerance: float) -> str:
    """How it ended."""
    if not solution.converged:
        return f"not converged ({_what_lacks(solution, tolerance)})"
    what = "converged" if solution.optimal else "converged to a stationary point"
    return f"{what} ({_how_near(solution)} <= {tolerance:g}{_of_what(solution)})"


def _iterations(solution) -> str:
    return counted(solution.iterations, "iteration")


def _how_near(solution) -> str:
    gradient = getattr(solution, "gradient", None)
    if gradient is None:
        # Rounding may put the dual above the objective.
        gap = 0.0 if -_ROUNDING < solution.gap < 0 else solution.gap
        return f"gap {gap:.2g}"
    return f"relative gradient {gradient:.2g}"


def _what_lacks(solution, tolerance: float, than: str | None = None) -> str:
    """A problem that is not convex also wants an objective that hardly falls any more."""
    if getattr(solution, "gradient", None) is None and solution.gap <= tolerance:
        return f"{_how_near(solution)}, but the objective may still fall"
    return _how_near(solution) + (f" > {tolerance:g}" if than is None else than)


def _of_what(solution) -> str:
    """What the gap is that of, or what it is proved by."""
    if solution.solver == "nystrom":
        return " in the span of the landmarks"
    if solution.failure is None:
        return ""
    if not solution.failure:
        return ", proved"
    return f", proved with probability 1 - {solution.failure:g}"


def not_converged(solution, machine, has_newton: bool, is_scaled: bool) -> str:
    """``has_newton``: Newton's method could be tried; ``is_scaled``: there is
    nothing to scale, or --scale was given.
    """
    constant = _constant(machine)
    remedy = _remedy(machine, has_newton)
    advice = f"Try {remedy}" if is_scaled else f"Scale the features (odm-scale), or try {remedy}"
    return (
        f"the tolerance {machine.tolerance:g} was not reached: "
        f"{_what_lacks(solution, machine.tolerance, '')} after "
        f"{_iterations(solution)} of {solution.solver}{constant}. {advice}"
    )


def _remedy(machine, has_newton: bool) -> str:
    from odmtool.core.loss_table import OF_PAIRS

    # Newton's method after landmarks is in single precision, but on the whole matrix.
    by = machine.solution_.solver
    is_tried = "newton" in by and not by.endswith("landmarks, then newton")
    other = ", --solver newton" if has_newton and not is_tried else ""
    smaller = f"-l below {float(machine.model_.facts['lambda']):g}"
    if machine.row.kind == OF_PAIRS:
        smaller = smaller.replace("below", "above")
    # Where steps lead nowhere by rounding, more of them do so, too.
    return f"{smaller}{other}" + (" or a larger --max-iter" if machine.was_cut_short else "")


def _not_begun(solution) -> str:
    count = getattr(solution, "untrained", 0)
    were = "was" if count == 1 else "were"
    return f"; {count} of {solution.problems} binary problems {were} not begun" if count else ""


def _constant(machine) -> str:
    weights = getattr(machine.model_, "weights", None)  # of linear models
    is_empty = machine.solution_.support_count == 0 if weights is None else not weights.any()
    return "; the model is constant" if is_empty else ""


out_of_time = sentence("stopped after --max-time {seconds:g}")
interrupted = "interrupted"


def ended_early(why: str, solution, machine) -> str:
    """``why``: one of the two above."""
    near = f"{_how_near(solution)}, tolerance {machine.tolerance:g}"
    return f"{why}: the model has not converged ({near}){_not_begun(solution)}{_constant(machine)}"


no_model_written = sentence("{sentence}; no model was written (--strict)")
trace_of_failure = sentence("{file!l}: the course of the training up to its failure")
many_pairs = sentence(
    "{classes} classes make {pairs} pairs, with a training for each; --multiclass ovr has one for "
    "each class"
)
carrier_is_large = sentence(
    "LIBSVM's form takes {share:.1f} times as many numbers as --format compact, which only "
    "odm-predict reads"
)
indices_are_higher = sentence(
    "the indices in the model are those of the data plus 1, which odm-predict --zero-based adds; "
    "svm-predict does not, and takes each feature for another one: give it data with indices from 1"
)
