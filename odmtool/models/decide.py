"""From decision values to classes, as the stock predictors do it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from odmtool.models.probability import probabilities_of_blocks, row_blocks

CLASSES_AT_ONCE = 16
"""Classes whose sums with those after them are made together."""

# speed only: sums of classes that are made together, of whatever rows
_SUMS = 2**20


class Standings:
    """What k classes have of the values of their pairs, which come class by class.

    Attributes
    ----------
    votes : int array, shape (m, k)
        How many pairs vote for each class.
    total : ndarray, shape (m, k)
        The sums of the values of their pairs, those in which they come second turned round.
    """

    def __init__(self, m: int, k: int):
        # Classes one after the other, as their values are.
        self.votes, self.total = np.zeros((k, m), dtype=np.int64).T, np.zeros((k, m)).T

    def counted(self, by_first: Iterable[np.ndarray], has_total: bool = True) -> Standings:
        """With the values of each class with those after it, arrays of shape (m, k - 1 - i).

        Where only the votes are looked at, the sums need not be made.
        """
        for i, values in enumerate(by_first):
            is_first = values > 0
            self.votes[:, i] += np.count_nonzero(is_first, axis=1)
            self.votes[:, i + 1 :] += ~is_first
            if has_total:
                self.total[:, i] += values.sum(axis=1)
                self.total[:, i + 1 :] -= values
        return self

    def winners(self) -> np.ndarray:
        """The places of the classes with most votes, at a tie the first, shape (m,)."""
        return self.votes.argmax(axis=1)

    def confident(self) -> np.ndarray:
        """See :func:`votes_and_confidence`."""
        with np.errstate(all="ignore"):
            return self.votes + self.total / (3 * (np.abs(self.total) + 1))


def votes(values: np.ndarray, k: int) -> np.ndarray:
    """How many pairs of classes vote for each class.

    ``values`` (ndarray, shape (m, k (k - 1) / 2)): in LIBSVM's order of pairs; positive is a vote
    for the first of the pair. Returns int array, shape (m, k).
    """
    return Standings(len(values), k).counted(by_first(values, k), has_total=False).votes


def by_first(values: np.ndarray, k: int) -> Iterator[np.ndarray]:
    """The values of all pairs, those of each class with all that come after it."""
    start = 0
    for i in range(k - 1):
        yield values[:, start : start + k - 1 - i]
        start += k - 1 - i


def pairs_by_class(K: np.ndarray, groups: list[slice], coef: np.ndarray) -> Iterator[np.ndarray]:
    """Values of pairs of many classes without their intercepts, class by class.

    For each class but the last yields those of its pairs with all that come after it, shape
    (m, k - 1 - i); sums of all classes at a time would take as many numbers as all pairs.

    Parameters
    ----------
    K : ndarray, shape (m, n)
        Kernel values of rows and vectors.
    groups : list of k slices
        The vectors of each class.
    coef : ndarray, shape (n, k - 1)
        As those of :class:`odmtool.models.kernel.KernelModel`.
    """
    k, turned = len(groups), np.ascontiguousarray(K.T)
    # speed only: of few rows, calls would take longer than sums
    step = max(CLASSES_AT_ONCE, _SUMS // (2 * k * max(1, len(K))))
    for start in range(0, k - 1, step):
        count = min(step, k - 1 - start)
        own = [coef[some, start:].T @ turned[some] for some in groups[start : start + count]]
        others = np.empty((count, k, K.shape[0]))
        for j in range(start + 1, k):
            is_own = j - start < count
            others[:, j] = (
                own[j - start][:count] if is_own
                else coef[groups[j], start : start + count].T @ turned[groups[j]]
            )  # fmt: skip
        for i in range(count):
            # In the order of the columns, rows are neighbours.
            yield (own[i][i:] + others[i, start + i + 1 :]).T


def numbers_by_class(k: int, n: int) -> int:
    """The numbers that a row takes in :func:`pairs_by_class`, and in what is made of them."""
    return 2 * n + (2 * CLASSES_AT_ONCE + 8) * k


def pairs_by_first(sums: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """What the two classes of pairs have together: those of each class with all that come after it.

    ``sums`` (ndarray, shape (k, n, k - 1)): of class i, column j - 1 is for the pair i < j, and
    column j for the pair j < i, as LIBSVM keeps coefficients. Yields the places among all pairs,
    and arrays of shape (n, k - 1 - i).
    """
    k, start = len(sums), 0
    for i in range(k - 1):
        part = slice(start, start + k - 1 - i)
        yield part, sums[i, :, i:] + sums[i + 1 :, :, i].T
        start = part.stop


def pair_totals(C: np.ndarray, target: np.ndarray, k: int) -> np.ndarray:
    """What the coefficients of every pair sum up to, shape (k (k - 1) / 2,).

    ``C`` (ndarray, shape (m, k - 1)): as those of :func:`pairs_by_first`, of examples of the
    classes ``target``.
    """
    sums = np.array([C[target == i].sum(axis=0) for i in range(k)])[:, None]
    return np.hstack([values for _, values in pairs_by_first(sums)])[0]


def sure_winners(
    by_first: Iterable[tuple[np.ndarray, np.ndarray]], m: int, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The classes with most votes, and where values that are off could give another one.

    ``by_first`` (iterable of pairs of ndarrays, shape (m, k - 1 - i)): for each class i, values of
    the pairs with those after it, and how far off they may be; where that is 0 they decide as they
    are. Returns int array and bool array, both of shape (m,).
    """
    least, lost = np.zeros((2, m, k), dtype=np.int32)
    for i, (values, bound) in enumerate(by_first):
        wins, losses = values > bound, np.where(bound == 0, values <= 0, values < -bound)
        for counts, of_first, of_others in ((least, wins, losses), (lost, losses, wins)):
            counts[:, i] += np.count_nonzero(of_first, axis=1)
            counts[:, i + 1 :] += of_others
    best, is_behind = leaders(least, lost)
    return best, ~is_behind.all(axis=1)


def leaders(least: np.ndarray, lost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes that are sure of most votes, and which others cannot have as many.

    ``least`` are the votes that each class has for sure and ``lost`` the pairs that it lost, shape
    (m, k). Returns arrays of shape (m,) and (m, k); the leader itself counts as one of the others.
    """
    (m, k), best, most = least.shape, least.argmax(axis=1), least.shape[1] - 1 - lost
    # A tie goes to the first class.
    is_behind = most < least[np.arange(m), best][:, None] + (np.arange(k) > best[:, None])
    is_behind[np.arange(m), best] = True
    return best, is_behind


def votes_and_confidence(values: np.ndarray, k: int) -> np.ndarray:
    """A value for each of k classes from those of the pairs, as scikit-learn has it.

    The number of votes plus the sum of the class's values, squeezed into (-1/3, 1/3), so that it
    decides between equal votes only. Shapes as those of :func:`votes`.
    """
    return Standings(len(values), k).counted(by_first(values, k)).confident()


def first_maximum(values: np.ndarray) -> np.ndarray:
    """Per row the first column that no later one exceeds; a nan exceeds nothing."""
    best = np.zeros(len(values), dtype=np.int64)
    top = values[:, 0].copy()
    for column in range(1, values.shape[1]):
        better = values[:, column] > top
        best[better] = column
        top[better] = values[better, column]
    return best


def most_probable(
    model, blocks: Iterable[np.ndarray], n_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities of rows, whose values of the pairs of classes come in blocks."""
    sigmoids = model.probA, model.probB
    probabilities = probabilities_of_blocks(blocks, n_rows, *sigmoids, len(model.labels))
    best = probabilities.argmax(axis=1)
    return np.asarray(model.labels, dtype=np.int64)[best], probabilities


def pair_blocks(values: np.ndarray, k: int) -> Iterator[np.ndarray]:
    """f_i - f_j for every pair of k classes, from one value per class, of some rows at a time.

    Two classes may have one value.
    """
    if values.shape[1] < 2:
        yield values
        return
    first, second = np.triu_indices(k, 1)
    for rows in row_blocks(len(values), len(first)):
        yield values[rows].take(first, axis=1) - values[rows].take(second, axis=1)


def sigmoids_among(A: np.ndarray, B: np.ndarray, place) -> tuple[np.ndarray, np.ndarray]:
    """The sigmoids of the pairs of k classes that stand in another order.

    P(a | a or b) = 1 / (1 + exp(A v + B)) with v for a against b; seen from b, v and B
    change their signs.

    Parameters
    ----------
    A, B : ndarrays, shape (k (k - 1) / 2,)
    place : sequence of k ints
        Where in the order of A and B each class of the new order stands.
    """
    k, place = len(place), np.asarray(place)
    first, second = np.triu_indices(k, 1)
    pair = np.zeros((k, k), dtype=int)
    pair[first, second] = np.arange(len(A))
    first, second = place[first], place[second]
    number = pair[np.minimum(first, second), np.maximum(first, second)]
    return A[number], np.where(first < second, B[number], -B[number])
