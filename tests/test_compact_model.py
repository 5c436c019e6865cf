"""Models in the compact form: damaged and hostile files, one and two classes."""

from __future__ import annotations

import numpy as np
import pytest
from multiclass_data import clusters, put

COMPACT = ["-q", "-s", "mcodm", "-t", "rbf", "-g", "0.3", "--format", "compact"]


def test_a_cut_compact_model_is_refused(run, tmp_path):
    put("d", *clusters(3))
    assert run("train", *COMPACT, "d", "m").code == 0
    whole = (tmp_path / "m").read_bytes()
    generator = np.random.default_rng(0)
    for length in sorted({*range(0, 200, 3), *generator.integers(0, len(whole), 60).tolist()}):
        (tmp_path / "x").write_bytes(whole[:length])
        outcome = run("predict", "d", "x", "o")
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
        assert outcome.err.startswith("odm-predict: x:") and not (tmp_path / "o").exists()
    for place in generator.integers(0, len(whole), 60).tolist():
        damaged = bytearray(whole)
        damaged[place] ^= 1 << generator.integers(7)
        (tmp_path / "x").write_bytes(damaged)
        outcome = run("predict", "d", "x", "o")
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)


HEAD = "model_type compact\nkernel_type rbf\ngamma 1\nnr_class 3\ntotal_sv 2\noffset 0 0 0\n"
GOOD = HEAD + "label 1 2 3\nvectors\n1 0 -1 1:1 \n0 1 0.5 2:1 \n"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("compact", "dense", "'dense' is not a valid value of 'model_type'"),
        ("rbf", "rbfx", "'rbfx' is not a valid value of 'kernel_type'"),
        ("gamma 1\n", "", "'gamma' is missing"),
        ("offset 0 0 0\n", "", "'offset' is missing"),
        ("offset 0 0 0", "offset 0 0", "'label'"),
        ("offset 0 0 0", "offset 0 nan 0", "'nan'"),
        ("label 1 2 3\n", "", "'label' is missing"),
        ("label 1 2 3", "label 1 2 2", "names a class twice"),
        ("nr_class 3", "nr_class 0", "'0' is not a valid value of 'nr_class'"),
        ("nr_class 3", "nr_class 2147483647", "is not a valid value of 'offset'"),
        ("total_sv 2", "total_sv 2147483647", "declares 2147483647 support vectors"),
        ("total_sv 2", "total_sv -1", "'-1'"),
        ("total_sv 2", "total_sv 1", "declares 1 support vectors"),
        ("label 1 2 3\n", "label 1 2 3\nrho 0 0 0\n", "unknown text in model file: 'rho'"),
        ("label 1 2 3\n", "label 1 2 3\nnr_sv 1 1 0\n", "unknown text in model file: 'nr_sv'"),
        ("label 1 2 3\n", "label 1 2 3\nprobA 1 1\n", "'vectors'"),
        ("vectors", "SV", "unknown text in model file"),
        ("1 0 -1 1:1", "1 0 1:1", "expected 3 coefficients"),
        ("1 0 -1 1:1", "1 0 inf 1:1", "'inf'"),
        ("1 0 -1 1:1", "1 0 -1 0:1", "index 0"),
        ("1 0 -1 1:1", "1 0 -1 2:1 1:1", "indices must ascend"),
        ("1 0 -1 1:1", "1 0 -1 1:0x1", "'0x1'"),
        ("2:1 \n", "2:1 ", "its last line does not end"),
    ],
)
def test_a_hostile_compact_model_is_refused(run, tmp_path, old, new, words):
    put("d", *clusters(3))
    (tmp_path / "m").write_text(GOOD)
    assert run("predict", "d", "m", "o").code == 0
    assert GOOD.count(old) == 1
    (tmp_path / "m").write_text(GOOD.replace(old, new))
    outcome = run("predict", "d", "m", "o2")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert words in outcome.err and not (tmp_path / "o2").exists()


def test_a_compact_model_of_one_or_two_classes_works(run, tmp_path):
    put("d", *clusters(3))
    one = GOOD.replace("nr_class 3", "nr_class 1").replace("offset 0 0 0", "offset 0")
    one = one.replace("label 1 2 3", "label 4").replace("1 0 -1 1", "1 1").replace("0 1 0.5", "1")
    (tmp_path / "m").write_text(one)
    assert run("predict", "d", "m", "o").code == 0
    assert set((tmp_path / "o").read_text().split()) == {"4"}
    two = GOOD.replace("nr_class 3", "nr_class 2").replace("offset 0 0 0", "offset 0 0")
    two = two.replace("label 1 2 3", "label 4 9").replace("1 0 -1", "1 0").replace("0.5 2", "2")
    (tmp_path / "m").write_text(two)
    assert run("predict", "--margins", "a", "d", "m", "o").code == 1  # no label it knows
    assert run("predict", "d", "m", "o").code == 0
    assert set((tmp_path / "o").read_text().split()) <= {"4", "9"}
