"""What a trained estimator and a loaded model have in common: they predict.

Both have ``model_``, whose labels are integers, and ``classes_``, which are sorted as these
integers are. Decision values are in scikit-learn's order and sign: of two classes one value,
positive for ``classes_[1]``; of more one column per class. Where pairs of classes vote, it is
that of :func:`odmtool.models.decide.votes_and_confidence`.
"""

from __future__ import annotations

import numpy as np

from odmtool import messages
from odmtool.models.linear import LinearModel
from odmtool.models.scaled import ScaledModel


class Decisions:
    """Predictions of ``model_`` in terms of ``classes_``; ``_rows`` checks what is predicted."""

    def predict(self, X) -> np.ndarray:
        """The label of every row of X, shape (m,), as the stock predictors find it.

        Parameters
        ----------
        X : array or sparse matrix, shape (m, d)
            Of a precomputed kernel: (m, training examples).
        """
        rows = self._rows(X)
        return self.classes_[self._places(self.model_.predict(rows))]

    def decision_function(self, X) -> np.ndarray:
        """Decision values: shape (m,) for two classes, positive means ``classes_[1]``, and
        (m, k) for k > 2.

        The class of the largest is predicted, but where pairs of classes vote (``multiclass``) it
        is the one with most votes, at a tie the first of ``model_.labels``: values are the votes
        and less than 1/3 of confidence, which may make another one larger, as in SVC.
        """  # fmt: skip
        rows = self._rows(X)
        place, k = self._places(self.model_.labels), len(self.classes_)
        if k > 2 and not self.model_.has_scores:
            values = self.model_.votes_and_confidence(rows)
        else:
            values = self.model_.decision_values(rows)
        if k == 2:
            return values[:, 0] if place[0] == 1 else -values[:, 0]
        ordered = np.zeros((len(values), k))
        if values.shape[1]:  # a kernel model of one class has none
            ordered[:, place] = values
        return ordered

    @property
    def predict_proba(self):
        """Probabilities of the classes, shape (m, k), rows of sum 1: call it with X.

        There is no such attribute unless the model was trained with ``probability=True``
        (``odm-train -b 1``). They are Platt's, fitted on held-out examples, and of more than two
        classes coupled; :meth:`predict` answers by decision values, and may have another class.
        """
        if not self._has_probabilities():
            raise AttributeError(messages.no_probabilities_in_python())
        return self._probabilities

    def _probabilities(self, X) -> np.ndarray:
        rows = self._rows(X)
        ordered = np.empty((rows.shape[0], len(self.classes_)))
        place = self._places(self.model_.labels)
        ordered[:, place] = self.model_.predict_with_probabilities(rows)[1]
        return ordered

    @property
    def predict_log_proba(self):
        """Their natural logarithms: call it with X; where :attr:`predict_proba` is, and else not.

        That of a probability 0 is -inf.
        """
        if not self._has_probabilities():
            raise AttributeError(messages.no_probabilities_in_python())
        return self._log_probabilities

    def _log_probabilities(self, X) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self._probabilities(X))

    # scikit-learn tells by a method's name what it returns.
    _probabilities.__name__ = "predict_proba"
    _log_probabilities.__name__ = "predict_log_proba"

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the features."""
        return self._in_order(self._linear_model().weights.T)

    @property
    def intercept_(self) -> np.ndarray:
        """What is added to the weighted features; 0 without a bias."""
        model = self._linear_model()
        if model.bias < 0:
            return self._in_order(np.zeros(model.weights.shape[1]))
        return self._in_order(model.bias * model.bias_weights)

    def _linear_model(self) -> LinearModel:
        """The model; raises AttributeError if it has no weights of the features as they are."""
        if isinstance(self.model_, ScaledModel):
            raise AttributeError(messages.weights_of_scaled_features())
        if not isinstance(self.model_, LinearModel):
            raise AttributeError(messages.no_weights_of_features())
        return self.model_

    def _in_order(self, functions: np.ndarray) -> np.ndarray:
        """What belongs to the functions of a linear model, in the order and sign of the values."""
        place = self._places(self.model_.labels)
        if len(place) == 2:
            return functions[:1] if place[0] == 1 else -functions[:1]
        return functions[np.argsort(place)]

    def _places(self, codes) -> np.ndarray:
        """Where the integers of the model stand among the classes."""
        return np.searchsorted(np.sort(self.model_.labels), codes)
