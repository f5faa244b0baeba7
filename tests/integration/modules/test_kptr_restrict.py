# SPDX-License-Identifier: GPL-2.0-or-later
"""Addresses that users see with kernel.kptr_restrict, in files and by %pK.

Tests kpfs.backends.guest.files.addresses.
"""

import re

import pytest

from kpfs.base.ktypes import Caller
from tests.modbox import module

ROOT, USER = Caller(4000, 0, 0), Caller(4001, 1000, 1000)
FILES = {
    "/kallsyms": r"^(\w{16}) T vfs_read$",
    "/modules": r"^shown .* 0x(\w{16})",
    "/kprobes/list": r"^(\w{16})  k  vfs_read",
    "/kprobes/blacklist": r"^0x\w{16}-0x(\w{16})",
    "/module/shown/sections/.text": r"^0x(\w{16})",
}
SHOWN = r"""
static int show(char *buf, const struct kernel_param *kp)
{ return sprintf(buf, "%px %pK", show, show); }
static const struct kernel_param_ops ops = { .get = show };
module_param_cb(address, &ops, NULL, 0444);
INIT(return 0;) EXIT()
"""
SYSCTL = "/sys/kernel/kptr_restrict"


@pytest.fixture
def shown(box):
    """A box with a probe and a module, whose parameter shows an address by %pK."""
    box.insmod(module("shown", SHOWN))
    box.write("/tracing/kprobe_events", "p vfs_read\n")
    return box


def sees(box, caller):
    """Return in which files a caller sees addresses."""
    box.caller = caller
    return with_addresses({path: box.read(path) for path in FILES})


def with_addresses(texts):
    """Return the paths of the texts that have an address where FILES says."""
    found = {path: re.findall(FILES[path], texts[path], re.M)[0] for path in FILES}
    return {path for path, address in found.items() if int(address, 16)}


def test_files(shown):
    for value, root, user in ((0, FILES, FILES), (1, FILES, ()), (2, (), ())):
        shown.caller = ROOT
        shown.write(SYSCTL, f"{value}\n")
        assert [sees(shown, ROOT), sees(shown, USER)] == [set(root), set(user)], value


def test_format(shown):
    seen = []
    for value in range(3):
        shown.write(SYSCTL, f"{value}\n")
        address, by_k = shown.read("/module/shown/parameters/address").split()
        seen.append(by_k)
    assert seen[1:] == [address, 16 * "0"]
    assert re.fullmatch(r"0{8}\w{8}", seen[0])
    assert seen[0] != seen[2]


def test_opened_before(shown):
    """kallsyms and modules go by the value at the open, the others at the read."""
    opened = {path: shown.vfs.open(ROOT, path, 0) for path in FILES}
    shown.write(SYSCTL, "2\n")
    texts = {p: shown.vfs.read(ROOT, o, 65536, 0).decode() for p, o in opened.items()}
    assert with_addresses(texts) == {"/kallsyms", "/modules"}
    for one in opened.values():
        shown.vfs.release(one)
