# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels that are configured otherwise, as modules meet them."""

import errno

import pytest

from kpfs import config
from kpfs.engine.errors import KernelError
from tests.modbox import NOIPA, Box, module


@pytest.fixture
def configured():
    """Makes a Box of a configuration, which is closed after the test."""
    boxes = []

    def make(*words, nr_cpus=2):
        made = config.make(map(config.parse_one, words))
        boxes.append(Box(nr_cpus, config=made))
        return boxes[-1]

    yield make
    for box in boxes:
        box.close()


# One CPU: whether another task gets it before this one gives it up.
SPIN = (
    "#include <linux/kthread.h>\n#include <linux/ktime.h>\n"
    "static int ran; int seen;\n"
    "static int other(void *unused) { WRITE_ONCE(ran, 1); return 0; }\n"
    "static int __init go(void) {\n"
    "ktime_t end = ktime_add_ns(ktime_get(), 200000000);\n"
    'kthread_run(other, NULL, "other");\n'
    "while (ktime_before(ktime_get(), end)) cpu_relax();\n"
    "seen = READ_ONCE(ran) + 1; return 0; }\nmodule_init(go);\n"
)


@pytest.mark.parametrize(("value", "seen"), [("y", 2), ("n", 1)])
def test_preemption(configured, value, seen):
    box = configured(f"PREEMPT={value}", nr_cpus=1)
    box.insmod(module("spin", SPIN))
    assert box.int_at("seen") == seen
    assert (" PREEMPT " in box.read("/version")) == (value == "y")
    assert (" PREEMPT " in box.log()[0]) == (value == "y")


@pytest.mark.parametrize(("value", "default"), [("y", 12), ("n", 6)])
def test_maxactive(configured, value, default):
    box = configured(f"PREEMPT={value}", nr_cpus=6)
    box.write("/tracing/kprobe_events", "r:e vfs_read\n")
    assert box.read("/tracing/kprobe_events") == f"r{default}:kprobes/e vfs_read\n"


DATA = f"{NOIPA} long target(long x) {{ return x; }}\nlong datum = 7;\n"


@pytest.mark.parametrize("value", ["y", "n"])
def test_symbols_of_data(configured, value):
    box = configured(f"KALLSYMS_ALL={value}")
    box.insmod(module("data", DATA + "EXPORT_SYMBOL_GPL(datum);"))
    symbols = [line.split()[1:3] for line in box.read("/kallsyms").splitlines()]
    names = {name for _, name in symbols}
    assert {"vfs_read", "target", "_stext", "__entry_text_start"} <= names
    every = value == "y"
    assert every == ({"jiffies", "init_task", "datum"} <= names)
    assert every == any(letter not in "tTwW" for letter, _ in symbols)
    fetch = "p:e vfs_read value=@jiffies\n"
    if every:
        box.write("/tracing/kprobe_events", fetch)
    else:
        with pytest.raises(KernelError) as refused:
            box.write("/tracing/kprobe_events", fetch)
        assert refused.value.errno == errno.ENOENT
    box.write("/tracing/kprobe_events", "p:f vfs_read+5\n")
    assert "k vfs_read+0x5 [DISABLED]" in box.list()


def test_no_modules(configured):
    box = configured("MODULES=n")
    for call in (lambda: box.insmod("kprobe_example"), lambda: box.rmmod("any")):
        with pytest.raises(KernelError) as refused:
            call()
        assert refused.value.errno == errno.ENOSYS
    with pytest.raises(KernelError) as refused:
        box.read("/modules")
    assert refused.value.errno == errno.ENOENT


def test_modules_that_stay(configured):
    box = configured("MODULE_UNLOAD=n")
    box.insmod("kprobe_example")
    name, _size, *uses, state, _at = box.read("/modules").split()
    assert (name, uses, state) == ("kprobe_example", ["-", "-"], "Live")
    with pytest.raises(KernelError) as refused:
        box.rmmod("kprobe_example")
    assert refused.value.errno == errno.ENOSYS
    assert box.modules() == ["kprobe_example"]
