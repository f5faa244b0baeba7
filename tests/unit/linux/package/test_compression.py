# SPDX-License-Identifier: GPL-2.0-or-later
"""Data that were compressed by what kernels are compressed with."""

import bz2
import contextlib
import gzip
import lzma
import random
import shutil
import subprocess
import sys

import pytest
import zstandard

from kpfs.linux.errors import UnfitError
from kpfs.linux.package import compression
from kpfs.linux.package.compression import decompress

TEXT = b"\x7fELF" + bytes(range(256)) * 40 + b"a" * 1000 + b"end"


def zstd(data):
    """Compress without the size in the head, as a pipe does."""
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(data) + packer.flush()


def lz4(data):
    """Compress to the form that kernels have."""
    if shutil.which("lz4") is None:
        pytest.skip("lz4 is missing")
    words = ["lz4", "-lcq"]
    return subprocess.run(words, input=data, capture_output=True, check=True).stdout


every = pytest.mark.parametrize(
    "pack",
    [
        lzma.compress,
        gzip.compress,
        bz2.compress,
        lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
        zstd,
        lz4,
    ],
)


@every
def test_all_comes_back(pack):
    packed = pack(TEXT)
    assert decompress(packed, "it") == TEXT
    assert decompress(packed + len(TEXT).to_bytes(4, "little"), "it") == TEXT


@every
def test_the_limit(pack):
    packed = pack(TEXT)
    assert decompress(packed, "it", len(TEXT)) == TEXT
    with pytest.raises(UnfitError, match="it is damaged: it holds more than any"):
        decompress(packed, "it", len(TEXT) - 1)


@every
def test_what_ends_too_early(pack):
    packed = pack(TEXT)
    for size in (len(packed) // 2, len(packed) - 9):
        with pytest.raises(UnfitError, match="it is damaged"):
            decompress(packed[:size], "it")


@every
def test_damaged_data_raise_no_other_error(pack):
    rng, packed = random.Random(3), pack(TEXT)
    for _ in range(200):
        data = bytearray(packed)
        for _ in range(5):
            data[rng.randrange(6, len(data))] = rng.randrange(256)
        with contextlib.suppress(UnfitError):
            assert len(decompress(bytes(data), "it", 1 << 24)) <= 1 << 24


def test_frames_that_follow_one_another(monkeypatch):
    monkeypatch.setattr(compression, "_ZSTD_PIECE", 7)
    assert decompress(zstd(TEXT) + zstd(b"more"), "it") == TEXT + b"more"
    large = random.Random(1).randbytes(9 << 20)  # more than a block
    assert decompress(lz4(large), "it") == large


def test_what_is_not_compressed():
    for data in (b"", b"PK\3\4"):
        with pytest.raises(UnfitError, match="packed in an unknown way"):
            decompress(data, "it")


def test_a_start_does_without_the_libraries():
    program = (
        "import sys, kpfs.linux.package.compression; "
        "print({'lzma', 'bz2', 'zstandard'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert done.stdout == b"set()\n"


def test_a_million_frames_are_no_kernel(monkeypatch):
    """Each took a copy of all that followed."""
    empty = zstandard.ZstdCompressor().compress(b"")
    with pytest.raises(UnfitError, match="too many parts"):
        decompress(empty * 10_000, "it")


def test_a_block_of_lz4_has_a_limit():
    block = b"\x1fa\x01\x00" + b"\xff" * 40_000
    data = b"\x02\x21\x4c\x18" + len(block).to_bytes(4, "little") + block + b"\0"
    with pytest.raises(UnfitError, match="LZ4 block"):
        decompress(data[:-1] + b"\0", "it")


def test_a_dictionary_has_a_limit(monkeypatch):
    monkeypatch.setattr(compression, "MAX_DICTIONARY", 1 << 16)
    with pytest.raises(UnfitError, match="damaged"):
        decompress(lzma.compress(b"text"), "it")


def test_what_zstd_packs_comes_back():
    packed = compression.zstd_packer(1)(TEXT)
    assert len(packed) < len(TEXT) / 2
    assert decompress(packed, "it") == TEXT
