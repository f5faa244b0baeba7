# SPDX-License-Identifier: GPL-2.0-or-later
"""machine/ over a kernel of a distribution, and what becomes of one that dies.

Tests kpfs.backends.linux.machine_info, kpfs.fs.module_file,
kpfs.linux.running.loading, kpfs.linux.board.stops,
kpfs.linux.memory.calls, kpfs.linux.memory.dmesg, kpfs.linux.memory.kprobes,
kpfs.linux.memory.memory, kpfs.linux.memory.structures, kpfs.linux.memory.vmlinux.
"""

import errno
import os
import re
import shutil
import subprocess

import pytest

from tests import harness

pytestmark = [pytest.mark.fuse, pytest.mark.kernel]

KERNEL = harness.KERNEL
SHUT_DOWN = os.strerror(errno.ESHUTDOWN)


@pytest.fixture
def m(kpfs):
    return kpfs.mount("--kernel", KERNEL)


def probe(m, place, kind="p"):
    definition = f"{kind}:{kind}_{re.sub('[+:]', '_', place)} {place}\n"
    fd = os.open(m / "tracing" / "kprobe_events", os.O_WRONLY | os.O_APPEND)
    os.write(fd, definition.encode())
    os.close(fd)
    (m / "tracing" / "events" / "kprobes" / "enable").write_text("1")


def test_the_directory(m):
    assert "machine" in os.listdir(m)
    files = {
        "insmod",
        "lost",
        "mounts",
        "probes",
        "reboot",
        "rmmod",
        "stats",
        "syscall",
    }
    files |= {"text", "vmcore", "vmlinux"}
    assert set(os.listdir(m / "machine")) == files
    with pytest.raises(FileNotFoundError):
        (m / "machine" / "none").read_text()
    with pytest.raises(PermissionError):
        (m / "machine" / "new").mkdir()


def test_text_shows_the_bytes_of_probes(m):
    text = m / "machine" / "text" / "vfs_read"
    before = text.read_text()
    assert before.startswith("vfs_read:\n  ffffffff")
    assert "was:" not in before
    probe(m, "vfs_read")
    probe(m, "vfs_read+5")
    lines = text.read_text().splitlines()
    assert re.search(r" e8 .* call .* # call, was: nop dword", lines[1])
    assert re.search(r" cc .* int3 .* # breakpoint, was: push", lines[2])
    count = len(before.splitlines())
    assert lines[3:count] == before.splitlines()[3:]
    assert lines[count : count + 2] == ["", "slot of vfs_read+0x5:"]
    assert re.search(r" push r", lines[count + 2])
    assert "vfs_read" in os.listdir(m / "machine" / "text")
    for name in ("none", "jiffies"):
        assert not (m / "machine" / "text" / name).exists()


def test_modules_have_text_too(m):
    text = m / "machine" / "text"
    assert not (text / "stp_proto_register").exists()
    (m / "machine" / "insmod").write_text("stp\n")
    assert "stp_proto_register" in os.listdir(text)
    before = (text / "stp:stp_proto_register").read_text()
    assert before == (text / "stp_proto_register").read_text()
    assert before.startswith("stp_proto_register [stp]:\n  ffffffff")
    assert "was:" not in before
    assert "<mutex_lock>" in before
    probe(m, "stp:stp_proto_register")
    probe(m, "stp:stp_proto_register+5")
    lines = (text / "stp_proto_register").read_text().splitlines()
    assert re.search(r" e8 .* call .* # call, was: nop dword", lines[1])
    assert re.search(r" cc .* int3 .* # breakpoint, was: push", lines[2])
    assert lines[3 : len(before.splitlines())] == before.splitlines()[3:]
    (m / "tracing" / "events" / "kprobes" / "enable").write_text("0")
    assert (text / "stp_proto_register").read_text() == before
    (m / "tracing" / "kprobe_events").write_text("")
    (m / "machine" / "rmmod").write_text("stp")
    assert not (text / "stp_proto_register").exists()


def test_insmod_and_rmmod_refuse(m, tmp_path):
    insmod, rmmod = m / "machine" / "insmod", m / "machine" / "rmmod"
    (tmp_path / "text.ko").write_text("text")
    for line, why in (
        ("none", errno.ENOENT),
        ("/none.ko", errno.ENOENT),
        (f"{tmp_path}/text.ko", errno.ENOEXEC),
        (" ", errno.EINVAL),
    ):
        with pytest.raises(OSError, match=os.strerror(why)):
            insmod.write_text(line)
    insmod.write_text("crc7")
    with pytest.raises(FileExistsError):
        insmod.write_text("crc7")
    for line, why in (("none", errno.ENOENT), ("crc7 none", errno.EINVAL)):
        with pytest.raises(OSError, match=os.strerror(why)):
            rmmod.write_text(line)


def test_probes_are_those_of_the_list(m):
    (m / "machine" / "insmod").write_text("stp")
    for place in (
        "vfs_read",
        "stp_proto_register",
        "__x64_sys_getppid",
        "do_sys_openat2+5",
    ):
        probe(m, place)
    probe(m, "vfs_read", "r")
    for _ in range(3):
        (m / "machine" / "syscall").write_text("getppid")
    head, *rows = (line.split() for line in (m / "machine" / "probes").open())
    listed = [line.split() for line in (m / "kprobes" / "list").open()]
    assert head[:4] == ["address", "type", "place", "owner"]
    assert [row[:2] for row in rows] == [line[:2] for line in listed]
    for row, line in zip(rows, listed, strict=True):
        module = [] if line[3].startswith("[") else [line[3]]
        assert row[2] == ":".join((line[2], *module))
    by_owner = {row[3]: dict(zip(head, row, strict=True)) for row in rows}
    calls = by_owner["kprobes/p___x64_sys_getppid"]
    assert (calls["hits"], calls["slot"], calls["detour"]) == ("3", "-", "-")
    stepped = by_owner["kprobes/p_do_sys_openat2_5"]
    assert re.fullmatch("ffffffff[0-9a-f]{8}", stepped["slot"])
    assert by_owner["kprobes/r_vfs_read"]["type"] == "r"
    profile = [line.split() for line in (m / "tracing" / "kprobe_profile").open()]
    missed = {f"kprobes/{name}": count for name, _, count in profile}
    assert {row["nmissed"] for row in by_owner.values()} == set(missed.values())


def test_vmlinux_is_read_by_tools(m):
    file = m / "machine" / "vmlinux"
    size = file.stat().st_size
    assert size > 10 << 20
    listing = run("nm", file)
    (address,) = re.findall(r"^(\w+) T vfs_read$", listing, re.M)
    code = run("objdump", "-d", "--disassemble=vfs_read", file)
    first, second = re.findall(rf"^{address[:-1]}\w:\t.*?\t(.*)$", code, re.M)[:2]
    assert first.startswith("nopl ")
    assert second.startswith("push ")
    assert len(file.read_bytes()) == size


def run(*words):
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is missing")
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_system_calls_of_the_writer(m):
    probe(m, "__x64_sys_getppid")
    syscall = m / "machine" / "syscall"
    syscall.write_text('getppid\nopenat -100 "/" 0\nuname buf\n')
    profile = (m / "tracing" / "kprobe_profile").read_text()
    assert re.match(r"\s+p___x64_sys_getppid +1 ", profile)
    for line, why in (
        ("openat -100 /none 0", errno.ENOENT),
        ("fork", errno.EPERM),
        ("none", errno.ENOSYS),
        ("getppid 1 2 3 4 5 6 7", errno.EINVAL),
    ):
        with pytest.raises(OSError, match=os.strerror(why)):
            syscall.write_text(line)


def test_stats_count(m):
    def count():
        rows = (m / "machine" / "stats").read_text().split("\n")[:-1]
        return {name: int(value) for name, value in map(str.split, rows)}

    before = count()
    (m / "version").read_text()
    assert count()["syscalls"] > before["syscalls"]


def test_reboot_takes_all_probes_away(m):
    probe(m, "vfs_read")
    with open(m / "version") as old:
        (m / "machine" / "reboot").write_text("1")
        with pytest.raises(OSError, match=SHUT_DOWN):
            old.read()
    assert (m / "kprobes" / "list").read_text() == ""


def test_a_dead_guest_tells_why_and_starts_anew(kpfs, m):
    kpfs.announce("the guest is dead")
    with pytest.raises(OSError, match=SHUT_DOWN):
        (m / "proc" / "sysrq-trigger").write_text("c")
    for name in ("version", "kprobes/list", "tracing/trace"):
        with pytest.raises(OSError, match=SHUT_DOWN):
            (m / name).read_text()
    assert "sysrq: Trigger a crash" in (m / "kmsg").read_text().splitlines()[-1]
    log = kpfs.log.read_text()
    assert log.count("the guest is dead: kernel panic: sysrq triggered crash") == 1
    assert "] sysrq: Trigger a crash" in log
    (m / "machine" / "reboot").write_text("1")
    assert (m / "version").read_text().startswith("Linux version")


def test_reboot_under_run(kpfs):
    script = """
cd $KPFS
echo 'p:e do_sys_openat2 file=+0(%si):ustring' >/sys/kernel/tracing/kprobe_events
echo 1 >machine/reboot
cat kprobes/list
echo 'p:e do_sys_openat2 file=+0(%si):ustring' >/sys/kernel/tracing/kprobe_events
echo 1 >/sys/kernel/tracing/events/kprobes/e/enable
cat /etc/hostname >/dev/null
echo 0 >/sys/kernel/tracing/events/kprobes/e/enable
grep -c hostname /sys/kernel/tracing/trace
grep '/sys/kernel/tracing tracefs' /proc/mounts >/dev/null || cat /proc/mounts
"""
    done = kpfs("run", "--kernel", KERNEL, "--", "sh", "-c", script)
    assert (done.stdout, done.stderr) == ("1\n", "")
