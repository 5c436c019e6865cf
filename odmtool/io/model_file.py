"""Model files: LIBLINEAR's format for linear models, LIBSVM's c_svc for kernel models.

What the stock predictors read comes first, in their own grammar, numbers with
17 digits, values of features with up to 15 where these lose nothing::

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

A kernel model of more than two classes may also have our own form, which no stock program
reads: every vector once, with one number per class; f_c(x) = sum_s coef_sc k(x, x_s) +
offset_c, and the first class with the largest f_c wins::

    model_type compact
    kernel_type, degree, gamma, coef0, nr_class, total_sv as above
    offset ...                    K numbers
    label L1 L2 ...               [probA ...] [probB ...]
    vectors
    one line per vector: K numbers, index:value ...

After the last row, where both stock loaders stop reading, follows our block::

    odmtool-model 1
    key value                     what odm-train recorded, one fact per line; of a linear model
                                  also probA and probB, for which LIBLINEAR has no place; the
                                  words for which the labels stand (odmtool.core.labels)
    end sha256 CHECKSUM           of all bytes before this line

It begins with ``odmtool-model 2`` if the rows have to be scaled first; then there is a fact
``ranges``: the lines of a range file (:mod:`odmtool.io.range_file`) with ``;`` between them.

Our files are marked by a space at the end of the first line, which every loader
skips: so a file that lost its block is known to be cut short, while a stock
model, which has no block, is accepted. A model is untrusted input: nothing is
allocated by a declared size, and nothing is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from odmtool import messages
from odmtool._pattern import Pattern
from odmtool.core.csr import CSR
from odmtool.core.kernel_table import KERNELS, STORED
from odmtool.core.memory import free
from odmtool.errors import DataError, MemoryLimitError
from odmtool.io._line import real
from odmtool.io.checksum import Checksum
from odmtool.io.files import display_name, open_input
from odmtool.io.model_grammar import (
    BLOCK,
    END,
    FACT_KEY,
    KERNEL_NAMES,
    KEYS,
    KEYS_OF,
    NEED_CLASSES,
    NEEDED,
    NOT_NEGATIVE,
    RANGES,
    SIGMOIDS,
    UNSUPPORTED,
    VERSION,
    VERSION_WITH_RANGES,
)
from odmtool.io.model_text import INT_MAX, ModelText
from odmtool.models.linear import LinearModel

if TYPE_CHECKING:
    from odmtool.models.kernel import CompactModel, KernelModel
    from odmtool.models.scaled import ScaledModel

_PIECE = 1 << 20
_TOKEN = Pattern(rb"\S+")


def read_model(
    path: str, *, zero_based: bool = False
) -> LinearModel | KernelModel | CompactModel | ScaledModel:
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
    first_index = 0 if zero_based and facts is None else 1
    facts = facts or {}
    ranges = facts.pop(RANGES, None)
    if kind == "w":
        model = _linear_model(text, header, start, end, facts)
    else:
        model = _kernel_model(text, header, start, end, facts, first_index)
    return model if ranges is None else _scaled(text, model, ranges)


def is_model(path: str) -> bool:
    """Whether the file begins as a model does."""
    with open_input(path) as stream:
        tokens = stream.read(2**10).split(maxsplit=1)
    return bool(tokens) and tokens[0].decode("latin-1") in KEYS


def _scaled(text: ModelText, model, ranges: str) -> ScaledModel:
    from odmtool.io.range_file import of_one_line
    from odmtool.models.scaled import ScaledModel

    if model.is_precomputed:
        raise text.error(messages.ranges_of_precomputed())
    try:
        return ScaledModel(model, of_one_line(ranges))
    except DataError as error:
        raise text.error(messages.model_ranges(error.message)) from None


def _read_all(path: str) -> bytes:
    """The whole file; what does not begin as a model (it may be endless) is refused early."""
    with open_input(path) as stream:
        beginning = stream.read(2**16)
        text = ModelText(display_name(path), beginning)
        tokens = beginning.split(maxsplit=1)
        if not tokens:
            raise text.error(messages.model_empty())
        if tokens[0].decode("latin-1") not in KEYS:
            raise text.error(messages.not_a_model(tokens[0]), 0)
        pieces, length, most = [beginning], len(beginning), free() / 2
        while piece := stream.read(_PIECE):
            pieces.append(piece)
            length += len(piece)
            if length > most:
                raise MemoryLimitError(messages.model_too_large(display_name(path), most))
        return b"".join(pieces)


def _read_block(text: ModelText) -> tuple[int, dict[str, str] | None]:
    """Where the stock part ends, and the facts; None for a stock model.

    Raises ModelError: the file is ours and incomplete or changed, or does not end a line.
    """
    data = text.data
    first_line = data[: data.find(b"\n") + 1]
    start = data.find(b"\n" + BLOCK + b" ") + 1
    if start == 0 and not first_line.rstrip(b"\r\n").endswith(b" "):
        if not data.endswith(b"\n"):
            raise text.error(messages.model_no_newline(), len(data))
        return len(data), None
    last_line = data.rfind(b"\n", 0, len(data) - 1) + 1
    end = END.fullmatch(data, last_line)
    if start and end is None and data.endswith(b"\r\n"):
        raise text.error(messages.model_converted(), len(data) - 1)
    if start == 0 or end is None or last_line < start:
        raise text.error(messages.model_end_missing(), len(data) - 1)
    digest = Checksum()
    digest.update(memoryview(data)[:last_line])
    if digest.hexdigest().encode() != end.group(1):
        raise text.error(messages.model_checksum())
    return start, _read_facts(text, start, last_line)


def _read_facts(text: ModelText, start: int, end: int) -> dict[str, str]:
    """The lines of our block, from its first line to the end mark."""
    first, *lines = text.data[start:end].split(b"\n")[:-1]
    version = first[len(BLOCK) + 1 :]
    if version not in (b"%d" % VERSION, b"%d" % VERSION_WITH_RANGES):
        raise text.error(messages.model_newer(version), start)
    facts: dict[str, str] = {}
    for line in lines:
        key, blank, value = line.decode("utf-8", "replace").partition(" ")
        if not blank or FACT_KEY.fullmatch(key) is None or key in facts:
            raise text.error(messages.model_fact(line), start)
        facts[key] = value
    if (RANGES in facts) != (version == b"%d" % VERSION_WITH_RANGES):
        raise text.error(messages.ranges_by_format(), start)
    return facts


def _read_header(text: ModelText) -> tuple[dict[str, list], str, int]:
    """The values of every key, the word that ends the header, and where the rows begin."""
    header: dict[str, list] = {}
    places: dict[str, int] = {}
    end = 0
    while match := _TOKEN.search(text.data, end):
        key = match.group().decode("latin-1")
        if key in KEYS_OF:
            break
        if key not in KEYS:
            raise text.error(messages.model_key(match.group()), match.start())
        if key in header:
            raise text.error(messages.model_key_twice(key), match.start())
        if key in NEED_CLASSES and "nr_class" not in header:
            raise text.error(messages.model_key_missing("nr_class", key), match.start())
        places[key] = match.start()
        header[key], end = _values(text, match.end(), key, header.get("nr_class", [0])[0])
    else:
        raise text.error(messages.model_header_cut(), len(text.data) - 1)
    for foreign in header.keys() - KEYS_OF[key]:
        raise text.error(messages.model_key(foreign.encode()), places[foreign])
    _require(text, header, key, match.start())
    start = match.end()
    if key != "w":
        # LIBSVM skips the rest of this line.
        start = text.data.find(b"\n", start) + 1 or len(text.data)
    return header, key, start


def _values(text: ModelText, end: int, key: str, n_classes: int) -> tuple[Sequence, int]:
    """The values of one key, which ends at ``end``, and where they end."""
    (count, convert), values = KEYS[key], []
    n_values = count(n_classes)
    if n_values > 1 and convert is real and (found := text.numbers_of_line(end, n_values)):
        return found
    # One by one, to say which is wrong.
    for _ in range(n_values):
        match = _TOKEN.search(text.data, end)
        if match is None:
            raise text.error(messages.model_header_cut(), len(text.data) - 1)
        token = match.group()
        value = convert(token)
        if value is None and token.decode("latin-1") in UNSUPPORTED:
            raise text.error(messages.model_type_unsupported(token.decode()), match.start())
        too_small = value is not None and (
            (key == "nr_class" and value < 1) or (key in NOT_NEGATIVE and value < 0)
        )
        if value is None or too_small:
            raise text.error(messages.model_value(token, key), match.start())
        values.append(value)
        end = match.end()
    if key == "label" and len(set(values)) < len(values):
        raise text.error(messages.model_labels_repeat(), match.start())
    return values, end


def _require(text: ModelText, header: dict[str, list], kind: str, position: int) -> None:
    """Every key that the kind of model needs is there."""
    words = header.get("kernel_type", ())
    parameters = [key for word in words for key in KERNELS[KERNEL_NAMES[word]].parameters]
    for key in (*NEEDED[kind], *parameters):
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
    for key in SIGMOIDS if any(key in facts for key in SIGMOIDS) else ():
        words = facts.pop(key, "").encode()
        numbers = [real(token) for token in words.split()]
        if None in numbers or len(numbers) != KEYS[key][0](n_classes):
            raise text.error(messages.model_value(words, key))
        sigmoids[key] = np.array(numbers, dtype=float)
    return sigmoids


def _kernel_model(text, header, start, end, facts, first_index) -> KernelModel | CompactModel:
    from odmtool.models.kernel import CompactModel, KernelModel

    total, n_classes, is_compact = header["total_sv"][0], header["nr_class"][0], "offset" in header
    if not is_compact and sum(header["nr_sv"]) != total:
        raise text.error(messages.model_split(total, sum(header["nr_sv"])), start)
    n_coef = n_classes if is_compact else n_classes - 1
    kernel, coef, vectors = _vectors(text, header, start, end, n_coef, first_index)
    sigmoids = {key: np.array(header[key]) for key in SIGMOIDS if key in header}
    if is_compact:
        offset = np.array(header["offset"], dtype=float)
        return CompactModel(header["label"], kernel, vectors, coef, offset, facts=facts, **sigmoids)
    rho = np.array(header["rho"], dtype=float)
    return KernelModel(
        header["label"], kernel, vectors, coef, rho, header["nr_sv"], facts=facts, **sigmoids
    )  # fmt: skip


def _vectors(text, header, start, end, n_coef: int, first_index: int):
    """The kernel, the coefficients and the vectors."""
    from odmtool.core.kernels import Kernel

    total, n_lines = header["total_sv"][0], text.data.count(b"\n", start, end)
    if n_lines != total:
        sentence = messages.model_rows_cut(total, "support vectors", n_lines)
        raise text.error(sentence, end - 1)
    coef, values, indices, indptr = text.sparse_rows(start, end, n_coef)
    row = KERNELS[KERNEL_NAMES[header["kernel_type"][0]]]
    is_stored = row.of == STORED
    if is_stored:
        _check_serials(text, start, values, indices, indptr)
        first_index = 0
    elif first_index == 1 and (indices == 0).any():
        row = int(np.searchsorted(indptr, np.argmax(indices == 0), side="right")) - 1
        raise text.error(messages.model_index_zero(), _line_start(text, start, row))
    width = max(int(indices.max(initial=-1)) + 1 - first_index, int(is_stored))
    parameters = {key: header[key][0] for key in row.parameters}
    kind = np.int32 if len(values) <= INT_MAX else np.int64
    arrays = (values, (indices - first_index).astype(kind), indptr.astype(kind))
    vectors = CSR(*arrays, (total, max(width, 0)))
    vectors = vectors.matrix() if is_stored else vectors
    return Kernel(row.name, **parameters), coef, vectors


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
