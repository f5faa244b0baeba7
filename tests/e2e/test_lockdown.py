# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels that are locked down: they come up, and what they refuse is told as such.

Tests kpfs.linux.inside.lockdown and kpfs.linux.memory.lockdown, and
kpfs.linux.make.boot of such kernels.
"""

import json
import sys

import pytest

from tests import harness

pytestmark = [pytest.mark.kernel, pytest.mark.locked]
INTEGRITY, CONFIDENTIALITY = harness.LOCKED
LEVELS = {INTEGRITY: "integrity", CONFIDENTIALITY: "confidentiality"}
# files, calls of bpf(2) and of perf_event_open(2)
ASKS = """
import ctypes, struct
def attempt(*args):
    try:
        with open(*args) as file:
            file.write("x") if args[1] == "w" else file.read(1)
    except OSError:
        pass
attempt("/dev/mem", "r")
attempt("/sys/kernel/security/lockdown", "w")
attempt("/sys/kernel/debug/kprobes/enabled", "w")
attempt("/sys/kernel/tracing/kprobe_events", "w")
attempt("/sys/kernel/tracing/trace", "r")
call = ctypes.CDLL(None).syscall
texts = [ctypes.create_string_buffer(s) for s in (b"GPL", b"vfs_read")]
gpl, name = map(ctypes.addressof, texts)
log = ctypes.create_string_buffer(1 << 16)
# r1 = r10 - 8, r2 = 8, r3 = 0, bpf_probe_read_kernel(), r0 = 0, exit
code = b"".join(struct.pack("<BBhi", *insn) for insn in (
    (0xbf, 0xa1, 0, 0), (7, 1, 0, -8), (0xb7, 2, 0, 8), (0xb7, 3, 0, 0),
    (0x85, 0, 0, 113), (0xb7, 0, 0, 0), (0x95, 0, 0, 0)))
code = ctypes.create_string_buffer(code, len(code))
attr = struct.pack("<IIQQIIQII16s60x", 2, len(code) // 8, ctypes.addressof(code),
    gpl, 1, len(log), ctypes.addressof(log), 0, 0, b"reads")
call(321, 5, attr, len(attr))
pmu = int(open("/sys/bus/event_source/devices/kprobe/type").read())
call(298, struct.pack("<IIQ40xQ64x", pmu, 128, 0, name), -1, 0, -1, 0)
raise SystemExit(1)
"""


def locked(level, what):
    return f"the kernel is locked down ({level}), so: no {what}"


@pytest.mark.parametrize("kernel", LEVELS)
def test_lockdown_is_the_reason(kpfs, kernel):
    level = LEVELS[kernel]
    command = sys.executable, "-I", "-S", "-c", ASKS
    done = kpfs("matrix", "--json", "--kernels", kernel, "--", *command)
    (row,) = json.loads(done.stdout)
    told = dict(each.partition(": ")[::2] for each in row["reasons"])
    debugfs = "open(/sys/kernel/debug/kprobes/enabled, O_WRONLY) = EPERM"
    assert told[debugfs] == locked(level, "debugfs access")
    assert told["open(/dev/mem, O_RDONLY) = EPERM"] == locked(
        level, "/dev/mem,kmem,port"
    )
    # this is a refusal of its own
    assert told["write(/sys/kernel/security/lockdown, 'x') = EINVAL"] == ""
    of_probes = [why for call, why in told.items() if "lockdown" not in call]
    only = level == "confidentiality"
    assert (locked(level, "use of bpf to read kernel RAM") in of_probes) == only
    assert (locked(level, "use of tracefs") in of_probes) == only
    assert "use helper" not in str(told)
    assert "unknown func" not in str(told)


@pytest.mark.parametrize("kernel", LEVELS)
def test_it_is_as_it_says(kpfs, kernel):
    """The parameter has been there from the first on, so tracefs may be empty."""
    script = """
        cat /sys/kernel/security/lockdown
        grep -o lockdown=.* /proc/cmdline
        ls /sys/kernel/tracing | grep -c kprobe_events
        cat /sys/kernel/debug/kprobes/blacklist | head -c 2
    """
    done = kpfs("run", "--kernel", kernel, "--inside", "--", "sh", "-c", script)
    parameter, events, address = done.stdout.split()[-3:]
    assert f"[{LEVELS[kernel]}]" in done.stdout
    assert parameter == f"lockdown={LEVELS[kernel]}"
    assert events == "01"[kernel == INTEGRITY]
    assert address == "0x"


@pytest.mark.fuse
def test_behind_the_files(kpfs):
    script = "cat /proc/cmdline; modprobe stp; lsmod"
    done = kpfs("run", "--kernel", CONFIDENTIALITY, "--", "sh", "-c", script)
    assert "lockdown=confidentiality" in done.stdout, done.stderr
    assert "stp" in done.stdout


@pytest.mark.parametrize("kernel", LEVELS)
def test_explain_says_it(kpfs, kernel):
    """The kernel looks for the name first."""
    level = LEVELS[kernel]
    done = kpfs("explain", "--json", "--kernels", kernel, "vfs_read", "nosuch")
    known, missing = json.loads(done.stdout)[kernel]
    assert missing["errno"] == "ENOENT"
    if level == "integrity":
        assert (known["errno"], known["tag"]) == ("", "FTRACE")
        return
    assert (known["errno"], known["why"]) == ("EPERM", locked(level, "use of kprobes"))
    assert known["ways"]["kretprobe"] == known["why"]
    command = sys.executable, "-I", "-S", "-c", ASKS
    done = kpfs("matrix", "--json", "--kernels", kernel, "--", *command)
    assert known["why"] in done.stdout
    table = kpfs("explain", "--kernels", f"{harness.KERNEL},{kernel}", "vfs_read")
    assert f"no kprobe_events, kretprobe where {known['why']}: {kernel}" in table.stdout
