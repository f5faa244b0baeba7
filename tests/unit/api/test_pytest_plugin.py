# SPDX-License-Identifier: GPL-2.0-or-later
"""The marker kpfs_search, over searches that are functions."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import kpfs
from kpfs.api import pytest_plugin
from kpfs.api.commands import Found
from kpfs.base.errors import SetupError

FOUND = Found(
    "race", "data race: a reads what b writes", ["CPU 0"], "s1", "", "kpfs", 3, 1
)


def item(**options):
    """A test with the marker."""
    marker = SimpleNamespace(kwargs=options)
    return SimpleNamespace(
        get_closest_marker=lambda name: marker if name == "kpfs_search" else None,
        path=Path("/here/test_it.py"),
        nodeid="test_it.py::TestIt::test_one[1]",
        config=SimpleNamespace(rootpath=Path("/here")),
    )


@pytest.fixture
def asked(monkeypatch):
    """A record of what the plugin has searched, and what is found next."""
    monkeypatch.delenv("KPFS_SEARCHED", raising=False)
    seen = SimpleNamespace(found=[], options={}, argv=[])

    def search(argv, **options):
        seen.argv, seen.options = argv, options
        if isinstance(seen.found, Exception):
            raise seen.found
        return seen.found

    monkeypatch.setattr(kpfs, "search", search, raising=False)
    return seen


def test_the_test_alone_is_run_inside(asked):
    assert pytest_plugin.pytest_pyfunc_call(item(kernel="k", seconds=5)) is True
    assert asked.argv[-1] == "/here/test_it.py::TestIt::test_one[1]"
    assert (asked.options["kernel"], asked.options["seconds"]) == ("k", 5)
    # by a word, so that the line that makes a run again is one for any shell
    assert asked.argv[:2] == ["env", "KPFS_SEARCHED=1"]
    assert "env" not in asked.options


def test_findings_fail_the_test(asked):
    asked.found = [FOUND]
    with pytest.raises(pytest.fail.Exception, match="data race: a reads"):
        pytest_plugin.pytest_pyfunc_call(item(kernel="k"))


def test_a_test_that_cannot_be_searched_fails(asked):
    asked.found = SetupError("CMD fails by itself")
    with pytest.raises(pytest.fail.Exception, match="fails by itself"):
        pytest_plugin.pytest_pyfunc_call(item(kernel="k"))


def test_its_runs_are_those_of_the_test_itself(asked, monkeypatch):
    monkeypatch.setenv("KPFS_SEARCHED", "1")
    assert pytest_plugin.pytest_pyfunc_call(item(kernel="k")) is None
    assert not asked.argv
