# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules are loaded without the collector, which is as before afterwards."""

from __future__ import annotations

import gc
import sys

import pytest

from kpfs.base.loading import load
from tests import harness

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
    gc.unfreeze()
    loaded = load(module)
    old = {*map(id, gc.get_objects(generation=2))}
    gc.freeze()  # the tests, as they were
    assert not getattr(loaded, "enabled")  # noqa: B009
    assert gc.isenabled()
    assert id(getattr(loaded, "made")[0]) in old  # noqa: B009
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
    load(module)
    assert gc.get_freeze_count()
    assert gc.isenabled()


def test_the_collector_is_on_again_after_a_failure():
    with pytest.raises(ModuleNotFoundError):
        load("kpfs.base.nobody")
    assert gc.isenabled()


COMPILES = """
import sys
from kpfs.__main__ import write_bytecode_whole
sys.dont_write_bytecode = False
write_bytecode_whole()
sys.path.insert(0, sys.argv[1])
import kpfs_long
print(kpfs_long.VALUE)
"""


def test_no_half_of_a_compiled_module_is_kept(tmp_path):
    (tmp_path / "kpfs_long.py").write_text(f"VALUE = 5\nLONG = '{'x' * 5000}'\n")
    made = tmp_path / "__pycache__"
    words = sys.executable, "-B", "-c", COMPILES, str(tmp_path)
    for limit, names in ("4", 0), ("unlimited", 1):
        script = f'ulimit -f {limit}; exec "$@"'
        done = harness.run("sh", "-c", script, "sh", *words, cwd=harness.ROOT)
        assert (done.stdout, done.stderr) == ("5\n", "")
        assert [path.stat().st_size > 5000 for path in made.iterdir()] == [True] * names
