"""From decision values to classes, as the stock predictors do it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from odmtool.models.probability import probabilities_of_blocks, row_blocks


def votes(values: np.ndarray, k: int) -> np.ndarray:
    """How many pairs of classes vote for each class.

    ``values`` (ndarray, shape (m, k (k - 1) / 2)): in LIBSVM's order of pairs; positive is a vote
    for the first of the pair. Returns int array, shape (m, k).
    """
    is_first = values > 0
    counts, start = np.zeros((len(values), k), dtype=np.int64), 0
    for i in range(k - 1):
        pairs = slice(start, start + k - 1 - i)
        counts[:, i] += np.count_nonzero(is_first[:, pairs], axis=1)
        counts[:, i + 1 :] += ~is_first[:, pairs]
        start = pairs.stop
    return counts


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


def sums_of_pairs(sums: np.ndarray) -> np.ndarray:
    """The same of all pairs, shape (n, k (k - 1) / 2)."""
    k, n, _ = sums.shape
    found = np.empty((n, k * (k - 1) // 2))
    for part, values in pairs_by_first(sums):
        found[:, part] = values
    return found


def pairs_of_each(k: int) -> np.ndarray:
    """Where among all pairs those of each class are, int array, shape (k, k - 1).

    Column j - 1 of class i has the pair i < j, column j the pair j < i.
    """
    first, second = np.triu_indices(k, 1)
    place = np.empty((k, max(0, k - 1)), dtype=np.int64)
    place[first, second - 1] = place[second, first] = np.arange(len(first))
    return place


def pair_totals(C: np.ndarray, target: np.ndarray, k: int) -> np.ndarray:
    """What the coefficients of every pair sum up to, shape (k (k - 1) / 2,).

    ``C`` (ndarray, shape (m, k - 1)): as those of :func:`sums_of_pairs`, of examples of the classes
    ``target``.
    """
    return sums_of_pairs(np.array([C[target == i].sum(axis=0) for i in range(k)])[:, None])[0]


def sure_winners(
    by_first: Iterable[tuple[np.ndarray, np.ndarray]], m: int, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The classes with most votes, and where values that are off could give another one.

    Parameters
    ----------
    by_first : iterable of pairs of ndarrays, shape (m, k - 1 - i)
        For each class i, values of the pairs with those after it, and how far off they may be.

    Returns
    -------
    best : int array, shape (m,)
    in_doubt : bool array, shape (m,)
    """
    least, lost = np.zeros((2, m, k), dtype=np.int32)
    for i, (values, bound) in enumerate(by_first):
        wins, losses = values > bound, values < -bound
        for counts, of_first, of_others in ((least, wins, losses), (lost, losses, wins)):
            counts[:, i] += np.count_nonzero(of_first, axis=1)
            counts[:, i + 1 :] += of_others
    rows, best, most = np.arange(m), least.argmax(axis=1), k - 1 - lost
    # A tie goes to the first class.
    is_behind = most < least[rows, best][:, None] + (np.arange(k) > best[:, None])
    is_behind[rows, best] = True
    return best, ~is_behind.all(axis=1)


def votes_and_confidence(values: np.ndarray, k: int) -> np.ndarray:
    """A value for each of k classes from those of the pairs, as scikit-learn has it.

    The number of votes plus the sum of the class's values, squeezed into (-1/3, 1/3), so that it
    decides between equal votes only. Shapes as those of :func:`votes`.
    """
    first, second = np.triu_indices(k, 1)
    total = np.zeros((len(values), k))
    for pair, (i, j) in enumerate(zip(first, second, strict=True)):
        total[:, i] += values[:, pair]
        total[:, j] -= values[:, pair]
    return votes(values, k) + total / (3 * (np.abs(total) + 1))


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


def pair_values(values: np.ndarray, k: int) -> np.ndarray:
    """f_i - f_j for every pair of k classes, from one value per class; two may have one value."""
    if values.shape[1] < 2:
        return values
    return np.concatenate([np.empty((0, k * (k - 1) // 2)), *pair_blocks(values, k)])


def pair_blocks(values: np.ndarray, k: int) -> Iterator[np.ndarray]:
    """:func:`pair_values` of some rows at a time."""
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
