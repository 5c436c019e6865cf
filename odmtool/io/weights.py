"""Weight files: one instance weight per line, in the order of the data file's examples.

A weight is a number >= 0 in the grammar of data files. ``#`` starts a comment; blank
and comment lines are skipped, as in a data file.
"""

from __future__ import annotations

from array import array

import numpy as np

from odmtool import messages
from odmtool.errors import DataError
from odmtool.io._line import real
from odmtool.io.files import display_name, lines, open_input


def read_weights(path: str, most: int) -> np.ndarray:
    """Read a weight file.

    Returns ndarray, shape (number of weights,): all finite and >= 0.

    Parameters
    ----------
    path : str
        "-" is stdin.
    most : int
        The number of examples.

    Raises
    ------
    FileError
    DataError
        Also for more than ``most`` weights: nothing that has no end is read to its end.
    """
    name, weights = display_name(path), array("d")
    with open_input(path) as stream:
        for number, line in enumerate(lines(stream, name), start=1):
            token = line.partition(b"#")[0].strip()
            if not token:
                continue
            weight = real(token)
            if weight is None or weight < 0:
                raise DataError(messages.wrong_weight(token), name, number)
            if not line.endswith(b"\n"):
                raise DataError(messages.weight_cut(), name, number)
            if len(weights) == most:
                raise DataError(messages.too_many_weights(most), name, number)
            weights.append(weight)
    return np.array(weights)
