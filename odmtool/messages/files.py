"""Opening, reading and writing files."""

from __future__ import annotations

from odmtool.messages.words import sentence

no_such_file = sentence("{name}: no such file")
is_a_folder = sentence("{name}: is a folder, not a file")
cannot_read = sentence("{name}: cannot be read: {reason}")
cannot_write = sentence("{name}: cannot be written: {reason}")
null_in_name = sentence("no name of a file has a null byte")
no_such_folder = sentence("{name}: cannot be written: there is no folder {folder!q}")
folder_not_writable = sentence(
    "{name}: cannot be written: no file can be made in the folder {folder!q} "
    "(the new file is made beside the old one, which it then replaces)"
)
line_too_long = sentence(
    "a line of more than {limit} bytes: this is another kind of file, or it is damaged"
)
compressed_truncated = sentence("the {kind} data end too early: the file is cut off")
compressed_corrupt = sentence("the {kind} data are corrupt ({reason})")
compressed_trailing = sentence("something that is not {kind} follows the {kind} data")
unknown_compression = sentence(
    "{kind} files cannot be read (gzip, bzip2 and xz can); decompress it first: {remedy}"
)
cache_in = sentence("the cache in the folder {folder!q}")
cache_damaged = sentence(
    "the cache is damaged, or was cut off while it was read: remove the file, then train again"
)
