# SPDX-License-Identifier: GPL-2.0-or-later
"""The rule by which calls are made, whatever the kernel."""

import threading

from kpfs.base.skip_policy import EVERY, NONE, SkipPolicy


class Nobody:
    """Implements Watch for a kernel in which nothing watches."""

    seen = NONE

    def update(self):
        return NONE


def test_all_calls_are_made_for_a_debugger():
    policy = SkipPolicy(Nobody(), threading.Lock())
    assert policy.may_skip(3)
    assert not policy.must_make(3)
    policy.see_all(True)
    assert policy.seen is EVERY
    assert not policy.may_skip(3)
    assert policy.must_make(3)
    assert policy.can_be_seen([3])
    policy.see_all(False)
    assert policy.may_skip(3)
    assert not policy.can_be_seen([3])
