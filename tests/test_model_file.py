"""Model files: bit-exact round trips, and refusal of everything that is no sound model."""

from __future__ import annotations

import gzip
import hashlib

import hypothesis.strategies as st
import model_makers as make
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_matrix

from odmtool.core.kernels import Kernel
from odmtool.errors import FileError, ModelError
from odmtool.io.model_file import read_model, write_model
from odmtool.io.model_grammar import SOLVER_TYPES
from odmtool.models import KernelModel, LinearModel

FACTS = {"machine": "odm", "command": "odm-train -l 2^4 data: x.svm", "lambda": "16", "empty": ""}

LINEAR = """\
solver_type L2R_L2LOSS_SVC_DUAL
nr_class 2
label 1 -1
nr_feature 3
bias 1
w
0.5 
-0.25 
0 
1e-3 
"""
KERNEL = """\
svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 2
total_sv 3
rho -0.125
label 1 -1
nr_sv 2 1
SV
1 1:0.5 3:1 
0.5 2:-1 
-1.5 
"""
THREE_CLASSES = """\
svm_type nu_svc
kernel_type polynomial
degree 2
gamma 0.5
coef0 1
nr_class 3
total_sv 3
rho 0 0.5 -0.5
label 1 2 3
probA 1 2 3
probB -1 -2 -3
prob_density_marks 1 2 3 4 5 6 7 8 9 10
nr_sv 1 1 1
SV
1 0.5 1:0.5 3:1 
0.5 -1 2:-1 
-1.5 2 1:1 
"""
PRECOMPUTED = """\
svm_type c_svc
kernel_type precomputed
nr_class 2
total_sv 2
rho 0
label 1 -1
nr_sv 1 1
SV
1 0:4 
-1 0:7 
"""


@pytest.fixture
def read(tmp_path):
    """Write bytes or text to a file and read it as a model."""

    def function(content, **options):
        path = tmp_path / "m.model"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_model(str(path), **options)

    return function


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the bit, signs of zeros included."""
    return a.shape == b.shape and a.astype(float).tobytes() == b.astype(float).tobytes()


def assert_same_model(a, b) -> None:
    assert type(a) is type(b)
    assert a.labels == b.labels
    assert a.facts == b.facts
    if isinstance(a, LinearModel):
        assert (a.solver_type, a.bias) == (b.solver_type, b.bias)
        assert same(a.weights, b.weights)
        assert (a.bias_weights is None) == (b.bias_weights is None)
        assert a.bias_weights is None or same(a.bias_weights, b.bias_weights)
        return
    assert a.kernel == b.kernel
    assert a.n_support == b.n_support
    assert same(a.coef, b.coef) and same(a.rho, b.rho)
    for name in ("data", "indices", "indptr"):
        assert same(getattr(a.support_vectors, name), getattr(b.support_vectors, name))
    for name in ("probA", "probB", "prob_density_marks"):
        assert (getattr(a, name) is None) == (getattr(b, name) is None)
        assert getattr(a, name) is None or same(getattr(a, name), getattr(b, name))


# ---- round trips ---------------------------------------------------------------


def written_models():
    rng = np.random.default_rng(1)
    for n_classes in (1, 2, 3, 5):
        for bias in (-1.0, 0.0, 2.5):
            for solver_type in ("L2R_L2LOSS_SVC_DUAL", "MCSVM_CS"):
                yield make.linear_model(rng, n_classes, 7, bias, solver_type)
        for kernel in make.KERNELS.values():
            yield make.kernel_model(rng, kernel, n_classes)
        yield make.precomputed_model(rng, 20, n_classes)
    yield LinearModel([1, -1], np.empty((0, 1)))
    yield KernelModel(
        [1, 2], Kernel("linear"), csr_matrix((0, 0)), np.empty((0, 1)), np.zeros(1), [0, 0]
    )


@pytest.mark.parametrize("facts", [{}, FACTS])
def test_round_trip_is_exact(tmp_path, facts):
    path = str(tmp_path / "m.model")
    for model in written_models():
        model.facts = dict(facts)
        write_model(path, model)
        assert_same_model(read_model(path), model)


finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=30, deadline=None)
@given(weights=arrays(float, (4, 3), elements=finite), bias=st.floats(0, 1e300))
def test_round_trip_of_any_weights(tmp_path_factory, weights, bias):
    path = str(tmp_path_factory.mktemp("models") / "m.model")
    model = LinearModel([3, -7, 0], weights[:3], bias, weights[3])
    write_model(path, model)
    assert_same_model(read_model(path), model)


@settings(max_examples=30, deadline=None)
@given(
    coef=arrays(float, (5, 2), elements=finite),
    values=arrays(float, (5, 6), elements=finite),
    gamma=finite,
    facts=st.dictionaries(
        st.from_regex(r"[a-df-z][a-z0-9_-]*", fullmatch=True),
        st.text(st.characters(exclude_categories=["Cs", "Cc"])),
    ),
)
def test_round_trip_of_any_support_vectors(tmp_path_factory, coef, values, gamma, facts):
    path = str(tmp_path_factory.mktemp("models") / "m.model")
    model = KernelModel(
        [3, -7, 0],
        Kernel("sigmoid", gamma=gamma, coef0=-gamma),
        csr_matrix(values),
        coef,
        np.array([gamma, -0.0, 1.0]),
        [2, 0, 3],
        facts=facts,
    )
    width = int(model.support_vectors.indices.max(initial=-1)) + 1
    model.support_vectors = model.support_vectors[:, :width]
    write_model(path, model)
    assert_same_model(read_model(path), model)


def test_compiled_code_writes_what_python_writes(tmp_path, monkeypatch):
    from odmtool.io import model_write

    rng = np.random.default_rng(3)
    wide = make.linear_model(rng, 4, 200, 1.0)
    wide.weights *= 10.0 ** rng.integers(-30, 30, wide.weights.shape)
    wide.weights[::3] = 0.0
    models = wide, make.kernel_model(rng, make.KERNELS["rbf"], 3, 100), make.linear_model(rng, 2, 0)
    for model in models:
        written = []
        for least in (2**18, 100, 0):
            monkeypatch.setattr(model_write, "_COMPILED_NUMBERS", least)
            write_model(str(tmp_path / "m.model"), model)
            written.append((tmp_path / "m.model").read_bytes())
        assert written[0] == written[1] == written[2]


def test_many_lines_are_read_in_pieces(tmp_path, monkeypatch):
    from odmtool.io import model_text, model_write

    monkeypatch.setattr(model_text, "_CHUNK", 300)
    monkeypatch.setattr(model_write, "_ROWS_AT_ONCE", 7)
    rng = np.random.default_rng(2)
    path = str(tmp_path / "m.model")
    for model in (
        make.kernel_model(rng, make.KERNELS["rbf"], 3, 100),
        make.linear_model(rng, 4, 200, 1.0),
    ):
        write_model(path, model)
        assert_same_model(read_model(path), model)


def test_a_fact_is_one_line(tmp_path):
    path = str(tmp_path / "m.model")
    model = make.linear_model(np.random.default_rng(0))
    model.facts = {"command": "odm-train 'a\nend sha256 b\r\x00.svm' \udce9"}
    write_model(path, model)
    assert read_model(path).facts == {
        "command": r"odm-train 'a\x0aend sha256 b\x0d\x00.svm' \udce9"
    }


@pytest.mark.parametrize("key", ["end", "two words", "", "Upper", "line\n", "odmtool-model 1"])
def test_a_bad_key_of_a_fact_is_a_programming_error(tmp_path, key):
    model = make.linear_model(np.random.default_rng(0))
    model.facts = {key: "x"}
    with pytest.raises(ValueError):
        write_model(str(tmp_path / "m.model"), model)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_carried_is_not_written(tmp_path):
    rng = np.random.default_rng(0)
    nan = make.linear_model(rng)
    nan.weights[3] = np.nan
    infinite = make.kernel_model(rng, make.KERNELS["rbf"])
    infinite.coef[3] = np.inf
    intercept = make.kernel_model(rng, Kernel("rbf", gamma=1.0, bias=1.0))
    for model in (nan, infinite, intercept):
        with pytest.raises(ValueError):
            write_model(str(tmp_path / "m.model"), model)
    assert list(tmp_path.iterdir()) == []


def test_layout_of_a_written_model(tmp_path):
    path = tmp_path / "m.model"
    weights = np.array([[0.1], [-2.0]])
    write_model(str(path), LinearModel([1, -1], weights, facts={"machine": "odm"}))
    stock = (
        "solver_type L2R_L2LOSS_SVC_DUAL \nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias -1\nw\n"
        "0.10000000000000001 \n-2 \n"
    )
    body = stock + "odmtool-model 1\nmachine odm\n"
    checksum = hashlib.sha256(body.encode()).hexdigest()
    assert path.read_text() == f"{body}end sha256 {checksum}\n"


# ---- stock models --------------------------------------------------------------


def test_stock_models_are_read(read):
    linear = read(LINEAR)
    assert linear.labels == [1, -1] and linear.bias == 1.0 and linear.facts == {}
    assert same(linear.weights, np.array([[0.5], [-0.25], [0.0]]))
    assert same(linear.bias_weights, np.array([1e-3]))
    kernel = read(KERNEL)
    assert kernel.kernel == Kernel("rbf", gamma=0.5)
    assert kernel.n_support == [2, 1] and kernel.rho.tolist() == [-0.125]
    assert kernel.support_vectors.toarray().tolist() == [[0.5, 0, 1], [0, -1, 0], [0, 0, 0]]
    three = read(THREE_CLASSES)
    assert three.kernel == Kernel("poly", gamma=0.5, coef0=1.0, degree=2)
    assert three.coef.tolist() == [[1, 0.5], [0.5, -1], [-1.5, 2]]
    assert three.probB.tolist() == [-1, -2, -3] and len(three.prob_density_marks) == 10
    assert read(PRECOMPUTED).support_vectors.toarray().tolist() == [[4.0], [7.0]]


def test_keys_may_come_in_any_order(read):
    head, rows = LINEAR.split("w\n")
    lines = head.splitlines(keepends=True)
    assert_same_model(read("".join(reversed(lines[:2] + lines[3:])) + lines[2] + "w\n" + rows),
                      read(LINEAR))
    head, rows = KERNEL.split("SV\n")
    lines = head.splitlines(keepends=True)
    order = [3, 7, 6, 5, 4, 2, 1, 0]
    text = "".join(lines[i] for i in order) + "SV any text may follow\n" + rows
    assert_same_model(read(text), read(KERNEL))


@pytest.mark.parametrize("text", [LINEAR, KERNEL, THREE_CLASSES])
def test_white_space_is_free_as_in_the_stock_loaders(read, text):
    assert_same_model(read(text.replace(" \n", "\n")), read(text))
    assert_same_model(read(text.replace("\n", "\r\n")), read(text))
    assert_same_model(read(text.replace(" ", "\t")), read(text))


def test_all_weights_may_stand_on_one_line(read):
    head, rows = LINEAR.split("w\n")
    assert_same_model(read(head + "w\n" + rows.replace("\n", "") + "\n"), read(LINEAR))


@pytest.mark.parametrize("solver_type", SOLVER_TYPES)
def test_every_classification_solver(read, solver_type):
    text = LINEAR.replace("L2R_L2LOSS_SVC_DUAL", solver_type)
    if solver_type == "MCSVM_CS":
        text = text.replace(" \n", " 1 \n")
    assert read(text).solver_type == solver_type


def test_models_may_be_compressed(tmp_path, read):
    assert_same_model(read(gzip.compress(KERNEL.encode())), read(KERNEL))


def test_features_from_zero(read, tmp_path):
    text = KERNEL.replace("2:-1", "0:-1")
    with pytest.raises(ModelError, match=r"m\.model:11: index 0.*zero_based"):
        read(text)
    assert read(text, zero_based=True).support_vectors.toarray()[1].tolist() == [-1, 0, 0, 0]
    # Ours were shifted when the training data were read.
    ours = read(KERNEL)
    write_model(str(tmp_path / "ours"), ours)
    assert read_model(str(tmp_path / "ours"), zero_based=True).support_vectors.shape == (3, 3)


# ---- damaged and hostile files ---------------------------------------------------


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
