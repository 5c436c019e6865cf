"""Opening, reading and writing files."""

from __future__ import annotations

from odmtool.messages.words import quoted


def no_such_file(name: str) -> str:
    return f"{name}: no such file"


def is_a_folder(name: str) -> str:
    return f"{name}: is a folder, not a file"


def cannot_read(name: str, reason: str) -> str:
    return f"{name}: cannot be read: {reason}"


def cannot_write(name: str, reason: str) -> str:
    return f"{name}: cannot be written: {reason}"


def no_such_folder(name: str, folder: str) -> str:
    return f"{name}: cannot be written: there is no folder {quoted(folder)}"


def folder_not_writable(name: str, folder: str) -> str:
    return (
        f"{name}: cannot be written: no file can be made in the folder {quoted(folder)} "
        f"(the new file is made beside the old one, which it then replaces)"
    )


def compressed_truncated(kind: str) -> str:
    return f"the {kind} data end too early: the file is cut off"


def compressed_corrupt(kind: str, reason: str) -> str:
    return f"the {kind} data are corrupt ({reason})"


def compressed_trailing(kind: str) -> str:
    return f"something that is not {kind} follows the {kind} data"


def unknown_compression(kind: str, remedy: str) -> str:
    return f"{kind} files cannot be read (gzip, bzip2 and xz can); decompress it first: {remedy}"


def cache_damaged() -> str:
    return "the cache is damaged, or was cut off while it was read: remove the file, or train again"
