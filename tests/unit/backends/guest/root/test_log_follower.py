# SPDX-License-Identifier: GPL-2.0-or-later
"""log_follower: oopses are found among records, and none is told twice."""

import logging

from kpfs.backends.guest.root.log_follower import LogFollower, oopses
from kpfs.guest.running.klog import LogRecord

ALERT, WARN, INFO = 1, 4, 6
FAULT = (ALERT, b"BUG: kernel NULL pointer dereference"), (ALERT, b"#PF: read access")
OOPS = (WARN, b"Oops: 0000 [#1] PREEMPT SMP"), (WARN, b"RIP: 0010:f"), (WARN, b"end")
PROTECTION = (WARN, b"general protection fault: 0000 [#2] SMP"), (WARN, b"RIP: 0010:g")


def records(*lines):
    return [LogRecord(n, 0, 0, level, text) for n, (level, text) in enumerate(lines)]


class Ring:
    def __init__(self):
        self.lines = []

    def next_seq(self):
        return len(self.lines)

    def records(self, since):
        return records(*self.lines)[since:]


def test_oopses_begin_with_what_is_grave_before_the_header():
    said = records((INFO, b"hello"), *FAULT, *OOPS, *PROTECTION)
    assert oopses(said) == [
        "BUG: kernel NULL pointer dereference\n#PF: read access\n"
        "Oops: 0000 [#1] PREEMPT SMP\nRIP: 0010:f\nend",
        "general protection fault: 0000 [#2] SMP\nRIP: 0010:g",
    ]
    assert oopses(records((ALERT, b"beware"), (INFO, b"WARNING: [#x]"))) == []


def test_each_is_logged_once(caplog):
    ring = Ring()
    ring.lines += FAULT + OOPS  # before anybody looked
    follower = LogFollower(ring)
    with caplog.at_level(logging.INFO):
        follower.look()
        ring.lines += PROTECTION
        follower.look()
        follower.look()
    (text,) = caplog.messages
    assert text.startswith("the emulated kernel has oopsed:\ngeneral protection fault")
