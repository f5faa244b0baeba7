# SPDX-License-Identifier: GPL-2.0-or-later
"""Features of kernels.  Tests kpfs.linux.running.features and ``kernel features``."""

import json
import re
from argparse import ArgumentParser
from types import SimpleNamespace

import pytest

from kpfs.commands import kernel as kernel_command
from kpfs.linux.running import features
from kpfs.linux.running.linux_kernel import LinuxKernel
from tests import harness

pytestmark = [pytest.mark.kernel]
NAME = harness.KERNEL
DYNAMIC_EVENTS = "/sys/kernel/tracing/dynamic_events"


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(harness.kernels()))


@pytest.fixture(scope="module")
def found():
    """The features by group and name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(harness.kernels()))
        return {row[:2]: row.value for row in features.features(NAME)}


@pytest.mark.parametrize(
    ("group", "name", "value"),
    [
        ("file", "/sys/kernel/tracing/kprobe_events", "yes"),
        ("file", "/sys/kernel/tracing/touched_functions", "-"),
        ("tracer", "function_graph", "yes"),
        ("dynamic events", "event probes (e:)", "yes"),
        ("dynamic events", "function probes (f:)", "-"),
        ("dynamic events", "$arg<N>", "yes"),
        ("dynamic events", "$arg*", "-"),
        ("dynamic events", "symstr", "yes"),
        ("dynamic events", "immediate strings", "yes"),
        ("dynamic events", "typecasts ((struct)arg->field)", "-"),
        ("triggers", "onmatch()", "yes"),
        ("kernel", "preempt", "voluntary"),
        ("BPF program", "BPF_PROG_TYPE_KPROBE", "yes"),
        ("BPF program", "BPF_PROG_TYPE_TRACING", "yes"),
        ("BPF program", "BPF_PROG_TYPE_CGROUP_SOCKOPT", "yes"),
        ("BPF program", "BPF_PROG_TYPE_SYSCALL", "yes"),
        ("BPF program", "BPF_PROG_TYPE_LIRC_MODE2", "- no CONFIG_BPF_LIRC_MODE2"),
        ("BPF map", "BPF_MAP_TYPE_LPM_TRIE", "yes"),
        ("BPF map", "BPF_MAP_TYPE_RINGBUF", "yes"),
        ("BPF map", "BPF_MAP_TYPE_SK_STORAGE", "refused: EINVAL"),
        ("BPF attachment", "BPF_TRACE_KPROBE_MULTI", "- no CONFIG_FPROBE"),
        ("BPF attachment", "BPF_TRACE_FENTRY", "yes"),
        ("BPF attachment", "BPF_TRACE_UPROBE_MULTI", "-"),
        ("BPF helper", "get_func_ip", "yes"),
        ("config", "KPROBES", "y"),
    ],
)
def test_what_linux_6_1_can(found, group, name, value):
    assert found[group, name] == value


def test_a_type_that_no_kernel_has_is_not_there(found):
    assert found["kernel", "release"].startswith("6.1.")
    assert ("BPF program", "BPF_PROG_TYPE_NETFILTER") not in found
    assert ("BPF helper", "unspec") not in found


def test_locked_memory_refuses_nothing():
    """5.10, which counts programs and maps as such, is not there in tests."""
    linux = LinuxKernel(NAME, quiet=True, callers=False)
    try:
        linux.start()
        with linux.lock:
            next(features._Asked(linux).all())
            limits = linux.tasks.read_file("/proc/1/limits").decode()
    finally:
        linux.stop()
    assert re.search(r"^Max locked memory +unlimited +unlimited", limits, re.M)


def test_events_that_were_tried_are_gone():
    linux = LinuxKernel(NAME, quiet=True, callers=False)
    try:
        linux.start()
        with linux.lock:
            before = linux.tasks.read_file(DYNAMIC_EVENTS)
            found = [*features._Asked(linux)._dynamic_events()]
            assert linux.tasks.read_file(DYNAMIC_EVENTS) == before
    finally:
        linux.stop()
    assert {feature.value for feature in found} == {"yes", "-"}


def test_a_kernel_is_asked_once(monkeypatch):
    """Features follow from the image."""
    known = features.features(NAME)
    monkeypatch.setattr(features, "LinuxKernel", None)
    assert features.features(NAME) == known


@pytest.mark.parametrize(
    ("releases", "values", "first"),
    [
        ("5.10 6.1 6.12", "yyy", ""),
        ("6.12 5.10 6.1", "yny", "6.1"),
        ("6.12 5.10 6.1", "yn-", "6.12"),
        ("5.10 6.1 6.12", "yny", "6.12"),
        ("5.10 6.1 6.12", "yyn", ""),
        ("6.1.5 6.1.7", "ny", ""),  # a matter of how they were built
    ],
)
def test_since_which_kernel(monkeypatch, releases, values, first):
    names = releases.split()
    monkeypatch.setattr("kpfs.linux.running.chosen.folder", lambda name: name)
    monkeypatch.setattr(
        "kpfs.linux.store.image.read_meta", lambda name: SimpleNamespace(release=name)
    )
    assert [*kernel_command._since(names, [("", "", *values)])] == [first]


@pytest.mark.two_cpus
def test_columns_of_two_kernels(capsys):
    parser = ArgumentParser()
    kernel_command.add_arguments(parser)
    words = "features", harness.TWO_CPUS, NAME, "--diff"
    kernel_command.main(parser.parse_args(words))
    head, *rows = map(str.split, capsys.readouterr().out.splitlines())
    assert head == [harness.TWO_CPUS, NAME, "since"]
    assert "dynamic events $arg* yes - 6.12-cloud-2".split() in rows
    assert "BPF attachment BPF_TRACE_UPROBE_MULTI yes - 6.12-cloud-2".split() in rows


def test_the_command(capsys):
    parser = ArgumentParser()
    kernel_command.add_arguments(parser)

    def features_of(*words):
        kernel_command.main(parser.parse_args(["features", *words]))
        return capsys.readouterr().out

    (rows,) = json.loads(features_of(NAME, "--json")).values()
    assert {"group": "tracer", "name": "nop", "value": "yes"} in rows
    assert features_of(NAME, "--diff").split() == [NAME]
    lines = features_of(NAME).splitlines()
    assert len(lines) == len(rows) + 1
    assert lines[1].split()[:2] == ["kernel", "release"]
