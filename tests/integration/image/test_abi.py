# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.abi and the struct layouts in Python say what kpfs/abi.h says."""

import os
import shutil
import subprocess

import pytest

from kpfs import abi
from kpfs.guest import machine
from kpfs.guest.kernel import hostop, klog, syscalls, tasks

INCLUDE = os.path.join(os.path.dirname(machine.__file__), "include")
SIZES = {
    "kpfs_request": syscalls._REQUEST,
    "kpfs_host_op": hostop._HOST_OP,
    "kpfs_log_record": klog._RECORD,
    "kpfs_log": klog._LOG,
    "kpfs_clone_args": syscalls._CLONE_ARGS,
    "kpfs_boot_params": machine._BOOT_PARAMS,
    "kpfs_guest_info": tasks._INFO,
}


@pytest.fixture(scope="module")
def header():
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")

    def run(source, *options):
        return subprocess.run(
            ["gcc", "-I", INCLUDE, "-x", "c", *options, "-"],
            input="#include <kpfs/abi.h>\n#include <stddef.h>\n" + source,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    return run


def test_constants(header):
    defined = dict(
        line.split()[1:3]
        for line in header("", "-E", "-dM").splitlines()
        if len(line.split()) == 3
    )
    for name, value in vars(abi).items():
        if not name.isupper():
            continue
        text = defined.get(name) or defined[f"KPFS_{name}"]
        assert int(text.removesuffix("UL"), 0) == value, name


def test_struct_sizes(header):
    checks = "".join(
        f'_Static_assert(sizeof(struct {name}) == {code.size}, "{name}");\n'
        for name, code in SIZES.items()
    )
    header(checks, "-fsyntax-only")


def test_offsets(header):
    offsets = {
        "kpfs_pcpu": {
            "current_task": machine._PCPU_CURRENT,
            "cpu_number": machine._PCPU_CPU,
            "preempt_count": machine._PCPU_PREEMPT,
            "need_resched": machine._PCPU_RESCHED,
            "credit": 0x1C,
            "next_deadline": 0x20,
        },
        "kpfs_request": {"ret": syscalls._RET_AT},
        "kpfs_guest_info": {
            field: 8 + 4 * index
            for index, field in enumerate(tasks.GuestInfo._fields[1:23])
        },
    }
    checks = "".join(
        f'_Static_assert(offsetof(struct {name}, {field}) == {at}, "{field}");\n'
        for name, fields in offsets.items()
        for field, at in fields.items()
    )
    header(checks, "-fsyntax-only")
