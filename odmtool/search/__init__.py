"""Searches of parameters by cross validation: folds, strategies, journal, repeats."""
