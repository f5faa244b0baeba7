# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules that make and fire synthetic events.

tests/conformance/modules has what a real Linux shows of tests/modules/synth_calls.c.

This also tests kpfs.engine.trace.synth.synth_api.
"""

import errno
import glob
import os
import re
from pathlib import Path

import pytest

from tests.integration.modules.test_events import refused
from tests.modbox import Box, build, module
from tests.there import code

EVENTS = "/tracing/synthetic_events"
HEAD = "#include <linux/trace_events.h>\n"


class Synth(Box):
    """A box with short ways to synthetic events."""

    def define(self, *lines: str) -> None:
        for line in lines:
            self.write(EVENTS, f"{line}\n")

    def switch(self, name: str, value: int = 1) -> None:
        self.write(f"/tracing/events/synthetic/{name}/enable", str(value))

    def suite(self, what: str, *parameters: str) -> list[str]:
        """Return the output of the suite."""
        self.log()
        self.insmod(build("synth_calls"), f"what={what}", *parameters)
        return [x.partition("synth: ")[2] for x in self.log() if "synth: " in x]

    def trace(self) -> list[str]:
        lines = self.read("/tracing/trace").splitlines()
        return [re.sub(r".*\d: (\w+: )", r"\1", x) for x in lines if x[0] != "#"]


@pytest.fixture
def box():
    box = Synth()
    yield box
    box.close()


def test_a_probe_sees_the_directory_of_a_module_s_event(box):
    box.write(
        "/tracing/kprobe_events",
        "p:dir tracefs_create_dir name=+0(%di):string\np:gone tracefs_remove\n",
    )
    box.write("/tracing/events/kprobes/enable", "1")
    assert box.suite("make_and_hold", "event=held")[0].endswith("= 0")
    assert [re.sub(r"\(.*?\) ", "", line) for line in box.trace()] == [
        'dir: name="synthetic"',
        'dir: name="held"',
    ]
    box.rmmod("synth_calls")
    assert [line.split()[0] for line in box.trace()] == ["dir:"] * 2 + ["gone:"] * 2


def test_open_file_keeps_the_event(box):
    box.define("held u64 v")
    box.suite("hold", "event=held")
    refused(errno.EBUSY, box.define, "!held")
    refused(errno.EBUSY, box.write, "/tracing/dynamic_events", "-:held\n")
    box.rmmod("synth_calls")
    box.define("!held")
    assert box.read(EVENTS) == ""


def test_a_module_of_an_event_that_is_on_stays(box):
    box.suite("make_and_hold", "event=held")
    box.switch("held")
    refused(errno.EAGAIN, box.rmmod, "synth_calls")
    box.switch("held", 0)
    box.rmmod("synth_calls")
    assert box.read(EVENTS) == ""


NESTED = """
static struct trace_event_file *outer, *inner;
static int __init nested_init(void)
{
	struct synth_event_trace_state one, two[4];
	u64 val = 3;
	int i, ret[4];

	outer = trace_get_event_file(NULL, "synthetic", "outer");
	inner = trace_get_event_file(NULL, "synthetic", "inner");
	synth_event_trace_start(outer, &one);
	synth_event_add_next_val(1, &one);
	synth_event_trace_array(inner, &val, 1);
	for (i = 0; i < 4; i++)
		ret[i] = synth_event_trace_start(outer, &two[i]);
	synth_event_add_next_val(2, &one);
	synth_event_trace_end(&one);
	synth_event_trace_array(inner, &val, 1);
	for (i = 0; i < 3; i++)
		synth_event_trace_end(&two[i]);
	for (i = 0; i < 4; i++)
		pr_info("nested: %d\\n", ret[i]);
	pr_info("nested: preempt count %d\\n", preempt_count());
	trace_put_event_file(outer);
	trace_put_event_file(inner);
	trace_put_event_file(inner);
	return 0;
}
module_init(nested_init);
"""


def test_records_within_the_making_of_another(box):
    box.define("outer u64 a; u64 b", "inner u64 a")
    box.write("/tracing/events/synthetic/enable", "1")
    box.insmod(module("nested", HEAD + NESTED))
    said = [x.partition("nested: ")[2] for x in box.log() if "nested: " in x]
    assert said == ["0", "0", "0", "-22", "preempt count 0"]
    assert box.trace() == [
        "inner: a=3",
        "outer: a=1 b=2",
        "inner: a=3",
        *["outer: a=0 b=0"] * 3,
    ]
    box.write("/tracing/events/synthetic/enable", "0")
    box.define("!outer", "!inner")


FIRE = """
static char *group = "synthetic", *event = "e";
module_param(group, charp, 0444);
module_param(event, charp, 0444);
static int size = 10;
module_param(size, int, 0444);
static char text[5000];
static int __init fire_init(void)
{
	struct trace_event_file *file = trace_get_event_file(NULL, group, event);

	memset(text, 'x', size);
	if (IS_ERR(file))
		return PTR_ERR(file);
	pr_info("fire: %d\\n", synth_event_trace(file, 1, (u64)(long)text));
	trace_put_event_file(file);
	return 0;
}
module_init(fire_init);
"""


@pytest.mark.parametrize(
    ("size", "answer"), [(4000, 0), (4055, 0), (4056, -22), (4800, -22)]
)
def test_a_record_has_a_page_at_most(box, size, answer):
    box.define("e char[] d")
    box.switch("e")
    box.insmod(module("fire", HEAD + FIRE), f"size={size}")
    assert [x for x in box.log() if "fire:" in x] == [f"fire: {answer}"]
    shown = [line.count("x") for line in box.trace()]
    # a line has room for 4096
    assert shown == {4000: [4000], 4055: [0]}.get(size, [])


def test_an_event_of_another_kind_is_not_fired(box):
    box.write("/tracing/kprobe_events", "p:k vfs_read\n")
    box.write("/tracing/events/kprobes/k/enable", "1")
    box.insmod(module("fire", HEAD + FIRE), "group=kprobes", "event=k")
    assert [x for x in box.log() if "fire:" in x] == ["fire: -22"]
    box.write("/tracing/events/kprobes/k/enable", "0")  # else trace has no end
    assert not any(line.startswith("k: d") for line in box.trace())


def test_without_the_event_the_module_is_refused(box):
    assert code(box.insmod, module("fire", HEAD + FIRE)) == "EINVAL"
    assert box.modules() == []


def linux_sample():
    """Linux's own test of this interface, where a kernel's source is at hand."""
    trees = [os.environ.get("KPFS_LINUX", ""), *sorted(glob.glob("/usr/src/linux*"))]
    found = [Path(tree, "kernel/trace/synth_event_gen_test.c") for tree in trees]
    return next((path for path in found if path.exists()), None)


def test_linux_s_own_sample(box):
    path = linux_sample()
    if path is None:
        pytest.skip("no kernel source (KPFS_LINUX, or unpacked below /usr/src)")
    box.insmod(build("synth_event_gen_test", path.read_text()))
    names = [line.partition(":")[0] for line in box.trace()]
    assert names == [
        *("gen_synth_test", "empty_synth_test", "create_synth_test"),
        *("gen_synth_test", "gen_synth_test", "create_synth_test"),
    ]
    assert re.sub(r"cpu=\d", "cpu=N", box.trace()[-1]) == (
        "create_synth_test: next_pid_field=444 next_comm_field=clackers ts_ns=1000000 "
        "dynstring_field_1=viewmaster ts_ms=1000 cpu=N my_string_field=Thneed "
        "dynstring_field_2=yoyos my_int_field=999"
    )
    box.rmmod("synth_event_gen_test")
    assert (box.read(EVENTS), box.trace()) == ("", [])
