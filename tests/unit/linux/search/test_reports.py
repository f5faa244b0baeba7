# SPDX-License-Identifier: GPL-2.0-or-later
"""Reports of the checks of modules, which a search groups by what they are about."""

from kpfs.linux.search.reports import of_checks

FORTH = "task 1 (a) has lock 0x10, taken at fwd+0x10 [m], and takes 0x20 at fwd+0x20"
BACK = "task 2 (b) has lock 0x20, taken at back+0x10 [m], and takes 0x10 at back+0x20"


def circle(place, *orders):
    return "\n    ".join([f"lock: 2 locks are taken in a circle at {place}", *orders])


def keys(*told):
    return [tuple(report.key) for report in of_checks(told)]


def test_a_circle_of_locks_is_one_wherever_it_is_closed():
    one, other, third = keys(
        circle("fwd+0x20", FORTH, BACK),
        circle("back+0x20", BACK, FORTH),
        circle("back+0x20", BACK, FORTH.replace("fwd", "more")),
    )
    assert one == other != third


def test_other_reports_are_known_by_their_first_lines():
    one, other = keys("memory: double free at x+0x1\n    by 1", "memory: leak at y+0x2")
    assert (one, other) == (
        ("memory: double free at x+0x1",),
        ("memory: leak at y+0x2",),
    )
    assert keys("4 more findings: only 256 are kept") == []
