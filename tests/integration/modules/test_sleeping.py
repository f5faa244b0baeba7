# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules whose init or exit sleeps: their loader waits, and nobody else does."""

import errno
import threading
import time

import pytest

from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.backends.guest.tree import build
from kpfs.backends.guest.vfs import Vfs
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from tests.harness import TIMEOUT, until
from tests.modbox import Box, module
from tests.there import code

SLOW = r"""
#include <linux/completion.h>
#include <linux/delay.h>
static int ms, end_ms, soft, never; module_param(ms, int, 0);
module_param(end_ms, int, 0); module_param(soft, int, 0);
module_param(never, int, 0);
static DECLARE_COMPLETION(done);
INIT(if (never) wait_for_completion(&done);
  if (soft) pr_info("left %lu\n", msleep_interruptible(ms)); else msleep(ms);
  return 0;)
EXIT(msleep(end_ms);)
"""


@pytest.fixture
def live():
    """A kernel on which time passes as on a mount."""
    box = Box()
    box.close()
    box.kernel = GuestKernel(nr_cpus=2)
    box.vfs = Vfs(box.kernel, build(box.kernel))
    box.kernel.background.start()
    yield box
    box.close()


class Writing(threading.Thread):
    """A write of another process, and what becomes of it."""

    def __init__(self, box, path, text, pid=777_005):
        super().__init__()
        self.box, self.path, self.text = box, path, text
        self.caller = Caller(pid, 0, 0)
        self.found = "nothing"
        self.seconds = 0.0
        self.start()

    def run(self):
        vfs, begin = self.box.vfs, time.monotonic()
        opened = vfs.open(self.caller, self.path, 1)

        def write():
            data = self.text.encode()
            vfs.write(self.caller, opened, data, 0)

        try:
            write()
            self.found = "done"
        except KernelError as exc:
            self.found = errno.errorcode[exc.errno]
        vfs.release(opened)
        self.seconds = time.monotonic() - begin

    def signal(self):
        """Send the process a signal as soon as it waits."""
        waiting = self.box.kernel.background._waiting
        until(lambda: waiting or not self.is_alive(), "it does not wait")
        (waiter,) = waiting
        assert waiter.ident == self.ident
        waiter.interrupt()

    def result(self):
        self.join(TIMEOUT)
        return self.found


def test_init_and_exit_that_sleep(live):
    """Longer than any call is waited for otherwise; the files answer meanwhile."""
    box = live
    made = module("slow", SLOW)
    for path, text, state in (
        ("/machine/insmod", f"{made} ms=1200 end_ms=1200", "Loading"),
        ("/machine/rmmod", "slow", "Unloading"),
    ):
        writing, seen = Writing(box, path, text), 0
        while writing.is_alive():
            seen += state in box.read("/modules")
            time.sleep(0.05)
        assert writing.result() == "done"
        assert 1.2 <= writing.seconds
        assert seen > 1
        assert box.modules() == (["slow"] if state == "Loading" else [])


def test_a_signal_ends_an_interruptible_sleep(live):
    """The module is loaded all the same, as init has returned 0."""
    writing = Writing(
        live, "/machine/insmod", f"{module('slow', SLOW)} ms=600000 soft=1"
    )
    writing.signal()
    assert writing.result() == "done"
    (said,) = [line for line in live.log() if line.startswith("left ")]
    assert 0 < int(said.split()[1]) <= 600_004  # what is left of a tick counts
    assert live.modules() == ["slow"]


def test_a_signal_ends_no_other_sleep(live):
    writing = Writing(live, "/machine/insmod", f"{module('slow', SLOW)} ms=2000")
    writing.signal()
    assert writing.result() == "done"
    assert writing.seconds >= 2


def test_a_reboot_ends_every_wait(live):
    writing = Writing(live, "/machine/insmod", f"{module('slow', SLOW)} never=1")
    writing.signal()
    time.sleep(0.2)
    assert writing.is_alive()
    with live.kernel.lock:
        live.kernel.retire()
    assert writing.result() == "ESHUTDOWN"


def test_others_load_modules_meanwhile(live):
    first = Writing(live, "/machine/insmod", f"{module('slow', SLOW)} never=1")
    until(lambda: live.modules() == ["slow"], "it is not being loaded")
    again = Writing(live, "/machine/insmod", f"{module('slow', SLOW)}", pid=777_006)
    assert again.result() == "EEXIST"
    other = Writing(live, "/machine/insmod", str(module("other", SLOW)), pid=777_007)
    assert other.result() == "done"
    assert first.is_alive()
    assert sorted(live.modules()) == ["other", "slow"]
    with live.kernel.lock:
        live.kernel.retire()
    assert first.result() == "ESHUTDOWN"


def test_virtual_time_passes_at_once(box):
    made = module("slow", SLOW)
    begin = time.monotonic()
    box.insmod(made, "ms=100000 end_ms=100000")
    box.rmmod("slow")
    assert time.monotonic() - begin < 100


PROBED = r"""
#include <linux/delay.h>
__attribute__((__noipa__)) long target(long x)
{ return (x ^ 0x12345678) + 77; }
PRE(pre, return 0;)
static struct kprobe kp = { .symbol_name = "target", .offset = 5, .pre_handler = pre };
INIT(int err = register_kprobe(&kp);
  pr_info("at first %02x\n", *(u8 *)kp.addr);
  for (int i = 0; i < 4; i++) msleep(200);
  pr_info("then %02x\n", *(u8 *)kp.addr);
  return err;)
EXIT(unregister_kprobe(&kp);)
"""


@pytest.mark.parametrize("machine", ["box", "live"])
def test_the_optimizer_goes_on_while_init_sleeps(request, machine):
    """The optimizer treats it as a kernel thread that sleeps."""
    box = request.getfixturevalue(machine)
    box.insmod(module("probed", PROBED))
    said = [line for line in box.log() if line.startswith(("at first", "then"))]
    assert said == ["at first cc", "then e9"]
    assert any("[OPTIMIZED]" in line for line in box.list())
    box.rmmod("probed")


def test_not_for_the_guest_itself(box):
    """Nobody could wait for a write that guest code makes in its own name."""
    guest = box.kernel.guest
    task = guest.host_tasks.of_process(777_000, 0, "caller", 1)
    fd = guest.syscalls.call(task, "openat", -100, b"/machine/rmmod", 1, 0)
    assert fd >= 0
    assert guest.syscalls.call(task, "write", fd, b"slow", 4) == -errno.EINVAL
    assert code(box.rmmod, "slow") == "ENOENT"
