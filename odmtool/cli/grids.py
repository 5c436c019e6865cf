"""The values that a search tries: those of the options, and those of --grid."""

from __future__ import annotations

import math

from odmtool import defaults
from odmtool.cli import messages
from odmtool.cli.machine_choice import MachineChoice, of_arxiv
from odmtool.cli.machine_options import MACHINE_PARAMETERS, PARAMETER_NAMES, Gamma, KernelName, List
from odmtool.core.kernel_table import KERNELS
from odmtool.core.loss_table import MACHINES, OF_PAIRS
from odmtool.errors import UsageError

# How the values of a grid are written.
_KINDS = dict.fromkeys(PARAMETER_NAMES, Gamma()) | {"kernel": KernelName(tuple(KERNELS))}
# What C1, C2 and D of the arXiv version stand for.
_ARXIV_NAMES = {"lambda_", "cost", "mu", "theta"}
# Parameters that have no largest value; with fewer values than this the best is mostly at an end.
_ENDLESS, _ENOUGH = ("lambda_", "cost", "gamma", "mu1", "mu2"), 4
# gamma times the summed variance of the features with which the gammas of the quick grid begin, as
# 1 / d in [0, 1]; with sigmoid less, as of the default. By how much they are divided at most.
_SPREAD, _SPREAD_OF_SIGMOID, _MOST_DIVIDED = 1 / 16, 2.0**-10, 16.0
# The gammas of the quick grid, and how many more there are on either side to go on to.
_STEP, _FARTHER = 4.0, 8


def values_of(choice: MachineChoice, grid: dict[str, str | tuple]) -> dict[str, tuple]:
    """The values of every parameter that the machine has."""
    own, values = MACHINES[choice.name].parameters, {}
    if "lambda_" in choice.given:
        grid = {name: value for name, value in grid.items() if name != "cost"}
    for name in PARAMETER_NAMES:
        if choice.parameters[name] is not None:
            values[name] = choice.parameters[name]
        elif name in own:
            values[name] = (own[name],)
        if name in grid and name not in choice.given:
            values[name] = _listed(name, grid[name])
    if "cost" in values:
        del values["lambda_"]
    unused = set(MACHINE_PARAMETERS) - own.keys()
    return {name: value for name, value in values.items() if name not in unused}


def grid_of(choice: MachineChoice, name: str | None, is_repeated: bool) -> dict[str, str | tuple]:
    """The values of --grid; without it the quick ones, if no parameter is given.

    Parameters
    ----------
    name : str or None
        The grid.
    is_repeated : bool
        Whether there are several splits, which have no grid by default.
    """
    if name in ("tkde", "paper"):
        return defaults.PAPER_GRID
    if name == "arxiv" and _has_arxiv(choice):
        if choice.given & _ARXIV_NAMES:
            raise UsageError(messages.arxiv_grid_alone())
        return defaults.ARXIV_GRID | {"gamma": defaults.KDD_GRID["gamma"]}
    if name in ("kdd", "arxiv"):
        return defaults.KDD_GRID
    given = choice.given & {*PARAMETER_NAMES} - {"kernel"}
    if name is None and (given or is_repeated):
        return {}
    if MACHINES[choice.name].kind == OF_PAIRS:
        grid = defaults.QUICK_PAIRS_GRID
        return grid | _times(grid, _share_of_usual(choice))
    is_free = choice.solver == "auto" and choice.common["model_format"] != "liblinear"
    kernels = {"kernel": "linear,rbf"} if is_free else {}
    return defaults.QUICK_GRID | kernels | _quick_multiples(choice)


def _quick_multiples(choice: MachineChoice) -> dict[str, tuple]:
    """The quick grid for the data: the gammas, and smaller lambdas where the default is less.

    Gammas are multiples of the default that begin at about a sixteenth over the summed variance of
    the features (docs/defaults.md).
    """
    gamma, found = choice.first("gamma"), {}
    if "gamma" not in choice.given and choice.spread is not None:
        is_sigmoid = choice.parameters["kernel"] == ("sigmoid",)
        shares = choice.spread / (_SPREAD_OF_SIGMOID if is_sigmoid else _SPREAD)
        power = math.log(min(max(shares, 1.0), _MOST_DIVIDED), _STEP)
        own = gamma or defaults.PerFeature(1.0)
        found["gamma"] = type(own)(own * _STEP ** -round(power))
    shares, kernel = dict(defaults.QUICK_GRID), choice.parameters["kernel"]
    if share := _share_of_usual(choice):
        value = choice.first("lambda_")
        if kernel == ("linear",):
            found |= share
        elif kernel == ("sigmoid",):
            found["lambda_"], shares["lambda_"] = value, defaults.QUICK_SIGMOID_SHARES
        elif kernel == ("poly",):
            found["lambda_"] = value / defaults.LAMBDA
    return _times(shares, found)


def _share_of_usual(choice: MachineChoice) -> dict[str, float]:
    """What the default lambda for the data is of the usual one, where it is less."""
    usual, value = MACHINES[choice.name].parameters.get("lambda_"), choice.first("lambda_")
    if "lambda_" in choice.given or value is None or not value < usual:
        return {}
    return {"lambda_": value / usual}


def _times(grid: dict[str, str], factors: dict[str, float]) -> dict[str, tuple]:
    """The values of a grid times factors, of the names that have one."""
    return {
        name: tuple(type(factor)(float(share) * factor) for share in _listed(name, grid[name]))
        for name, factor in factors.items()
    }


def _listed(name: str, values: str | tuple) -> tuple:
    return List(_KINDS[name]).convert(values, None, None)


def _has_arxiv(choice: MachineChoice) -> bool:
    """Whether the machine is one of arXiv 2016, with C1, C2 and D."""
    return "theta" in MACHINES[choice.name].parameters


def coordinates(choice: MachineChoice, name: str | None):
    """From a setting of a grid of this name to what varies there; None if that is the setting."""
    return _arxiv_point if name == "arxiv" and _has_arxiv(choice) else None


def _arxiv_point(setting: dict) -> dict:
    """A setting with C1, C2 and D, rounded to what they were."""
    c1 = setting["lambda_"] / (1 - setting["theta"]) ** 2
    powers = {"lambda_": c1, "mu": setting["mu"] * c1}
    return setting | {name: float(f"{value:.9g}") for name, value in powers.items()}


def with_kernels(choice: MachineChoice, grid: dict[str, str | tuple]) -> MachineChoice:
    """The choice with all kernels that are searched: a grid may add some."""
    kernels = values_of(choice, grid)["kernel"]
    if "precomputed" in kernels and len(kernels) > 1:
        raise UsageError(messages.precomputed_alone())
    return choice._replace(parameters=choice.parameters | {"kernel": kernels})


def machine_and_settings(choices: list[MachineChoice], name: str | None, is_repeated: bool):
    """The machine, the settings of one search for each kernel, all checked, and how many are first.

    The others are those of the quick grid with gammas past its ends.

    Parameters
    ----------
    choices : list of MachineChoice
        Those of :meth:`MachineChoice.by_kernel`.
    name, is_repeated
        As of :func:`grid_of`.
    """
    from odmtool.search.search import MOST_SETTINGS, grid

    lists = [values_of(choice, grid_of(choice, name, is_repeated)) for choice in choices]
    machine = choices[0].make({name: chosen[0] for name, chosen in lists[0].items()})
    count = sum(math.prod(map(len, values.values())) for values in lists)
    if count > MOST_SETTINGS:
        raise UsageError(messages.too_many_settings(count, MOST_SETTINGS))
    settings = [setting for values in lists for setting in grid(values)]
    first = len(settings)
    if name in (None, "quick"):
        farther = [_farther(*both) for both in zip(choices, lists, strict=True)]
        settings += [setting for values in farther for setting in grid(values)]
    if name == "arxiv" and _has_arxiv(choices[0]):
        settings = [
            s | of_arxiv(s["lambda_"], s["mu"] * s["lambda_"], s["theta"])
            for s in settings if s["mu"] * s["lambda_"] >= 1
        ]  # fmt: skip
    for setting in settings:
        machine.copy(**setting).check()
    return machine, settings, min(first, len(settings))


def _farther(choice: MachineChoice, values: dict[str, tuple]) -> dict[str, tuple]:
    """The values of a quick grid with gammas past the ends of its own; without any, no setting.

    Of rbf only: with poly a larger lambda does much the same, with sigmoid there is no solution.
    """
    gammas = values["gamma"]
    is_searched = values["kernel"] == ("rbf",) and "gamma" not in choice.given and len(gammas) > 1
    powers = range(1, _FARTHER + 1) if is_searched else ()
    ends = (min(gammas), 1 / _STEP), (max(gammas), _STEP)
    more = tuple(type(end)(end * step**power) for end, step in ends for power in powers)
    return values | {"gamma": more}


def with_gammas(settings: list[dict], data) -> list[dict]:
    """The settings with numbers in place of gammas that depend on the data.

    ``data`` is a :class:`odmtool.search.validation.Data`.
    """
    from odmtool.core.kernels import mean_distance
    from odmtool.machines import gamma_for

    d, distance = data.X.shape[1], 0.0
    if any(isinstance(setting.get("gamma"), defaults.PerDistance) for setting in settings):
        distance = mean_distance(data.scaled_by(slice(None)).X)
    return [
        setting
        | ({"gamma": gamma_for(setting["gamma"], d, distance)} if "gamma" in setting else {})
        for setting in settings
    ]


def varying(settings: list[dict]) -> list[str]:
    """The parameters to show: those with several values."""
    found = {name: {s[name] for s in settings if name in s} for name in PARAMETER_NAMES}
    return [name for name, values in found.items() if len(values) > 1] or ["lambda_", "cost"]


def ends(
    rows: list, winner, settings: list[dict], metric: str, went_on: bool = False
) -> list[tuple[str, float, bool]]:
    """The parameters of the best setting with the smallest or the largest value that was tried.

    Name, value, and whether it is the largest; if no other value of the parameter is as good.

    Parameters
    ----------
    rows : list of odmtool.search.search.Trial
    winner : Trial
    settings : list of dict
        All that were tried; each kernel may have values of its own.
    went_on : bool
        Whether there were gammas past the ends: then few are enough, too.
    """
    found, best, highest = [], winner.setting, winner.score(metric)
    own = [setting for setting in settings if setting["kernel"] == best["kernel"]]
    for name in _ENDLESS:
        tried = sorted({setting[name] for setting in own if name in setting})
        is_used = name != "gamma" or name in KERNELS[best["kernel"]].parameters
        is_few = len(tried) < (2 if went_on and name == "gamma" else _ENOUGH)
        if is_few or not is_used or best[name] not in (tried[0] or None, tried[-1]):
            continue  # nothing is below 0
        others = [row for row in rows if row.setting.get(name) != best[name]]
        if all(row.score(metric) < highest for row in others):
            found.append((name, best[name], best[name] == tried[-1]))
    return found
