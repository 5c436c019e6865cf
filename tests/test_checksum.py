"""The checksum of models: the same by Python's own code and by OpenSSL's, which is loaded late."""

from __future__ import annotations

import hashlib

from odmtool.io import checksum


def test_short_and_long_texts_have_the_checksum_of_hashlib():
    for length in (0, 55, 56, 64, 1000):
        text = bytes(range(256)) * 4
        for told in (0, 1 << 30):
            made = checksum.sha256(told)
            made.update(text[:length])
            assert made.hexdigest() == hashlib.sha256(text[:length]).hexdigest()


def test_python_without_code_of_its_own_takes_hashlib(monkeypatch):
    def of_hashlib_only(name):
        if name != "hashlib":
            raise ImportError(name)
        return hashlib

    monkeypatch.setattr(checksum, "import_module", of_hashlib_only)
    made = checksum.sha256()
    made.update(b"abc")
    assert made.hexdigest() == hashlib.sha256(b"abc").hexdigest()
