"""The checksum of models: the same by Python's own code and by OpenSSL's, which is loaded late."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from odmtool.io import checksum


def made(*parts):
    digest = checksum.Checksum()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


@pytest.mark.parametrize("length", [0, 1, 55, 56, 64, 1000])
@pytest.mark.parametrize("long", [1, 60, 500, 1 << 22])
def test_short_and_long_texts_have_the_checksum_of_hashlib(monkeypatch, length, long):
    monkeypatch.setattr(checksum, "_LONG", long)
    text = (bytes(range(256)) * 4)[:length]
    expected = hashlib.sha256(text).hexdigest()
    assert made(text) == made(text[:50], text[50:70], text[70:]) == expected
    assert made(memoryview(text)) == made(np.frombuffer(text, np.uint8)) == expected


def test_arrays_count_their_bytes():
    numbers = np.arange(12.0).reshape(3, 4)
    assert made(numbers, numbers) == hashlib.sha256(numbers.tobytes() * 2).hexdigest()


def modules(monkeypatch, absent):
    """The modules that are asked for, the absent ones in vain."""
    asked = []

    def imported(name):
        asked.append(name)
        if name in absent:
            raise ImportError(name)
        return hashlib

    monkeypatch.setattr(checksum, "import_module", imported)
    return asked


def test_openssl_is_for_long_texts_and_where_python_has_no_code_of_its_own(monkeypatch):
    asked = modules(monkeypatch, ["_sha2"])
    assert made(b"abc") == hashlib.sha256(b"abc").hexdigest()
    assert asked == ["_sha2", "_sha256"]
    asked = modules(monkeypatch, ["_sha2", "_sha256"])
    assert made(b"abc") == hashlib.sha256(b"abc").hexdigest()
    assert asked == ["_sha2", "_sha256", "hashlib"]
    asked = modules(monkeypatch, [])
    made(b"abc", bytes(1 << 22))
    assert asked == ["hashlib"]
