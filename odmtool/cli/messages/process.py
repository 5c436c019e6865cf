"""The process: parsing errors, memory, signals, internal errors."""

from __future__ import annotations


def click_error(error) -> str:
    """A parsing error of click, with the command that helps."""
    context = getattr(error, "ctx", None)
    sentence = error.format_message().rstrip(".")
    return f"{sentence} (see {context.command_path} --help)" if context else sentence


def out_of_memory(error: BaseException) -> str:
    """With what the error says, unless that is a page of advice."""
    said = str(error)
    return f"out of memory ({said})" if said and "\n" not in said else "out of memory"


def os_error(error: OSError) -> str:
    # No file is missing: Python asks the system for the working folder without naming it.
    of_folder = isinstance(error, FileNotFoundError) and not error.filename
    place = "the working folder" if of_folder else error.filename
    return f"{place}: {error.strerror or error}" if place else str(error.strerror or error)


def internal_error(error: BaseException) -> str:
    return (
        f"internal error, please report it with the command and the data: "
        f"{type(error).__name__}: {error} (--verbose shows where)"
    )
