"""The command lines of same_output.py: products of options here, the others in same_output.txt.

A chain is a list of lines for the shell that run one after the other in one folder, in which
they find the data sets (same_output_data.py) that they name. A line that starts with "! " must
fail (exit code other than 0), any other must not.
"""

from __future__ import annotations

from pathlib import Path

SCHEDULER = "scheduler.json"
ON_A_CLUSTER = "cluster"
_WHERE = f"--scheduler {SCHEDULER} --memory 300M"

_TWO_CLASSES = ("odm", "ldm", "l1svm", "l2svm", "lssvm", "svr", "mamc")
# The sigmoid kernel has negative eigenvalues; with this lambda there is a solution.
_KERNELS = ("linear", "poly -d 2 -g 0.5 -r 1", "rbf -g 0.25", "sigmoid -g 0.01 -r 0.1 -l 1")

Chain = list[str]


def trained(options: str, data: str = "binary", predict: str = "-d") -> Chain:
    """A training with its JSON, and a prediction."""
    return [f"odm-train --json summary.json {options} {data} m",
            f"odm-predict {predict} {data} m out"]  # fmt: skip


def told(options: str, data: str = "binary") -> Chain:
    """A training that says every step."""
    return [f"odm-train --verbose --memory 300M {options} {data} m"]


def damaged(options: str, data: str, damage: str) -> Chain:
    """A training, and a prediction with a model that a filter has damaged."""
    return [f"odm-train {options} {data} m", f"! {damage} m > n; odm-predict {data} n out"]


def machines() -> list[Chain]:
    """Every machine with every kernel, and every way to take several classes."""
    return [
        *(trained(f"-s {machine} -t {kernel}") for machine in _TWO_CLASSES for kernel in _KERNELS),
        *(trained(f"-s {machine} -t precomputed -l 16", "kernel") for machine in _TWO_CLASSES),
        *(trained(f"-s mcodm -t {kernel}", "three") for kernel in _KERNELS),
        trained("-s mcodm -t precomputed", "kernel3"),
        *(trained(f"-s {machine}", data) for machine in ("m3svm", "ism3")
          for data in ("three", "ten")),
        trained("-s ism3 --ism3-loss softmax --power 2", "three"),
        *(trained(f"-s {machine} --multiclass {way}", "three")
          for machine in ("odm", "ldm", "l2svm") for way in ("ovr", "ovo")),
        *(trained(f"-t rbf -s {machine} --multiclass {way} -j 2", "three")
          for machine in ("odm", "l1svm") for way in ("ovr", "ovo")),
    ]  # fmt: skip


def solvers() -> list[Chain]:
    """Every solver with the machines and kernels that it takes."""
    small = (
        "--solver dcd", "--solver dcd -t rbf", "--solver newton", "--solver newton -t rbf",
        "--solver svrg", "--solver svrg --snapshot random --seed 3", "--solver nystrom -t rbf",
        "--solver nystrom -t poly -d 2 -r 1 --landmarks 30 -j 2", "--solver dsvrg",
        "--solver dsvrg --partitions 3 --strata 8 --partition-by random -j 2",
        "-s l1svm --solver dcd -t sigmoid -r -1", "--solver newton -t sigmoid -g 0.01 -r 0.1",
        "-s ldm --solver dcd", "-s ldm --solver dcd -t rbf", "-s ldm --solver newton",
        "-s ldm --solver newton -t rbf", "-s ldm --solver dcd-dense",
        "-s ldm --solver dcd-dense -t poly", "-s ldm --solver svrg --max-iter 200",
        "-s ldm --solver asgd --max-iter 20", "-s l1svm --solver dcd", "-s l1svm --solver newton",
        "-s l1svm --solver newton -t rbf", "-s l1svm --solver nystrom -t rbf --landmarks 50",
        "-s l2svm --solver dcd -t rbf", "-s l2svm --solver svrg", "-s l2svm --solver dsvrg",
        "-s lssvm --solver dcd", "-s lssvm --solver newton -t rbf", "-s svr --solver dcd -t rbf",
        "-s svr --solver sodm --partitions 4", "-s mamc --solver dcd",
    )  # fmt: skip
    in_parts = (
        "", "-t rbf --partitions 4", "-t rbf --partitions 8 --branch 2 --stop-level 1 -j 2",
        "--partitions 4 --partition-by random", "-t rbf --partitions 4 --partition-by cluster",
        "-t rbf --partitions 4 --cascade --strata 16 -e 1e-4",
    )  # fmt: skip
    others = (
        ("-s mcodm --solver dcd", "three"), ("-s mcodm --solver newton", "three"),
        ("-s mcodm --solver dcd -t rbf", "three"),
        ("-s mcodm --outer constant", "three"), ("-s mcodm", "ten"),
        ("-s mcodm -t rbf -e 1e-2", "ten"), ("-s mcodm --solver dcd -l 16", "wide"),
        ("-s m3svm --solver newton -e 1e-6", "three"),
        ("-s m3svm --solver adam --max-iter 50 --power 3", "three"),
        ("-s ism3 --solver newton", "ten"), ("-s ism3 --solver adam --ism3-loss softmax", "three"),
        ("--solver newton", "wide"), ("--solver dcd -l 4", "wide"), ("-t rbf -l 4", "wide"),
        ("-s l1svm -l 4", "wide"), ("-s ldm -l 4", "wide"), ("-s m3svm", "wide"),
        ("-t rbf -l 64", "medium"), ("-t rbf -l 64 --memory 1M --solver dcd", "medium"),
        ("-s ldm -t rbf -l 4", "medium"), ("-s l1svm -t rbf -l 4 -j 2", "medium"),
    )  # fmt: skip
    return [
        *(told(f"-e 1e-6 -l 16 {options}") for options in small),
        *(told(f"--solver sodm -l 4 {options}", "medium") for options in in_parts),
        *(told(options, data) for options, data in others),
    ]


def options() -> list[Chain]:
    """Weights, bias, parameters, forms of the model, probabilities."""
    of_two = (
        "", "-B 1", "-B 2 -t rbf -l 16", "-w 1 3 -w -1 0.5", "-w-1 5 -t rbf", "-W weights",
        "-W weights -t rbf -s ldm -l 16", "-c 1", "-c 2^-3 -t rbf -g 4/d", "-W weights -c 0.5",
        "-s ldm --kdd 1 0.5 1/2", "-s ldm --mu1 16 --mu2 0.25", "-m 0.5 -p 0.4", "-s svr -p 0.3",
        "--format libsvm", "--format libsvm -t rbf -B 1", "-e 1e-9", "--seed 7 --solver dcd",
        "-q -t rbf", "-t 2 -g 0.1", "-j 2 -t poly", "-w 7 2", "-s odm --power 3 --mu1 2",
        "--solver newton --snapshot random", "-l 2**3 -m 1e-1 -p 1/4 -B .5",
    )  # fmt: skip
    of_three = (
        "-B 1", "-s mcodm -B 1 -t rbf", "-w 1 3 -w 2 0.5", "-s m3svm -w 1 2 -c 10",
        "--format libsvm", "-t rbf --format compact", "-t rbf --format libsvm -s odm",
        "-t rbf --multiclass ovr --format compact -s l2svm",
        "-s odm --multiclass ovo --format libsvm",
    )  # fmt: skip
    probable = (
        ("", "binary"), ("-t rbf --format libsvm --seed 2", "binary"), ("--format libsvm", "three"),
        ("-t rbf", "three"), ("-t rbf --multiclass ovo -s odm", "three"), ("-s l1svm", "three"),
    )  # fmt: skip
    return [
        *(trained(one) for one in of_two),
        *(trained(one, "three") for one in of_three),
        *(trained(f"-b 1 {one}", data, "-b 1") for one, data in probable),
    ]


def damage() -> list[Chain]:
    """Damaged data files and models."""
    names = ("index", "label", "value", "nan", "nul", "bom", "utf16", "twice", "colon", "empty",
             "comments", "gz", "zst")  # fmt: skip
    models = (("", "binary"), ("-t rbf", "binary"), ("-t rbf --format compact", "ten"))
    filters = ("head -c 150", "head -n -1", "sed s/label/labels/", "tr 1 2 <", "grep -v nr_class",
               "sed 's/model 1/model 2/'", "sed '/^[0-9]/s/$/x/'", ":")  # fmt: skip
    return [
        *([f"! odm-train bad.{name} m", f"! odm-scale bad.{name}"] for name in names),
        *(damaged(*model, filter_) for model in models for filter_ in filters),
    ]


def on_a_cluster() -> list[Chain]:
    """Data that are read here, and files that the workers read."""
    here = (
        ("--solver sodm --partitions 4 -t rbf -l 4 --verbose", "medium"),
        ("--solver sodm --partitions 4 --branch 2 -l 4", "medium"),
        ("--solver nystrom -t rbf --landmarks 40 --verbose", "medium"),
        ("--solver dsvrg --partitions 4 -l 4 --verbose", "medium"),
        ("-s odm --multiclass ovr -t rbf -l 4", "ten"), ("-s l2svm --multiclass ovo", "three"),
    )  # fmt: skip
    there = (
        "--solver dsvrg --partitions 4 -l 4", "--solver nystrom -t rbf --landmarks 40",
        "--solver sodm --partitions 4 -t rbf -l 4 --verbose", "--solver sodm -B 1 -w 1 2",
    )  # fmt: skip
    return [
        *(trained(f"{_WHERE} {one}", data) for one, data in here),
        *([f'odm-train {_WHERE} {one} "$PWD/part-*" m', "odm-predict part-0 m out"]
          for one in there),
    ]  # fmt: skip


def written() -> dict[str, list[Chain]]:
    """The chains of same_output.txt, by group."""
    groups: dict[str, list[Chain]] = {}
    text = Path(__file__).with_name("same_output.txt").read_text(encoding="utf-8")
    for section in text.split("\n[")[1:]:
        head, body = section.replace("{cluster}", _WHERE).split("]\n", 1)
        separator = "\n" if head.endswith(", alone") else "\n\n"
        chains = [chain.splitlines() for chain in body.strip("\n").split(separator)]
        groups[head.removesuffix(", alone")] = chains
    return groups


def groups() -> dict[str, list[Chain]]:
    """All chains, by group."""
    products = {"machines": machines(), "solvers": solvers(), "options": options(),
                "damage": damage(), ON_A_CLUSTER: on_a_cluster()}  # fmt: skip
    others = written()
    return {name: products.get(name, []) + others.get(name, []) for name in products | others}
