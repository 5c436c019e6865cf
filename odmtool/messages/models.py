"""Reading and writing models."""

from __future__ import annotations

from odmtool.messages.words import counted, sentence

model_empty = sentence("the model file is empty")
model_too_large = sentence(
    "{name}: the model is larger than {most!b}, half of the memory that is free"
)
not_a_model = sentence("not a model: it starts with {token!q} instead of solver_type or svm_type")
model_key = sentence("unknown text in model file: {token!q}")
model_key_twice = sentence("'{key}' is given twice")
model_key_missing = sentence("'{key}' is missing before '{before}'")
model_value = sentence("{token!q} is not a valid value of '{key}'")
model_labels_repeat = sentence("'label' names a class twice")
model_type_unsupported = sentence(
    "this is a model of type {name}; only classification models can be used"
)
model_number = sentence("expected a finite decimal number, got {token!q}")


def model_row(n_coef: int) -> str:
    return f"expected {counted(n_coef, 'coefficient')} followed by index:value pairs"


model_index = sentence("index {index}: indices must ascend and be at most 2147483647")
model_index_zero = sentence("index 0: this model counts features from 0; use ‹zero_based›")
model_serial = sentence("a support vector of a precomputed kernel must be 0:serial-number")
model_header_cut = sentence("the model is cut short: its header ends early")
model_rows_cut = sentence(
    "the model is damaged: the header declares {declared} {what}, the file has {found}"
)
model_no_newline = sentence("the model is cut short: its last line does not end")
model_split = sentence("the model is damaged: total_sv is {total}, but nr_sv adds up to {parts}")
model_end_missing = sentence(
    "the model is cut short or was added to: its end mark is not the last line"
)
model_converted = sentence(
    "the lines of the model end with CR LF, as a transfer in text mode leaves them: "
    "convert them to LF again, as dos2unix does"
)
model_checksum = sentence("the model was changed or damaged: its checksum does not fit")
model_newer = sentence("the model has format {version!q}; this odmtool reads formats 1 and 2")
ranges_by_format = sentence("a model has ranges of features if its format is 2, and only then")
ranges_of_precomputed = sentence("a model of a precomputed kernel has no ranges of features")
model_ranges = sentence("the ranges of the features: {reason}")
model_fact = sentence("expected a key and a value, got {line!q}")
liblinear_is_linear = sentence(
    "‹model_format=liblinear› holds linear models only, and the kernel is {kernel}: leave "
    "‹model_format› out or write ‹model_format=libsvm›"
)
liblinear_has_no_pairs = sentence(
    "‹model_format=liblinear› has no place for ‹multiclass=ovo›: leave ‹model_format› out, or "
    "write ‹model_format=libsvm›"
)
compact_is_for_many_classes = sentence(
    "‹model_format=compact› is for a kernel, more than two classes and no ‹multiclass=ovo›: "
    "leave ‹model_format› out"
)
