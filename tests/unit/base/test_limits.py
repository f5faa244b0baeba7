# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests kpfs.base.limits."""

import errno
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


FULL = {
    "/proc/self/status": "VmSize: 900000 kB\nState: R (running)\nVmData: 800000 kB",
    "/proc/meminfo": "MemAvailable: 51200 kB\nCommitLimit: 90000 kB\n"
    "Committed_AS: 5 kB\n",
    "/proc/sys/vm/overcommit_memory": "0\n",
    "/proc/sys/vm/max_map_count": "65530\n",
    "/proc/self/maps": "",
}
NO_MEMORY = OSError(errno.ENOMEM, "")


@pytest.mark.parametrize(
    ("which", "files", "said"),
    [
        (resource.RLIMIT_AS, {}, "no room for 256 MiB more: ulimit -v is 1048576, "),
        (resource.RLIMIT_DATA, {}, "no room for 256 MiB more: ulimit -d is 1048576, "),
        (None, {"/proc/sys/vm/overcommit_memory": "2"}, "which leaves 87 MiB"),
        (None, {"/proc/self/maps": "\n" * 65529}, "max_map_count is 65530, and this"),
        (None, {}, "no room for 256 MiB more: 50 MiB are left on this machine"),
    ],
)
def test_a_mapping_that_is_refused(limited, monkeypatch, which, files, said):
    limited(which, 1 << 30)
    monkeypatch.setattr(limits, "_read", lambda path: {**FULL, **files}[path])
    assert said in str(limits.no_room(256 << 20, NO_MEMORY))


def test_a_sandbox_that_forbids_code(limited):
    refused = limits.no_room(256 << 20, OSError(errno.EACCES, ""))
    assert "MemoryDenyWriteExecute" in str(refused)


def test_without_proc(limited, monkeypatch):
    limited(None, 0)
    read = limits._read
    monkeypatch.setattr(limits, "_read", lambda path: read(f"/nowhere{path}"))
    assert "0 MiB are left" in str(limits.no_room(1 << 20, NO_MEMORY))
