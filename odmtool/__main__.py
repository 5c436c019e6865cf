"""``python -m odmtool train|predict|cv|scale``."""

from odmtool.cli import odmtool_main

if __name__ == "__main__":
    odmtool_main()
