"""Small data of several classes, for the tests of commands."""

from __future__ import annotations

import model_makers as make
import numpy as np
from scipy.sparse import csr_matrix

CLASSES = [-7, 2_000_000_000, 3, 5, 1, -1]


def clusters(k, m=60, d=4, seed=0):
    """Integer rows with many zeros, and labels of k overlapping classes, each there twice."""
    generator = np.random.default_rng([k, seed])
    target = np.r_[np.arange(k)[::-1], np.arange(k), generator.integers(k, size=m - 2 * k)]
    centres = generator.integers(-3, 4, size=(k, d))
    X = centres[target] + generator.integers(-2, 3, size=(m, d))
    X[generator.random(X.shape) < 0.2] = 0
    return csr_matrix(X.astype(float)), np.array(CLASSES)[target]


def put(name, X, labels):
    with open(name, "w") as stream:
        stream.write(make.data_lines(X, labels))
