# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs explain, asked about the guest's own functions."""

import re

import pytest

from kpfs import cli
from kpfs.explain import command


def run(capsys, *argv):
    """(status, stdout, stderr) of kpfs explain."""
    status = cli.explain(cli.parse(["explain", *map(str, argv)]))
    return status, *capsys.readouterr()


@pytest.mark.guest
def test_points_of_our_own_guest(capsys):
    status, out, _ = run(capsys, "kfree", "kfree+1", "kfree+5")
    first, second, third = re.split(r"^(?=kfree)", out, flags=re.M)[1:]
    assert "accepted, [FTRACE]" in first
    assert "0f 1f 44 00 00" in first
    assert "refused, EILSEQ" in second
    assert "kfree+0x5 at 0xffffffff8" in third
    assert "accepted" in third
    assert status == command.EXIT_REFUSED
