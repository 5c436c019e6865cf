"""Naive twins of all compiled functions, by room; :mod:`test_compiled` compares them."""
