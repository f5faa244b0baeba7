# SPDX-License-Identifier: GPL-2.0-or-later
"""A task that is busy in the kernel does not keep others from it."""

from __future__ import annotations

import copy
import subprocess
import threading
from collections.abc import Callable

import pytest

from kpfs.backends.guest import tree
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.backends.guest.vfs import Vfs
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from kpfs.guest.emu.run_length import RUN_BLOCKS
from tests.harness import TIMEOUT, until
from tests.modbox import Box, module


class LiveBox(Box):
    """A kernel whose time passes."""

    def __init__(self, nr_cpus: int = 2) -> None:
        super().__init__(nr_cpus)
        self.close()
        self.kernel = GuestKernel(nr_cpus=nr_cpus)
        self.vfs = Vfs(self.kernel, tree.build(self.kernel))
        _ = self.kernel.guest.backtrace
        self.kernel.background.start()

    def int_at(self, symbol: str) -> int:
        with self.kernel.lock:
            return super().int_at(symbol)

    def call_in(self, pid: int, symbol: str, *args: int) -> int:
        with self.kernel.lock:
            return super().call_in(pid, symbol, *args)

    def syscall(self, name: str, *args: int | str, pid: int = 777_000) -> int:
        with self.kernel.lock:
            return super().syscall(name, *args, pid=pid)


class Working(threading.Thread):
    """A thread of another process that makes a request."""

    def __init__(self, action: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.action = action
        self.result: object = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self.action()
        except KernelError as refused:
            self.result = refused

    def end(self) -> object:
        self.join(TIMEOUT)
        assert not self.is_alive()
        return self.result


@pytest.fixture(params=[1, 2], ids=["1 CPU", "2 CPUs"])
def box(request):
    box = LiveBox(request.param)
    yield box
    box.close()


@pytest.fixture
def two():
    box = LiveBox(2)
    yield box
    box.close()


@pytest.fixture
def other(request):
    """Return a box for another process, by which it makes requests."""
    name = "two" if "two" in request.fixturenames else "box"
    process = subprocess.Popen(["sleep", str(10 * TIMEOUT)])
    box = copy.copy(request.getfixturevalue(name))
    box.caller = Caller(process.pid, 0, 0)
    yield box
    process.kill()
    process.wait()


def files_answer(box):
    assert "stuck" not in box.read("/kprobes/list")
    assert "busy" in box.read("/modules")
    assert box.read("/kprobes/enabled") == "1\n"


THREAD = """
#include <linux/kthread.h>
static int turns;
static struct task_struct *thread;
static int runs(void *d)
{ while (!kthread_should_stop()) { turns++; POLL; } return 0; }
INIT(thread = kthread_run(runs, NULL, "busy"); return 0;)
EXIT(kthread_stop(thread);)
"""


POLLS_OF_LOOPS = ["cond_resched()", "barrier()"]


def interrupted(box, poll):
    """Skip the test where a loop without a poll is interrupted nowhere."""
    if poll == "barrier()" and not box.kernel.guest.cpus.counts:
        pytest.skip("this libunicorn does not count blocks")


@pytest.mark.parametrize("poll", POLLS_OF_LOOPS)
def test_a_busy_thread_of_the_kernel(box, poll):
    interrupted(box, poll)
    box.insmod(module("busy", THREAD.replace("POLL", poll)))
    before = box.int_at("turns")
    files_answer(box)
    until(lambda: box.int_at("turns") > before, "the thread stands")
    box.rmmod("busy")
    assert box.modules() == []
    assert not any("lockup" in line for line in box.log())


FLAG = """
static volatile int flag, waits;
TARGET long set(long to) { flag = to; return 0; }
TARGET long polls(long x)
{ waits = 1; while (!flag) POLL; return x; }
"""
RELAX = FLAG.replace("POLL", "cpu_relax()")
INIT = FLAG + "INIT(return polls(0);) EXIT()\n"
CALLED = RELAX + "INIT(return 0;) EXIT()\n"


@pytest.mark.parametrize("poll", ["cpu_relax()", "barrier()"])
def test_a_busy_init(box, other, poll):
    interrupted(box, poll)
    built = module("busy", INIT.replace("POLL", poll))
    loading = Working(lambda: other.insmod(built))
    until(lambda: "busy" in box.read("/modules"), "not loaded")
    until(lambda: box.int_at("waits") == 1, "nobody polls")
    files_answer(box)
    assert loading.is_alive()
    box.call_in(777_001, "set", 1)
    assert loading.end() is None
    box.rmmod("busy")


POLLS = (
    RELAX
    + """
static int off; module_param(off, int, 0);
PRE(pre, return current->pid == 777000 ? polls(0) : 0;)
static struct kprobe kp = { .symbol_name = "__x64_sys_getppid", .pre_handler = pre };
INIT(kp.offset = off; return register_kprobe(&kp);)
EXIT(unregister_kprobe(&kp);)
"""
)


@pytest.mark.parametrize("offset", [0, 5], ids=["ftrace", "int3"])
def test_a_handler_that_waits_for_another_process(two, other, offset):
    """A handler holds its CPU, but there is another one."""
    two.insmod(module("busy", POLLS), f"off={offset}")
    calling = Working(lambda: other.syscall("getppid"))
    until(lambda: two.int_at("waits") == 1, "nobody polls")
    files_answer(two)
    assert "HIT_ACTIVE" in two.read("/machine/probes")
    for pid in range(777_001, 777_009):  # new tasks, which belong to both CPUs
        assert two.syscall("getppid", pid=pid) == 1
    assert calling.is_alive()
    two.call_in(777_001, "set", 1)
    assert calling.end() == 1
    assert "HIT_ACTIVE" not in two.read("/machine/probes")
    two.rmmod("busy")


def test_a_handler_that_waits_for_too_long(two, other):
    """The watchdog kills its task; others are served in the meantime."""
    two.kernel.guest.cpus.watchdog.limit = 0.5
    two.insmod(module("busy", POLLS))
    calling = Working(lambda: other.syscall("getppid"))
    until(lambda: two.int_at("waits") == 1, "nobody polls")
    files_answer(two)
    assert calling.is_alive()
    assert calling.end() == -14
    assert any("BUG: soft lockup - CPU#" in line for line in two.log())
    assert two.syscall("getppid", pid=777_001) == 1
    two.rmmod("busy")


def test_a_task_makes_one_call_after_another(box):
    """Another thread's call of a task waits for the one that it is in."""
    box.insmod(module("busy", CALLED))
    first = Working(lambda: box.call_in(777_000, "polls", 7))
    until(lambda: box.int_at("waits") == 1, "nobody polls")
    second = Working(lambda: box.syscall("getpid", pid=777_000))
    files_answer(box)
    assert first.is_alive()
    assert second.is_alive()
    box.call_in(777_001, "set", 1)
    assert first.end() == 7
    assert second.end() == 777_000


@pytest.mark.parametrize("poll", ["cpu_relax()", "barrier()"])
def test_the_end_of_a_kernel_that_is_busy(box, other, poll):
    interrupted(box, poll)
    built = module("busy", INIT.replace("POLL", poll))
    loading = Working(lambda: other.insmod(built))
    until(lambda: "busy" in box.read("/modules"), "not loaded")
    box.kernel.stop()
    assert isinstance(loading.end(), KernelError)


TIMER = """
#include <linux/jiffies.h>
INIT(unsigned long end = jiffies + 3;
  while (time_before(READ_ONCE(jiffies), end)) barrier(); return 0;)
EXIT()
"""


def test_ticks_come_in_a_loop_without_a_poll(box):
    interrupted(box, "barrier()")
    box.insmod(module("ticks", TIMER))
    assert box.modules() == ["ticks"]


HIT = """
#include <linux/kthread.h>
static struct task_struct *threads[2];
static volatile int loops;
TARGET int target(int x) { return x + 1; }
PRE(pre, return 0;)
KRET(ret, return 0;)
static struct kprobe first = { .symbol_name = "target", .pre_handler = pre };
static struct kprobe inside =
{ .symbol_name = "target", .pre_handler = pre, .offset = 5 };
static struct kretprobe rp = { .kp.symbol_name = "target", .handler = ret };
static int runs(void *d)
{ for (int i = 1; i % 50 || !kthread_should_stop(); i++) {
    target(i); loops++; if (i % 50 == 0) cond_resched(); }
  return 0; }
INIT(register_kprobe(&first); register_kprobe(&inside); register_kretprobe(&rp);
  for (int i = 0; i < 2; i++) {
    threads[i] = kthread_create(runs, NULL, "busy%d", i);
    kthread_bind(threads[i], i); wake_up_process(threads[i]); }
  return 0;)
EXIT(for (int i = 0; i < 2; i++) kthread_stop(threads[i]);
  unregister_kretprobe(&rp); unregister_kprobe(&inside); unregister_kprobe(&first);)
"""


def test_turns_of_threads_that_seldom_poll():
    """Such turns end after so many blocks, always at the same place."""
    seen = []
    for _ in range(2):
        box = Box(2)
        interrupted(box, "barrier()")
        box.insmod(module("hit", HIT))
        sched, cpu = box.kernel.guest.sched, box.kernel.guest.cpus
        for number in (0, 1) * 8:
            before = cpu.blocks
            sched.turn(number)
            assert cpu.blocks - before < 6 * RUN_BLOCKS
        seen.append((cpu.blocks, box.int_at("loops"), box.read("/kprobes/list")))
        assert box.syscall("getppid") == 1
        box.rmmod("hit")
        box.close()
    assert seen[0] == seen[1]
