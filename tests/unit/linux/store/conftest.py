# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel of two pages, in an empty store."""

import json
import os

import pytest

from kpfs.linux.store import image, store
from tests.unit.linux.store.test_image import sound

MEMORY = 1 << 20
PAGE = os.urandom(4096)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))


@pytest.fixture
def small_kernel():
    """Name of a kernel whose memory has two pages."""
    meta = {**sound(), "release": "6.1"}
    with store.new_folder("a") as folder:
        with open(f"{folder}/{image.META}", "w") as file:
            json.dump(meta, file)
        for name in (image.SYMBOLS, image.CONFIG, image.MODULES):
            with open(f"{folder}/{name}", "w") as file:
                file.write(f"this is {name}")
        with open(f"{folder}/{image.RAM}", "wb") as ram:
            ram.truncate(MEMORY)
            for at in (0x8000, 0x40000):
                ram.seek(at)
                ram.write(PAGE)
    return "a"
