"""Solvers for LDM, whose loss is a margin loss given the mean b of the margins."""
