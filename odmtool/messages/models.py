"""Reading and writing models."""

from __future__ import annotations

from odmtool.messages.words import quoted


def model_empty() -> str:
    return "the model file is empty"


def not_a_model(token: bytes) -> str:
    return f"not a model: it starts with {quoted(token)} instead of solver_type or svm_type"


def model_key(token: bytes) -> str:
    return f"unknown text in model file: {quoted(token)}"


def model_key_twice(key: str) -> str:
    return f"'{key}' is given twice"


def model_key_missing(key: str, before: str) -> str:
    return f"'{key}' is missing before '{before}'"


def model_value(key: str, token: bytes) -> str:
    return f"{quoted(token)} is not a valid value of '{key}'"


def model_labels_repeat() -> str:
    return "'label' names a class twice"


def model_type_unsupported(name: str) -> str:
    return f"this is a model of type {name}; only classification models can be used"


def model_number(token: bytes) -> str:
    return f"expected a finite decimal number, got {quoted(token)}"


def model_row(n_coef: int) -> str:
    word = "coefficient" if n_coef == 1 else "coefficients"
    return f"expected {n_coef} {word} followed by index:value pairs"


def model_index(index: int) -> str:
    return f"index {index}: indices must ascend and be at most 2147483647"


def model_index_zero() -> str:
    return "index 0: this model counts features from 0; use ‹zero_based›"


def model_serial() -> str:
    return "a support vector of a precomputed kernel must be 0:serial-number"


def model_header_cut() -> str:
    return "the model is cut short: its header ends early"


def model_rows_cut(declared: int, what: str, found: int) -> str:
    return f"the model is damaged: the header declares {declared} {what}, the file has {found}"


def model_no_newline() -> str:
    return "the model is cut short: its last line does not end"


def model_split(total: int, parts: int) -> str:
    return f"the model is damaged: total_sv is {total}, but nr_sv adds up to {parts}"


def model_end_missing() -> str:
    return "the model is cut short or was added to: its end mark is not the last line"


def model_checksum() -> str:
    return "the model was changed or damaged: its checksum does not fit"


def model_newer(version: bytes) -> str:
    return f"the model has format {quoted(version)}; this odmtool reads format 1"


def model_fact(line: bytes) -> str:
    return f"expected a key and a value, got {quoted(line)}"


def liblinear_is_linear(kernel: str) -> str:
    return (
        f"‹model_format=liblinear› holds linear models only, and the kernel is {kernel}: leave "
        "‹model_format› out or write ‹model_format=libsvm›"
    )


def liblinear_has_no_pairs() -> str:
    return (
        "‹model_format=liblinear› has no place for ‹multiclass=ovo›: leave ‹model_format› out, or "
        "write ‹model_format=libsvm›"
    )


def compact_is_for_many_classes() -> str:
    return (
        "‹model_format=compact› is for a kernel, more than two classes and no ‹multiclass=ovo›: "
        "leave ‹model_format› out"
    )
