# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules are loaded without the collector, which is as before afterwards."""

from __future__ import annotations

import gc
import sys

import pytest

from kpfs.base.loading import load

SOURCE = "import gc\nmade, enabled = [[] for _ in range(2000)], gc.isenabled()\n"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module that nobody has loaded."""
    (tmp_path / "kpfs_loaded.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "kpfs_loaded"
    sys.modules.pop("kpfs_loaded", None)


def test_nothing_is_collected_meanwhile(module):
    assert gc.isenabled()
    loaded = load(module)
    assert not getattr(loaded, "enabled")  # noqa: B009
    assert gc.isenabled()
    made = id(getattr(loaded, "made")[0])  # noqa: B009
    assert made in map(id, gc.get_objects(generation=2))
    assert load(module) is loaded


def test_a_collector_that_is_off_stays_off(module):
    gc.disable()
    try:
        load(module)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_frozen_objects_stay_frozen(module):
    gc.freeze()
    try:
        load(module)
        assert gc.get_freeze_count()
        assert gc.isenabled()
    finally:
        gc.unfreeze()


def test_the_collector_is_on_again_after_a_failure():
    with pytest.raises(ModuleNotFoundError):
        load("kpfs.base.nobody")
    assert gc.isenabled()
