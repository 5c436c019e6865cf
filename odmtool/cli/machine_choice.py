"""The machine that the options of odm-train and odm-cv ask for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import click
from click.core import ParameterSource

from odmtool.cli import messages
from odmtool.cli.flags import long_option
from odmtool.cli.machine_options import FLAGS, MACHINE_PARAMETERS, PARAMETER_NAMES
from odmtool.cli.report import Report
from odmtool.core.loss_table import MACHINES
from odmtool.defaults import MOST_IN_PAIRS, PerDistance
from odmtool.errors import UsageError
from odmtool.messages.words import listed
from odmtool.solvers.table import SOLVERS, name_of_auto, settings_of_solver

# Keyword arguments that every machine takes, by the names of their options.
_COMMON = ("bias", "tolerance", "solver", "max_iter", "seed", "memory", "model_format")
_SPECIAL = ("multiclass", "ism3_loss")


class MachineChoice(NamedTuple):
    """What is to be trained."""

    asked: str  # the machine of -s; auto until the classes are known
    # Those of :data:`PARAMETER_NAMES`: a tuple of values, of odm-train one; None is the machine's
    # default.
    parameters: dict
    common: dict  # other keyword arguments, of every machine
    special: dict  # keyword arguments of some machines
    given: frozenset[str]  # the options that stand on the command line
    is_search: bool  # of odm-cv
    # Every class not named in ``common["class_weight"]`` weighs the same in all.
    is_balanced: bool = False
    # Of a search with a kernel whose gamma nobody named, once the data are known: its default gamma
    # times the summed variance of the features.
    spread: float | None = None
    # Whether some features are much larger than most, where the default gamma depends on that.
    has_large: bool = False
    # As :func:`odmtool.machines.data.most_in_pairs` has it, once the data are known.
    most_in_pairs: float = MOST_IN_PAIRS

    @property
    def name(self) -> str:
        """The machine."""
        return "odm" if self.asked == "auto" else self.asked

    @property
    def solver(self) -> str:
        return self.common["solver"]

    @property
    def class_weight(self) -> dict:
        return self.common["class_weight"]

    def settled(self, data, scaling: tuple[float, float, float] | None = None) -> MachineChoice:
        """The choice for the data that were read: for auto a name, balanced weights, lambda, gamma.

        ``data`` is an :class:`odmtool.places.place.TrainingData`; the choice itself is returned
        if nothing was open. ``scaling`` are the arguments of its ``scaled``, if folds will be. Of a
        search with several kernels lambda and gamma are left to :meth:`by_kernel`.

        Raises DataError, MemoryLimitError: see :meth:`odmtool.places.place.TrainingData.scaled`.
        """
        from odmtool.machines.data import most_in_pairs

        choice, most = self, most_in_pairs(data.X, data.labels, len(data.classes))
        if most != self.most_in_pairs:
            choice = choice._replace(most_in_pairs=most)
        if self.asked == "auto":
            k, has_reduction = len(data.classes), "multiclass" in self.given
            asked = name_of_auto(k, self._kernels, self.solver, has_reduction)
            choice = choice._replace(asked=asked)
            if k > 2:  # the machine depends on the kernels that were searched
                choice = choice._replace(given=choice.given | {"machine"})
        if not choice._has_several:
            choice = choice._with_defaults(data, _scaled_once(data, scaling))
        weights = data.by_integer(self.class_weight)
        if self.is_balanced:
            weights = balanced_weights(data) | weights
        if weights != self.class_weight:
            choice = choice._replace(common=choice.common | {"class_weight": weights})
        return choice

    def against_the_rest(self) -> MachineChoice:
        """The same with ODM, one class against the rest, before it is settled."""
        special = self.special | {"multiclass": "ovr"}
        given = self.given | {"machine", "multiclass"}
        return self._replace(asked="odm", special=special, given=given)

    def by_kernel(
        self, data=None, scaling: tuple[float, float, float] | None = None
    ) -> list[MachineChoice]:
        """A search for each kernel: what suits one does not suit another.

        Parameters and errors are those of :meth:`settled`, which comes before; without ``data``
        lambda and gamma stay open.
        """
        if not self._has_several:
            return [self]
        scaled, found = _scaled_once(data, scaling), []
        for kernel in dict.fromkeys(self.parameters["kernel"]):
            own = self._replace(
                parameters=self.parameters | {"kernel": (kernel,)}, given=self.given | {"kernel"}
            )
            found.append(own if data is None else own._with_defaults(data, scaled))
        return found

    @property
    def _kernels(self) -> set[str]:
        """The kernels; a search may have several."""
        return {*self.parameters["kernel"]}

    @property
    def _has_several(self) -> bool:
        return len(self._kernels) > 1

    def _with_defaults(self, data, scaled: Callable) -> MachineChoice:
        """With the default coef0, gamma and lambda of its kernel for the data, where not the usual.

        ``scaled`` returns the data as they will be.
        """
        from odmtool.machines import default_values
        from odmtool.machines.data import gamma_for

        (kernel,) = self._kernels
        (m, d), k, known = data.X.shape, len(data.classes), self._known(kernel)
        total, _ = default_values.counted(m, data.weight)
        if default_values.depends_on_rows(self.name, kernel, total, d, k, known):
            data = scaled()
        found, variances = default_values.fitted(self.name, kernel, data.X, data.weight, k, known)
        values = {name: (value,) for name, value in found.items()}
        choice = self._replace(parameters=self.parameters | values) if found else self
        if variances is None:
            return choice
        choice = choice._replace(has_large=default_values.has_large(variances))
        spread = gamma_for(choice.first("gamma"), data.X.shape[1]) * float(variances.sum())
        return choice._replace(spread=spread) if self.is_search else choice

    def _known(self, kernel: str) -> dict:
        """What is not open, as :func:`odmtool.machines.default_values.fitted` takes it."""
        from odmtool.machines.default_values import OF_ROWS

        known = {name: self._only(name) for name in OF_ROWS.get(kernel, ()) if name in self.given}
        powers = self.parameters["power"] or ()
        if len(powers) == 1:
            known["power"] = powers[0]
        named = self.parameters["lambda_"] or self.parameters["cost"]
        return known | {"lambda_": named} if named or len(powers) > 1 else known

    def first(self, name: str):
        """The first value of a parameter."""
        values = self.parameters[name]
        return None if values is None else values[0]

    def _only(self, name: str) -> float | None:
        """A parameter, if it has one value that does not depend on distances."""
        one, *others = self.parameters[name]
        return None if others or isinstance(one, PerDistance) else one

    def make(self, values: dict | None = None):
        """The machine, its parameters checked; ``values`` stand for some of them."""
        from odmtool.machines import machine_named

        known = {name: self.first(name) for name in self.parameters} | (values or {})
        row = MACHINES[self.name]
        arguments = {name: known[name] for name in known if name not in MACHINE_PARAMETERS}
        arguments |= {name: known[name] for name in row.parameters if known[name] is not None}
        arguments |= {name: self.special[name] for name in self.special if name in row.options}
        if "multiclass" in row.options:
            arguments["most_in_pairs"] = self.most_in_pairs
        machine = machine_named(self.name)(**arguments, **self.common)
        machine.check()
        return machine

    def warn_of_unused(self, report: Report) -> None:
        """Say what was given although this machine has no use for it; -g, -d and -r excepted.

        Scripts of the grid.py kind send a gamma whatever the kernel is.
        """
        row, given = MACHINES[self.name], self.given
        unused = [FLAGS[n] for n in MACHINE_PARAMETERS if n not in row.parameters and n in given]
        of_machines = dict.fromkeys(n for other in MACHINES.values() for n in other.options)
        unused += [long_option(n) for n in of_machines if n not in row.options and n in given]
        if unused:
            report.warning(messages.unused_options(unused, f"machine {self.name}"))
        of_solvers = dict.fromkeys(n for other in SOLVERS for n in settings_of_solver(other))
        read = (*settings_of_solver(self.solver), *of_machines)
        unread = [long_option(n) for n in of_solvers if n not in read and n in given]
        if unread:
            report.warning(messages.unused_options(unread, f"solver {self.solver}"))


def _scaled_once(data, scaling: tuple[float, float, float] | None) -> Callable:
    """A function that returns the data: scaled, if ``scaling`` is asked for and there are rows."""

    @cache
    def scaled():
        is_asked = scaling is not None and hasattr(data.X, "indices")
        return data.scaled(*scaling) if is_asked else data

    return scaled


def balanced_weights(data) -> dict[int, float]:
    """From every label to m / (k m_label), with the weights of the examples if there are any."""
    import numpy as np

    totals = dict.fromkeys(sorted(data.classes), 0.0)
    for labels, rows in data.label_blocks():
        classes, places = np.unique(labels, return_inverse=True)
        weight = None if data.weight is None else data.weight[rows]
        for label, count in zip(classes, np.bincount(places, weights=weight), strict=True):
            totals[int(label)] += float(count)
    whole = sum(totals.values())
    return {label: whole / (len(totals) * total) for label, total in totals.items() if total > 0}


def machine_choice(ctx: click.Context, options: dict) -> MachineChoice:
    """The choice that the options make.

    Raises UsageError: two of them name the same thing.
    """
    from odmtool.solvers.settings import Settings

    given = given_options(ctx)
    if {"lambda_", "cost"} <= given:
        raise UsageError(messages.lambda_and_cost())
    for form in _FORMS:
        _refuse_both(form, given)
    common = {name: options[name] for name in _COMMON}
    settings = Settings(**{name: options[name] for name in Settings._fields})
    common |= {"class_weight": dict(options["class_weight"]), "settings": settings}
    is_search = isinstance(options["kernel"], tuple)
    parameters = _in_tuples({name: options[name] for name in PARAMETER_NAMES})
    special = {name: options[name] for name in _SPECIAL}
    choice = MachineChoice(
        options["machine"], parameters, common, special, given, is_search, options["balanced"]
    )
    for name, form in _FORMS.items():
        if options[name] is None:
            continue
        if choice.name not in form.machines:
            raise UsageError(messages.form_of_machine(f"--{name}", form.machines[0]))
        found = _in_tuples(form.parameters(*options[name]))
        choice = choice._replace(parameters=parameters | found, given=choice.given | found.keys())
    return choice


def _in_tuples(values: dict) -> dict:
    """The same, what has one value as a tuple of it."""
    several = (tuple, type(None))
    return {name: v if isinstance(v, several) else (v,) for name, v in values.items()}


def _refuse_both(form: str, given: frozenset[str]) -> None:
    """Raise UsageError if a parameter is named in both ways."""
    names = _FORMS[form].names
    for name in ("cost", *names):
        if {form, name} <= given:
            others = listed([FLAGS[other] for other in names])
            raise UsageError(messages.form_and(f"--{form}", others, FLAGS[name]))


def given_options(ctx: click.Context) -> frozenset[str]:
    """The options that stand on the command line."""
    typed = ParameterSource.COMMANDLINE
    return frozenset(name for name in ctx.params if ctx.get_parameter_source(name) == typed)


def _of_kdd(lambda1, mu2, cost) -> dict:
    """TKDE's parameters from those of --kdd: the same loss, in another scaling."""
    lambda1 = lambda1 if isinstance(lambda1, tuple) else (lambda1,)
    return {"mu1": tuple(2 * value for value in lambda1), "mu2": mu2, "cost": cost}


def of_arxiv(c1: float, c2: float, band: float) -> dict:
    """The same from those of --arxiv, 1/2 |w|^2 + sum_i (C1 xi_i^2 + C2 eps_i^2) / M."""
    if not (0 < c2 <= c1 < math.inf and 0 <= band < 1):
        raise UsageError(messages.arxiv_range(c1, c2, band))
    return {"lambda_": c1 * (1 - band) ** 2, "mu": c2 / c1, "theta": band}


class _Form(NamedTuple):
    """The parameters of a paper: of which machines, what they stand for, and a function to that."""

    machines: tuple[str, ...]
    names: tuple[str, ...]
    parameters: Callable[..., dict]


_FORMS = {
    "kdd": _Form(("ldm",), ("mu1", "mu2", "lambda_"), _of_kdd),
    "arxiv": _Form(("odm", "mcodm"), ("mu", "theta", "lambda_"), of_arxiv),
}
