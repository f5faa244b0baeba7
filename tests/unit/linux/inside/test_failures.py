# SPDX-License-Identifier: GPL-2.0-or-later
"""How failures are told; tests/e2e/test_matrix.py has them happen."""

from unittest.mock import Mock

import pytest

from kpfs.linux.inside import failures
from kpfs.linux.inside.failures import FailedCall, Failures

LOG = """<6>[    1.000000] random: crng init done
<6>[    2.000000] python3[86]: segfault at 0 ip 1 sp 2 error 4 in libc.so.6[3+4]
"""
ERRORS = """[    3.1] trace_kprobe: error: Bad probe name
  Command: p:1 vfs_read
             ^
[    3.2] trace_kprobe: error: Invalid probed address or symbol
  Command: p:x vfs_reed
               ^
"""


@pytest.fixture
def told(monkeypatch):
    def tell(*calls, log="", errors=""):
        before = "<6>[    0.500000] an error of before\n"
        monkeypatch.setattr(failures, "read_text", lambda *_: errors)
        one = object.__new__(Failures)
        one._logged, one.calls = before, list(calls)
        return one.told(Mock(), before + log)

    return tell


def test_nothing_is_known(told):
    assert told() == []


def test_the_verifiers_words_come_first(told):
    first = FailedCall("bpf(A): EINVAL", ())
    load = FailedCall("bpf(B): EACCES", ("R0 !read_ok",))
    assert told(first, load, first, log=LOG, errors=ERRORS) == [
        "bpf(B): EACCES: R0 !read_ok",
        "trace_kprobe: error: Invalid probed address or symbol: p:x vfs_reed",
        "python3[86]: segfault at 0 ip 1 sp 2 error 4 in libc.so.6[3+4]",
        "bpf(A): EINVAL",
    ]


def test_what_co_re_did_not_find(told):
    log = "0: (85) call unknown#195896080", "invalid func unknown#195896080"
    (reason,) = told(FailedCall("bpf(B): EINVAL", log))
    assert reason.endswith("is not in this kernel's BTF (CO-RE)")
