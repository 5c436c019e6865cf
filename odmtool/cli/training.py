"""What odm-train and odm-cv share: read the data, make the machine, write the model."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from typing import NamedTuple

from odmtool.cli import messages
from odmtool.cli.elsewhere import is_elsewhere, read_elsewhere, uses_scheduler
from odmtool.cli.machine_options import machine_arguments, machine_name
from odmtool.cli.report import Report
from odmtool.errors import DataError, MemoryLimitError, UsageError


class TrainingData(NamedTuple):
    """Examples (in memory, or a RowStore), weights (or None), fingerprint, and the classes."""

    dataset: object
    weight: object
    fingerprint: str
    labels: frozenset[int]

    @property
    def classes(self) -> int:
        """How many there are."""
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int]:
        """Examples and features."""
        return getattr(self.dataset, "X", self.dataset).shape


@contextmanager
def naming(data_file: str):
    """Errors about the data that do not know where they came from name this file."""
    try:
        yield
    except DataError as error:
        if error.file is None:
            error.file = "stdin" if data_file == "-" else data_file
        raise


# More than so many times the compact form is worth a word.
_LARGE_CARRIER = 4


def check_files(options: dict, products: list[str | None]) -> None:
    """Raise before anything is read if a file cannot be read or written, or is two things.

    Parameters
    ----------
    options : dict
        Options of the command, with ``training_file`` and ``weights``.
    products : list of str or None
        What will be written.
    """
    from odmtool.io.files import check_writable, is_same_file

    data_file = None if is_elsewhere(options) else options["training_file"]
    inputs = [name for name in (data_file, options["weights"]) if name]
    check_inputs(*inputs)
    outputs = [name for name in products if name is not None]
    if outputs.count("-") > 1:
        raise UsageError(messages.dash_twice("stdout"))
    for position, output in enumerate(outputs):
        check_writable(output)
        for other in inputs + outputs[:position]:
            if is_same_file(output, other):
                raise UsageError(messages.write_over(output))


def check_inputs(data_file: str | None = None, weights_file: str | None = None) -> None:
    """Raise if both would come from stdin, or one is missing."""
    from odmtool.io.files import check_readable

    if data_file == "-" == weights_file:
        raise UsageError(messages.two_from_stdin("the training data", "the weights"))
    for path in (data_file, weights_file):
        if path is not None:
            check_readable(path)


def read_training_data(options: dict, report: Report) -> TrainingData:
    """The data file and the weight file of a command's options.

    Raises
    ------
    FileError, DataError, MemoryLimitError
    """
    import numpy as np

    from odmtool.core.memory import default_memory
    from odmtool.io.svmlight import estimated_bytes, fingerprint, read_svmlight
    from odmtool.io.weights import read_weights

    path, weight = options["training_file"], None
    memory = default_memory() if options["memory"] is None else options["memory"]
    if not is_elsewhere(options) and (needed := estimated_bytes(path)) > memory:
        raise MemoryLimitError(messages.data_too_large(needed, memory))
    if options["weights"] is not None:
        weight = read_weights(options["weights"])
    precomputed = "precomputed" in options["kernel"]
    if is_elsewhere(options):
        dataset, mark = read_elsewhere(options, report)
    else:
        dataset = read_svmlight(
            path, zero_based=options["zero_based"], precomputed=precomputed, jobs=options["jobs"]
        )
        mark = fingerprint(dataset)
    if weight is not None and len(weight) != len(dataset.labels):
        message = messages.weight_count(len(weight), len(dataset.labels))
        raise DataError(message, options["weights"])
    labels = frozenset(np.unique(dataset.labels).tolist())
    learned = labels if weight is None else set(np.unique(dataset.labels[weight > 0]).tolist())
    say_about_labels(options, labels, learned, dataset.skipped, report)
    return TrainingData(dataset, weight, mark, labels)


def say_about_labels(
    options: dict, labels: frozenset[int], learned: set[int], skipped: int, report: Report
) -> None:
    """Say what looks like a mistake in the data, or in the weights.

    ``learned`` are the labels of the examples with a weight above 0.
    """
    for label, _weight in options["class_weight"]:
        if label not in labels:
            report.warning(messages.no_such_class(label))
    learned = learned - {k for k, factor in dict(options["class_weight"]).items() if factor == 0}
    if len(learned) == 1 < len(labels):
        report.warning(messages.one_class_weighs(min(learned)))
    if skipped:
        report.detail(messages.lines_skipped(skipped))


def refuse_one_class(data: TrainingData, options: dict) -> None:
    """Raise, before any work, if there is nothing to tell apart and an option needs it."""
    if data.classes > 1:
        return
    label = min(data.labels)
    if options["probability"] == "1":
        raise UsageError(messages.probability_one_class(label))
    if options["loo"] is not None:
        raise UsageError(messages.loo_needs_two_classes())
    if options["margins"] is not None:
        raise DataError(messages.margins_of_one_class(label))


def warn_of_one_class(data: TrainingData, report: Report) -> None:
    """Say if there is nothing to tell apart."""
    if data.classes == 1:
        report.warning(messages.one_class(min(data.labels)))


def make_machine(options: dict):
    """The machine that a command's options describe, its parameters checked."""
    from odmtool.machines import MACHINES

    machine = MACHINES[machine_name(options)](**machine_arguments(options))
    check_machine(machine)
    return machine


# LIBSVM's -m is the size of its cache in megabytes.
_LIKE_A_CACHE = 10


def check_machine(machine) -> None:
    """Raise UsageError if a parameter is out of range."""
    mu = getattr(machine, "mu", None)
    if mu is not None and mu >= _LIKE_A_CACHE:
        raise UsageError(messages.cache_size(mu))
    machine.check()


def announce_compilation(report: Report) -> None:
    """Say so if numba has to compile, which it does once after an installation."""
    from odmtool import _jit

    def say() -> None:
        report.note(messages.compiling(is_kept=_jit.cache_folder() is not None))

    _jit.on_compile(say)


def folds_for(folds: int, m: int, report: Report) -> int:
    """The number of folds: at least 2, at most one for each example."""
    if m < 2:
        raise DataError(messages.too_few_to_fold())
    if folds < 2:
        raise UsageError(messages.fold_count(folds, m))
    if folds > m:
        report.warning(messages.more_folds_than_data(folds, m))
    return min(folds, m)


def warn_of_small_class(labels, folds: int, report: Report) -> None:
    """Say if a class is too small for the folds; leaving one out is done on purpose.

    Scripts count on a cross validation of ``odm-train`` as on that of LIBSVM's tools, which
    goes on; ``odm-cv`` refuses it.
    """
    import numpy as np

    classes, counts = np.unique(labels, return_counts=True)
    label, least = classes[counts.argmin()], counts.min()
    if len(classes) > 1 and least < folds < len(labels):
        report.warning(messages.folds_without_class(label, least, folds))


def limit_jobs(plan, options: dict, report: Report) -> None:
    """Lower ``-j`` to what the memory allows, and say what does not fit."""
    from odmtool.search.search import plan_memory

    memory, m = plan_memory(plan, options["jobs"]), len(plan.data.labels)
    if not memory.keeps_matrix:
        report.note(messages.matrix_not_kept(m, memory.limit))
    if memory.needed > memory.limit:
        report.warning(messages.search_too_large(memory.needed, memory.limit))
    elif memory.jobs < options["jobs"]:
        wanted = options["jobs"]
        report.note(messages.fewer_processes(memory.jobs, wanted, memory.needed, memory.limit))
    options["jobs"] = memory.jobs


def fit(machine, data: TrainingData, options: dict, report: Report) -> list[str]:
    """Train the machine; say what happens, and before it what will take long.

    Returns a sentence for everything that did not reach the tolerance.
    """
    from functools import partial

    from odmtool.core.gram import BYTES
    from odmtool.places import memory as needs
    from odmtool.places import workers as spread
    from odmtool.search.calibration import fit_with_probabilities
    from odmtool.search.validation import Data
    from odmtool.solvers.large import tasks

    m, memory = len(data.dataset.labels), machine.memory_limit()
    wants_matrix = machine.kernel != "linear" and machine.solver not in ("newton", "nystrom")
    if wants_matrix and BYTES * m * m > memory:
        report.warning(messages.matrix_not_kept(m, memory))
    is_on_cluster = uses_scheduler(machine, data.classes)
    if machine.settings.scheduler is not None and not is_on_cluster:
        report.warning(messages.scheduler_unused(machine.solver))
    if options["verbose"]:
        X = data.dataset.X
        if is_on_cluster:
            report.detail(messages.task_needs(tasks.needs(machine, X)))
        else:
            report.detail(messages.memory_needs(needs.parts(machine, X, data.classes), memory))
    with naming(options["training_file"]):
        if options["probability"] == "1":
            known = Data(data.dataset.X, data.dataset.labels, data.weight)
            unconverged = fit_with_probabilities(machine, known, report.progress).unconverged
        else:
            X, labels, weight = data.dataset.X, data.dataset.labels, data.weight
            where = partial(spread.fit, machine) if is_elsewhere(options) else machine.fit
            where(X, labels, weight, progress=report.progress)
            unconverged = 0
    report.end_progress()
    say_carrier(machine, report)
    say_scale(machine, report)
    sentences = []
    if not machine.solution_.converged and not stopped_early(machine):
        newton = _takes(machine, "newton")
        sentences.append(messages.not_converged(machine.solution_, machine.tolerance, newton))
    if unconverged:
        sentences.append(messages.fits_not_converged(unconverged, machine.tolerance))
    return sentences


def _takes(machine, solver: str) -> bool:
    """Whether a machine could have this solver."""
    try:
        machine.copy(solver=solver).check()
    except UsageError:
        return False
    return True


def stopped_early(machine) -> bool:
    """Whether sodm stopped at the level that it was told."""
    return machine.solver == "sodm" and machine.settings.stop_level > 0


def say_scale(machine, report: Report) -> None:
    """Say how far a solver for large data got."""
    if machine.solver == "sodm":
        for level in getattr(machine, "levels_", ()):
            report.detail(messages.level(level))
        if stopped_early(machine) and not machine.solution_.converged:
            level = machine.levels_[-1].level if machine.levels_ else 0
            report.note(messages.stopped_at_level(level, machine.solution_.gap))
    if machine.solver == "nystrom":
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
    from odmtool.models import LinearModel
    from odmtool.search.calibration import FOLDS

    report.note(messages.probabilities_fitted(model.probA, model.probB, FOLDS, machine.seed))
    if model.probA.max() >= 0:
        report.warning(messages.probabilities_reversed(model.probA.max()))
    if isinstance(model, LinearModel):
        report.note(messages.probabilities_in_linear_model())


def write_trained_model(ctx, path: str, machine, data: TrainingData) -> None:
    """Write the model with the facts that only the command knows."""
    from odmtool.io.model_file import write_model

    machine.model_.facts |= {
        "command": messages.one_line(shlex.join([*ctx.command_path.split(), *ctx.meta["args"]])),
        "data": data.fingerprint,
        "examples": str(data.shape[0]),
        "features": str(data.shape[1]),
        "version": messages.version(),
    }
    write_model(path, machine.model_)
