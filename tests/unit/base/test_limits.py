# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests kpfs.base.limits."""

import resource
import sys

import pytest

from kpfs.base import limits
from kpfs.base.errors import SetupError

UNLIMITED = resource.RLIM_INFINITY


@pytest.fixture
def limited(monkeypatch):
    """Sets one soft limit; there are no others."""

    def limit(which, soft):
        monkeypatch.setattr(
            resource,
            "getrlimit",
            lambda asked: (soft if asked == which else UNLIMITED, UNLIMITED),
        )

    return limit


@pytest.mark.parametrize(
    ("which", "least", "said"),
    [
        (resource.RLIMIT_NOFILE, 128, "ulimit -n is 127: kpfs needs 128 or more here"),
        (resource.RLIMIT_AS, 3 << 30, "ulimit -v is 3145727: kpfs needs 3145728 or"),
        (resource.RLIMIT_DATA, 3 << 30, "ulimit -d is 3145727: kpfs needs 3145728 or"),
        (resource.RLIMIT_FSIZE, 4096, "ulimit -f is 3: kpfs needs 4 or more here"),
        (resource.RLIMIT_STACK, 512 << 10, "ulimit -s is 511: kpfs needs 512 or more"),
        (resource.RLIMIT_CPU, 60, "ulimit -t is 59: kpfs needs 60 or more here"),
    ],
)
def test_a_limit_that_is_too_low_is_named(limited, which, least, said):
    limited(which, least - 1)
    with pytest.raises(SetupError, match=said):
        limits.check(memory=1 << 30, seconds=60)
    limited(which, least)
    limits.check(memory=1 << 30, seconds=60)


def test_without_limits(limited, monkeypatch):
    limited(resource.RLIMIT_NOFILE, UNLIMITED)
    assert limits.limit("NOFILE") is None
    limits.check()
    monkeypatch.setitem(sys.modules, "resource", None)  # a Python without it
    assert limits.limit("NOFILE") is None
