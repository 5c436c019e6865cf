"""Exact solutions for one cost after the other, along a piecewise linear path."""
