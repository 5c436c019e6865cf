"""What odm-train and odm-cv share: say what was read, train, write the model."""

from __future__ import annotations

import time
from copy import copy

from odmtool.cli import messages, process
from odmtool.cli.files import naming
from odmtool.cli.flags import name_labels
from odmtool.cli.report import Report
from odmtool.core.loss_table import MACHINES, OF_KMOMD, OF_PAIRS
from odmtool.defaults import COEF0_OF, LAMBDA, SPREAD_OF
from odmtool.errors import DataError, UsageError

# More than so many times the compact form is worth a word.
_LARGE_CARRIER = 4
_MANY_PAIRS = 10_000
# More classes, of fewer examples each on average, may be numbers that somebody wants to predict.
_MANY_CLASSES, _FEW_EXAMPLES = 100, 5
_MUCH_DENSER = 2
# A share of the usual gamma or lambda that is worth a word.
_MUCH_LESS = 0.5
# Seconds of passes over the kernel matrix that are worth a word.
_LONG = 120.0


def read_data(place, class_weight: dict, report: Report):
    """What a place reads; says what looks like a mistake in the data, or in the weights.

    From then on what is freed is kept for what comes next.

    Returns a :class:`odmtool.places.place.TrainingData`.

    Raises
    ------
    FileError, DataError, MemoryLimitError
    UsageError
        A weight is for a word, and the labels are numbers, or the other way round.
    """
    from odmtool.core.memory import keep_freed

    with report.phase("reading"):
        data = place.read(note=report.note, detail=report.detail)
    keep_freed()
    name_labels(dict(enumerate(data.names or ())))
    for label in class_weight:
        if isinstance(label, str) != bool(data.names):
            raise UsageError(messages.other_kind_of_label(label, bool(data.names)))
        if not data.by_integer({label: None}).keys() & data.classes:
            report.warning(messages.no_such_class(label, list(data.names or sorted(data.classes))))
    weights = data.by_integer(class_weight)
    learned = data.learned - {label for label, factor in weights.items() if factor == 0}
    if len(learned) == 1 < len(data.classes):
        report.warning(messages.one_class_weighs(min(learned)))
    k, m = len(data.classes), data.X.shape[0]
    if k > _MANY_CLASSES and m < _FEW_EXAMPLES * k and not data.names:
        report.note(messages.numbers_as_classes(k, m))
    if data.skipped:
        report.detail(messages.lines_skipped(data.skipped))
    return data


def refuse_scale(place, scale: tuple[float, float] | None) -> None:
    """Raise UsageError where features cannot be scaled, if that is wanted."""
    if scale is not None:
        place.refuse("--scale")
        if place.source.precomputed:
            raise UsageError(messages.not_together("--scale", "-t precomputed"))


def scaled(data, scale: tuple[float, float] | None, place, report: Report):
    """The data with their features scaled, if that is wanted."""
    if scale is None:
        return data
    with naming(place.source.path):
        data = data.scaled(*scale, place.source.limit())
    if not len(data.ranges.index):
        report.warning(messages.no_feature_varies())
    if data.X.nnz > _MUCH_DENSER * data.unscaled.nnz:
        remedy = "--scale 0,1" if scale[0] else None
        report.warning(messages.more_nonzeros(data.X.nnz, data.unscaled.nnz, remedy))
    return data


def warn_of_one_class(data, report: Report) -> None:
    """Say if there is nothing to tell apart."""
    if len(data.classes) == 1:
        report.warning(messages.one_class(min(data.classes)))


def announce_compilation(report: Report):
    """Report when numba has to compile, which it does once after an installation.

    Returns a function: the seconds that compiling has taken so far.
    """
    from odmtool import _jit

    timers = []

    def say() -> None:
        report.note(messages.compiling(is_kept=_jit.cache_folder() is not None))
        timers.append(_jit.compilation_timer())

    _jit.on_compile(say)
    return lambda: sum(seconds() for seconds in timers)


def folds_for(folds: int, m: int) -> int:
    """The number of folds: at least 2, at most one for each example."""
    if m < 2:
        raise DataError(messages.too_few_to_fold())
    if folds < 2:
        raise UsageError(messages.fold_count(folds, m))
    return min(folds, m)


def warn_of_fewer_folds(folds: int, m: int, report: Report) -> None:
    """Say if so many folds were asked for that each example is one."""
    if folds > m:
        report.warning(messages.more_folds_than_data(folds, m))


def warn_of_small_class(labels, folds: int, report: Report) -> None:
    """Say if a class is too small for the folds; leaving one out is done on purpose.

    Scripts count on ``-v`` and ``-C`` of ``odm-train``, and on ``odm-cv`` with options of grid.py,
    as on LIBSVM's tools, which go on; other searches refuse it.
    """
    import numpy as np

    classes, counts = np.unique(labels, return_counts=True)
    label, least = classes[counts.argmin()], counts.min()
    if len(classes) > 1 and least < folds < len(labels):
        report.warning(messages.folds_without_class(label, least, folds))


def warn_of_rows_apart(machine, X, report: Report) -> None:
    """Say if features are not scaled for the kernel."""
    from odmtool.places.memory import apart_warnings

    for warning in apart_warnings(machine, X):
        report.warning(warning)


def note_large_values(choice, d: int, report: Report, searched=()) -> None:
    """Say if features are not scaled for a kernel.

    A gamma or lambda that nobody named is then much less than for features in [0, 1] or of variance
    1; of a search the first.
    Where a named gamma or coef0 makes kernel values large the features do not, and a lambda among
    the parameters that are ``searched`` is not the default.
    """
    gamma, lambda_ = (choice.first(name) for name in ("gamma", "lambda_"))
    kernel = choice.first("kernel")
    usual = SPREAD_OF[kernel][1] if kernel in SPREAD_OF else 0.0
    if "gamma" not in choice.given and 0 < gamma * d < _MUCH_LESS * usual:
        if choice.has_large or not choice.is_search:
            report.note(messages.gamma_of_large_values(kernel, gamma, choice.has_large))
        return
    named = (choice.given | set(searched)) & {"lambda_", "cost", "gamma", "coef0"}
    if named or kernel != "poly" or lambda_ is None:
        return
    # That of features that are 1, which are not large.
    if lambda_ < _MUCH_LESS * LAMBDA / (1 + COEF0_OF["poly"]) ** choice.first("degree"):
        report.note(messages.lambda_of_large_values(lambda_))


def note_no_intercept(choice, scale: tuple | None, report: Report) -> None:
    """Say that features which --scale moves want an intercept, where nobody said anything of it."""
    has_own = MACHINES[choice.name].kind in (OF_KMOMD, OF_PAIRS)
    is_open = "bias" not in choice.given and not has_own
    if scale is not None and "linear" in choice.parameters["kernel"] and is_open:
        report.note(messages.no_intercept())


def limit_jobs(plan, jobs: int, report: Report) -> int:
    """The processes for which there is memory, at most ``jobs``; says what does not fit."""
    from odmtool.places.memory import smaller
    from odmtool.search.memory import plan_memory

    memory, m = plan_memory(plan, jobs), len(plan.data.labels)
    warn_of_pairs(plan.machine, len(plan.data.class_order()), report)
    if not memory.keeps_matrix:
        report.note(messages.matrix_not_kept(m, memory.limit, smaller(plan.machine, m)))
    if memory.needed > memory.limit:
        report.warning(messages.search_too_large(memory.needed, memory.limit))
    elif memory.jobs < jobs:
        report.note(messages.fewer_processes(jobs, memory.needed, memory.limit, memory.jobs))
    report.detail(messages.memory_needs(memory.parts, memory.limit))
    return memory.jobs


def fit(
    place, machine, data, report: Report, *, probability: bool = False,
    max_time: float | None = None, keeps_best: bool = False, start_from: str | None = None,
    progress=None, advises: bool = False,
) -> list[str]:  # fmt: skip
    """Train the machine; say what happens, and before it what will take long.

    Returns list of str: a sentence for everything that did not reach the tolerance.

    Parameters
    ----------
    data : TrainingData
        What the place has read.
    probability : bool
        With a sigmoid; the place has all rows in memory.
    max_time : float, optional
        Seconds after which the best model so far will do.
    keeps_best : bool
        It will do after a signal, too.
    start_from : str, optional
        A model file whose solution is the start; the place has all rows in memory.
    progress : callable, optional
        Told of every iteration, instead of the report.
    advises : bool
        Say that there is --max-time where it takes minutes.
    """
    from odmtool.core import deadline

    told = report.progress if progress is None else progress
    advises = advises and max_time is None and not keeps_best
    progress = _Heeding(machine, report, told, advises=advises)
    with naming(place.source.path, data.skipped):
        plan = _plan(place, machine, data, probability)
    for warning in plan.warnings:
        report.warning(warning)
    report.detail(plan.sentence)
    unconverged = 0
    began, phase = time.monotonic(), report.phase("training", machine.tolerance)
    with (
        naming(place.source.path, data.skipped), phase, deadline.time_limit(max_time) as limit,
        process.first_signal(limit.end if keeps_best else None) as heard,
    ):  # fmt: skip
        if probability:
            from odmtool.search.calibration import fit_with_probabilities
            from odmtool.search.validation import Data

            known = Data(machine.rows_of(data.X, len(data.classes)), data.labels, data.weight)
            unconverged = fit_with_probabilities(machine, known, progress).unconverged
        elif start_from is not None:
            start = _duals_of(start_from, machine, data)
            place.fit(machine, data, plan, progress, start)
        else:
            place.fit(machine, data, plan, progress)
    say_carrier(machine, report)
    say_levels_and_landmarks(machine, report)
    sentences, late = [], [messages.interrupted] if heard else []
    solution = machine.solution_
    if max_time is not None and time.monotonic() - began >= max_time:
        late.append(messages.out_of_time(max_time))
    if not solution.converged and late:
        sentences.append(messages.ended_early(late[0], solution, machine))
    elif not solution.converged and not stopped_early(machine):
        newton = place.could_be_newton(machine, data)
        is_scaled = data.ranges is not None or place.source.precomputed
        sentences.append(messages.not_converged(solution, machine, newton, is_scaled))
    if unconverged and late:
        sentences.append(messages.folds_ended_early(late[0], unconverged, machine.tolerance))
    elif unconverged:
        sentences.append(messages.fits_not_converged(unconverged, machine.tolerance))
    return sentences


def searched(data, machines: list, scale: tuple[float, float] | None, place):
    """The data of a cross validation, to be scaled if that is wanted; all machines take them."""
    from odmtool.core.csr import CSR
    from odmtool.search.validation import Data

    k = len(data.classes)
    rows = [machine.rows_of(data.X, k) for machine in machines]
    takes_compressed = scale is None and all(isinstance(X, CSR) for X in rows)
    X = data.X if takes_compressed else data.matrix()
    known = Data(X, data.labels, data.weight)
    with naming(place.source.path):
        return known if scale is None else known.to_be_scaled(*scale, place.source.limit())


def _plan(place, machine, data, probability: bool):
    """What the training takes; probabilities need a cross validation."""
    if not probability:
        return place.plan(machine, data)
    from odmtool.search.calibration import FOLDS

    return place.plan(machine, data, FOLDS)


def warn_of_pairs(machine, k: int, report: Report) -> None:
    """Say so if a weight vector for every pair of classes means very many."""
    pairs = k * (k - 1) // 2
    if pairs > _MANY_PAIRS and machine.kernel == "linear" and machine.decides_by_votes(k):
        report.warning(messages.many_pairs(k, pairs))


class _Heeding:
    """The callback; it warns once where a kernel matrix that does not fit is needed after all.

    It also says once how passes over the kernel matrix get on that take minutes.
    """

    def __init__(self, machine, report: Report, progress, *, advises: bool = False):
        self._machine, self._report, self._progress, self._said = machine, report, progress, []
        self._is_whole, self._advises, self._passes_began = True, advises, 0.0

    def __call__(self, state) -> None:
        if state.unkept and not self._said:
            self._said.append(True)
            limit = self._machine.memory_limit()
            self._report.warning(messages.matrix_not_kept(state.unkept, limit))
        self._progress(state)

    def enter(self, stage) -> None:
        """Show the stage; see :func:`odmtool.solvers.base.enter`.

        Of one of several problems it is not: those of others would come between.
        """
        if not self._is_whole:
            return
        self._report.enter(stage)
        if stage is None or stage.name != "passes":
            return
        now = time.monotonic()
        if stage.count == 1:
            self._passes_began = now
            if self._advises and stage.seconds > _LONG:
                self._advises = False
                self._report.note(messages.long_pass(self._machine.tolerance, stage))
        elif self._advises and now - self._passes_began > _LONG:
            self._advises, spent = False, now - self._passes_began
            self._report.note(messages.long_passes(self._machine.tolerance, stage, spent))

    def of_problem(self, number: int) -> _Heeding:
        """That of one of several problems; they warn once together."""
        from odmtool.solvers.base import progress_of

        other = copy(self)
        other._progress, other._is_whole = progress_of(self._progress, number), False
        return other


def _duals_of(path: str, machine, data):
    """The duals with which the machine goes on from a model file."""
    from odmtool.core.csr import scipy_rows
    from odmtool.core.labels import label_names
    from odmtool.io.files import display_name
    from odmtool.io.model_file import read_model

    model = read_model(path)
    if not hasattr(machine, "start_from"):
        raise UsageError(messages.cannot_start_from(machine.name))
    names = tuple(label_names(model.labels, model.facts, display_name(path)).values())
    if names != (data.names or ()):
        shown = [list(map(str, own)) for own in (data.names or data.classes, names or model.labels)]
        raise UsageError(messages.start_of_other_classes(*shown))
    return machine.start_from(
        model, data.matrix(), data.labels, data.weight, seen=scipy_rows(data.as_read)
    )


def stopped_early(machine) -> bool:
    """Whether sodm stopped at the level that it was told, and not for lack of time."""
    stop_level = machine.settings.stop_level
    return machine.solver == "sodm" and stop_level > 0 and _last_level(machine) <= stop_level


def _last_level(machine) -> int:
    """The last level that sodm solved; 0 if there was one part only."""
    levels = getattr(machine, "levels_", ())
    return levels[-1].level if levels else 0


def say_levels_and_landmarks(machine, report: Report) -> None:
    """Say how far a solver for large data got."""
    if machine.solver == "sodm":
        for level in getattr(machine, "levels_", ()):
            report.detail(messages.level(level))
        if stopped_early(machine) and not machine.solution_.converged:
            report.note(messages.stopped_at_level(_last_level(machine), machine.solution_.gap))
    if machine.solver == "nystrom" and machine.support_count:
        report.note(messages.captured(machine.captured_, machine.support_count))


def say_carrier(machine, report: Report) -> None:
    """Say that the compact form would be much smaller."""
    share = getattr(machine, "carrier_share_", 1.0)
    if share > _LARGE_CARRIER and machine.model_format is None:
        report.note(messages.carrier_is_large(share))


def say_probabilities(machine, report: Report) -> None:
    """Say how the probabilities of a model came about, if it has any, and what to mind."""
    model = machine.model_
    if model.probA is None:
        return
    from odmtool.models.linear import LinearModel
    from odmtool.search.calibration import FOLDS

    report.detail(messages.probabilities_fitted(model.probA, model.probB, FOLDS, machine.seed))
    if not model.probA.any():
        # As where there was no time for the folds.
        report.warning(messages.probabilities_all_the_same())
    elif (largest := model.probA.max()) >= 0 and len(model.probA) > 1:
        report.warning(messages.pairs_not_separated(model.probA, model.labels))
    elif largest > 0:
        report.warning(messages.probabilities_reversed(largest))
    if isinstance(model, LinearModel):
        report.detail(messages.probabilities_in_linear_model())


def write_trained_model(command: str, path: str, machine, data, place, report: Report) -> None:
    """Write the model with the facts that only the command, as it was typed, knows."""
    from odmtool.core.labels import label_facts
    from odmtool.io.model_write import write_model

    model, (examples, columns) = machine.model_, data.as_read.shape
    model.facts |= {
        "command": messages.one_line(command),
        "data": data.fingerprint,
        "examples": str(examples),
        "features": str(columns - model.is_precomputed),  # the first is the serial number
        "version": messages.version(),
    } | label_facts(data.names or ())
    if data.names:
        report.note(messages.label_numbers(dict(enumerate(data.names))))
    if place.source.zero_based:
        from odmtool.models.kernel import KernelModel

        # LIBLINEAR's predict refuses an index 0, and a compact model is for odm-predict only.
        if isinstance(model, KernelModel):
            report.note(messages.indices_are_higher())
    if data.ranges is not None:
        from odmtool.models.scaled import ScaledModel

        model.facts["scale"] = messages.scale_of(data.ranges)
        model = ScaledModel(model, data.ranges)
        report.note(messages.model_scales(path))
    write_model(path, model)
