"""Model files: LIBLINEAR's format for linear models, LIBSVM's c_svc for kernel models.

What the stock predictors read comes first, in their own grammar, numbers with
17 digits::

    solver_type NAME              svm_type c_svc
    nr_class K                    kernel_type linear|polynomial|rbf|sigmoid|precomputed
    label L1 L2 ...               [degree D] [gamma G] [coef0 R]
    nr_feature D                  nr_class K
    bias B                        total_sv N
    w                             rho ...  (K (K - 1) / 2 numbers)
    one row per feature, then     label L1 L2 ...
    one for the bias if B >= 0    [probA ...] [probB ...] [prob_density_marks ...]
                                  nr_sv N1 N2 ...
                                  SV
                                  one line per support vector: K - 1 numbers, index:value ...

After the last row, where both stock loaders stop reading, follows our block::

    odmtool-model 1
    key value                     what odm-train recorded, one fact per line; of a linear model
                                  also probA and probB, for which LIBLINEAR has no place
    end sha256 CHECKSUM           of all bytes before this line

Our files are marked by a space at the end of the first line, which every loader
skips: so a file that lost its block is known to be cut short, while a stock
model, which has no block, is accepted. A model is untrusted input: nothing is
allocated by a declared size, and nothing is evaluated.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator

import numpy as np
from scipy.sparse import csr_matrix

from odmtool import messages
from odmtool.io.files import atomic_output, display_name, open_input
from odmtool.io.model_text import INT_MAX, ModelText, integer, real
from odmtool.models import KernelModel, LinearModel

SOLVER_TYPES = (
    "L2R_LR",
    "L2R_L2LOSS_SVC_DUAL",
    "L2R_L2LOSS_SVC",
    "L2R_L1LOSS_SVC_DUAL",
    "MCSVM_CS",
    "L1R_L2LOSS_SVC",
    "L1R_LR",
    "L2R_LR_DUAL",
)
"""LIBLINEAR's classification solvers."""

_UNSUPPORTED = (
    "L2R_L2LOSS_SVR",
    "L2R_L2LOSS_SVR_DUAL",
    "L2R_L1LOSS_SVR_DUAL",
    "ONECLASS_SVM",
    "one_class",
    "epsilon_svr",
    "nu_svr",
)
_KERNEL_NAMES = {
    "linear": "linear",
    "polynomial": "poly",
    "rbf": "rbf",
    "sigmoid": "sigmoid",
    "precomputed": "precomputed",
}
_STOCK_NAMES = {ours: stock for stock, ours in _KERNEL_NAMES.items()}
_PARAMETERS = {
    "poly": ("degree", "gamma", "coef0"),
    "rbf": ("gamma",),
    "sigmoid": ("gamma", "coef0"),
}

_BLOCK = b"odmtool-model"
_END = re.compile(rb"end sha256 ([0-9a-f]{64})\n")
_FACT_KEY = re.compile(r"[a-z][A-Za-z0-9_-]*")
_SIGMOIDS = ("probA", "probB")
_DENSITY_MARKS = 10
_ROWS_AT_ONCE = 4096


# ---- reading -----------------------------------------------------------------


def read_model(path: str, *, zero_based: bool = False) -> LinearModel | KernelModel:
    """Read a model written by odm-train, or a classification model of a stock tool.

    Parameters
    ----------
    path : str
        "-" is stdin.
    zero_based : bool
        The data to predict counts features from 0. LIBSVM then wrote the same
        numbers into its model, while odm-train shifted them; so those of a stock
        kernel model are taken as they stand.

    Raises
    ------
    FileError
        The file cannot be read.
    ModelError
        It is no model, is damaged, or is of a kind that cannot be used.
    """
    text = ModelText(display_name(path), _read_all(path))
    end, facts = _read_block(text)
    header, kind, start = _read_header(text)
    if kind == "w":
        return _linear_model(text, header, start, end, facts or {})
    first_index = 0 if zero_based and facts is None else 1
    return _kernel_model(text, header, start, end, facts or {}, first_index)


def _read_all(path: str) -> bytes:
    """The whole file; what does not begin as a model (it may be endless) is refused early."""
    with open_input(path) as stream:
        beginning = stream.read(2**16)
        text = ModelText(display_name(path), beginning)
        tokens = beginning.split(maxsplit=1)
        if not tokens:
            raise text.error(messages.model_empty())
        if tokens[0].decode("latin-1") not in _KEYS:
            raise text.error(messages.not_a_model(tokens[0]), 0)
        return beginning + stream.read()


def _read_block(text: ModelText) -> tuple[int, dict[str, str] | None]:
    """Where the stock part ends, and the facts; None for a stock model.

    Raises
    ------
    ModelError
        The file is ours and incomplete or changed, or does not end a line.
    """
    data = text.data
    first_line = data[: data.find(b"\n") + 1]
    start = data.find(b"\n" + _BLOCK + b" ") + 1
    if start == 0 and not first_line.rstrip(b"\r\n").endswith(b" "):
        if not data.endswith(b"\n"):
            raise text.error(messages.model_no_newline(), len(data))
        return len(data), None
    last_line = data.rfind(b"\n", 0, len(data) - 1) + 1
    end = _END.fullmatch(data, last_line)
    if start == 0 or end is None or last_line < start:
        raise text.error(messages.model_end_missing(), len(data) - 1)
    if hashlib.sha256(memoryview(data)[:last_line]).hexdigest().encode() != end.group(1):
        raise text.error(messages.model_checksum())
    return start, _read_facts(text, start, last_line)


def _read_facts(text: ModelText, start: int, end: int) -> dict[str, str]:
    """The lines of our block, from its first line to the end mark."""
    first, *lines = text.data[start:end].split(b"\n")[:-1]
    version = first[len(_BLOCK) + 1 :]
    if version != b"1":
        raise text.error(messages.model_newer(version), start)
    facts: dict[str, str] = {}
    for line in lines:
        key, blank, value = line.decode("utf-8", "replace").partition(" ")
        if not blank or _FACT_KEY.fullmatch(key) is None or key in facts:
            raise text.error(messages.model_fact(line), start)
        facts[key] = value
    return facts


def _supported(names) -> Callable[[bytes], str | None]:
    """Converter of a token that must be one of ``names``."""
    return lambda token: name if (name := token.decode("latin-1")) in names else None


# Key: the number of values (k stands for the number of classes) and their converter.
_KEYS: dict[str, tuple[Callable[[int], int], Callable]] = {
    "solver_type": (lambda k: 1, _supported(SOLVER_TYPES)),
    "svm_type": (lambda k: 1, _supported(("c_svc", "nu_svc"))),
    "kernel_type": (lambda k: 1, _supported(_KERNEL_NAMES)),
    "nr_class": (lambda k: 1, integer),
    "nr_feature": (lambda k: 1, integer),
    "total_sv": (lambda k: 1, integer),
    "degree": (lambda k: 1, integer),
    "bias": (lambda k: 1, real),
    "gamma": (lambda k: 1, real),
    "coef0": (lambda k: 1, real),
    "label": (lambda k: k, integer),
    "nr_sv": (lambda k: k, integer),
    "rho": (lambda k: k * (k - 1) // 2, real),
    "probA": (lambda k: k * (k - 1) // 2, real),
    "probB": (lambda k: k * (k - 1) // 2, real),
    "prob_density_marks": (lambda k: _DENSITY_MARKS, real),
}
_NEED_CLASSES = ("label", "nr_sv", "rho", "probA", "probB")
_NOT_NEGATIVE = ("nr_feature", "total_sv", "nr_sv", "degree")
_KEYS_OF = {
    "w": {"solver_type", "nr_class", "label", "nr_feature", "bias"},
    "SV": set(_KEYS) - {"solver_type", "nr_feature", "bias"},
}


def _read_header(text: ModelText) -> tuple[dict[str, list], str, int]:
    """The values of every key, the word that ends the header, and where the rows begin."""
    header: dict[str, list] = {}
    places: dict[str, int] = {}
    tokens = re.finditer(rb"\S+", text.data)
    for match in tokens:
        key = match.group().decode("latin-1")
        if key in _KEYS_OF:
            break
        if key not in _KEYS:
            raise text.error(messages.model_key(match.group()), match.start())
        if key in header:
            raise text.error(messages.model_key_twice(key), match.start())
        if key in _NEED_CLASSES and "nr_class" not in header:
            raise text.error(messages.model_key_missing("nr_class", key), match.start())
        places[key] = match.start()
        header[key] = _values(text, tokens, key, header.get("nr_class", [0])[0])
    else:
        raise text.error(messages.model_header_cut(), len(text.data) - 1)
    for foreign in header.keys() - _KEYS_OF[key]:
        raise text.error(messages.model_key(foreign.encode()), places[foreign])
    _require(text, header, key, match.start())
    start = match.end()
    if key == "SV":
        # LIBSVM skips the rest of this line.
        start = text.data.find(b"\n", start) + 1 or len(text.data)
    return header, key, start


def _values(text: ModelText, tokens: Iterator, key: str, n_classes: int) -> list:
    """The values of one key, checked one by one."""
    count, convert = _KEYS[key]
    values = []
    for _ in range(count(n_classes)):
        match = next(tokens, None)
        if match is None:
            raise text.error(messages.model_header_cut(), len(text.data) - 1)
        token = match.group()
        value = convert(token)
        if value is None and token.decode("latin-1") in _UNSUPPORTED:
            raise text.error(messages.model_type_unsupported(token.decode()), match.start())
        too_small = value is not None and (
            (key == "nr_class" and value < 1) or (key in _NOT_NEGATIVE and value < 0)
        )
        if value is None or too_small:
            raise text.error(messages.model_value(key, token), match.start())
        values.append(value)
    if key == "label" and len(set(values)) < len(values):
        raise text.error(messages.model_labels_repeat(), match.start())
    return values


def _require(text: ModelText, header: dict[str, list], kind: str, position: int) -> None:
    """Every key that the kind of model needs is there."""
    if kind == "w":
        needed = ["solver_type", "nr_class", "label", "nr_feature", "bias"]
    else:
        needed = ["svm_type", "kernel_type", "nr_class", "total_sv", "rho", "label", "nr_sv"]
        kernel = _KERNEL_NAMES.get(header.get("kernel_type", [""])[0], "")
        needed += _PARAMETERS.get(kernel, ())
    for key in needed:
        if key not in header:
            raise text.error(messages.model_key_missing(key, kind), position)


def _linear_model(text, header, start, end, facts) -> LinearModel:
    solver_type, bias = header["solver_type"][0], header["bias"][0]
    n_classes, n_features = header["nr_class"][0], header["nr_feature"][0]
    n_columns = 1 if n_classes == 2 and solver_type != "MCSVM_CS" else n_classes
    n_rows = n_features + (bias >= 0)
    weights = text.numbers(start, end)
    if weights.size != n_rows * n_columns:
        sentence = messages.model_rows_cut(n_rows * n_columns, "weights", weights.size)
        raise text.error(sentence, end - 1)
    weights = weights.reshape(n_rows, n_columns)
    sigmoids = _sigmoids(text, facts, n_classes)
    return LinearModel(
        labels=header["label"],
        weights=weights[:n_features],
        bias=bias,
        bias_weights=weights[n_features] if bias >= 0 else None,
        solver_type=solver_type,
        facts=facts,
        **sigmoids,
    )


def _sigmoids(text: ModelText, facts: dict[str, str], n_classes: int) -> dict[str, np.ndarray]:
    """probA and probB, taken out of the facts of a linear model; all or nothing."""
    sigmoids = {}
    for key in _SIGMOIDS if any(key in facts for key in _SIGMOIDS) else ():
        words = facts.pop(key, "").encode()
        numbers = [real(token) for token in words.split()]
        if None in numbers or len(numbers) != _KEYS[key][0](n_classes):
            raise text.error(messages.model_value(key, words))
        sigmoids[key] = np.array(numbers, dtype=float)
    return sigmoids


def _kernel_model(text, header, start, end, facts, first_index) -> KernelModel:
    from odmtool.kernels import Kernel

    total, n_classes = header["total_sv"][0], header["nr_class"][0]
    if sum(header["nr_sv"]) != total:
        raise text.error(messages.model_split(total, sum(header["nr_sv"])), start)
    n_lines = text.data.count(b"\n", start, end)
    if n_lines != total:
        sentence = messages.model_rows_cut(total, "support vectors", n_lines)
        raise text.error(sentence, end - 1)
    coef, values, indices, indptr = text.sparse_rows(start, end, n_classes - 1)
    name = _KERNEL_NAMES[header["kernel_type"][0]]
    if name == "precomputed":
        _check_serials(text, start, values, indices, indptr)
        first_index = 0
    elif first_index == 1 and (indices == 0).any():
        row = int(np.searchsorted(indptr, np.argmax(indices == 0), side="right")) - 1
        raise text.error(messages.model_index_zero(), _line_start(text, start, row))
    width = max(int(indices.max(initial=-1)) + 1 - first_index, int(name == "precomputed"))
    parameters = {key: header[key][0] for key in _PARAMETERS.get(name, ())}
    kept = {key: np.array(header[key]) for key in ("probA", "probB", "prob_density_marks")
            if key in header}
    return KernelModel(
        labels=header["label"],
        kernel=Kernel(name, **parameters),
        support_vectors=csr_matrix(
            (values, indices - first_index, indptr), shape=(total, max(width, 0))
        ),
        coef=coef,
        rho=np.array(header["rho"], dtype=float),
        n_support=header["nr_sv"],
        facts=facts,
        **kept,
    )


def _check_serials(text, start, values, indices, indptr) -> None:
    """Every line of a precomputed model is 0:serial."""
    wrong = np.diff(indptr) != 1
    if not wrong.any():
        wrong = (indices != 0) | (values < 1) | (values > INT_MAX) | (values % 1 != 0)
    if wrong.any():
        raise text.error(messages.model_serial(), _line_start(text, start, int(np.argmax(wrong))))


def _line_start(text: ModelText, start: int, row: int) -> int:
    """Where line ``row``, from 0, after position ``start`` begins."""
    for _ in range(row):
        start = text.data.find(b"\n", start) + 1
    return start


# ---- writing -----------------------------------------------------------------


def write_model(path: str, model: LinearModel | KernelModel) -> None:
    """Write a model, replacing the file only when all is written.

    Raises
    ------
    FileError
        The file cannot be written.
    ValueError
        A number is not finite, or a fact has a key that the format does not allow.
    """
    digest = hashlib.sha256()
    with atomic_output(path, binary=True) as stream:
        lines = _linear_lines if isinstance(model, LinearModel) else _kernel_lines
        for part in lines(model):
            _write(stream, digest, part)
        _write(stream, digest, f"{_BLOCK.decode()} 1\n")
        for key, value in _facts(model).items():
            if _FACT_KEY.fullmatch(key) is None or key == "end":
                raise ValueError(f"not a key of a model's facts: {key!r}")
            _write(stream, digest, f"{key} {_one_line(value)}\n")
        stream.write(f"end sha256 {digest.hexdigest()}\n".encode())


def _facts(model: LinearModel | KernelModel) -> dict[str, str]:
    """What the file records after the last row."""
    if not isinstance(model, LinearModel) or model.probA is None:
        return model.facts
    _refuse_non_finite(model.probA, model.probB)
    return model.facts | {key: _join("%.17g", getattr(model, key)) for key in _SIGMOIDS}


def _write(stream, digest, part: str) -> None:
    data = part.encode("utf-8", "backslashreplace")
    digest.update(data)
    stream.write(data)


def _one_line(value: str) -> str:
    """The value with control characters escaped: a fact is one line."""
    return re.sub(r"[\x00-\x1f\x7f]", lambda match: f"\\x{ord(match.group()):02x}", str(value))


def _linear_lines(model: LinearModel) -> Iterator[str]:
    weights, labels = model.weights, model.labels
    if model.bias >= 0:
        weights = np.vstack([weights, model.bias_weights])
    _refuse_non_finite(weights)
    yield f"solver_type {model.solver_type} \n"
    yield f"nr_class {len(labels)}\nlabel {_join('%d', labels)}\n"
    yield f"nr_feature {len(model.weights)}\nbias {model.bias:.17g}\nw\n"
    row = "%.17g " * weights.shape[1] + "\n"
    for start in range(0, len(weights), _ROWS_AT_ONCE):
        rows = weights[start : start + _ROWS_AT_ONCE]
        yield row * len(rows) % tuple(rows.ravel().tolist())


def _kernel_lines(model: KernelModel) -> Iterator[str]:
    kernel, vectors = model.kernel, model.support_vectors
    if kernel.bias != 0:
        raise ValueError("a kernel model's intercept stands in rho, not in the kernel")
    if len(model.labels) == 1 and vectors.shape[0]:
        raise ValueError("a model of one class has no support vectors: svm-predict crashes on them")
    _refuse_non_finite(model.coef, model.rho, vectors.data)
    yield f"svm_type c_svc \nkernel_type {_STOCK_NAMES[kernel.name]}\n"
    for key in _PARAMETERS.get(kernel.name, ()):
        yield f"{key} {getattr(kernel, key):.17g}\n"
    yield f"nr_class {len(model.labels)}\ntotal_sv {vectors.shape[0]}\n"
    yield f"rho {_join('%.17g', model.rho)}\nlabel {_join('%d', model.labels)}\n"
    for key in ("probA", "probB", "prob_density_marks"):
        if getattr(model, key) is not None:
            yield f"{key} {_join('%.17g', getattr(model, key))}\n"
    yield f"nr_sv {_join('%d', model.n_support)}\nSV\n"
    first_index = 0 if kernel.name == "precomputed" else 1
    for start in range(0, vectors.shape[0], _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        yield _vector_lines(model.coef[rows], vectors[rows], first_index)


def _vector_lines(coef: np.ndarray, vectors: csr_matrix, first_index: int) -> str:
    """Lines ``coef ... index:value ...``; indices ascend."""
    vectors.sort_indices()
    pairs: list = [None] * (2 * vectors.nnz)
    pairs[0::2] = (vectors.indices.astype(np.int64) + first_index).tolist()
    pairs[1::2] = vectors.data.tolist()
    ends = (2 * vectors.indptr).tolist()
    coefs = "%.17g " * coef.shape[1]
    return "".join(
        (coefs + "%d:%.17g " * ((b - a) // 2) + "\n") % (*row, *pairs[a:b])
        for row, a, b in zip(coef.tolist(), ends[:-1], ends[1:], strict=True)
    )


def _join(form: str, values) -> str:
    return " ".join(form % value for value in values)


def _refuse_non_finite(*arrays: np.ndarray) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError("a model holds a number that is not finite")
