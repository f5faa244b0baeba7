# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.commands.likeness."""

import pytest

from kpfs.commands.likeness import alike, differences, masked


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("p at ffff88800138e8c0", "p at <address>"),
        ("000000003f2a11c0 x 0xc0ffee12", "<address> x <address>"),
        (
            "             cat-27083   [000] .....     0.253282: opened: (f+0x0/0xb0)",
            "cat-<pid> [000] ..... <time>: opened: (f+0x0/0xb0)",
        ),
        ("  k/0:1-9 [001] d..1. 12.000001: x:", "k/0:1-<pid> [001] d..1. <time>: x:"),
        ("[    0.001357] it: mkdir[27106] at vfs", "[<time>] it: mkdir[<pid>] at vfs"),
        ("2026-11-29 03:20:11.25 took 1.5 ms", "<time><time> took <time>"),
        ("pid: 12 tgid=7", "pid: <pid> tgid=<pid>"),
        ("100 hits,  a[3]=0x5, v6.12, 0x1234", "100 hits,  a[3]=0x5, v6.12, 0x1234"),
    ],
)
def test_what_is_masked(line, same):
    assert masked(line) == same


def test_kernels_that_do_not_differ_are_one():
    said = {"6.1": "a\nb pid 1\n", "6.6": "a\nb pid 22\n", "6.12": "a\n", "7.3": "a\n"}
    first, other = alike(said)
    assert (first.kernels, other.kernels) == (["6.1", "6.6"], ["6.12", "7.3"])
    lines = differences(first, other)
    assert lines == [
        "--- 6.1,6.6",
        "+++ 6.12,7.3",
        "@@ -1,2 +1 @@",
        " a",
        "-b pid <pid>",
    ]
