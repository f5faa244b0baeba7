# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.guest.machine: the booted guest as the engine sees it.

This also tests kpfs.guest.running.control, kpfs.guest.running.tasks,
kpfs.guest.loader.engine and kpfs.guest.loader.kernel_text.
"""

import errno
import struct

import pytest

from kpfs.base import abi
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.guest.machine import Guest
from kpfs.guest.running.requests import BLOCKED
from tests.guest import tasks_of
from tests.integration.conftest import boot, text

pytestmark = pytest.mark.guest

AT_FDCWD = -100
O_RDWR_CREAT = 0o102
REG_AX, REG_IP = 10, 16


@pytest.fixture
def task(guest):
    return guest.host_tasks.of_process(60, 0, comm="a", parent=1)


# ---- boot
def test_every_cpu_number_boots():
    for nr_cpus in (1, 16):
        guest = boot(nr_cpus=nr_cpus, quiet=True)
        assert guest.call(text(guest, "31c0c3")) == 0
        assert guest.next_deadline() is None
        guest.close()


@pytest.mark.parametrize("nr_cpus", [0, 17])
def test_other_cpu_numbers_are_refused(nr_cpus):
    with pytest.raises(KernelError, match="EINVAL"):
        Guest(nr_cpus)


@pytest.mark.parametrize(
    ("options", "there"),
    [
        ({}, True),
        ({"workload": False}, False),
        ({"quiet": True}, False),
        ({"quiet": True, "workload": True}, False),
    ],
)
def test_background_programs(options, there):
    guest = boot(**options)
    assert ("crond" in {task.comm for task in tasks_of(guest)}) == there
    guest.close()


def test_boot_says_so_in_the_log(shared_guest):
    records = shared_guest.log.records()
    assert records[0].text.startswith(b"Linux version 6.1")
    shared_guest.log.printk(4, "from Python")
    last = shared_guest.log.records()[-1]
    assert (last.level, last.text) == (4, b"from Python")


def test_two_guests_live_in_one_process(guest):
    other = boot(quiet=True)
    ours = guest.host_tasks.of_process(100, 0, comm="a", parent=1)
    theirs = other.host_tasks.of_process(100, 0, comm="b", parent=1)
    assert guest.syscalls.call(ours, "getppid") == 1
    other.close()
    assert theirs.comm == "b"
    assert guest.syscalls.call(ours, "getppid") == 1


# ---- what the image says
def test_symbols_are_in_order_and_lead_back(shared_guest):
    symbols = list(shared_guest.kallsyms)
    assert len([s for s in symbols if s.type in "tT"]) >= 400
    assert symbols == sorted(symbols, key=lambda s: s.addr)
    for sym in symbols:
        found = shared_guest.kallsyms.symbol_at(sym.addr)
        if sym.size:
            assert found.addr == sym.addr
        assert sym in shared_guest.kallsyms.lookup_name(sym.name)


def test_getppid_has_its_alias(shared_guest):
    addr = shared_guest.kallsyms.lookup_name("__x64_sys_getppid")[0].addr
    assert shared_guest.kallsyms.symbol_at(addr).name == "__do_sys_getppid"


def test_text_and_data(shared_guest):
    function = shared_guest.kallsyms.lookup_name("vfs_read")[0]
    data = shared_guest.kallsyms.lookup_name("init_task")[0]
    assert shared_guest.text.is_text(function.addr)
    assert not shared_guest.text.is_text(data.addr)
    assert not shared_guest.text.is_text(abi.MODULE_BASE)
    assert not shared_guest.text.in_init_text(function.addr)
    assert shared_guest.text.module_of(function.addr) == ""


def test_fentry_sites_are_nops(shared_guest):
    function = shared_guest.kallsyms.lookup_name("vfs_read")[0]
    site = shared_guest.text.ftrace_location(function.addr, function.addr)
    assert site == function.addr
    assert shared_guest.read(site, 5) == bytes.fromhex("0f1f440000")
    assert shared_guest.text.ftrace_location(site + 1, site + 4) is None


def test_blacklist_covers_entry_text(shared_guest):
    entries = {e.name: e for e in shared_guest.text.blacklist()}
    entry = entries["asm_exc_page_fault"]
    assert (
        entry.start == shared_guest.kallsyms.lookup_name("asm_exc_page_fault")[0].addr
    )
    assert "do_int3" in entries  # __kprobes
    assert "notify_die" in entries  # NOKPROBE_SYMBOL
    assert "vfs_read" not in entries


def test_user_copies_have_fixups(shared_guest):
    function = shared_guest.kallsyms.lookup_name("copy_user_generic")[0]
    end = function.addr + function.size
    assert shared_guest.text.has_exception_entry(function.addr, end)
    other = shared_guest.kallsyms.lookup_name("memcpy")[0]
    assert not shared_guest.text.has_exception_entry(
        other.addr, other.addr + other.size
    )


def test_bugs_are_ud2(shared_guest):
    sites = shared_guest.text.kernel.bugs
    assert sites
    for site in sites:
        assert shared_guest.read(site, 2) == b"\x0f\x0b"
        assert shared_guest.text.is_bug_site(site)
    assert not shared_guest.text.is_bug_site(0)


def test_static_calls_are_reserved(shared_guest):
    sites = shared_guest.text.kernel.reserved
    assert sites
    for site in sites:
        assert shared_guest.text.text_reserved(site, site)


# ---- memory
def test_engine_memory(guest):
    data = guest.area.alloc_data(100)
    code = guest.area.alloc_text(100)
    assert data >= 0xFFFF_FFFF_8000_0000
    last = guest.kallsyms.lookup_name("_etext")[0].addr
    first = guest.kallsyms.lookup_name("_stext")[0].addr
    assert code - first < 2**31
    assert abs(code - last) < 2**31
    view = guest.view(data, 8)
    view[:] = b"12345678"
    assert guest.read(data, 8) == b"12345678"
    guest.write_u64(data, 5)
    assert guest.read_u64(data) == 5
    with pytest.raises(MemoryFault):
        guest.read(0x1000, 1)


def test_guest_cannot_write_text_or_run_data(guest):
    task = guest.host_tasks.of_process(60, 0, comm="a", parent=1)
    store = text(guest, "c60700c3")  # movb $0,(%rdi); ret
    target = guest.kallsyms.lookup_name("vfs_read")[0].addr
    for bad in (target, store):
        assert guest.syscalls.call_function(task, store, bad) == -errno.EFAULT
        task = guest.host_tasks.of_process(60, 0, comm="a", parent=1)
    data = guest.area.alloc_data(10)
    guest.write(data, b"\xc3")
    assert guest.syscalls.call_function(task, data) == -errno.EFAULT
    guest.call(store, data)
    assert guest.read(data, 1) == b"\0"


def test_runtime_image_is_linked_into_the_module_area(guest):
    symbols = guest.runtime_image.symbols()
    assert guest.runtime_image.symbols() == symbols
    assert symbols["kp_config"] >= abi.MODULE_BASE
    config = guest.runtime_image.config
    assert config.task_pid == guest.task_table.info.task_pid
    guest.write(symbols["kp_config"], struct.pack("<8I", *config[:8]))


# ---- traps
def test_breakpoint_handler(guest):
    add = text(guest, "cc488d0437c3")  # int3; lea (%rdi,%rsi),%rax; ret
    seen = []

    def handler(ip):
        if ip != add + 1:
            return None
        seen.append((guest.current().pid, guest.read_regs()[REG_IP], guest.cpu()))
        return ip

    guest.traps.on_breakpoint(handler)
    assert guest.call(add, 1, 2) == 3
    assert guest.call(add, 3, 4) == 7
    assert [(pid, ip) for pid, ip, _cpu in seen] == [(1, add + 1)] * 2


def test_fault_handler_comes_before_the_fixups(guest):
    load = text(guest, "488b07c3")  # mov (%rdi),%rax; ret
    seen = []

    def handler(trapnr, ip, addr):
        seen.append((trapnr, ip, addr))
        if ip != load:
            return None
        guest.write_reg(REG_AX, 77)
        return ip + 3

    guest.traps.on_fault(handler)
    assert guest.call(load, 0x123) == 77
    copy = guest.kallsyms.lookup_name("copy_user_generic")[0].addr
    buffer = guest.host_tasks.of_process(1, 0).buffer
    assert guest.call(copy, buffer, 0x5000, 16) == 16
    assert seen[0] == (14, load, 0x123)
    assert (seen[1][0], seen[1][2]) == (14, 0x5000)


def test_engine_hypercalls(guest):
    code = text(guest, "b807000000e720c3")  # mov $7,%eax; out %eax,$0x20; ret
    seen: list[int] = []
    guest.traps.on_hypercall(0x20, seen.append)
    guest.call(code)
    assert seen == [7]
    with pytest.raises(ValueError, match="machine's own"):
        guest.traps.on_hypercall(abi.HC_IDLE, seen.append)


def test_an_exception_in_a_handler_comes_out_and_the_guest_goes_on(guest, task):

    def fail(ip):
        raise ZeroDivisionError

    guest.traps.on_breakpoint(fail)
    with pytest.raises(ZeroDivisionError):
        guest.syscalls.call_function(task, text(guest, "ccc3"))
    guest.traps.on_breakpoint(lambda ip: ip)
    assert guest.call(text(guest, "31c0c3")) == 0


# ---- files, blocking, time
def test_files_in_ramfs(guest, task):
    call = guest.syscalls.call
    fd = call(task, "openat", AT_FDCWD, "/tmp/file", O_RDWR_CREAT, 0o644)
    assert fd >= 0
    assert call(task, "write", fd, b"contents", 8) == 8
    assert call(task, "lseek", fd, 0, 0) == 0
    assert call(task, "read", fd, task.buffer, 100) == 8
    assert guest.read(task.buffer, 8) == b"contents"
    assert call(task, "read", fd, 0x1000, 100) in (0, -errno.EFAULT)
    assert call(task, "write", fd, 0x1000, 5) == -errno.EFAULT
    assert call(task, "close", fd) == 0
    assert call(task, "openat", AT_FDCWD, "/nowhere", 0, 0) == -errno.ENOENT
    assert call(task, "stat", "/tmp/file", task.buffer) == 0


def test_a_call_that_sleeps_for_ever_is_given_up(guest, task):
    call = guest.syscalls.call
    assert call(task, "pipe", task.buffer) == 0
    (reader,) = struct.unpack("<i", guest.read(task.buffer, 4))
    assert call(task, "read", reader, task.buffer, 10) == BLOCKED
    with pytest.raises(KernelError, match="EBUSY"):
        call(task, "getppid")
    again = guest.host_tasks.of_process(60, 0, comm="a", parent=1)
    assert again is not task
    assert again.pid == 60
    assert call(again, "getppid") == 1


def test_functions_are_run_later(guest):
    ran = []
    guest.clock.call_later(10_000_000, lambda: ran.append(guest.clock.now()))
    assert guest.next_deadline() == guest.clock.now() + 10_000_000
    deadline = guest.next_deadline()
    guest.tick()
    assert ran == [deadline]
    assert guest.next_deadline() is None


def test_functions_wait_for_a_quiescent_state(guest):
    ran = []
    guest.quiescence.call_after(lambda: ran.append(1))
    assert ran == []
    assert guest.next_deadline() == guest.clock.now()
    guest.tick()
    assert ran == [1]
    assert guest.next_deadline() is None


def test_no_quiescent_state_within_a_call(guest):
    ran = []
    code = text(guest, "ccc3")

    def handler(ip):
        guest.quiescence.call_after(lambda: ran.append(guest.next_deadline()))
        return ip

    guest.traps.on_breakpoint(handler)
    guest.call(code)
    assert len(ran) == 1


def test_the_same_operations_give_the_same_run():
    def history():
        guest = boot(quiet=True)
        seen = []

        def on_breakpoint(ip):
            seen.append((guest.read_regs(), guest.cpu(), guest.clock.now()))
            return ip

        guest.traps.on_breakpoint(on_breakpoint)
        site = text(guest, "ccc3")
        for pid in (50, 60, 70):
            task = guest.host_tasks.of_process(pid, 0, comm="a", parent=1)
            guest.syscalls.call(task, "openat", AT_FDCWD, "/tmp/x", O_RDWR_CREAT, 0o644)
            guest.syscalls.call_function(task, site, pid)
            guest.syscalls.call(task, "nanosleep", struct.pack("<2Q", 1, pid), 0)
            guest.tick()
        log = [tuple(r) for r in guest.log.records()]
        result = seen, log, guest.stats(), tasks_of(guest)
        guest.close()
        return result

    assert history() == history()


def test_live_time_passes(shared_guest):
    guest = boot()
    first = guest.clock.now()
    task = guest.host_tasks.of_process(60, 0, comm="a", parent=1)
    assert (
        guest.syscalls.call(task, "nanosleep", struct.pack("<2Q", 0, 2_000_000), 0) == 0
    )
    assert guest.clock.now() - first >= 2_000_000
    for _ in range(20):
        guest.tick()
    guest.close()
