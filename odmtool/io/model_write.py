"""Writing model files; their format is described in :mod:`odmtool.io.model_file`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from odmtool import _jit
from odmtool.core.csr import CSR
from odmtool.io._short import DIGITS, short_decimals
from odmtool.io.checksum import Checksum
from odmtool.io.files import atomic_output
from odmtool.io.model_grammar import BLOCK, FACT_KEY, RANGES, SIGMOIDS, VERSION, VERSION_WITH_RANGES
from odmtool.models.linear import LinearModel

if TYPE_CHECKING:
    from odmtool.models.kernel import CompactModel, KernelModel
    from odmtool.models.scaled import ScaledModel

_ROWS_AT_ONCE, _NUMBERS_AT_ONCE = 4096, 2**18
# So many numbers are worth loading LLVM for, or some more code where it has been loaded.
_MANY_NUMBERS, _SOME_NUMBERS = 2**17, 2**14


def write_model(path: str, model: LinearModel | KernelModel | CompactModel | ScaledModel) -> None:
    """Write a model, replacing the file only when all is written.

    Raises
    ------
    FileError
        The file cannot be written.
    ValueError
        A number is not finite, or a fact has a key that the format does not allow.
    """
    digest, trained = Checksum(), getattr(model, "trained", model)
    version = VERSION if trained is model else VERSION_WITH_RANGES
    with atomic_output(path, binary=True) as stream:
        for part in _LINES[type(trained).__name__](trained):
            _write(stream, digest, part)
        _write(stream, digest, f"{BLOCK.decode()} {version}\n")
        for key, value in _facts(model).items():
            if FACT_KEY.fullmatch(key) is None or key == "end":
                raise ValueError(f"not a key of a model's facts: {key!r}")
            _write(stream, digest, f"{key} {_one_line(value)}\n")
        stream.write(f"end sha256 {digest.hexdigest()}\n".encode())


def _facts(model: LinearModel | KernelModel | CompactModel | ScaledModel) -> dict[str, str]:
    """What the file records after the last row."""
    if hasattr(model, "ranges"):
        from odmtool.io.range_file import in_one_line

        return _facts(model.trained) | {RANGES: in_one_line(model.ranges)}
    if not isinstance(model, LinearModel) or model.probA is None:
        return model.facts
    _refuse_non_finite(model.probA, model.probB)
    return model.facts | {key: _join("%.17g", getattr(model, key)) for key in SIGMOIDS}


def _write(stream, digest, part: str | bytes) -> None:
    data = part.encode("utf-8", "backslashreplace") if isinstance(part, str) else part
    digest.update(data)
    stream.write(data)


def _one_line(value: str) -> str:
    """The value with control characters escaped: a fact is one line."""
    return re.sub(r"[\x00-\x1f\x7f]", lambda match: f"\\x{ord(match.group()):02x}", str(value))


def _linear_lines(model: LinearModel) -> Iterator[str | bytes]:
    weights, labels = model.weights, model.labels
    if model.bias >= 0:
        weights = np.vstack([weights, model.bias_weights])
    _refuse_non_finite(weights)
    yield f"solver_type {model.solver_type} \n"
    yield f"nr_class {len(labels)}\nlabel {_join('%d', labels)}\n"
    yield f"nr_feature {len(model.weights)}\nbias {model.bias:.17g}\nw\n"
    lines_of = _lines_compiled if _is_for_compiled(weights.size) else _lines
    for rows in _blocks(len(weights), weights.size):
        yield lines_of(weights[rows])


def compiles(n_numbers: int, is_loaded: bool) -> bool | None:
    """Whether writing so many numbers compiles code first; None: it takes none.

    ``is_loaded`` tells whether other compiled code will have been run.
    """
    if n_numbers < (_SOME_NUMBERS if is_loaded else _MANY_NUMBERS):
        return None
    from odmtool.io import _print

    return not _print.is_kept()


def _is_for_compiled(n_numbers: int) -> bool:
    is_cheap = _jit.is_loaded() and _jit.cache_folder() is not None
    return n_numbers >= (_SOME_NUMBERS if is_cheap else _MANY_NUMBERS)


def _lines(weights: np.ndarray) -> str:
    row = "%.17g " * weights.shape[1] + "\n"
    return row * len(weights) % tuple(weights.ravel().tolist())


def _lines_compiled(weights: np.ndarray) -> bytes:
    """The same by compiled code."""
    from odmtool.io._print import written

    ends = np.zeros(weights.shape, bool)
    ends[:, -1] = True
    return written(weights.ravel(), ends.ravel())


def _blocks(m: int, n_numbers: int) -> Iterator[slice]:
    """The m rows of so many numbers, a few at a time."""
    step = min(_ROWS_AT_ONCE, max(1, m * _NUMBERS_AT_ONCE // max(1, n_numbers)))
    for start in range(0, m, step):
        yield slice(start, start + step)


def _kernel_lines(model: KernelModel) -> Iterator[str | bytes]:
    vectors = model.support_vectors
    if len(model.labels) == 1 and vectors.shape[0]:
        raise ValueError("a model of one class has no support vectors: svm-predict crashes on them")
    _refuse_non_finite(model.coef, model.rho, vectors.data)
    yield f"svm_type c_svc \n{_kernel_header(model)}"
    yield from _number_line("rho", model.rho)
    yield f"label {_join('%d', model.labels)}\n"
    yield from _probability_header(model)
    yield f"nr_sv {_join('%d', model.n_support)}\nSV\n"
    yield from _vector_blocks(model)


def _compact_lines(model: CompactModel) -> Iterator[str | bytes]:
    _refuse_non_finite(model.coef, model.offset, model.support_vectors.data)
    yield f"model_type compact \n{_kernel_header(model)}"
    yield from _number_line("offset", model.offset)
    yield f"label {_join('%d', model.labels)}\n"
    yield from _probability_header(model)
    yield "vectors\n"
    yield from _vector_blocks(model)


_LINES = {
    "LinearModel": _linear_lines, "KernelModel": _kernel_lines, "CompactModel": _compact_lines
}  # fmt: skip


def _kernel_header(model: KernelModel | CompactModel) -> str:
    kernel = model.kernel
    if kernel.bias != 0:
        raise ValueError("a kernel model's intercept stands in rho, not in the kernel")
    row = kernel.row
    parameters = (f"{key} {getattr(kernel, key):.17g}\n" for key in row.parameters)
    return (
        f"kernel_type {row.word}\n{''.join(parameters)}"
        f"nr_class {len(model.labels)}\ntotal_sv {model.support_vectors.shape[0]}\n"
    )


def _probability_header(model: KernelModel | CompactModel) -> Iterator[str | bytes]:
    for key in SIGMOIDS:
        if (values := getattr(model, key)) is not None:
            yield from _number_line(key, values)


def _number_line(key: str, values: np.ndarray) -> Iterator[str | bytes]:
    """``key number number ...``; the numbers of pairs of many classes are many."""
    yield f"{key} "
    lines_of = _lines_compiled if _is_for_compiled(len(values)) else _lines
    step = max(1, _NUMBERS_AT_ONCE)
    for start in range(0, len(values), step):
        part = np.asarray(values[start : start + step], dtype=float)
        is_last = start + len(part) == len(values)
        yield lines_of(part[None])[: -2 if is_last else -1]
    yield "\n"


def _vector_blocks(model: KernelModel | CompactModel) -> Iterator[str | bytes]:
    vectors = model.support_vectors
    first_index = 0 if model.is_precomputed else 1
    n_numbers = model.coef.size + vectors.nnz
    lines_of = _vector_lines_compiled if _is_for_compiled(n_numbers) else _vector_lines
    for rows in _blocks(vectors.shape[0], n_numbers):
        part = vectors[rows]
        if not isinstance(part, CSR):  # whose indices ascend
            part.sort_indices()
        yield lines_of(model.coef[rows], part, first_index)


def _vector_lines_compiled(coef: np.ndarray, vectors, first_index: int) -> bytes:
    """The same as :func:`_vector_lines`."""
    from odmtool.io._print import NO_INDEX, written

    m, k = coef.shape
    starts = vectors.indptr + k * np.arange(m + 1, dtype=np.int64)
    is_coef, ends = np.zeros((2, starts[-1]), bool)
    is_coef[starts[:-1, None] + np.arange(k)] = ends[starts[1:] - 1] = True
    numbers, indices = np.empty(len(ends)), np.full(len(ends), NO_INDEX)
    numbers[is_coef], numbers[~is_coef] = coef.ravel(), vectors.data
    indices[~is_coef] = vectors.indices.astype(np.int64) + first_index
    return written(numbers, ends, indices)


def _vector_lines(coef: np.ndarray, vectors, first_index: int) -> str:
    """Lines ``coef ... index:value ...``; indices ascend, values have no digit too many."""
    pairs: list = [None] * (2 * vectors.nnz)
    pairs[0::2] = (vectors.indices.astype(np.int64) + first_index).tolist()
    pairs[1::2] = vectors.data.tolist()
    ends = vectors.indptr.tolist()
    coefs = "%.17g " * coef.shape[1]
    is_short = short_decimals(vectors.data)[0]
    forms = np.where(is_short, f"%d:%.{DIGITS}g ", "%d:%.17g ").tolist()
    return "".join(
        (coefs + "".join(forms[a:b]) + "\n") % (*row, *pairs[2 * a : 2 * b])
        for row, a, b in zip(coef.tolist(), ends[:-1], ends[1:], strict=True)
    )


def _join(form: str, values) -> str:
    return " ".join(form % value for value in values)


def _refuse_non_finite(*arrays: np.ndarray) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError("a model holds a number that is not finite")
