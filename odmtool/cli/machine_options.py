"""The options that odm-train and odm-cv share: data, machine, kernel, solver.

Imports click only; numbers of defaults come from :mod:`odmtool.defaults`.
"""

from __future__ import annotations

import click

from odmtool import defaults
from odmtool.cli import messages
from odmtool.cli.options import (
    ClassWeight,
    Label,
    NotFiniteError,
    Number,
    Whole,
    jobs_option,
    parse_number,
    stacked,
)
from odmtool.cli.ranges import LONGEST, expand
from odmtool.core.kernel_table import KERNELS
from odmtool.core.loss_table import MACHINES, MachineRow
from odmtool.messages.words import listed
from odmtool.solvers.table import SOLVERS

_SIZE_UNITS = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


# LIBSVM's numbers of the kernels that it has.
_NUMBERED = {row.number: row.name for row in KERNELS.values() if row.number is not None}


class KernelName(click.Choice):
    """A kernel by name or by LIBSVM's number."""

    def convert(self, value, param, ctx):
        if str(value).isdigit():
            value = _NUMBERED.get(int(value), value)
        return super().convert(value, param, ctx)


class Bytes(float):
    """A size, and the word that was given for it, which says it exactly."""

    def __new__(cls, size: float, word: str):
        found = super().__new__(cls, size)
        found.word = word
        return found

    def __getnewargs__(self) -> tuple[float, str]:
        """Other processes are told both."""
        return float(self), self.word


class Size(click.ParamType):
    """Bytes: ``4G``, ``500M``; a bare number counts megabytes, as LIBSVM's -m does."""

    name = "size"

    def convert(self, value, param, ctx):
        if not isinstance(value, str):
            return value
        text = value.strip().upper().removesuffix("B")
        unit = _SIZE_UNITS.get(text[-1:])
        try:
            number = parse_number(text[:-1] if unit else text)
        except NotFiniteError:
            self.fail(messages.not_finite(value), param, ctx)
        except ValueError:
            self.fail(messages.not_a_size(value), param, ctx)
        if number <= 0:
            self.fail(messages.size_not_positive(number), param, ctx)
        return Bytes(number * (unit or 1e6), value)


class Interval(click.ParamType):
    """Two numbers, the lower first: ``0,1``."""

    name = "lower,upper"

    def convert(self, value, param, ctx):
        if not isinstance(value, str):
            return value
        try:
            lower, upper = map(parse_number, value.split(","))
        except NotFiniteError as error:
            self.fail(messages.not_finite(str(error)), param, ctx)
        except ValueError:
            self.fail(messages.not_an_interval(value), param, ctx)
        if not lower < upper:
            self.fail(messages.range_not_rising(lower, upper), param, ctx)
        return lower, upper


# What a gamma of a list may be divided by.
_DIVIDED = {"d": defaults.PerFeature, "dist": defaults.PerDistance}


class Gamma(Number):
    """A number, or ``4/d`` for 4 / number of features."""

    def convert(self, value, param, ctx):
        if isinstance(value, str) and value.endswith("/d"):
            return defaults.PerFeature(super().convert(value[:-2], param, ctx))
        return super().convert(value, param, ctx)


class List(click.ParamType):
    """Values of another type, separated by commas; of numbers also ranges."""

    def __init__(self, item: click.ParamType):
        self.item = item
        self.name = f"{item.name},..."

    def get_metavar(self, param, ctx=None):
        return f"{self.item.name.upper()},..."

    def convert(self, value, param, ctx):
        if not isinstance(value, str):
            return value
        if not isinstance(self.item, Number):
            return tuple(self.item.convert(part, param, ctx) for part in value.split(","))
        try:
            numbers = expand(value, _DIVIDED if isinstance(self.item, Gamma) else None)
        except NotFiniteError as error:
            self.fail(messages.not_finite(str(error)), param, ctx)
        except ValueError as error:
            self.fail(messages.not_a_list(str(error), LONGEST), param, ctx)
        return tuple(self.item.convert(number, param, ctx) for number in numbers)


def _having(parameter: str) -> list[MachineRow]:
    """The machines that have a parameter."""
    return [row for row in MACHINES.values() if parameter in row.parameters]


def _of(parameter: str) -> str:
    """Their names."""
    return ", ".join(row.name for row in _having(parameter))


def _defaults_of(name: str) -> str:
    """The default that most machines have for a parameter, and those that have another one."""
    of = {row.name: row.parameters[name] for row in _having(name)}
    values = list(of.values())
    common = max(values, key=values.count)
    others = [f"{machine} {value:g}" for machine, value in of.items() if value != common]
    return "; ".join([f"{common:g}", *others])


def _with(parameter: str) -> str:
    """The kernels that use a parameter."""
    return listed([row.name for row in KERNELS.values() if parameter in row.parameters])


# name, flags, type, default, help; the machine knows the default where it is None
_PARAMETERS = (
    ("kernel", ("-t", "--kernel"), KernelName(tuple(KERNELS)), "linear",
     f"Kernel, by name or as LIBSVM's {min(_NUMBERED)} to {max(_NUMBERED)}."),
    ("lambda_", ("-l", "--lambda"), Number(), None,
     "Weight of the loss, > 0; larger fits the data more closely, like C. For m3svm and ism3 it is "
     "the weight of the regulariser, that is the opposite. The default depends on the data, too "
     "(DEFAULTS in odm-train(1))."),
    ("cost", ("-c", "--cost"), Number(), None,
     "Instead of lambda: the cost C of one example, > 0 (lambda = C times the sum of weights; "
     "m3svm, ism3: lambda = 1/C)."),
    ("mu", ("-m", "--mu"), Number(), None,
     f"{_of('mu')}: penalty for margins above the band, relative to margins below it, 0 < mu <= 1 "
     "(not LIBSVM's cache size, which is --memory)."),
    ("theta", ("-p", "--theta"), Number(), None,
     f"{_of('theta')}: half-width of the band around margin 1 in which margins cost nothing, "
     "0 <= theta < 1 (svr: its epsilon)."),
    ("mu1", ("--mu1",), Number(), None,
     f"{_of('mu1')}: weight of the variance of the margins, >= 0."),
    ("mu2", ("--mu2",), Number(), None, f"{_of('mu2')}: weight of the mean of the margins, >= 0."),
    ("power", ("--power",), Number(), None,
     f"{_of('power')}: the power p > 0 of |w_k - w_l| in their regulariser; below 1 "
     "the problem is not convex, and the result a stationary point."),
    ("degree", ("-d", "--degree"), Whole(), defaults.DEGREE,
     f"Degree of {_with('degree')}, {KERNELS['poly'].formula}."),
    ("gamma", ("-g", "--gamma"), Gamma(), 0.0,
     f"gamma of {_with('gamma')}; 4/d means 4 / number of features, 0 means 1/d. Without -t it "
     "takes rbf. The default is 1/d or what suits the data (DEFAULTS in odm-train(1))."),
    ("coef0", ("-r", "--coef0"), Number(), defaults.COEF0,
     f"coef0 of {_with('coef0')}; without -r, poly has {defaults.COEF0_OF['poly']:g}."),
)  # fmt: skip
PARAMETER_NAMES = tuple(row[0] for row in _PARAMETERS)
FLAGS = {row[0]: row[1][0] for row in _PARAMETERS}
MACHINE_PARAMETERS = tuple(dict.fromkeys(n for row in MACHINES.values() for n in row.parameters))


# Of sodm, nystrom and dsvrg.
_OF_LARGE_DATA = (
    click.option("--partitions", type=Whole(),
                 help="sodm: parts at the first level; dsvrg: parts.  [default: sodm: a "
                      "power of --branch, parts of at least 1000 examples; dsvrg: at most 32, "
                      "of at least 10000]"),
    click.option("--strata", type=Whole(), default=64, show_default=True,
                 help="sodm, dsvrg: landmarks or clusters by which the examples are spread "
                      "over parts."),
    click.option("--branch", type=Whole(), default=4, show_default=True,
                 help="sodm: number of parts merged at a time."),
    click.option("--stop-level", type=Whole(), default=0, show_default=True,
                 help="sodm: the last level to solve; 0 is the whole problem, 1 the last "
                      "parts before it."),
    click.option("--partition-by", type=click.Choice(defaults.PARTITION_BY),
                 default="stratified", show_default=True,
                 help="sodm, dsvrg: how parts are made. stratified: a share of the examples "
                      "near every landmark; cluster: clusters of kernel k-means, as in "
                      "DC-SVM; cluster-strata: a share of each, as in DiP-SVM."),
    click.option("--cascade", is_flag=True,
                 help="sodm: only support vectors go on to the next level."),
    click.option("--landmarks", type=Whole(), default=1000, show_default=True,
                 help="nystrom: number of landmark examples, which also become the support "
                      "vectors."),
    click.option("--scheduler", metavar="ADDRESS",
                 help="sodm, nystrom, dsvrg: a Dask scheduler, tcp://host:8786 or its file, on "
                      "whose workers to compute (pip install 'odmtool[dask]')."),
)  # fmt: skip


def machine_options(many: bool):
    """Decorator: the options of a machine; with ``many`` its parameters take lists."""
    options = [
        click.option("-s", "--machine", type=click.Choice(("auto", *MACHINES)),
                     default="auto", show_default=True,
                     help="Machine; auto: odm for two classes and with a kernel, mcodm for more "
                          "without one (odm with a --solver that mcodm has not). LIBLINEAR's and "
                          "svm-train's numbers are taken as the nearest machine."),
        *(_parameter(many, *row) for row in _PARAMETERS),
        *_forms_of_papers(many),
        click.option("--outer", type=click.Choice(defaults.OUTER), default="cccp",
                     show_default=True,
                     help="mcodm: how the best rival class is treated in each outer round; cccp: "
                          "the objective never rises; constant: as in the paper, it may rise."),
        click.option("--ism3-loss", type=click.Choice(defaults.ISM3_LOSSES), default="pairwise",
                     show_default=True, help="ism3: pairwise logistic, as in the paper, or "
                                             "softmax, as in its authors' script."),
        click.option("--multiclass", type=click.Choice(defaults.MULTICLASS), default="auto",
                     show_default=True,
                     help="How a two-class machine handles more classes: one against the rest, "
                          "one against one, or an error-correcting output code; auto: ovo with "
                          "a kernel, with over 50 classes if none is much larger than the "
                          "others; else ovr."),
        click.option("--scale", type=Interval(), metavar="LOWER,UPPER",
                     help="Scale every feature to this range, as odm-scale does, and keep the "
                          "ranges in the model, so that odm-predict scales by itself. In a cross "
                          "validation they are learned on the training parts."),
        click.option("-B", "--bias", type=Number(), default=defaults.BIAS,
                     help="Constant feature of this value, which gives an intercept; "
                          "negative: none.  [default: -1]"),
        click.option("-w", "--class-weight", type=(Label(), ClassWeight()), multiple=True,
                     metavar="LABEL WEIGHT",
                     help="Weight of a class, >= 0; also attached, as in -w-1 5 or -wspam 2, and "
                          "-w balanced. May be repeated.  [default: 1]"),
        click.option("--balanced", is_flag=True,
                     help="Weigh the classes so that each counts the same in all: m / (k m_class) "
                          "for one of k classes; also written -w balanced. A class that -w names "
                          "has that weight instead."),
        click.option("-W", "--weights", metavar="FILE",
                     help="Weights of the examples, >= 0, one per line."),
        click.option("--zero-based", is_flag=True,
                     help="Feature numbers in the data start at 0; the model has them plus 1."),
        *_solver_options(),
        *_OF_LARGE_DATA,
    ]  # fmt: skip
    return stacked(options)


def _solver_options():
    """How a machine is trained, and with what."""
    return [
        click.option("-e", "--tolerance", type=Number(), default=defaults.TOLERANCE,
                     show_default=True,
                     help="Stop when the relative duality gap is at most this; LIBSVM's -e is "
                          "another measure."),
        click.option("--solver", type=click.Choice(tuple(SOLVERS)), default="auto",
                     show_default=True,
                     help=f"auto takes {SOLVERS['auto'].title}; all are described in odm-train(1), "
                          "SOLVERS."),
        click.option("--max-iter", type=Whole(),
                     help="Maximum number of iterations of the solver, epochs or Newton steps as a "
                          "rule, of mcodm for each of its starts; SOLVERS in odm-train(1) tells "
                          "what is counted, and the defaults."),
        click.option("--snapshot", type=click.Choice(defaults.SNAPSHOTS), default="last",
                     show_default=True,
                     help="svrg: which iterate of a stage starts the next."),
        click.option("--seed", type=Whole(least=0), default=defaults.SEED, show_default=True,
                     help="Seed of everything random; same seed, same model."),
        click.option("--memory", type=Size(), metavar="SIZE",
                     help="Memory for kernel values, with --cache for everything: 4G, 500M; a bare "
                          "number is megabytes.  [default: 20, 10, 5 ... % of all memory, at most "
                          "25 % of what is free]"),
        jobs_option("Number of threads: for reading, landmarks, folds, binary problems, parts and "
                    "mcodm. Models are the same for any number, but for rounding."),
    ]  # fmt: skip


def _forms_of_papers(many: bool):
    """The parameters of a machine as other papers name them."""
    return [
        click.option("--kdd", type=(List(Number()) if many else Number(),) * 3,
                     metavar="LAMBDA1 LAMBDA2 C",
                     help="ldm: instead of --mu1, --mu2 and -l the parameters of the KDD 2014 "
                          "paper: mu1 = 2 LAMBDA1, mu2 = LAMBDA2, lambda = C times the sum of "
                          "weights."),
        click.option("--arxiv", type=(Number(),) * 3, metavar="C1 C2 D",
                     help="odm, mcodm: instead of -l, -m and -p the parameters of the arXiv "
                          "version of 2016: lambda = C1 (1 - D)^2, mu = C2 / C1, theta = D, with "
                          "C2 <= C1."),
    ]  # fmt: skip


def _parameter(many, name, flags, kind, default, text):
    """The option of one parameter of a machine."""
    if many:
        takes = "a list or a range" if isinstance(kind, Number) else "a list"
        text = f"{text} Takes {takes}."
    if name in MACHINE_PARAMETERS:
        text = f"{text}  [default: {_defaults_of(name)}]"
    elif default is not None:
        text = f"{text}  [default: {default if isinstance(default, str) else f'{default:g}'}]"
    if many:
        kind, default = List(kind), None if default is None else (default,)
    return click.option(*flags, name, type=kind, default=default, help=text)


format_option = click.option(
    "--format", "model_format", type=click.Choice(defaults.FORMATS),
    help="Form of the model file. libsvm also holds a linear model (its w are support "
         "vectors), so that svm-predict reads it, also with -b 1; compact, which only "
         "odm-predict reads, is for a kernel and more than two classes.  "
         "[default: liblinear if the kernel is linear, without ovo, else libsvm]",
)  # fmt: skip
probability_option = click.option(
    "-b", "--probability", type=click.Choice(["0", "1"]), default="0", show_default=True,
    help="1: the model gives probabilities, too; Platt's sigmoid is fitted on 5 folds. In a "
         "cross validation, labels are those of the largest probability.",
)  # fmt: skip
