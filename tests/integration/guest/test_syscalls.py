# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.guest.running.syscalls: calls, host operations, tasks of host processes.

This also tests what it stands on and who calls it: kpfs.guest.running.requests,
kpfs.guest.running.wakeups, kpfs.guest.running.host_tasks, kpfs.guest.running.hosttask,
kpfs.guest.running.hostop and kpfs.guest.emu.idle_turn.
"""

import errno
import os
import struct
import subprocess
import sys
import threading

import pytest

from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.guest.running.clock import QUIET_STEP
from kpfs.guest.running.requests import BLOCKED
from tests.guest import tasks_of
from tests.integration.conftest import text
from tests.there import there

pytestmark = pytest.mark.guest

HOST_OP = abi.KpfsHostOp.STRUCT
ADD_ARGS = "488d0437" + "c3"  # lea (%rdi,%rsi),%rax; ret
NAP = struct.pack("<2Q", 0, 1000)


@pytest.fixture
def task(guest):
    return guest.host_tasks.of_process(1234, 1000, comm="cat", parent=1)


class HostCall:
    """Calls kpfs_host_op() as the task, as a file of the mount does."""

    def __init__(self, guest, task):
        self.guest, self.task = guest, task
        self.data = guest.area.alloc_data(8192)
        self.func = guest.kallsyms.lookup_name("kpfs_host_op")[0].addr
        guest.write(self.data + 0x100, b"kprobes/list\0")

    def __call__(self, handler, kind=abi.HOST_READ, count=0, contents=b""):
        page, name = self.data + 4096, self.data + 0x100
        op = HOST_OP.pack(kind, 7, os.O_RDONLY, 0o400, count, 0, page, name, 0)
        self.guest.write(self.data, op)
        self.guest.write(page, contents)
        if handler is not None:
            self.guest.requests.host_ops[self.task.pid] = handler
        return self.guest.syscalls.call_function(self.task, self.func, self.data)

    def op(self):
        return HOST_OP.unpack(self.guest.read(self.data, HOST_OP.size))

    def page(self, size):
        return self.guest.read(self.data + 4096, size)


@pytest.fixture
def host_call(guest, task):
    return HostCall(guest, task)


def test_system_calls_by_name_and_number(guest, task):
    assert guest.syscalls.call(task, "getppid") == 1
    assert guest.syscalls.call(task, guest.syscalls.number("getppid")) == 1
    assert guest.syscalls.call(task, 9999) == -errno.ENOSYS
    with pytest.raises(KernelError, match="ENOSYS"):
        guest.syscalls.call(task, "getppidx")


def test_function_calls(guest, task):
    add = text(guest, ADD_ARGS)
    assert guest.call(add, 3, 4) == 7
    assert guest.call(add, 2**64 - 1, 0) == 2**64 - 1
    assert guest.syscalls.call_function(task, add, -5, 1) == -4
    with pytest.raises(KernelError, match="EINVAL"):
        guest.call(add, *range(7))


@pytest.mark.parametrize("in_c", [True, False])
def test_turn_that_a_request_begins(guest, task, host_call, in_c, monkeypatch):
    """Nothing tells whether C or Python has begun it."""
    sched, states = guest.sched, []

    def begin(*arguments):
        states.append(began(*arguments) if in_c else abi.IDLE_TURN_REFUSED)
        return states[-1]

    began = sched.begin
    guest.call(text(guest, ADD_ARGS), 1, 1)
    monkeypatch.setattr(sched, "begin", begin)
    before = guest.clock.now(), sched.turns
    assert guest.syscalls.call(task, "getppid") == 1
    assert host_call(lambda _op: 42) == 42
    # calls in the middle of the operation
    assert host_call(lambda _op: guest.syscalls.call(task, "getppid")) == 1
    guest.cpu_states.interrupt(1 - sched._cpu.active, sched.timer_entry)
    assert host_call(lambda _op: 43) == 43  # behind which the other CPU is next
    # it does not end where the CPU idles
    assert guest.syscalls.call(task, "nanosleep", NAP, 0) == 0
    guest.cpu_states.interrupt(sched._cpu.active, sched.timer_entry)
    assert guest.syscalls.call(task, "getppid") == 1
    after = guest.clock.now(), sched.turns
    assert [b - a for a, b in zip(before, after, strict=True)] == [63_600, 13]
    assert (sched._next, guest.cpu_states.all_idle()) == (0, True)
    done, begun = abi.IDLE_TURN_DONE, abi.IDLE_TURN_BEGUN
    op, refused = abi.IDLE_TURN_HOST_OP, abi.IDLE_TURN_REFUSED
    in_order = [done, done, op, op, begun, refused]
    assert states == (in_order if in_c else [refused] * len(in_order))


def test_a_turn_that_leaves_nothing_to_be_done(guest, task, host_call):
    sched = guest.sched

    def is_still():
        guest.syscalls.call(task, "getppid")
        return sched.still

    assert not is_still()  # nobody has looked yet
    sched.note_words()
    assert is_still()
    guest.log.printk(6, "something")
    assert not is_still()
    sched.note_words()
    assert is_still()
    deadline = guest.cpu_states.pcpu[1] + abi.KpfsPcpu.next_deadline
    guest.memory.ram[deadline : deadline + 8] = (1 << 62).to_bytes(8, "little")
    sched.note_words()
    assert not is_still()  # the guest has no timer, and says so
    sched.note_words()
    assert is_still()
    assert host_call(lambda _op: 1) == 1
    assert sched.still
    assert host_call(lambda _op: guest.clock.call_later(0, int) or 1) == 1
    assert not sched.still
    add = text(guest, ADD_ARGS)
    guest.cpu_states.interrupt(1, sched.timer_entry)  # another CPU does not idle
    assert guest.call(add, 1, 2) == 3
    assert not sched.still


def test_strings_go_to_user_memory(guest, task):
    first_byte = text(guest, "480fb607c3")  # movzbq (%rdi),%rax
    request = guest.syscalls.request
    assert request(task, abi.REQ_CALL, 0, (first_byte, "A string")) == ord("A")
    assert request(task, abi.REQ_CALL, 0, (first_byte, b"\xff")) == 0xFF
    big = b"B" * 100_000
    assert request(task, abi.REQ_CALL, 0, (first_byte, big)) == ord("B")
    assert guest.read(task.buffer, 4) == b"BBBB"
    with pytest.raises(KernelError, match="E2BIG"):
        request(task, abi.REQ_CALL, 0, (first_byte, b"x" * 9000, b"x" * 9000))


def test_sleeping_on_a_timer_ends(guest, task):
    before = guest.clock.now()
    spec = struct.pack("<2Q", 5, 0)
    assert guest.syscalls.call(task, "nanosleep", spec, 0) == 0
    assert guest.clock.now() - before >= 5_000_000_000


KTIME_MAX = (1 << 63) - 1
TOO_LONG = ((1 << 63) // 10**9 - 2, (1 << 63) // 10**9 + 1, 1 << 62, (1 << 63) - 1)


@pytest.mark.parametrize("seconds", TOO_LONG)
def test_a_sleep_without_end_does_not_wrap_into_the_past(guest, task, seconds):
    """Other timers expire in spite of its own, which ends with time itself."""
    endless = struct.pack("<2Q", seconds, 999_999_999)
    other = guest.host_tasks.of_process(1235, 1000, comm="cat", parent=1)
    assert guest.syscalls.call(task, "nanosleep", endless, 0) == BLOCKED
    for _ in range(3):  # to the end of the sleep, if that is anywhere
        guest.tick()
        assert guest.clock.now() <= KTIME_MAX
        turns = guest.stats()["turns"]
        guest.syscalls.call(other, "nanosleep", struct.pack("<2Q", 5, 0), 0)
        assert guest.stats()["turns"] - turns < 100
        if other.blocked:
            other = guest.host_tasks.of_process(1235, 1000, comm="cat", parent=1)


# ---- host operations
def test_host_operation_sees_the_request_and_answers(guest, task, host_call):
    seen = []

    def handler(op):
        seen.append((op.pid, op.kind, op.cookie, op.count, op.path))
        op.cookie = 99
        op.pos = 5
        return b"hello"

    assert host_call(handler, count=100) == 5
    assert seen == [(1234, abi.HOST_READ, 7, 100, "kprobes/list")]
    assert host_call.page(6) == b"hello\0"
    assert host_call.op()[1] == 99
    assert host_call.op()[5] == 5


def test_host_operation_reads_what_is_written(host_call):
    written = []

    def handler(op):
        written.append(op.data())
        return op.count

    ret = host_call(handler, kind=abi.HOST_WRITE, count=6, contents=b"p:a foo")
    assert (ret, written) == (6, [b"p:a fo"])


def test_long_answers_are_cut_at_the_page(host_call):
    assert host_call(lambda op: b"x" * 10_000, count=10_000) == 10_000
    assert host_call.page(4096) == b"x" * 4096


def test_a_refusal_is_the_calls_errno(guest, host_call):
    def refuse(op):
        raise KernelError(errno.EILSEQ, "not there")

    assert host_call(refuse) == -errno.EILSEQ
    assert guest.requests.refusal.why == "not there"


def test_a_bug_comes_out_once_the_call_is_over(guest, task, host_call):
    def fail(op):
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        host_call(fail)
    assert guest.syscalls.call(task, "getppid") == 1


def test_nothing_answers_without_a_handler(guest, task, host_call):
    assert host_call(None) == -errno.EIO


def test_calls_in_the_middle_of_a_host_operation(guest, task, host_call):
    add = text(guest, ADD_ARGS)
    results = []

    def handler(op):
        results.append(guest.call(add, 1, 2))
        results.append(guest.syscalls.call(task, "getppid"))
        results.append(guest.call(add, guest.call(add, 1, 1), 1))
        return 42

    assert host_call(handler) == 42
    assert results == [3, 1, 3]


def test_host_operations_nest(guest, task, host_call):
    depth: list[int] = []

    def handler(op):
        depth.append(len(depth))
        if len(depth) == 3:
            return 1000
        return 1 + guest.call(
            guest.kallsyms.lookup_name("kpfs_host_op")[0].addr, host_call.inner
        )

    host_call.inner = guest.area.alloc_data(4096)
    guest.write(host_call.inner, HOST_OP.pack(abi.HOST_READ, 0, 0, 0, 0, 0, 0, 0, 0))
    assert host_call(handler) == 1002


def test_a_process_is_forked_in_the_middle_of_a_host_operation(guest, host_call):
    forked = []

    def handler(op):
        forked.append(guest.host_tasks.of_process(77, 5, comm="new", parent=1).pid)
        return 0

    assert host_call(handler) == 0
    assert forked == [77]
    task = guest.host_tasks.of_process(77, 5, comm="new")
    assert guest.syscalls.call(task, "getppid") == 1234  # the one that stood there


HOURS = struct.pack("<2Q", 2 * 3600, 0)  # longer than a call may sleep


def wake_sleepers(guest):
    """Advance the clock by HOURS."""
    guest.clock.advance(guest.clock.now() + 3 * 3600 * 10**9)
    guest.tick()


def test_a_call_that_sleeps_too_long_is_abandoned(guest, task):
    assert guest.syscalls.call(task, "nanosleep", HOURS, 0) == BLOCKED
    again = guest.host_tasks.of_process(1234, 1000, comm="cat", parent=1)
    assert again is not task
    assert task.gone
    assert guest.syscalls.call(again, "getppid") == 1


def test_a_call_that_has_ended_meanwhile_is_not(guest, task):
    assert guest.syscalls.call(task, "nanosleep", HOURS, 0) == BLOCKED
    wake_sleepers(guest)
    assert guest.host_tasks.of_process(1234, 1000, comm="cat", parent=1) is task
    assert guest.syscalls.call(task, "getppid") == 1


def no_file(_op):
    return -errno.EIO


def test_calls_one_after_the_other(guest, task):
    calls = [("getppid", ()), ("openat", (-100, "/proc/none", 0)), ("getppid", ())]
    assert guest.syscalls.call_some(task, calls, no_file) == (2, -errno.ENOENT)
    calls[1] = "frobnicate", ()
    assert guest.syscalls.call_some(task, calls, no_file) == (1, 1)


def test_calls_one_after_the_other_each_take_their_time(guest, task):
    def took(calls):
        before = guest.clock.now()
        assert guest.syscalls.call_some(task, calls, no_file)[0] == len(calls)
        return guest.clock.now() - before

    assert took([("getppid", ())] * 11) - took([("getppid", ())]) == 10 * QUIET_STEP


def test_calls_after_one_that_sleeps_too_long_are_not_made(guest, task):
    calls = [("getppid", ()), ("nanosleep", (HOURS, 0)), ("setuid", (7,))]
    assert guest.syscalls.call_some(task, calls, no_file) == (2, BLOCKED)
    wake_sleepers(guest)
    assert guest.host_tasks.of_process(1234, 1000, comm="cat", parent=1) is task
    assert guest.syscalls.call(task, "getuid") == 1000


def test_each_of_many_calls_may_sleep_for_a_while(guest, task):
    nap = struct.pack("<qq", 3000, 0)
    calls = [("nanosleep", (nap, 0))] * 3
    assert guest.syscalls.call_some(task, calls, no_file) == (3, 0)


@pytest.mark.parametrize("ended", [False, True])
def test_a_child_of_a_process_that_left_a_call(guest, task, ended):
    assert guest.syscalls.call(task, "nanosleep", HOURS, 0) == BLOCKED
    if ended:
        wake_sleepers(guest)
    child = guest.host_tasks.of_process(1235, 1000, comm="cat", parent=1234)
    parent = 1234 if ended else 1
    assert guest.syscalls.call(child, "getppid") == parent


def test_a_signal_ends_a_process_between_two_calls(guest, task):
    """The killed process does not keep its CPU busy."""
    turns = guest.stats()["turns"]
    assert guest.syscalls.call(guest.requests.init(), "kill", 1234, 9) == 0
    assert task.gone
    assert guest.stats()["turns"] - turns < 10


@pytest.mark.parametrize("ended", [False, True])
def test_a_vanished_process_that_sleeps_is_reaped(guest, ended):
    with subprocess.Popen(["sleep", "60"]) as process:
        task = guest.host_tasks.of_process(process.pid, 0)
        assert guest.syscalls.call(task, "nanosleep", HOURS, 0) == BLOCKED
        process.kill()
    if ended:
        wake_sleepers(guest)
    assert guest.host_tasks.reap() == 1
    assert task.gone
    assert guest.host_tasks.reap() == 0


# ---- tasks
def test_tasks_carry_pid_uid_and_comm(guest, task):
    seen = [(t.pid, t.comm, t.uid) for t in tasks_of(guest) if t.pid in (1, 1234)]
    assert seen == [(1, "init", 0), (1234, "cat", 1000)]
    again = guest.host_tasks.of_process(1234, 7, comm="a-name-that-is-too-long")
    assert again is task
    assert (1234, "a-name-that-is-", 7) in [
        (t.pid, t.comm, t.uid) for t in tasks_of(guest)
    ]


def test_parent_is_the_known_one(guest, task):
    child = guest.host_tasks.of_process(1300, 1000, comm="sh", parent=1234)
    orphan = guest.host_tasks.of_process(1301, 1000, comm="sh", parent=999)
    assert guest.syscalls.call(child, "getppid") == 1234
    assert guest.syscalls.call(orphan, "getppid") == 1


def test_process_one_and_unknown_processes_are_init(guest):
    assert guest.host_tasks.of_process(1, 0).pid == 1
    assert guest.host_tasks.of_process(0, 0).pid == 1


def test_a_pid_that_the_guest_uses_itself_gets_another(guest):
    taken = next(t.pid for t in tasks_of(guest) if t.comm == "kthreadd")
    task = guest.host_tasks.of_process(taken, 3, comm="host", parent=1)
    assert task.pid != taken
    assert guest.host_tasks.of_process(taken, 3) is task
    assert guest.syscalls.call(task, "getppid") == 1
    guest.host_tasks.exit(task)
    assert guest.host_tasks.of_process(taken, 3, comm="host", parent=1) is not task


def test_exit_and_return(guest, task):
    before = len(tasks_of(guest))
    guest.host_tasks.exit(task)
    assert len(tasks_of(guest)) == before - 1
    with pytest.raises(KernelError, match="ESRCH"):
        guest.syscalls.call(task, "getppid")
    again = guest.host_tasks.of_process(1234, 0, comm="cat", parent=1)
    assert guest.syscalls.call(again, "getppid") == 1


def test_a_real_process_comes_and_goes(guest):
    code = "print('ready', flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert there(child.stdout).readline() == b"ready\n"
    try:
        parent = guest.host_tasks.of_process(os.getpid(), 0)
        task = guest.host_tasks.of_process(child.pid, 0)
        with open(f"/proc/{child.pid}/comm", encoding="ascii") as comm:
            assert task.comm == comm.read().strip()
        assert guest.syscalls.call(task, "getppid") == parent.pid
        assert guest.host_tasks.reap() == 0
    finally:
        child.communicate(b"\n")
    assert guest.host_tasks.reap() == 1
    assert child.pid not in [t.pid for t in tasks_of(guest)]


def test_comm_is_refreshed(guest):
    task = guest.host_tasks.of_process(os.getpid(), 0)
    before = task.comm
    with open("/proc/self/comm", "r+", encoding="ascii") as comm:
        try:
            comm.write("renamed")
            comm.flush()
            guest.host_tasks.of_process(os.getpid(), 0)
            assert guest.task_table.read(task.addr).comm == "renamed"
        finally:
            comm.seek(0)
            comm.write(before)


def test_many_processes_come_and_go(guest):
    for pid in range(100, 700):
        task = guest.host_tasks.of_process(pid, 0, comm="x", parent=1)
        assert guest.syscalls.call(task, "getppid") == 1
        if pid % 3:
            guest.host_tasks.exit(task)
    assert len(tasks_of(guest)) > 200


def test_an_oops_kills_the_task_and_the_kernel_lives_on(guest, task):
    start = guest.log.records()[-1].seq + 1
    assert guest.syscalls.call_function(task, 0) == -errno.EFAULT
    oops = b"\n".join(r.text for r in guest.log.records(start))
    assert b"NULL pointer dereference" in oops
    assert b"Comm: cat" in oops
    again = guest.host_tasks.of_process(1234, 0, comm="cat", parent=1)
    assert again is not task
    assert guest.syscalls.call(again, "getppid") == 1


def test_any_thread_may_run_the_guest(guest, task):
    results = []
    thread = threading.Thread(
        target=lambda: results.append(guest.syscalls.call(task, "getppid"))
    )
    thread.start()
    thread.join()
    assert results == [1]


def test_a_call_in_the_middle_does_not_take_the_outer_ones_files(guest, task):
    """Each host operation goes to the thread whose call has brought it."""
    seen = []
    path = b"/sys/kernel/debug/kprobes/list"

    def inner(op):
        seen.append(("inner", op.kind))
        return 0

    def outer(op):
        seen.append(("outer", op.kind))
        if op.kind == abi.HOST_WRITE and len(seen) == 2:
            fd = guest.syscalls.call(task, "openat", -100, path, 0, 0, host_op=inner)
            assert fd >= 0
        return op.count if op.kind == abi.HOST_WRITE else 0

    call = guest.syscalls.call
    fd = call(task, "openat", -100, path, os.O_WRONLY, 0, host_op=outer)
    vector = struct.pack("<4Q", task.buffer, 1, task.buffer, 1)
    assert call(task, "writev", fd, vector, 2, host_op=outer) == 2
    assert seen == [
        ("outer", abi.HOST_OPEN),
        ("outer", abi.HOST_WRITE),
        ("inner", abi.HOST_OPEN),
        ("outer", abi.HOST_WRITE),
    ]
