"""The estimators and the models of the Python interface."""

from __future__ import annotations

from odmtool.messages.words import counted, sentence

labels_continuous = sentence(
    "Unknown label type: continuous; {value:g} is not a class; give integers or texts"
)
labels_unsortable = sentence("the labels in y cannot be sorted: {why}")


def labels_of_another_kind(given, answer) -> str:
    """``given`` is a label of y, ``answer`` one of the model; one of them is a text."""
    if isinstance(answer, str):
        return f"the labels in y are no texts ({given}), those of the model are: give y.astype(str)"
    return f"the labels in y are texts ('{given}'), those of the model are not"


label_not_readable = sentence("a label_ line of the model is not a text as JSON writes it")
one_class_to_learn = sentence(
    "the examples have only one class, {label}: give at least two classes"
)
no_such_label = sentence("class_weight: the label {label!r} does not occur in y")
unknown_class_weight = sentence("class_weight must be a dict, 'balanced' or None, not {value!r}")


def not_a_parameter(name: str, value, is_whole: bool) -> str:
    return f"{name} must be a {'whole ' if is_whole else ''}number, not {value!r}"


not_a_class_weight = sentence(
    "class_weight: the weight of {label!r} must be a number, not {value!r}"
)
not_a_random_state = sentence(
    "random_state must be an integer, a RandomState or None, not {value!r}"
)
not_true_or_false = sentence("{name} must be True or False, not {value!r}")
no_threads = sentence("n_jobs must not be 0: give a number of threads, or -1 for one per processor")
complex_weights = sentence("sample_weight must be real numbers, not complex ones")


def not_square(shape: tuple) -> str:
    m, width = shape
    return f"a precomputed kernel matrix must be square, but X is {m} x {width}"


lambda_and_cost_in_python = sentence(
    "lambda_ and cost set the same parameter: give one, and leave the other None"
)
unknown_gamma = sentence("gamma must be a number, 'auto' (1 / features) or 'scale', not {value!r}")
no_probabilities_in_python = sentence("there are no probabilities: train with probability=True")
no_weights_of_features = sentence(
    "coef_ and intercept_ exist for kernel='linear' with one function per class only"
)
weights_of_scaled_features = sentence(
    "coef_ and intercept_ would be those of scaled features: the model scales the rows itself"
)
loaded_is_trained = sentence("a loaded model cannot be trained again: make an estimator and fit it")
not_fitted = sentence("this {estimator} is not fitted yet: call fit first")


def stopped_short(solution, tol: float, was_cut_short: bool) -> str:
    gradient = getattr(solution, "gradient", None)
    how = f"relative gap is {solution.gap:.2g}"
    if gradient is not None:
        how = f"gradient is {gradient:.2g} of the first"
    more = ", raise max_iter," if was_cut_short else ""
    return (
        f"the {how} after {solution.iterations} iterations, above tol={tol:g}: scale the "
        f"features{more} or take another solver"
    )


def folds_stopped_short(count: int) -> str:
    return f"{counted(count, 'fit')} for the probabilities did not reach tol"


wrong_width = sentence("X has {given} features, the training data had {expected}")
wrong_kernel_values = sentence(
    "X has {given} kernel values in each row, the training data had {expected}"
)
not_rows = sentence("X must have rows and columns, at least one of each; its shape is {shape}")
complex_values = sentence("X must have real numbers, not complex ones")
values_not_finite = sentence("X has values that are NaN or infinite")
label_count = sentence(
    "y must have one label for each of the {rows} rows of X; its shape is {shape}"
)


def no_such_parameter(name: str, known: list[str]) -> str:
    return f"no parameter {name!r}; there are {', '.join(known)}"
