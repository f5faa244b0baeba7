# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of configurations, and the files that each leaves out."""

import pytest

from kpfs import config
from kpfs.backends.guest.files.readme import Readme
from kpfs.backends.guest.files.tree import TABLE
from kpfs.backends.guest.tree import build
from kpfs.fs.node import walk
from tests.there import code, stand_in
from tests.unit.fakes import FakeKernel


def configured(*words):
    return config.make(map(config.parse_one, words))


@pytest.mark.parametrize("option", config.OPTIONS, ids=lambda o: o.name)
def test_files_of_an_option(option):
    kernel = FakeKernel()
    kernel.config = configured(f"{option.name}=y", "DOCUMENTED_SYSCTL=y")
    root = build(stand_in(kernel))
    for path in option.absent:
        walk(root, path)
    kernel.config = configured(f"{option.name}=n")
    root = build(stand_in(kernel))
    for path in option.absent:
        assert code(walk, root, path) == "ENOENT"
    left = {path for path, _, _ in TABLE} - kernel.config.absent()
    for path in left:
        walk(root, path)


def test_an_unknown_option_is_refused_with_those_known():
    with pytest.raises(ValueError, match="no option 'X'") as refused:
        config.parse_one("X=y")
    assert all(o.name in str(refused.value) for o in config.OPTIONS)


def test_help_names_all():
    lines = config.help_text().splitlines()
    assert len(lines) == len(config.OPTIONS)
    assert all(o.name in line for o, line in zip(config.OPTIONS, lines, strict=True))


def test_readme_tells_of_what_there_is():
    kernel = FakeKernel()
    whole = Readme(stand_in(kernel)).show()
    assert "kprobe_events" in whole
    assert "set_ftrace_filter" in whole
    kernel.config = configured("KPROBE_EVENTS=n", "KPROBES_ON_FTRACE=n")
    cut = Readme(stand_in(kernel)).show()
    assert "kprobe_events" not in cut
    assert "set_ftrace_filter" not in cut
    assert set(cut.splitlines()) < set(whole.splitlines())
