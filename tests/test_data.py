"""The bundled sets: shapes, labels, and that their script writes the same bytes."""

import importlib.util
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from odmtool.io.svmlight import read_svmlight

DATA = Path(__file__).parent.parent / "data"
SETS = {
    "breast-cancer": (30, {1: (141, 71), -1: (238, 119)}),
    "iris": (4, {1: (33, 17), 2: (33, 17), 3: (33, 17)}),
    "wine": (13, {1: (39, 20), 2: (47, 24), 3: (32, 16)}),
    "digits": (64, None),
}
ROWS = {"breast-cancer": 569, "iris": 150, "wine": 178, "digits": 1797}


def read(name, part):
    return read_svmlight(str(DATA / f"{name}.{part}"), n_features=SETS[name][0])


@pytest.mark.parametrize("name", SETS)
def test_shape_and_labels(name):
    train, test = read(name, "train"), read(name, "test")
    d, counts = SETS[name]
    assert train.X.shape[1] == test.X.shape[1] == d
    assert train.X.shape[0] + test.X.shape[0] == ROWS[name]
    found = [Counter(part.labels.tolist()) for part in (train, test)]
    if counts is not None:
        assert found == [{c: n[part] for c, n in counts.items()} for part in (0, 1)]
    else:
        assert sorted(found[0]) == sorted(found[1]) == list(range(10))
        assert max(found[0].values()) - min(found[0].values()) <= 6


def test_the_script_writes_the_same_bytes(tmp_path):
    pytest.importorskip("sklearn")
    spec = importlib.util.spec_from_file_location("make_data", DATA / "make_data.py")
    make_data = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_data)
    make_data.write(tmp_path)
    written = sorted(path.name for path in tmp_path.iterdir())
    parts = [f"{name}.{part}" for name in SETS for part in ("train", "test")]
    assert written == sorted([*parts, "iris.csv"])
    for name in written:
        assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes()


@pytest.mark.parametrize("name", SETS)
def test_no_row_is_lost_or_changed(name):
    datasets = pytest.importorskip("sklearn.datasets")
    X, y = getattr(datasets, "load_" + name.replace("-", "_"))(return_X_y=True)
    labels = {"breast-cancer": 1 - 2 * y, "digits": y}.get(name, y + 1)
    parts = [read(name, part) for part in ("train", "test")]
    ours = np.vstack([np.column_stack([p.labels, p.X.toarray()]) for p in parts])
    theirs = np.column_stack([labels, X])
    np.testing.assert_array_equal(
        ours[np.lexsort(ours.T)], theirs[np.lexsort(theirs.T)]
    )
