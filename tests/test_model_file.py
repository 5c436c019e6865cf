"""Model files: bit-exact round trips, and stock programs' models."""

from __future__ import annotations

import gzip
import hashlib

import hypothesis.strategies as st
import model_makers as make
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays
from model_texts import (
    FACTS,
    KERNEL,
    LINEAR,
    PRECOMPUTED,
    THREE_CLASSES,
    assert_same_model,
    same,
)
from scipy.sparse import csr_matrix

from odmtool.core.kernels import Kernel
from odmtool.errors import ModelError
from odmtool.io._short import short_decimals
from odmtool.io.model_file import read_model
from odmtool.io.model_grammar import SOLVER_TYPES
from odmtool.io.model_write import write_model
from odmtool.models.kernel import KernelModel
from odmtool.models.linear import LinearModel

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


def short_values(rng, n):
    """Numbers of up to 15 digits."""
    sizes = 10.0 ** rng.integers(-12, 18, n)
    return np.array([float(f"{size * rng.normal():.{rng.integers(1, 16)}g}") for size in sizes])


def test_values_of_features_have_no_digit_too_many(tmp_path):
    model = make.kernel_model(np.random.default_rng(3), make.KERNELS["rbf"], 2)
    values = model.support_vectors.data
    values[:7] = 0.054, -2.729, 0.1 + 0.2, 1e-8, 999999999999999.0, 1e15, 7.1e-9
    write_model(str(tmp_path / "m.model"), model)
    pairs = (tmp_path / "m.model").read_bytes().split(b"\nSV\n")[1].split()
    written = [pair.split(b":")[1] for pair in pairs if b":" in pair][:7]
    assert written == [
        b"0.054", b"-2.729", b"0.30000000000000004", b"1e-08", b"999999999999999",
        b"1000000000000000", b"7.0999999999999999e-09",
    ]  # fmt: skip
    assert_same_model(read_model(str(tmp_path / "m.model")), model)


def test_short_decimals_are_those_that_15_digits_determine():
    rng = np.random.default_rng(4)
    numbers = np.concatenate([short_values(rng, 1000), rng.normal(size=100), [0.0, -0.0, 5e-324]])
    is_short, digits, exponents = short_decimals(numbers)
    sizes = np.abs(numbers)
    in_range = (sizes >= 1e-8) & (sizes < 1e15)
    assert np.array_equal(is_short, [float(f"{x:.15g}") == x for x in numbers] & in_range)
    texts = [f"{size:.14e}".replace(".", "").split("e") for size in sizes[is_short]]
    assert [[int(a), int(b)] for a, b in texts] == np.c_[digits, exponents].tolist()


def test_compiled_code_writes_what_python_writes(tmp_path, monkeypatch):
    from odmtool.io import model_write

    rng = np.random.default_rng(3)
    wide = make.linear_model(rng, 4, 200, 1.0)
    wide.weights *= 10.0 ** rng.integers(-30, 30, wide.weights.shape)
    wide.weights[::3] = 0.0
    some_short = make.kernel_model(rng, make.KERNELS["rbf"], 3, 100)
    values = some_short.support_vectors.data
    values[::2] = short_values(rng, len(values[::2]))
    models = wide, make.kernel_model(rng, make.KERNELS["rbf"], 3, 100), make.linear_model(rng, 2, 0)
    for model in (*models, some_short):
        written = []
        for least in (2**18, 100, 0):
            for name in ("_MANY_NUMBERS", "_SOME_NUMBERS", "_NUMBERS_AT_ONCE"):
                monkeypatch.setattr(model_write, name, least)
            write_model(str(tmp_path / "m.model"), model)
            written.append((tmp_path / "m.model").read_bytes())
        assert written[0] == written[1] == written[2]


def test_compiled_code_writes_fewer_numbers_where_other_code_is_loaded(tmp_path, monkeypatch):
    from odmtool import _jit
    from odmtool.io import model_write

    model, written = make.linear_model(np.random.default_rng(3), 4, 2**12), []
    compiled = model_write._lines_compiled
    monkeypatch.setattr(
        model_write, "_lines_compiled", lambda part: written.append(1) or compiled(part)
    )
    for is_loaded in (False, True):
        monkeypatch.setattr(_jit, "is_loaded", lambda answer=is_loaded: answer)
        write_model(str(tmp_path / f"m{is_loaded}"), model)
        assert bool(written) == is_loaded
    assert (tmp_path / "mTrue").read_bytes() == (tmp_path / "mFalse").read_bytes()


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
    assert three.probB.tolist() == [-1, -2, -3]
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


def _rows_of_numbers(generator) -> bytes:
    """Lines of a number and pairs, now and then with something that is no such line."""
    lines = []
    for _ in range(generator.integers(1, 6)):
        places = np.sort(generator.choice(30, generator.integers(0, 6), replace=False)) + 1
        numbers = [
            generator.choice([repr(x), f"{x:.8g}", f"{x:e}", f"{x:.0f}.", f"+{abs(x)}", "1e999"],
                             p=[0.3, 0.3, 0.2, 0.1, 0.09, 0.01])
            for x in generator.normal(0, 100, len(places) + 1).tolist()
        ]  # fmt: skip
        line = " ".join([numbers[0], *map("{}:{}".format, places, numbers[1:])])
        lines.append(line + generator.choice(["", " "]))
    text = "\n".join(lines) + "\n"
    wrong = ["", "", "", " # 3:1", " qid:3", "\n\n", " 99999999999:1", f" {10**25}:1",
             " 00000000000031:1", " 3:1:2", " 5 6", " 2:0x1"]  # fmt: skip
    place = text.find(" ", generator.integers(len(text)))
    return (text[:place] + generator.choice(wrong) + text[place:]).encode()


def test_both_readers_of_rows_agree(monkeypatch):
    """Numbers to the last bit, and complaints to the last word."""
    from odmtool.io import model_text

    def read(text):
        try:
            return [array.tolist() for array in model_text.ModelText("m", text).sparse_rows(
                0, len(text), 1)]  # fmt: skip
        except ModelError as error:
            return str(error)

    generator, regular = np.random.default_rng(7), model_text._regular_lines
    texts = [_rows_of_numbers(generator) for _ in range(400)]
    for chunk in (2**18, 40):
        monkeypatch.setattr(model_text, "_CHUNK", chunk)
        monkeypatch.setattr(model_text, "_regular_lines", regular)
        quick = [read(text) for text in texts]
        monkeypatch.setattr(model_text, "_regular_lines", lambda text: None)
        assert quick == [read(text) for text in texts]
    kinds = [isinstance(found, str) for found in quick]
    assert 50 < sum(kinds) < 350
    assert sum(regular(text) is not None for text in texts) > 50
