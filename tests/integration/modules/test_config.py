# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels that are configured otherwise, as modules meet them.

This also tests kpfs.backends.guest.files.ikconfig and
kpfs.backends.guest.files.sysfs_module.
"""

import errno
import gzip
import os
import re
import subprocess

import pytest

from kpfs import config
from kpfs.base.errors import KernelError
from kpfs.guest.images import RELEASE
from tests.harness import ROOT
from tests.modbox import Box, module, need_compiler
from tests.there import code


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
SPIN = """
#include <linux/kthread.h>
#include <linux/ktime.h>
static int ran; int seen;
static int other(void *unused) { WRITE_ONCE(ran, 1); return 0; }
INIT(ktime_t end = ktime_add_ns(ktime_get(), 200000000);
kthread_run(other, NULL, "other");
while (ktime_before(ktime_get(), end)) cpu_relax();
seen = READ_ONCE(ran) + 1; return 0;)
"""


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


DATA = "TARGET long target(long x) { return x; }\nlong datum = 7;\n"


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
        assert code(box.write, "/tracing/kprobe_events", fetch) == "ENOENT"
    box.write("/tracing/kprobe_events", "p:f vfs_read+5\n")
    assert "k vfs_read+0x5 [DISABLED]" in box.list()


def test_no_modules(configured):
    box = configured("MODULES=n")
    for call in (lambda: box.insmod("kprobe_example"), lambda: box.rmmod("any")):
        assert code(call) == "ENOSYS"
    assert code(box.read, "/modules") == "ENOENT"


def test_modules_that_stay(configured):
    box = configured("MODULE_UNLOAD=n")
    box.insmod("kprobe_example")
    name, _size, *uses, state, _at = box.read("/modules").split()
    assert (name, uses, state) == ("kprobe_example", ["-", "-"], "Live")
    assert code(box.rmmod, "kprobe_example") == "ENOSYS"
    assert box.modules() == ["kprobe_example"]


def read_bytes(box, path):
    opened = box.vfs.open(box.caller, path, os.O_RDONLY)
    try:
        return box.vfs.read(box.caller, opened, 65536, 0)
    finally:
        box.vfs.release(opened)


def options(box):
    """The options of config.gz; None: is not set."""
    found: dict[str, str | None] = {}
    for line in gzip.decompress(read_bytes(box, "/config.gz")).decode().splitlines():
        if unset := re.fullmatch(r"# (CONFIG_\w+) is not set", line):
            found[unset[1]] = None
        elif not line.startswith("#"):
            name, _, value = line.partition("=")
            assert name not in found
            found[name] = value
    return found


def seen_by_modules(folder, environment):
    """The options that a module meets as macros, as config.gz has their values."""
    need_compiler()
    source, macros = folder / "macros.c", folder / "macros"
    source.write_text("#include <linux/module.h>\n#include <linux/kprobes.h>\n")
    subprocess.run(
        [ROOT / "scripts/build-module", "-c", "macros", "-o", macros, source],
        env=os.environ | {"CFLAGS": "-E -dM"} | environment,
        check=True,
    )
    found = re.findall(r"^#define (CONFIG_\w+) (.*)$", macros.read_text(), re.MULTILINE)
    return {name: "y" if value == "1" else value for name, value in found}


def is_set(options):
    return {name: value for name, value in options.items() if value is not None}


def test_config_gz(configured, tmp_path):
    usual = options(configured())
    assert is_set(usual) == seen_by_modules(tmp_path, {})
    assert usual["CONFIG_LOCALVERSION"] == f'"-{RELEASE.partition("-")[2]}"'
    turned = {o.name: "n" if o.default else "y" for o in config.OPTIONS}
    for name in ("DOCUMENTED_SYSCTL", "LEGACY_SYMBOLS"):  # no kernel has them
        del turned[name]
    box = configured(*(f"{name}={value}" for name, value in turned.items()))
    other = options(box)
    for name, value in turned.items():
        assert other[f"CONFIG_{name}"] == ("y" if value == "y" else None)
        assert usual[f"CONFIG_{name}"] == ("y" if value == "n" else None)
    assert (usual["CONFIG_PREEMPT_NONE"], other["CONFIG_PREEMPT_NONE"]) == (None, "y")
    assert options(configured("MODULES=n"))["CONFIG_MODULE_UNLOAD"] is None
    kept = tmp_path / "config.gz"
    kept.write_bytes(read_bytes(box, "/config.gz"))
    assert is_set(other) == seen_by_modules(tmp_path, {"KPFS_CONFIG": str(kept)})


ATTRIBUTES = """
TARGET long target(long x) { return x; }
static int number = 5; module_param(number, int, 0644);
static char *text = "one"; module_param(text, charp, 0444);
static int hidden; module_param(hidden, int, 0);
static int several[3] = { 1, 2 }, n = 2;
module_param_array(several, int, &n, 0444);
INIT(return number;) EXIT()
MODULE_VERSION("1.2");
"""


def test_sysfs_of_a_module(configured):
    box = configured()
    box.insmod(module("attributes", ATTRIBUTES), "number=0 text=two")
    at = "/module/attributes"
    assert box.vfs.root.lookup("module").names() == ["attributes"]
    read = {
        name: box.read(f"{at}/{name}")
        for name in ("initstate", "refcnt", "version", "initsize", "taint")
    }
    assert read == {
        "initstate": "live\n",
        "refcnt": "0\n",
        "version": "1.2\n",
        "initsize": "0\n",
        "taint": "\n",
    }
    assert int(box.read(f"{at}/coresize")) == int(box.read("/modules").split()[1])
    base = box.read("/modules").split()[-1]
    assert box.read(f"{at}/sections/.text") == f"{base}\n"
    parameters = f"{at}/parameters"
    assert box.read(f"{parameters}/number") == "0\n"
    assert box.read(f"{parameters}/text") == "two\n"
    assert box.read(f"{parameters}/several") == "1,2\n"
    box.write(f"{parameters}/number", "0x1f\n")
    assert box.read(f"{parameters}/number") == "31\n"
    assert box.int_at("number") == 31
    for name, text, number in (
        ("number", "many\n", errno.EINVAL),
        ("hidden", "1\n", errno.ENOENT),
    ):
        with pytest.raises(KernelError) as refused:
            box.write(f"{parameters}/{name}", text)
        assert refused.value.errno == number
    box.rmmod("attributes")
    assert code(box.read, f"{at}/refcnt") == "ENOENT"


def test_users_are_not_counted(configured):
    box = configured("MODULE_UNLOAD=n")
    box.insmod("kprobe_example")
    assert code(box.read, "/module/kprobe_example/refcnt") == "ENOENT"
