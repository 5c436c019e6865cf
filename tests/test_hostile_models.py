"""Damaged and hostile model files: refused with the reason, or sound."""

from __future__ import annotations

import hashlib

import model_makers as make
import numpy as np
import pytest
from model_texts import FACTS, KERNEL, LINEAR, PRECOMPUTED, THREE_CLASSES, assert_same_model

from odmtool.core.kernels import Kernel
from odmtool.errors import FileError, ModelError
from odmtool.io.model_file import read_model
from odmtool.io.model_write import write_model


def test_a_truncated_model_of_ours_is_always_refused(tmp_path, read):
    rng = np.random.default_rng(3)
    kernel_model = make.kernel_model(rng, Kernel("linear"), 2, 5, 3)
    for model in (make.linear_model(rng, 2, 3, 1.0), kernel_model):
        model.facts = dict(FACTS)
        path = tmp_path / "whole"
        write_model(str(path), model)
        whole = path.read_bytes()
        assert_same_model(read(whole), model)
        for length in range(len(whole)):
            with pytest.raises(ModelError):
                read(whole[:length])


def test_a_changed_model_of_ours_is_refused(tmp_path, read):
    path = tmp_path / "whole"
    model = make.kernel_model(np.random.default_rng(4), Kernel("rbf", gamma=0.5), 2, 3, 3)
    model.facts = dict(FACTS)
    write_model(str(path), model)
    whole = path.read_bytes()
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 1
        with pytest.raises((ModelError, FileError)):
            read(bytes(changed))
    for text in (whole + b"\n", whole + b"x", whole + whole, whole.replace(b"\n", b"\r\n")):
        with pytest.raises(ModelError):
            read(text)


@pytest.mark.parametrize("text", [LINEAR, KERNEL, THREE_CLASSES, PRECOMPUTED])
def test_a_truncated_stock_model_is_always_refused(read, text):
    for length in range(len(text)):
        with pytest.raises(ModelError):
            read(text[:length])


def test_our_mark_needs_our_block(read):
    marked = LINEAR.replace("DUAL\n", "DUAL \n")
    with pytest.raises(ModelError, match="cut short"):
        read(marked)
    for lines, reason in (
        ("odmtool-model 3\n", "format '3'"),
        ("odmtool-model 1\nfact\n", "expected a key and a value, got 'fact'"),
        ("odmtool-model 1\na b\na c\n", "expected a key and a value, got 'a c'"),
    ):
        body = marked + lines
        checksum = hashlib.sha256(body.encode()).hexdigest()
        with pytest.raises(ModelError, match=reason):
            read(f"{body}end sha256 {checksum}\n")


def test_line_ends_that_were_converted(read):
    marked = LINEAR.replace("DUAL\n", "DUAL \n") + "odmtool-model 1\n"
    ours = f"{marked}end sha256 {hashlib.sha256(marked.encode()).hexdigest()}\n"
    assert read(ours).bias == 1
    with pytest.raises(ModelError, match="end with CR LF"):
        read(ours.replace("\n", "\r\n"))


HOSTILE = [
    ("empty", "", "is empty"),
    ("blank", " \n\n", "is empty"),
    ("garbage", b"\x00\xff\xfe\x01" * 100, "not a model"),
    ("a data file", "+1 1:0.5 3:1\n", r":1: not a model: it starts with '\+1'"),
    ("only a key", "solver_type", "cut short"),
    ("no rows", LINEAR.split("w\n")[0], "cut short"),
    ("unknown key", LINEAR.replace("bias 1", "offsets 1"), ":5: unknown text .* 'offsets'"),
    ("LIBSVM key", LINEAR.replace("bias 1", "bias 1\ngamma 1"), ":6: unknown text .* 'gamma'"),
    ("LIBLINEAR key", KERNEL.replace("rho", "bias 1\nrho"), ":6: unknown text .* 'bias'"),
    ("text after w", LINEAR.replace("w\n", "w x\n"), ":6: expected a finite .* 'x'"),
    ("key twice", LINEAR.replace("bias 1", "bias 1\nbias 1"), ":6: 'bias' is given twice"),
    ("unknown solver", LINEAR.replace("L2R_L2", "L3R_L2"), ":1: 'L3R_.* of 'solver_type'"),
    ("regression", LINEAR.replace("SVC_DUAL", "SVR_DUAL"), "type L2R_L2LOSS_SVR_DUAL"),
    ("one class", LINEAR.replace("L2R_L2LOSS_SVC_DUAL", "ONECLASS_SVM"), "type ONECLASS_SVM"),
    ("LIBSVM one class", KERNEL.replace("c_svc", "one_class"), "type one_class"),
    ("LIBSVM regression", KERNEL.replace("c_svc", "nu_svr"), "type nu_svr"),
    ("unknown kernel", KERNEL.replace("rbf", "cosine"), ":2: 'cosine'"),
    ("label first", LINEAR.replace("nr_class 2\n", ""), ":2: 'nr_class' is missing"),
    ("no label", LINEAR.replace("label 1 -1\n", ""), ":5: 'label' is missing before 'w'"),
    ("no bias", LINEAR.replace("bias 1\n", ""), "'bias' is missing"),
    ("no gamma", KERNEL.replace("gamma 0.5\n", ""), "'gamma' is missing before 'SV'"),
    ("no nr_sv", KERNEL.replace("nr_sv 2 1\n", ""), "'nr_sv' is missing"),
    ("same label twice", LINEAR.replace("1 -1", "1 1"), ":3: 'label' names a class twice"),
    ("too few labels", LINEAR.replace("label 1 -1", "label 1"), ":4: 'nr_feature' .* of 'label'"),
    ("real label", LINEAR.replace("label 1 -1", "label 1.5 -1"), "'1.5' is not a valid value"),
    ("large label", LINEAR.replace("label 1", "label 2147483648"), "'2147483648'"),
    ("hexadecimal", LINEAR.replace("bias 1", "bias 0x1"), "'0x1'"),
    ("no class", LINEAR.replace("nr_class 2", "nr_class 0"), ":2: '0' is not a valid value"),
    ("negative classes", LINEAR.replace("nr_class 2", "nr_class -2"), "'-2'"),
    ("many classes", LINEAR.replace("nr_class 2", "nr_class 2147483647"), "of 'label'"),
    ("many pairs", KERNEL.replace("nr_class 2", "nr_class 2147483647"), "of 'rho'"),
    ("negative features", LINEAR.replace("feature 3", "feature -3"), "'-3'"),
    ("many features", LINEAR.replace("feature 3", "feature 2147483647"), "2147483648 weights"),
    ("more rows", LINEAR + "1 \n", "declares 4 weights, the file has 5"),
    ("text after rows", LINEAR + "the end\n", ":11: expected a finite .* 'the'"),
    ("a colon", LINEAR.replace("0.5", "0:5"), ":7: "),
    ("nan weight", LINEAR.replace("0.5", "nan"), ":7: expected a finite .* 'nan'"),
    ("infinite weight", LINEAR.replace("0.5", "1e999"), ":7: expected a finite .* '1e999'"),
    ("two dots", LINEAR.replace("0.5", "0.5.5"), ":7: "),
    ("two signs", LINEAR.replace("-0.25", "1-0.25"), ":8: .* '1-0.25'"),
    ("nan bias", LINEAR.replace("bias 1", "bias nan"), ":5: 'nan'"),
    ("nan gamma", KERNEL.replace("0.5", "nan", 1), ":3: 'nan'"),
    ("nan rho", KERNEL.replace("-0.125", "nan"), ":6: 'nan'"),
    ("nan coefficient", KERNEL.replace("-1.5", "nan"), ":12: expected a finite .* 'nan'"),
    ("nan value", KERNEL.replace("3:1", "3:nan"), ":10: expected a finite .* 'nan'"),
    ("infinite value", KERNEL.replace("3:1", "3:1e999"), ":10: expected a finite .* '1e999'"),
    ("negative total", KERNEL.replace("total_sv 3", "total_sv -3"), "'-3'"),
    ("huge total", KERNEL.replace("total_sv 3", "total_sv 2147483647"), "adds up to 3"),
    (
        "huge total and split",
        KERNEL.replace("_sv 3", "_sv 2147483647").replace("2 1\n", "2147483647 0\n"),
        "declares 2147483647 support vectors, the file has 3",
    ),
    ("wrong split", KERNEL.replace("nr_sv 2 1", "nr_sv 2 2"), "adds up to 4"),
    ("negative split", KERNEL.replace("nr_sv 2 1", "nr_sv 4 -1"), "'-1'"),
    ("a line less", KERNEL.replace("0.5 2:-1 \n", ""), "declares 3 .* the file has 2"),
    ("a line more", KERNEL + "1 1:1 \n", "declares 3 .* the file has 4"),
    ("negative degree", THREE_CLASSES.replace("degree 2", "degree -2"), ":3: '-2'"),
    ("no coefficient", KERNEL.replace("1 1:0.5", "1:0.5"), ":10: expected 1 coefficient"),
    ("two coefficients", KERNEL.replace("1 1:0.5", "1 2 1:0.5"), ":10: expected 1 coef"),
    ("coefficient last", KERNEL.replace("0.5 2:-1", "2:-1 0.5"), ":11: expected 1 coef"),
    ("blank line", KERNEL.replace("-1.5 ", " "), ":12: expected 1 coefficient"),
    ("one coefficient", THREE_CLASSES.replace("0.5 -1 2", "0.5 2"), ":16: expected 2 coef"),
    ("no value", KERNEL.replace("3:1", "3:"), ":10: expected 1 coef"),
    ("no index", KERNEL.replace("3:1", ":1"), ":10: expected 1 coef"),
    ("two colons", KERNEL.replace("3:1", "3:1:1"), ":10: expected 1 coef"),
    ("colons in a row", KERNEL.replace("3:1", "3::1"), ":10: expected 1 coef"),
    ("space before colon", KERNEL.replace("3:1", "3 :1"), ":10: expected 1 coef"),
    ("space behind colon", KERNEL.replace("3:1", "3: 1"), ":10: expected 1 coef"),
    ("signed index", KERNEL.replace("3:1", "+3:1"), ":10: expected 1 coef"),
    ("real index", KERNEL.replace("3:1", "3.0:1"), ":10: expected 1 coef"),
    ("long index", KERNEL.replace("3:1", "30000000000:1"), ":10: expected 1 coef"),
    ("large index", KERNEL.replace("3:1", "3000000000:1"), ":10: index 3000000000"),
    ("index twice", KERNEL.replace("3:1", "1:1"), ":10: index 1: indices must ascend"),
    ("descending", KERNEL.replace("1:0.5 3:1", "3:1 1:0.5"), ":10: index 1"),
    ("no serial", PRECOMPUTED.replace("0:7", "1:7"), ":10: .* must be 0:serial"),
    ("no serial at all", PRECOMPUTED.replace("0:7", ""), ":10: .* must be 0:serial"),
    ("serial 0", PRECOMPUTED.replace("0:4", "0:0"), ":9: .* must be 0:serial"),
    ("real serial", PRECOMPUTED.replace("0:4", "0:4.5"), ":9: .* must be 0:serial"),
    ("a kernel value", PRECOMPUTED.replace("0:7", "0:7 1:1"), ":10: .* must be 0:serial"),
]


@pytest.mark.parametrize(("text", "reason"), [row[1:] for row in HOSTILE],
                         ids=[row[0] for row in HOSTILE])
def test_hostile_models_are_refused_with_the_reason(read, text, reason):
    assert text not in (LINEAR, KERNEL, THREE_CLASSES, PRECOMPUTED)
    with pytest.raises(ModelError, match=reason) as raised:
        read(text)
    sentence = str(raised.value)
    assert "m.model" in sentence and "\n" not in sentence and len(sentence) < 700
    assert raised.value.exit_code == 1


def test_bytes_changed_anywhere_never_give_a_broken_model(read):
    """Whatever is accepted after a random change is a sound model: it predicts."""
    rng = np.random.default_rng(5)
    alphabet = b"0123456789.:- \n\x00eEw"
    X = make.sparse_rows(rng, 3, 4)
    accepted = 0
    for text in (LINEAR, KERNEL, THREE_CLASSES):
        for _ in range(400):
            data = bytearray(text.encode())
            for position in rng.integers(0, len(data), rng.integers(1, 4)):
                data[position] = alphabet[rng.integers(len(alphabet))]
            try:
                model = read(bytes(data))
            except ModelError:
                continue
            accepted += 1
            assert set(model.predict(X).tolist()) <= set(model.labels)
    assert accepted > 50


def test_an_endless_file_is_refused_early():
    with pytest.raises(ModelError):
        read_model("/dev/zero")


def test_a_missing_model_is_a_file_error(tmp_path):
    with pytest.raises(FileError):
        read_model(str(tmp_path / "none"))
