"""The options of the solvers for large data: parts, landmarks, clusters."""

from __future__ import annotations

import click

from odmtool import defaults
from odmtool.cli.options import Whole, stacked


def large_options(function):
    """Decorator: the options of sodm, nystrom and dsvrg."""
    options = [
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
    ]  # fmt: skip
    return stacked(options)(function)
