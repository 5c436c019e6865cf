"""Cross validation: odm-cv, its searches and splits, and the lines that scripts parse."""

from __future__ import annotations

from odmtool.messages.words import clock, counted, one_line, quoted, sentence


def cross_validation_accuracy(accuracy: float) -> str:
    """The line that LIBSVM's and LIBLINEAR's scripts look for."""
    return f"Cross Validation Accuracy = {100 * accuracy:g}%"


more_folds_than_data = sentence(
    "-v {folds}: there are only {examples} examples; leaving one out at a time instead"
)


def folds_without_class(label: int, examples: int, folds: int) -> str:
    few = counted(examples, "example")
    return f"class ‹label={label}› has only {few}: some of the {folds} folds are without it"


too_few_to_fold = sentence("there is only one example: cross validation needs two at least")
too_many_settings = sentence("the lists make {count} settings, more than {most}: shorten them")


fewer_processes = sentence(
    "-j {wanted}: a process needs about {needed!b}, and {limit!b} are free or given by --memory; "
    "going on with {jobs}"
)
search_too_large = sentence(
    "the search needs about {needed!b}, but {limit!b} are free or given by --memory; "
    "it may run out of memory"
)
journal_is_a_file = sentence("--journal -: a journal is read again later; name a file")


def setting_row(row, names: list[str], metric: str) -> str:
    """The varying parameters of a setting, its accuracy, and the metric if that is another."""
    words = _parameters(row.setting, names)
    if not row.has_solution:
        return " ".join([*words, "no solution"])
    words.append(f"rate={100 * row.accuracy:g}")
    return " ".join(words if metric == "accuracy" else [*words, f"{metric}={100 * row.mean:g}"])


def _parameters(setting: dict, names: list[str]) -> list[str]:
    shown = {name: setting[name] for name in names if name in setting}
    return [
        f"{name.rstrip('_')}={value if isinstance(value, str) else format(value, '.10g')}"
        for name, value in shown.items()
    ]


best_setting = sentence("Best: {command}")


def best_score(row, metric: str) -> str:
    """Mean and standard deviation over the folds."""
    return f"Best {metric} by fold: {100 * row.mean:.6g}% +- {100 * row.std:.3g}%"


def fits_to_do(settings: int, folds: int, examples: int) -> str:
    return f"{settings} settings x {folds} folds = {settings * folds} fits on {examples} examples"


def best_at_end(name: str, value: float, is_largest: bool) -> str:
    which, further = ("largest", "larger") if is_largest else ("smallest", "smaller")
    return f"the best ‹{name}› is the {which} value tried ({value:g}): {further} ones may be better"


resumed = sentence("resuming from {path!l}: {fits} fits are done")


def search_progress(done: int, total: int, highest: float, left: float) -> str:
    best = f"best {100 * highest:g}%, " if highest else ""
    return f"{done} of {total} fits, {best}{clock(left)} left"


def unknown_picture(path: str, endings) -> str:
    *first, last = (f".{ending}" for ending in endings)
    return f"{quoted(path)}: the name of a picture ends in {', '.join(first)} or {last}"


nothing_to_plot = sentence("--plot: no parameter varies; give a list or a range, as in -l 2^0:20:2")


def no_path_to_plot(name: str) -> str:
    """``name``: lambda_ or cost."""
    return (
        f"--plot-path: {name.rstrip('_')} does not vary; give a list or a range, as in "
        f"‹{name}› 2^0:20:2"
    )


best_lines_only = sentence("{path!l} shows the best {shown} of {lines} lines")
goes_with = sentence("{flag} goes with {other}")
not_with_repeat = sentence(
    "{flag} does not go with --repeat, in which every split has a best setting of its own"
)
against_needs_two = sentence("--against compares at least two splits: give a larger --repeat")


def split_fits_to_do(settings: int, folds: int, splits: int) -> str:
    fits = settings * folds * splits
    first = counted(settings, "setting")
    return f"{first} x {folds} folds x {splits} splits = {fits} fits"


def split_row(result, setting: dict, names: list[str], metric: str) -> str:
    """The best setting of a split, and how good it is in the search and on the test part."""
    words = [f"split={result.split}", *_parameters(setting, names)]
    words += [f"cv={100 * result.cv:g}", f"test={100 * result.accuracy:g}"]
    if metric != "accuracy":
        words += [f"cv_{metric}={100 * result.cv_score:g}", f"test_{metric}={100 * result.score:g}"]
    return " ".join(words)


def test_score(metric: str, summary) -> str:
    """Mean and standard deviation over the splits."""
    splits = counted(summary.count, "split")
    return f"Test {metric} = {100 * summary.mean:.6g}% +- {100 * summary.std:.3g}% ({splits})"


splits_resumed = sentence("resuming from {path!l}: {splits} splits are done")


def split_progress(done: int, total: int, left: float | None) -> str:
    return f"{done} of {total} splits" + ("" if left is None else f", {clock(left)} left")


rates_of_some = sentence(
    "the rates are of {examples} of the {whole} examples; --search full takes all"
)
search_without_result = sentence(
    "stopped after --max-time {seconds:g}, before any setting was done: give it more time"
)


def search_ended_early(seconds: float, rows: list, settings: int, plan) -> str:
    """``rows``: those that count, of the same examples; ``settings``: how many were to be tried."""
    return (
        f"stopped after --max-time {seconds:g}: the best of {len(rows)} of {settings} "
        f"settings, on {rows[0].examples} of {len(plan.fold)} examples"
    )


def fits_not_converged(fits: int, tolerance: float) -> str:
    return f"{counted(fits, 'fit')} did not reach the tolerance {tolerance:g}"


folds_ended_early = sentence(
    "{why}: of the folds that the probabilities come from, {fits} did not reach the tolerance "
    "{tolerance:g}"
)
no_split_column = sentence(
    "has no column {name!q}; give a table that odm-cv --repeat wrote with --csv and "
    "the same --metric"
)
no_split_table = sentence("was not written by odm-cv --repeat --csv")
not_a_score = sentence("expected a number between 0 and 1, got {token!q}")
other_splits = sentence(
    "its splits differ; both runs need the same examples, --repeat, --test-size and --seed"
)


def difference(comparison, path: str) -> str:
    """Mean and standard error of ours less theirs."""
    return (
        f"Difference = {100 * comparison.mean:+.4g}% +- {100 * comparison.error:.3g}% "
        f"(standard error; against {one_line(path)})"
    )


def paired_t_test(comparison) -> str:
    return (
        f"Paired t-test: t = {comparison.t:.4g}, p = {comparison.p:.3g}; "
        f"{counted(comparison.wins, 'win')}, {counted(comparison.ties, 'tie')}, "
        f"{counted(comparison.losses, 'loss', 'losses')}"
    )
