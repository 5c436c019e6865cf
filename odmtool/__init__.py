"""odmtool: classification by the margin distribution, from the command line.

Importing the package loads nothing heavy: the commands import what they need
when they run, so that ``--help`` and shell completion stay fast.
"""

__version__ = "0.1.0"
