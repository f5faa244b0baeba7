# SPDX-License-Identifier: GPL-2.0-or-later
"""drgn over a kernel in the process, and over a dump of it.

This also tests kpfs.backends.guest.dumped and kpfs.api.drgn_program.
"""

import sys

import pytest

import kpfs
from kpfs.backends.guest.dumped import core
from tests import harness
from tests.modbox import module

drgn = pytest.importorskip("drgn", reason="drgn is missing (pip install 'kpfs[drgn]')")

BODY = """
struct mine { int number; const char *text; };
struct mine mine = { 5, "five" };
TARGET int twice(int n) { mine.number = 2 * n; return mine.number; }
INIT(return twice(4) < 0;) EXIT()
"""


@pytest.fixture
def k():
    with kpfs.Kernel() as kernel:
        yield kernel


def test_a_living_kernel(k):
    k.insmod(module("drgned", BODY, "-g"))
    task = k.task(1234, "walker")
    program = k.drgn()
    assert program["init_task"].comm.string_() == b"swapper/0"
    assert program["mine"].number.value_() == 8
    assert program["mine"].text.string_() == b"five"
    found = program.symbol("twice")
    assert program.read(found.address, 4) == k.read_memory(found.address, 4)
    from drgn.helpers.linux.list import list_for_each_entry

    tasks = list_for_each_entry(
        "struct task_struct", program["init_task"].tasks.address_of_(), "tasks"
    )
    assert {b"init", b"walker"} <= {each.comm.string_() for each in tasks}
    trace = k.stack_trace(program, 1234)
    assert [frame.name for frame in trace][-3:] == [
        *("schedule", "kpfs_host_task", "ret_from_fork")
    ]
    trace = k.stack_trace(program, 0)
    assert "do_idle" in [frame.name for frame in trace]
    with pytest.raises(LookupError, match="no registers of a task 99999"):
        k.stack_trace(program, 99999)
    with pytest.raises(drgn.FaultError):
        program.read(16, 4)
    del task


def test_a_probe_is_seen_where_it_stands(k):
    program = k.drgn()
    address = program.symbol("vfs_read").address + 5
    before = program.read(address, 1)
    probe = k.kprobe("vfs_read", lambda regs: None, lambda regs: None, offset=5)
    assert program.read(address, 1) == b"\xcc"
    probe.unregister()
    assert program.read(address, 1) == before


def test_a_dump(k, tmp_path):
    """A dump has the kernel as it was, and these programs read it."""
    k.insmod(module("drgned", BODY, "-g"))
    session = k._session
    with session.root.lock:
        dumped = core(session.root)
    k.rmmod("drgned")
    with open(tmp_path / "core", "wb") as file:
        file.write(dumped.read(0, dumped.size))
    (tmp_path / "vmlinux").write_bytes(session.root.guest.vmlinux(True))
    script = (
        'print(prog["init_task"].comm.string_());'
        "print(sorted(thread.tid for thread in prog.threads()))"
    )
    words = "--extra-symbols", tmp_path / "vmlinux", "-e", script
    tool = sys.executable, "-m", "drgn", "-q", "-c"
    done = harness.run(*tool, tmp_path / "core", *words)
    assert done.stdout == "b'swapper/0'\n[0, 1]\n", done.stderr


@pytest.mark.kernel
def test_a_linux_kernel_without_debug_information():
    with kpfs.Kernel(kernel=harness.KERNEL) as k:
        program = k.drgn()
        banner = program.symbol("linux_banner").address
        assert program.read(banner, 13) == b"Linux version"
        for ask in (lambda: program["init_task"], lambda: program.type("struct page")):
            with pytest.raises(LookupError, match=r"give drgn\(vmlinux=FILE\)"):
                ask()
