"""Weight files: one instance weight per line, in the order of the data file's examples.

A weight is a number >= 0 in the grammar of data files. ``#`` starts a comment; blank
and comment lines are skipped, as in a data file.
"""

from __future__ import annotations

import math

import numpy as np

from odmtool import messages
from odmtool.errors import DataError
from odmtool.io._line import NUMBER
from odmtool.io.files import display_name, open_input


def read_weights(path: str) -> np.ndarray:
    """Read a weight file.

    Parameters
    ----------
    path : str
        "-" is stdin.

    Returns
    -------
    ndarray, shape (number of weights,)
        All finite and >= 0.

    Raises
    ------
    FileError, DataError
    """
    name, weights = display_name(path), []
    with open_input(path) as stream:
        for number, line in enumerate(stream, start=1):
            token = line.partition(b"#")[0].strip()
            if not token:
                continue
            weight = float(token) if NUMBER.fullmatch(token) else math.nan
            if not math.isfinite(weight) or weight < 0:
                raise DataError(messages.wrong_weight(token), name, number)
            weights.append(weight)
    return np.array(weights)
