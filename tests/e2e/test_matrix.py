# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs matrix``.

Tests kpfs.commands.matrix, kpfs.host.process and kpfs.linux.inside.texts.
"""

import json
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from kpfs.commands.matrix import Row
from tests import harness

pytestmark = [pytest.mark.kernel]

KERNEL = harness.KERNEL
OTHER = "other"


@pytest.fixture(autouse=True)
def data(monkeypatch, tmp_path):
    """The kernel by two names."""
    kernels = tmp_path / "data" / "kpfs" / "kernels"
    kernels.mkdir(parents=True)
    for name in (KERNEL, OTHER):
        (kernels / name).symlink_to(harness.kernels() / "kpfs" / "kernels" / KERNEL)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("KPFS_WARM", "0")


def matrix(kpfs, *words, **options):
    return kpfs("matrix", "--kernels", f"{KERNEL},{OTHER}", *words, **options)


def test_a_row_for_each_kernel(kpfs, tmp_path):
    script = "echo one; uname -r; hostname >rw/$$; exit 3"
    (tmp_path / "rw").mkdir()
    report = tmp_path / "report.xml"
    options = ["--jobs", "2", "--junit", report, "--rw", "rw"]
    done = matrix(kpfs, *options, "--", "sh", "-c", script, cwd=tmp_path)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert [row[:2] for row in rows] == [[KERNEL, "3"], [OTHER, "3"]]
    assert all(row[4].startswith("6.1.") for row in rows), done.stdout
    suite = ElementTree.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "2")
    case = suite[1]
    assert case.get("name") == OTHER
    assert [failure.get("message") for failure in case.iter("failure")] == ["status 3"]
    assert str(case.findtext("system-out")).startswith("one\n6.1.")


def test_a_command_that_hangs_is_a_row(kpfs):
    done = matrix(
        kpfs, "--timeout", "4", "--json", "--", "sh", "-c", "echo a; sleep 99"
    )
    assert done.returncode == 1
    for row in json.loads(done.stdout):
        assert (row["status"], row["output"]) == (124, "a\n")
        assert row["reasons"][0] == "CMD still runs after 4 s"
        assert any("do_nanosleep" in reason for reason in row["reasons"]), row


@pytest.mark.parametrize("option", ["--junit", "--summary"])
def test_a_report_that_cannot_be_written_is_told_first(kpfs, tmp_path, option):
    (tmp_path / "rw").mkdir()
    words = option, "none/it", "--rw", "rw", "--", "touch", "rw/ran"
    done = matrix(kpfs, *words, cwd=tmp_path)
    said = "kpfs: none/it: No such file or directory\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
    assert not (tmp_path / "rw/ran").exists()


# bpf(2) and perf_event_open(2) that fail for reasons of their own, and a wrong probe
FAILING = """
import ctypes, struct
call = ctypes.CDLL(None).syscall
texts = [ctypes.create_string_buffer(s) for s in (b"GPL", b"vfs_reed")]
gpl, name = map(ctypes.addressof, texts)
log = ctypes.create_string_buffer(1 << 16)
exit_, mov = struct.pack("<Bxhi", 0x95, 0, 0), struct.pack("<Bxhi", 0xb7, 0, 0)
lost = struct.pack("<Bxhi", 0x85, 0, 195896080) + exit_
def load(kind, code, level, title):
    code = ctypes.create_string_buffer(code, len(code))
    attr = struct.pack("<IIQQIIQII16s60x", kind, len(code) // 8, ctypes.addressof(code),
        gpl, level, len(log) * level, ctypes.addressof(log) * level, 0, 0, title)
    return call(321, 5, attr, len(attr))
load(77, mov + exit_, 0, b"kind")
load(2, lost, 1, b"lost")
load(2, exit_, 1, b"wrong")
call(321, 0, struct.pack("<IIII124x", 99, 4, 4, 1), 140)
pmu = int(open("/sys/bus/event_source/devices/kprobe/type").read())
call(298, struct.pack("<IIQ40xQ64x", pmu, 128, 0, name), -1, 0, -1, 0)
with open("/sys/kernel/tracing/kprobe_events", "w") as events:
    events.write("p:x vfs_reed")
"""
FAILING_SCRIPT = """
echo first: it cannot be
echo nosuch >/sys/kernel/tracing/current_tracer
kill -ABRT $$
"""


def test_the_kernel_says_why(kpfs, tmp_path):
    summary, python = tmp_path / "summary.md", [sys.executable, "-I", "-S", "-c"]
    options = ["--shard", "1/2", "--json", "--summary", summary]
    done = matrix(kpfs, *options, "--", *python, FAILING)
    (row,) = json.loads(done.stdout)
    assert (done.returncode, row["status"]) == (1, 1)
    load, lacks = "bpf(BPF_PROG_LOAD, ", "which this kernel does not have"
    wrong, lost, probe, *others = row["reasons"]
    assert wrong.startswith(f"{load}BPF_PROG_TYPE_KPROBE, 'wrong') = EACCES: ")
    assert wrong.endswith("R0 !read_ok")
    assert lost == (
        f"{load}BPF_PROG_TYPE_KPROBE, 'lost') = EINVAL: a type or field that it uses "
        "is not in this kernel's BTF (CO-RE)"
    )
    assert probe == (
        "write(kprobe_events, 'p:x vfs_reed') = ENOENT: trace_kprobe: error: Invalid "
        "probed address or symbol: no symbol vfs_reed"
    )
    assert others == [
        "perf_event_open(PMU 6, 'vfs_reed') = ENOENT: no symbol vfs_reed",
        f"bpf(BPF_MAP_CREATE, map type 99, {lacks}) = EINVAL",
        f"{load}prog type 77, {lacks}, 'kind') = EINVAL",
    ]
    assert f"| {KERNEL} | **1** |" in summary.read_text()
    assert wrong in summary.read_text()
    done = matrix(kpfs, *options[:2], "--", *python, FAILING)
    assert done.stdout.splitlines()[-1].strip() == f"because: {wrong}"


def test_a_script_and_a_signal(kpfs):
    done = matrix(
        kpfs, "--shard", "1/2", "--explain-failures", "--", "sh", "-c", FAILING_SCRIPT
    )
    row, *reasons = done.stdout.splitlines()
    assert row.split()[:2] == [KERNEL, "134"]
    assert [reason.strip() for reason in reasons] == [
        "because: write(current_tracer, 'nosuch') = EINVAL",
        "because: SIGABRT ended it",
        "because: it said: first: it cannot be",
    ]


def test_the_order_of_reasons():
    output = (
        "libbpf: prog 'a': BPF program load failed\n"
        "failed to resolve CO-RE relocation <byte_off> [5] struct a.b (0:0 @ 0)\n"
        "cannot load\n"
    )
    reasons = ["bpf(A): it lacks a field (CO-RE)", "perhaps: bpf(B)"]
    row = Row(KERNEL, "6.1", 1, 0.1, output, reasons)
    assert row.why() == [
        "bpf(A): it lacks a field (CO-RE): struct a.b",
        "it said: libbpf: prog 'a': BPF program load failed",
        "perhaps: bpf(B)",
    ]
    assert row._replace(status=0).why() == []


def test_json_for_programs(kpfs):
    done = matrix(kpfs, "--shard", "2/2", "--json", "--", "echo", "text")
    assert done.returncode == 0
    (row,) = json.loads(done.stdout)
    assert (row["kernel"], row["status"], row["output"]) == (OTHER, 0, "text\n")


def test_differences_are_shown(kpfs):
    script = "echo same; cat /proc/sys/kernel/random/boot_id; date +%N"
    done = matrix(kpfs, "--diff", "--", "sh", "-c", script)
    lines = done.stdout.splitlines()[2:]
    assert lines[:2] == [f"--- {KERNEL}", f"+++ {OTHER}"]
    assert " same" in lines


def test_nothing_is_left_of_one_that_is_killed(kpfs):
    command = kpfs.command(
        "matrix", "--kernels", KERNEL, "--jobs", "1", "--", "sleep", "999"
    )
    harness.kill_with_child(subprocess.Popen(command), "a run goes on")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--kernels", "none", "--", "true"], "no kernel none"),
        (["--kernels", KERNEL], "which command?"),
        (
            ["--kernels", KERNEL, "--shard", "3/2", "true"],
            "'3/2' is not I/N with I from 1 to N",
        ),
        (["--kernels", KERNEL, "--jobs", "0", "true"], "'0' is not a number from 1 on"),
        (["--kernels", KERNEL, "--junit", "/none/x", "true"], "/none/x: No such file"),
        (["--kernels", KERNEL, "--rw", "/none", "true"], "/none: not a directory"),
        (["--kernels", KERNEL, "--root", f"{KERNEL}=/none", "true"], "--root /none: "),
        (["--kernels", KERNEL, "--memory", "2048", "true"], "for 2048 make it again"),
    ],
)
def test_wrong_use_is_told_in_one_line(kpfs, words, why):
    done = kpfs("matrix", *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert why in done.stderr
