# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.engine.optimizer: when the tag appears, and when the text changes.

Numbers are those of recorded cases, which show tags; here is what text has meanwhile.
"""

import pytest

from kpfs.engine.arm import arm_all_kprobes, disarm_all_kprobes
from kpfs.engine.kprobe import Kprobe, KprobeFlag, kprobe_ftrace
from kpfs.engine.optimizer import OPTIMIZE_DELAY, set_kprobes_optimization
from kpfs.engine.register import (
    disable_kprobe,
    enable_kprobe,
    kprobes_module_callback,
    register_kprobe,
    show_entries,
    unregister_kprobe,
)
from kpfs.engine.state import ModuleState, get_kprobe
from tests.fake import ENTRY_NOP, PUSH, FakeMachine, new_state

BREAKPOINT, JUMP, ORIGINAL = 0xCC, 0xE9, 0x50


class Session:
    """Does what the scripts of the cases do: events that are switched on and off.

    Each operation returns what the list of probes shows then.
    """

    def __init__(self, **config):
        self.machine = FakeMachine()
        for name in ("vfs_read", "vfs_write"):
            self.machine.add_function(name, ENTRY_NOP + PUSH * 27)
        self.st = new_state(self.machine, **config)
        self.probes = {}

    def add(self, name, symbol, offset=0, flags=KprobeFlag.DISABLED, **kw):
        p = Kprobe(symbol_name=symbol, offset=offset, flags=flags, **kw)
        register_kprobe(self.st, p)
        self.probes[name] = p
        return self.lst()

    def on(self, *names):
        for name in names:
            enable_kprobe(self.st, self.probes[name])
        return self.lst()

    def off(self, *names):
        for name in names:
            disable_kprobe(self.st, self.probes[name])
        return self.lst()

    def settle(self, name, *args, **kw):
        """Add an event, switch it on, and wait until it is a jump if it can be one."""
        self.add(name, *args, **kw)
        self.on(name)
        return self.sleep()

    def remove(self, name):
        unregister_kprobe(self.st, self.probes.pop(name))
        return self.lst()

    def enabled(self, value):
        (arm_all_kprobes if value else disarm_all_kprobes)(self.st)
        return self.lst()

    def sysctl(self, value):
        set_kprobes_optimization(self.st, bool(value))
        return self.lst()

    def sleep(self):
        self.machine.settle()
        return self.lst()

    def tags(self, name):
        for p, entry in show_entries(self.st):
            if p is self.probes[name]:
                disabled = p.flags & (KprobeFlag.DISABLED | KprobeFlag.GONE)
                disabled = disabled == KprobeFlag.DISABLED
                optimized = KprobeFlag.OPTIMIZED & entry.flags
                return "D" * disabled + "O" * bool(optimized)
        raise AssertionError(f"{name} is not listed")

    def lst(self):
        return {name: self.tags(name) for name in self.probes}

    def byte(self, name):
        return self.machine.read(self.probes[name].addr, 1)[0]


@pytest.fixture
def s():
    return Session()


def test_029_tag_first_text_later(s):
    assert s.add("e", "vfs_read", 5) == {"e": "D"}
    assert (s.on("e"), s.byte("e")) == ({"e": "O"}, BREAKPOINT)
    s.machine.clock.advance(OPTIMIZE_DELAY - 1)
    s.machine.quiescence.quiesce()
    assert s.byte("e") == BREAKPOINT
    s.machine.clock.advance(1)
    assert s.byte("e") == BREAKPOINT  # a task may be inside the bytes
    s.machine.quiescence.quiesce()
    assert (s.lst(), s.byte("e")) == ({"e": "O"}, JUMP)
    assert (s.off("e"), s.byte("e")) == ({"e": "DO"}, JUMP)
    s.machine.clock.advance(OPTIMIZE_DELAY)
    assert (s.lst(), s.byte("e")) == ({"e": "D"}, ORIGINAL)
    assert s.machine.patched() == []


def test_034_enabled(s):
    s.settle("e", "vfs_read", 5)
    assert (s.enabled(0), s.machine.patched()) == ({"e": ""}, [])
    assert (s.enabled(1), s.byte("e")) == ({"e": "O"}, BREAKPOINT)
    s.sleep()
    assert s.byte("e") == JUMP


def test_035_sysctl(s):
    s.add("e", "vfs_read", 5)
    s.add("off", "vfs_write", 5)
    s.on("e")
    s.sleep()
    assert (s.sysctl(0), s.byte("e")) == ({"e": "", "off": "D"}, BREAKPOINT)
    assert (s.sysctl(1), s.byte("e")) == ({"e": "O", "off": "D"}, BREAKPOINT)
    s.sleep()
    assert (s.byte("e"), s.byte("off")) == (JUMP, ORIGINAL)


def test_sysctl_logs_only_a_change(s):
    s.machine.log.lines.clear()
    for value in (1, 0, 0, 1, 1):
        s.sysctl(value)
    assert [text for _, text in s.machine.log.lines] == [
        "kprobes: kprobe jump-optimization is disabled. "
        "All kprobes are based on software breakpoint.",
        "kprobes: kprobe jump-optimization is enabled. "
        "All kprobes are optimized if possible.",
    ]


def test_off_and_on_within_the_delay_keeps_the_tag(s):
    s.settle("e", "vfs_read", 5)
    s.off("e")
    assert s.on("e") == {"e": "O"}
    assert s.sleep() == {"e": "O"}
    # the kernel, too, puts its breakpoint over the jump; a hit goes on in the buffer
    assert s.byte("e") == BREAKPOINT
    s.off("e")
    s.sleep()
    assert s.machine.patched() == []


def test_on_and_off_within_the_delay_leaves_the_queue_at_once(s):
    s.add("e", "vfs_read", 5)
    s.on("e")
    assert (s.off("e"), s.byte("e")) == ({"e": "D"}, ORIGINAL)
    s.sleep()
    assert ("optimize", s.probes["e"].addr) not in s.st.arch.calls_made


def test_switched_off_while_tasks_are_waited_for(s):
    s.add("e", "vfs_read", 5)
    s.on("e")
    s.machine.clock.advance(OPTIMIZE_DELAY)
    s.off("e")
    assert (s.sleep(), s.machine.patched()) == ({"e": "D"}, [])


def test_queued_during_a_wait_needs_a_wait_of_its_own(s):
    s.add("a", "vfs_read", 5)
    s.add("b", "vfs_write", 5)
    s.on("a")
    s.machine.clock.advance(OPTIMIZE_DELAY)
    s.on("b")  # armed after the wait began: a task may still stand in its bytes
    s.machine.quiescence.quiesce()
    assert (s.byte("a"), s.byte("b")) == (JUMP, BREAKPOINT)
    s.machine.clock.advance(OPTIMIZE_DELAY)
    assert s.byte("b") == BREAKPOINT
    s.machine.quiescence.quiesce()
    assert s.byte("b") == JUMP


def test_requeued_during_a_wait_needs_a_wait_of_its_own(s):
    s.add("a", "vfs_read", 5)
    s.on("a")
    s.machine.clock.advance(OPTIMIZE_DELAY)
    s.off("a")
    s.on("a")
    s.machine.quiescence.quiesce()
    assert (s.lst(), s.byte("a")) == ({"a": "O"}, BREAKPOINT)
    s.sleep()
    assert s.byte("a") == JUMP


# ---- neighbours


def test_neighbour_switched_on_while_the_jump_is_being_undone(s):
    s.add("a", "vfs_read", 5)
    s.add("b", "vfs_read", 7)
    s.on("a")
    s.sleep()
    s.off("a")
    s.on("b")
    assert (s.byte("a"), s.byte("b")) == (BREAKPOINT, BREAKPOINT)
    assert s.sleep() == {"a": "D", "b": "O"}
    assert s.byte("a") == ORIGINAL
    s.off("b")
    s.sleep()
    assert s.machine.patched() == []


def test_enabled_again_in_that_moment_and_all_disarmed(s):
    s.add("a", "vfs_read", 5)
    s.add("b", "vfs_read", 7)
    s.on("a")
    s.sleep()
    s.off("a")
    s.on("b", "a")
    s.enabled(0)
    assert s.machine.patched() == []


# ---- what cannot be a jump


def test_plain_probe_where_no_jump_fits(s):
    s.add("end", "vfs_read", 30)
    p = s.probes["end"]
    assert get_kprobe(s.st, p.addr) is p
    s.on("end")
    assert (s.sleep(), s.byte("end")) == ({"end": ""}, BREAKPOINT)


def test_ftrace_location_is_never_a_jump(s):
    assert s.settle("e", "vfs_read") == {"e": ""}
    assert kprobe_ftrace(s.probes["e"])


def test_post_handler(s):
    s.settle("a", "vfs_read", 5)
    assert (
        s.add("b", "vfs_read", 5, post_handler=lambda p, regs, flags: None),
        s.byte("a"),
    ) == ({"a": "", "b": "D"}, BREAKPOINT)
    assert s.remove("b") == {"a": "O"}
    s.sleep()
    assert s.byte("a") == JUMP


def test_fault_handler(s):
    """The handler is never called for an instruction that a jump has displaced."""
    assert (
        s.settle("a", "vfs_read", 5, fault_handler=lambda p, regs, trapnr: 1),
        s.byte("a"),
    ) == ({"a": ""}, BREAKPOINT)
    s.settle("b", "vfs_write", 5)
    assert s.byte("b") == JUMP
    assert (
        s.add("c", "vfs_write", 5, fault_handler=lambda p, regs, trapnr: 1)["b"],
        s.byte("b"),
    ) == ("", BREAKPOINT)
    s.on("c")
    s.sysctl(0)
    s.sysctl(1)
    assert (s.sleep()["b"], s.byte("b")) == ("", BREAKPOINT)
    assert s.remove("c")["b"] == "O"
    s.sleep()
    assert s.byte("b") == JUMP


def test_kernel_without_optprobes():
    s = Session(optprobes=False)
    s.add("e", "vfs_read", 5)
    s.add("e2", "vfs_read", 5)
    s.on("e", "e2")
    assert (s.sleep(), s.byte("e")) == ({"e": "", "e2": ""}, BREAKPOINT)
    assert s.st.arch.opt.slots.nr_used == 0


# ---- removal


@pytest.mark.parametrize("switched_off", [True, False])
def test_046_139_removed_and_added_again(s, switched_off):
    s.settle("a", "vfs_read", 5)
    if switched_off:
        s.off("a")
    addr = s.probes["a"].addr
    s.remove("a")
    assert not list(show_entries(s.st))
    assert s.machine.patched() == []
    assert get_kprobe(s.st, addr) is None
    assert s.st.arch.opt.slots.nr_used == 1  # some task may be in it
    assert s.add("a", "vfs_read", 5) == {"a": "D"}
    assert s.on("a") == {"a": "O"}
    s.sleep()
    assert s.byte("a") == JUMP
    assert s.st.arch.opt.slots.nr_used == 1
    s.remove("a")
    s.sleep()
    assert (s.st.arch.opt.slots.nr_used, s.st.arch.slots.nr_used) == (0, 0)
    assert not any(s.st.opt_queues.values())


def test_removed_while_queued(s):
    s.add("a", "vfs_read", 5)
    s.on("a")
    s.remove("a")
    assert s.machine.patched() == []
    s.sleep()
    assert s.machine.patched() == []
    assert (s.st.arch.opt.slots.nr_used, s.st.arch.slots.nr_used) == (0, 0)


def test_removing_hurries_nobody_past_the_quiescent_state(s):
    for name, symbol in (("a", "vfs_read"), ("b", "vfs_write")):
        s.add(name, symbol, 5)
    s.on("a")
    s.sleep()
    s.on("b")
    s.remove("a")
    assert s.byte("b") == BREAKPOINT
    s.machine.quiescence.quiesce()
    assert s.byte("b") == JUMP


def test_module_goes_with_its_jumps():
    s = Session()
    addr = s.machine.add_function("hello", ENTRY_NOP + PUSH * 20, module="dummy")
    for name, offset in (("jump", 5), ("queued", 12), ("undone", 18)):
        s.add(name, "hello", offset)
    s.on("jump", "undone")
    s.sleep()
    s.on("queued")
    s.off("undone")
    kprobes_module_callback(s.st, ModuleState.GOING, "dummy")
    s.machine.remove_symbols([addr])
    assert s.lst() == dict.fromkeys(s.probes, "")
    s.sleep()
    assert s.st.arch.opt.slots.nr_used == 0
    assert s.st.arch.slots.nr_used == 0
    for name in list(s.probes):
        s.remove(name)
    s.sleep()
    assert not s.st.kprobe_table
    assert not any(s.st.opt_queues.values())
