# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs matrix``.

Tests kpfs.commands.matrix, kpfs.host.process and kpfs.linux.inside.texts.
"""

import json
import os
import signal
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
    kernels = harness.own_kernels(tmp_path / "data", {KERNEL: KERNEL, OTHER: KERNEL})
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("KPFS_WARM", "0")
    return kernels


def matrix(kpfs, *words, **options):
    return kpfs("matrix", "--kernels", f"{KERNEL},{OTHER}", *words, **options)


def test_a_row_for_each_kernel(kpfs, tmp_path):
    script = "echo one; uname -r; hostname >rw/$$; exit 3"
    (tmp_path / "rw").mkdir()
    report = tmp_path / "report.xml"
    page = tmp_path / "page.html"
    options = ["--jobs", "2", "--junit", report, "--html", page, "--rw", "rw"]
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
    shown = page.read_text()
    assert "0 of 2 kernels pass" in shown
    for name in (KERNEL, OTHER):
        assert f'<span class="chip bad">status 3</span> <b class="mono">{name}' in shown
    assert len(os.listdir(tmp_path)) == 4  # with the kernels


def test_a_command_that_hangs_is_a_row(kpfs):
    done = matrix(
        kpfs, "--timeout", "4", "--json", "--", "sh", "-c", "echo a; sleep 99"
    )
    assert done.returncode == 1
    for row in json.loads(done.stdout):
        assert (row["status"], row["output"]) == (124, "a\n")
        assert row["reasons"][0] == "CMD still runs after 4 s"
        assert any("do_nanosleep" in reason for reason in row["reasons"]), row


@pytest.mark.parametrize("option", ["--junit", "--html", "--summary"])
def test_a_report_that_cannot_be_written_is_told_first(kpfs, tmp_path, option):
    (tmp_path / "rw").mkdir()
    words = option, "none/it", "--rw", "rw", "--", "touch", "rw/ran"
    done = matrix(kpfs, *words, cwd=tmp_path)
    said = "kpfs: none/it: No such file or directory\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
    assert not (tmp_path / "rw/ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_a_full_disk_is_told_before_anything_runs(kpfs, tmp_path):
    for name in ("rw", "small"):
        (tmp_path / name).mkdir()
    words = "matrix", "--kernels", KERNEL, "--rw", "rw", "--html", "small/page.html"
    command = kpfs.command(*words, "--", "touch", "rw/ran")
    mount = "mount -t tmpfs -o size=64k none small"
    script = f'{mount} && "$@"; status=$?; ls -A small; exit $status'
    unshared = ["unshare", "-m", "sh", "-c", script, "sh", *command]
    done = harness.run(*unshared, cwd=tmp_path)
    said = "kpfs: small/page.html: No space left on device\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
    assert os.listdir(tmp_path / "rw") == []


def test_one_report_that_fails_leaves_the_others(kpfs, tmp_path):
    report = tmp_path / "report.xml"
    done = matrix(
        kpfs, "--shard", "1/2", "--html", "/dev/full", "--junit", report, "true"
    )
    said = "kpfs: /dev/full: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, said)
    assert report.exists()


def test_kernels_that_cannot_be_used_are_told_first(kpfs, data, tmp_path):
    """One that is gone, and one that another version has made."""
    (tmp_path / "rw").mkdir()
    (data / "old").mkdir()
    (data / "old" / "meta.json").write_text(
        '{"version": 1, "cpu_model": 0, "agent": ""}'
    )
    for name, why in (("gone", "no kernel gone"), ("old", "old: made by another vers")):
        reports = "--junit", "report.xml", "--html", "page.html"
        options = *reports, "--summary", "summary.md", "--rw", "rw"
        words = "--kernels", f"{KERNEL},{name}", *options, "--", "touch", "rw/ran"
        done = kpfs("matrix", *words, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert why in done.stderr
    assert os.listdir(tmp_path / "rw") == []
    assert not {"report.xml", "page.html", "summary.md"} & set(os.listdir(tmp_path))


def test_a_kernel_that_is_removed_meanwhile(kpfs, data):
    script = f"rm {data / OTHER}; echo done"
    done = matrix(kpfs, "--jobs", "1", "--rw", data, "--", "sh", "-c", script)
    first, second = done.stdout.splitlines()
    assert (done.returncode, first.split()[-1]) == (1, "done")
    assert second.split()[:2] == [OTHER, "2"]
    assert f"no kernel {OTHER}" in second


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


def test_an_interrupt_before_the_first_row_leaves_old_reports(kpfs, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("of last week")
    words = "--kernels", KERNEL, "--html", page, "--junit", tmp_path / "report.xml"
    command = "sh", "-c", "echo begun >begun; sleep 60"
    options = {"cwd": tmp_path, "stderr": subprocess.PIPE, "text": True}
    with kpfs.started("matrix", *words, "--rw", ".", "--", *command, **options) as run:
        harness.until((tmp_path / "begun").exists, "it does not begin")
        run.send_signal(signal.SIGINT)
        assert "there is no row" in run.stderr.read()
    assert page.read_text() == "of last week"
    assert not (tmp_path / "report.xml").exists()


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
    # what the kernel says of a command that has not failed is told as it is
    assert row._replace(status=0, reasons=["BUG: x"]).why() == ["BUG: x"]


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
        (["--kernels", KERNEL, "--shard", "2/2", "true"], "2/2: no kernel is left"),
        (["--kernels", "", "true"], "--kernels: it is empty"),
        (["--kernels", f"{KERNEL},", "true"], "an empty name is among them"),
        (["--kernels", f"{KERNEL},{KERNEL}", "true"], f"{KERNEL} is named twice"),
        (["--kernels", KERNEL, "--html", "/", "true"], "/: Is a directory"),
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
