# SPDX-License-Identifier: GPL-2.0-or-later
"""Guest code that does not come back is ended, and its task alone."""

import errno
import time

import pytest

pytestmark = [pytest.mark.guest, pytest.mark.alone]  # it goes by the clock

LIMIT = 0.5  # s of processor time; a quarter of it must do to kill a task
FOREVER = "ebfe"  # jmp .
COUNT = "48ff07ebfb"  # 1: incq (%rdi); jmp 1b
MASKED = "faebfe"  # cli; jmp .


@pytest.fixture
def task(guest):
    _ = guest.backtrace  # its import, where it is compiled first, takes half of LIMIT
    dog = guest.cpus.watchdog
    dog.limit, dog.rewind_at = LIMIT, 0
    return guest.host_tasks.of_process(1234, 1000, comm="looper", parent=1)


def text(guest, code):
    addr = guest.area.alloc_text(len(code))
    guest.text_writer.poke_text(addr, code)
    guest.text_writer.drop(addr, len(code))
    return addr


def polled_loop(guest, *, held):
    """1: mov $__cond_resched,%rax; call *%rax; jmp 1b; held: with preemption off"""
    target = guest.kallsyms.lookup_name("__cond_resched")[0].addr
    addr = guest.area.alloc_text(40)
    off = bytes.fromhex("65ff042514000000") if held else b""  # incl %gs:0x14
    call = off + b"\x48\x83\xec\x08" + b"\x48\xb8" + target.to_bytes(8, "little")
    guest.text_writer.poke_text(addr, call + b"\xff\xd0\xeb\xf2")
    guest.text_writer.drop(addr, 40)
    return addr


def log_of(guest):
    return [record.text.decode() for record in guest.log.records()]


@pytest.mark.parametrize("code", [FOREVER, COUNT, MASKED])
def test_a_loop_without_a_poll(guest, task, code):
    begin = time.process_time()
    loop = text(guest, bytes.fromhex(code))
    data = guest.area.alloc_data(4096)
    assert guest.syscalls.call_function(task, loop, data) == -errno.EFAULT
    assert time.process_time() - begin < 5
    assert task.gone
    log = log_of(guest)
    (said,) = [line for line in log if "soft lockup - CPU#" in line]
    assert said.startswith("watchdog: BUG: soft lockup - CPU#")
    assert said.endswith("s! [looper:1234]")
    assert "soft lockup: 0000 [#1] PREEMPT SMP NOPTI" in log
    assert not any("panic" in line for line in log)


def test_others_live_on(guest, task):
    loop = text(guest, bytes.fromhex(FOREVER))
    for pid in (1234, 1235, 1236):
        other = guest.host_tasks.of_process(pid, 0, comm="looper", parent=1)
        assert guest.syscalls.call_function(other, loop) == -errno.EFAULT
    last = guest.host_tasks.of_process(1237, 0, comm="cat", parent=1)
    assert guest.syscalls.call(last, "getppid") == 1
    assert guest.call(guest.kallsyms.lookup_name("__x64_sys_getuid")[0].addr, 0) == 0


def test_init_lives_on_too(guest, task):
    loop = text(guest, bytes.fromhex(FOREVER))
    assert guest.syscalls.call_function(None, loop) == -errno.EFAULT
    assert guest.syscalls.call(guest.requests.init(), "getpid") == 1


def test_a_loop_that_polls(guest, task):
    loop = polled_loop(guest, held=True)
    assert guest.syscalls.call_function(task, loop) == -errno.EFAULT
    assert any("soft lockup" in line for line in log_of(guest))
    other = guest.host_tasks.of_process(1235, 0, comm="cat", parent=1)
    assert guest.syscalls.call(other, "getppid") == 1


def test_short_runs_are_left_alone(guest, task):
    """However many: it is wound again in between."""
    end = time.process_time() + 3 * LIMIT
    while time.process_time() < end:
        assert guest.syscalls.call(task, "getppid") == 1
    assert not any("soft lockup" in line for line in log_of(guest))
