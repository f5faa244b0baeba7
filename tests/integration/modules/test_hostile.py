# SPDX-License-Identifier: GPL-2.0-or-later
"""The machine's answers to guest code that means harm.

scripts/campaign tries it with wild values; these are values that once led to a
traceback.
"""

import errno

import pytest

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from tests.modbox import build

MARK = b"JUNK BEGINS HERE"
CLI, RET = b"\xfa", b"\xc3"
IDLE = b"\xe7\x10\xeb\x00"  # out %eax, $HC_IDLE; jmp to the next


@pytest.fixture
def load(box):
    """Load the module; the errno that this is refused with."""

    def insmod(path, **words):
        box.caller = Caller(1 << 23, 0, 0)  # whose task may die of it
        parameters = [f"{name}={value}" for name, value in words.items()]
        try:
            box.insmod(path, *parameters)
        except KernelError as error:
            return errno.errorcode[error.errno]
        finally:
            box.caller = Caller((1 << 23) + 1, 0, 0)
        return ""

    return insmod


@pytest.mark.logs("kernel panic: bad hypercall 0x")
@pytest.mark.parametrize(
    ("port", "value"), [(0x100, 0), (0xFFFF, 1), (0x22, 100), (0x33, 100), (0x30, 8)]
)
def test_a_hypercall_that_there_is_not(box, load, port, value):
    """Neither with that number, nor of such a CPU: the guest is dead."""
    box.write("/tracing/kprobe_events", "p:e vfs_read\n")  # the engine is there
    box.read("/tracing/set_ftrace_filter")
    assert load(build("hostile"), what="out", a=port, b=value, c=4) == "ESHUTDOWN"
    assert any("Kernel panic" in line for line in box.log())
    assert load("trace_printk") == "ESHUTDOWN"


@pytest.mark.parametrize(("call", "state"), [(0x101, 0), (0x102, 0), (0x103, 0)])
def test_a_call_about_no_module(box, load, call, state):
    load(build("hostile"), what="control", a=call, b=0x1234, c=state)
    assert box.modules() == ["hostile"]


@pytest.mark.logs("kernel panic: an idle CPU does not take interrupts")
def test_a_cpu_that_halts_for_good(load, tmp_path):
    module = bytearray(build("hostile").read_bytes())
    at = module.index(MARK)
    code = CLI + IDLE + RET
    module[at : at + len(code)] = code
    path = tmp_path / "hostile.ko"
    path.write_bytes(bytes(module))
    assert load(path, what="junk") in ("ESHUTDOWN", "EINTR")
    assert load(path, what="junk") == "ESHUTDOWN"
