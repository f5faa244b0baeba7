# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules whose instructions are looked at: they are followed, and nothing else is."""

import os

import pytest

from kpfs.base import abi
from kpfs.linux.inside import mounted
from kpfs.linux.inside.command import InsideCommand
from kpfs.linux.inside.request import RunRequest
from kpfs.linux.search.texts import LookedText, Texts
from kpfs.linux.store import store
from tests import harness

PATH = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
NOBODY = 1 << 40  # no looker has this bit


@pytest.fixture
def inside():
    """A kernel, and a function that runs a shell command in it."""
    kernel = mounted.start(store.folder(harness.KERNEL), quiet=True)
    kernel.leave_out_modules()
    null = os.open(os.devnull, os.O_RDWR)

    def run(command):
        request = RunRequest(("sh", "-c", command), PATH, "/", hostname="x")
        return InsideCommand(kernel, request, [null] * 3).run().status

    yield kernel, run
    os.close(null)
    kernel.machine.board.close()


@pytest.mark.kernel
def test_a_module_is_looked_at_as_long_as_it_is_there(inside):
    kernel, run = inside
    texts = Texts(kernel)
    came: list[LookedText] = []
    went: list[LookedText] = []
    texts.follow(came.append, went.append)
    texts.set(on=NOBODY)
    assert run("modprobe dummy && rmmod dummy") == 0
    assert {text.name for text in came} == {"dummy"}
    assert len(came) == len(went) == 2  # with the text of init
    assert 5 < texts.get(abi.Texts.instructions) < 10_000
    called = {
        row.name
        for number, row in enumerate(texts.functions, 1)
        if texts.function_row(number).calls
    }
    assert "__rtnl_link_register" in called or "rtnl_link_register" in called
    assert texts.place(came[0].start).endswith(" [dummy]")
