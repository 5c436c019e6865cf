"""Good files and options, changed at random from a seed; see :mod:`fuzz.soak`."""
