"""The picture in README: margins of an SVM and of ODM that predict equally well.

usage: python benchmarks/readme_figure.py [PICTURE]

Both machines have the RBF kernel; lambda and gamma are those of the best cross validation of
the training part of data/breast-cancer, over the same lists; ODM's mu and theta are the defaults.
The models scale the features. The table of `odmtool margins` gives the numbers below the picture
(docs/margins-of-two.png). Needs matplotlib; takes a minute.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TRAIN, TEST = (str(ROOT / "data" / f"breast-cancer.{part}") for part in ("train", "test"))
MACHINES = {"SVM": "l1svm", "ODM": "odm"}
SEARCH = ["-t", "rbf", "-l", "2^2:16:2", "-g", "2^-7:1:2", "--scale", "0,1"]


def run(*arguments: str) -> str:
    """What a command prints on stdout."""
    command = [sys.executable, "-m", "odmtool", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    picture = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "docs" / "margins-of-two.png")
    with tempfile.TemporaryDirectory() as folder:
        models = [str(Path(folder, name)) for name in MACHINES]
        for machine, model in zip(MACHINES.values(), models, strict=True):
            lines = run("cv", "-s", machine, *SEARCH, "-o", model, TRAIN).splitlines()
            print("\n".join(lines[-3:]))
        print(run("margins", "--plot", picture, "--panel", "plain", "--names", ",".join(MACHINES),
                  "--plot-title", "breast cancer, test", TEST, *models))  # fmt: skip


if __name__ == "__main__":
    main()
