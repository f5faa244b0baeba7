# SPDX-License-Identifier: GPL-2.0-or-later
"""Events on module functions, as recorded with Linux's dummy.ko.

Pending until the module is there, [GONE] with its text, registered anew if it returns.
"""

import errno
import re

import pytest

from kpfs.base import abi
from kpfs.base.errors import KernelError
from tests.modbox import HEAD, LICENSE, Box, build, module

DUMMY = (
    HEAD
    + "TARGET void dummy_setup(int *x)\n{\n"
    + '\t__asm__ __volatile__("addl $3, %eax; subl $3, %eax; nopl 64(%rax,%rax)");\n'
    + "\t*x += 1;\n}\n"
    + "TARGET int dummy_dev_init(int x) { return x; }\n"
    + "int place;\nstatic int __init dummy_init_module(void)\n"
    + "{ int x = 0; dummy_setup(&x); return x - 1; }\n"
    + "static void __exit dummy_cleanup_module(void) { }\n"
    + "module_init(dummy_init_module);\nmodule_exit(dummy_cleanup_module);\n"
    + LICENSE
)
EVENTS = "/tracing/kprobe_events"


class Events(Box):
    """A box with the module dummy, and short ways to events."""

    def __init__(self) -> None:
        super().__init__()
        self.dummy = build("dummy", DUMMY)

    def add(self, *lines: str) -> None:
        for line in lines:
            self.write(EVENTS, line + "\n")

    def switch(self, value: int, *names: str) -> None:
        for name in names:
            self.write(f"/tracing/events/kprobes/{name}/enable", f"{value}\n")

    def counts(self) -> dict[str, int]:
        lines = self.read("/tracing/kprobe_profile").splitlines()
        return {line.split()[0]: int(line.split()[1]) for line in lines}

    def stats(self) -> dict[str, list[str]]:
        rows = [line.split() for line in self.read("/machine/stats").splitlines()]
        return {row[0]: row[1:] for row in rows}

    def trace(self) -> list[str]:
        """Return the text of each record."""
        lines = self.read("/tracing/trace").splitlines()
        return [re.sub(r".*\d: \w+: ", "", x) for x in lines if not x.startswith("#")]

    def definitions(self) -> list[str]:
        return self.read(EVENTS).splitlines()


@pytest.fixture
def box():
    box = Events()
    yield box
    box.close()


PENDING = (
    "p:e dummy:dummy_setup",
    "r:r dummy:dummy_setup",
    "p:o dummy:dummy_setup+5",
    "p:i dummy:dummy_init_module",
    "p:bad dummy:nosuchfn",
    "p:mid dummy:dummy_setup+1",
)
NAMES = ("e", "r", "i", "o", "bad", "mid")


@pytest.fixture
def loaded(box):
    """The module loaded after its events had been defined and enabled."""
    box.add(*PENDING)
    box.switch(1, *NAMES)
    box.insmod(box.dummy)
    return box


def refused(number, function, *args):
    with pytest.raises(KernelError) as e:
        function(*args)
    assert errno.errorcode[e.value.errno] == errno.errorcode[number]


def test_pending(box):
    box.add(*PENDING)
    refused(errno.ENOENT, box.add, "p:nomod dummy_setup")
    assert box.list() == []
    assert box.definitions() == [x.replace(":", ":kprobes/", 1) for x in PENDING]
    box.switch(1, *NAMES)
    assert box.list() == []
    assert box.counts() == dict.fromkeys(("e", "r", "o", "i", "bad", "mid"), 0)


def test_on_load_they_are_there_before_init(loaded):
    assert sorted(loaded.list()) == sorted(
        [
            "r dummy_setup+0x0 dummy [FTRACE]",
            "k dummy_setup+0x0 dummy [FTRACE]",
            "k dummy_init_module+0x0 dummy [GONE][FTRACE]",
            "k dummy_setup+0x5 dummy [OPTIMIZED]",
        ]
    )
    assert loaded.counts() == {"e": 1, "r": 1, "o": 1, "i": 1, "bad": 0, "mid": 0}
    assert loaded.definitions()[1] == "r10:kprobes/r dummy:dummy_setup"
    init, entry, middle, back = loaded.trace()
    assert init == "(dummy_init_module+0x0/0x1000 [dummy])"
    assert re.fullmatch(r"\(dummy_setup\+0x0/0x[0-9a-f]+ \[dummy\]\)", entry)
    assert re.fullmatch(r"\(dummy_setup\+0x5/0x[0-9a-f]+ \[dummy\]\)", middle)
    assert back.endswith("<- dummy_setup)")


def test_by_plain_name_while_it_is_loaded(loaded):
    address = loaded.address("dummy_setup")
    loaded.add("p:plain dummy_setup", "p:plain2 dummy_dev_init")
    refused(errno.ENOENT, loaded.add, "p:q dummy:nosuchfn2")
    loaded.add("p:wrongmod crc7:dummy_setup")
    refused(errno.ENOENT, loaded.add, "p:q2 dummy:vfs_read")
    loaded.add(f"p:abs {address:#x}")
    loaded.switch(1, "plain")
    setup = [line for line in loaded.list() if "dummy_setup+0x0" in line]
    assert setup == [
        "k dummy_setup+0x0 dummy [DISABLED][FTRACE]",
        "k dummy_setup+0x0 dummy [FTRACE]",
        "r dummy_setup+0x0 dummy [FTRACE]",
        "k dummy_setup+0x0 dummy [FTRACE]",
    ]


def test_unloading_with_live_probes(loaded):
    address, init = loaded.address("dummy_setup"), "0xffffffffc0"
    definitions = loaded.definitions()
    loaded.rmmod("dummy")
    gone = loaded.list()
    assert len(gone) == 4
    assert all("[GONE]" in line for line in gone)
    assert f"r {address:#x} [GONE][FTRACE]" in gone
    assert f"k {address:#x} [GONE][FTRACE]" in gone
    assert f"k {address + 5:#x} [GONE]" in gone
    assert any(line.startswith(f"k {init}") for line in gone)
    assert loaded.definitions() == definitions
    assert loaded.read("/tracing/events/kprobes/e/enable") == "1\n"
    raw = loaded.read("/kprobes/list").splitlines()[0]
    assert re.fullmatch(r"[0-9a-f]{16}  [kr]  0x[0-9a-f]{16} \[GONE\].*", raw)


def test_switches_do_not_touch_what_is_gone(loaded):
    loaded.rmmod("dummy")
    gone = loaded.list()
    for name in ("e", "r", "o"):
        loaded.switch(0, name)
        assert loaded.list() == gone
        loaded.switch(1, name)
        assert loaded.list() == gone
    for path in ("/kprobes/enabled", "/sys/debug/kprobes-optimization"):
        for value in "01":
            loaded.write(path, f"{value}\n")
            assert loaded.list() == gone


def test_loaded_again(loaded):
    loaded.add("p:plain dummy_setup", "p:plain2 dummy_dev_init")
    loaded.switch(1, "plain")
    loaded.rmmod("dummy")
    loaded.add("p:again dummy:dummy_setup")
    refused(errno.ENOENT, loaded.add, "p:again2 dummy_setup")
    loaded.insmod(loaded.dummy)
    found = loaded.list()
    for line in (
        "k dummy_setup+0x0 dummy [DISABLED][FTRACE]",  # again
        "r dummy_setup+0x0 dummy [FTRACE]",
        "k dummy_setup+0x0 dummy [FTRACE]",  # e
        "k dummy_setup+0x0 dummy [GONE][FTRACE]",  # plain stays gone
        "k dummy_dev_init+0x0 dummy [GONE][FTRACE]",
        "k dummy_setup+0x5 dummy [OPTIMIZED]",
    ):
        assert line in found
    counts = loaded.counts()
    assert (counts["e"], counts["r"], counts["o"], counts["i"]) == (2, 2, 2, 2)
    assert (counts["plain"], counts["again"]) == (0, 0)
    loaded.write("/tracing/events/kprobes/enable", "0\n")
    loaded.write(EVENTS, "-:e\n")
    loaded.switch(0, *())
    for name in ("r", "o", "i", "bad", "mid", "plain", "plain2", "again"):
        loaded.write(EVENTS, f"-:{name}\n")
    assert loaded.list() == []
    loaded.rmmod("dummy")


def test_counts_over_reloads(box):
    box.add("p:e dummy:dummy_setup")
    box.switch(1, "e")
    for round_ in (1, 2):
        box.insmod(box.dummy)
        assert box.counts() == {"e": round_}
        box.rmmod("dummy")
        assert box.counts() == {"e": round_}
    refused(errno.EBUSY, box.write, EVENTS, "-:e\n")
    box.switch(0, "e")
    box.write(EVENTS, "-:e\n")
    assert box.list() == box.definitions() == []


def test_loading_while_all_are_disarmed(box):
    box.add("p:e dummy:dummy_setup")
    box.switch(1, "e")
    box.write("/kprobes/enabled", "0\n")
    box.insmod(box.dummy)
    assert box.list() == ["k dummy_setup+0x0 dummy [FTRACE]"]
    assert box.counts() == {"e": 0}
    box.write("/kprobes/enabled", "1\n")
    assert box.list() == ["k dummy_setup+0x0 dummy [FTRACE]"]
    box.rmmod("dummy")
    assert box.list()[0].endswith("[GONE][FTRACE]")


def test_an_optimised_probe_goes(box):
    box.insmod(box.dummy)
    box.add("p:o dummy:dummy_setup+5")
    box.switch(1, "o")
    box.settle()
    assert box.list() == ["k dummy_setup+0x5 dummy [OPTIMIZED]"]
    address = box.address("dummy_setup") + 5
    box.rmmod("dummy")
    assert box.list() == [f"k {address:#x} [GONE]"]
    box.settle()
    box.switch(0, "o")
    box.write(EVENTS, "-:o\n")
    box.settle()
    box.insmod(box.dummy)
    text = box.kernel.guest.read(address, 5)
    assert text[0] not in (0xCC, 0xE9)


def test_a_modules_probe_is_told_that_its_text_has_gone(box):
    """kprobe_gone() of a struct kprobe in another module."""
    box.insmod(box.dummy)
    watcher = 'WITH_KPROBE(.symbol_name = "dummy_setup")\n'
    box.insmod(module("watcher", watcher))
    flags = box.address("kp") + abi.Kprobe.flags
    assert box.kernel.guest.read(flags, 1)[0] & 1 == 0
    box.rmmod("dummy")
    assert box.kernel.guest.read(flags, 1)[0] & 1 == 1
    assert ["[GONE]" in line for line in box.list()] == [True]
    box.rmmod("watcher")
    assert box.list() == []


def test_one_of_an_event_goes(box):
    """An event of two probes loses one; the other lives on."""
    box.add("p:m vfs_read")
    box.insmod(box.dummy)
    box.add("p:m dummy:dummy_dev_init")
    box.switch(1, "m")
    assert len(box.list()) == 2
    box.rmmod("dummy")
    found = box.list()
    assert "k vfs_read+0x0 [FTRACE]" in found
    assert any("[GONE]" in line for line in found)


def test_functions_without_an_entry_nop(box):
    """Such functions have no events, as in Linux, whenever the module comes."""
    text = "notrace TARGET int crc7_be(int x) { return x * 3; }\n"
    box.add("p:pending crc7:crc7_be")
    box.log()
    box.insmod(module("crc7", text))
    failed = "trace_kprobe: Could not probe notrace function "
    assert box.log() == [
        f"{failed}crc7:crc7_be",
        "trace_kprobe: Failed to re-register probe pending on crc7: -22",
    ]
    names = "crc7:crc7_be", "crc7_be", "crc7_be+1", "__switch_to", "__schedule"
    for name in names:
        refused(errno.EINVAL, box.add, f"p:a {name}")
        assert box.log() == [failed + name.partition("+")[0]]
    assert box.list() == []
    assert box.definitions() == ["p:kprobes/pending crc7:crc7_be"]


@pytest.mark.parametrize("optimization", [0, 1])
def test_stats_count_every_hit(box, optimization):
    """On the short ways of the runtime too."""
    box.insmod(box.dummy)
    box.write("/sys/debug/kprobes-optimization", f"{optimization}\n")
    box.add("p:e dummy_setup", "p:o dummy_setup+5", "r:r dummy_dev_init")
    box.switch(1, "e", "o", "r")
    box.settle()
    place = box.address("place")
    for _ in range(7):
        box.call("dummy_setup", place)
    for _ in range(3):
        box.call("dummy_dev_init", 1)
    rows = box.stats()
    assert rows["ftrace"] == ["2", "10", "0"]
    armed = ["1", "7", "0"], ["0", "0", "0"]
    assert (rows["jump"], rows["breakpoint"]) == armed[:: 2 * optimization - 1]
    box.add("p:again dummy_setup")  # the long way
    box.switch(1, "again")
    box.call("dummy_setup", place)
    rows = box.stats()
    assert rows["ftrace"] == ["3", "11", "0"]


def test_names_given_to_events(box):
    box.insmod(box.dummy)
    box.add("p dummy:dummy_setup", "r dummy:dummy_setup", "p dummy_dev_init+0")
    names = [line.split()[0] for line in box.definitions()]
    assert names == [
        "p:kprobes/p_dummy_dummy_setup_0",
        "r10:kprobes/r_dummy_dummy_setup_0",
        "p:kprobes/p_dummy_dev_init_0",
    ]
