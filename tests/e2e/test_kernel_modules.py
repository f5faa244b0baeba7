# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules in a kernel of a distribution, by tools and by system calls.

Tests kpfs.commands.guest_tools, kpfs.linux.store.kmod, kpfs.backends.linux.answered.
"""

import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from tests import harness, kernel_modules

SBIN = "/usr/sbin:/sbin"
no_kmod = not shutil.which("modprobe", path=SBIN)
pytestmark = [
    pytest.mark.fuse,
    pytest.mark.kernel,
    pytest.mark.skipif(no_kmod, reason="no kmod (Debian: apt install kmod)"),
]

SLOW = """
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
static bool enough;
module_param(enough, bool, 0644);
static int __init slow_init(void)
{
	do
		msleep_interruptible(20);
	while (!READ_ONCE(enough) && !signal_pending(current));
	return 0;
}
static void __exit slow_exit(void) { }
module_init(slow_init);
module_exit(slow_exit);
MODULE_LICENSE("GPL");
"""
PROBE = """
#include <linux/kprobes.h>
#include <linux/module.h>
static int pre(struct kprobe *p, struct pt_regs *regs)
{
	pr_info("%s was hit\\n", p->symbol_name);
	return 0;
}
static struct kprobe kp = { .symbol_name = "__x64_sys_getppid", .pre_handler = pre };
static int __init probe_init(void) { return register_kprobe(&kp); }
static void __exit probe_exit(void) { unregister_kprobe(&kp); }
module_init(probe_init);
module_exit(probe_exit);
MODULE_LICENSE("GPL");
"""
# a system call by its number, and what it gives
CALL = """
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*words):
    made = libc.syscall(*words)
    return errno.errorcode[ctypes.get_errno()] if made < 0 else made
"""


@pytest.fixture
def run(kpfs):
    """Runs a script beside the kernel, which must not complain; returns its output."""

    def run(script, *arguments):
        words = "run", "--kernel", harness.KERNEL, "--", *script, *arguments
        done = kpfs(*words, timeout=120)
        assert done.stderr == ""
        return done.stdout

    return run


@pytest.fixture
def sh(run):
    return lambda script: run(["sh", "-c", script])


@pytest.fixture
def python(run):
    return lambda script, *arguments: run(
        [sys.executable, "-ISc", CALL + script], *arguments
    )


@pytest.fixture(scope="module")
def built():
    """Modules that were built with the headers of that kernel."""
    return kernel_modules.build({"slow": SLOW, "probe": PROBE})


def test_a_packaged_module_brings_its_dependencies(sh):
    lines = sh("modprobe stp && lsmod; cat /proc/modules; ls -d /sys/module/stp")
    assert re.search(r"^stp +\d+  0$", lines, re.M)
    assert re.search(r"^llc +\d+  1 stp$", lines, re.M)
    assert re.search(r"^llc \d+ 1 stp, Live 0x[0-9a-f]{16}$", lines, re.M)
    assert lines.endswith("/sys/module/stp\n")


def test_built_in_it_is_there(sh):
    assert sh("modprobe tcp_cubic; echo $?") == "0\n"


def test_the_package_is_where_kmod_looks(sh, tmp_path):
    """Options, what nobody uses any more, and tables."""
    (tmp_path / "a.conf").write_text("options loop max_loop=3\n")
    lines = sh(f"""
        modprobe -R fs-squashfs
        modprobe -C {tmp_path} block-major-7-0 max_part=2
        cat /sys/module/loop/parameters/max_loop /sys/module/loop/parameters/max_part
        modprobe stp; modprobe -r -v stp
        modinfo -F depends stp
    """).split("\n")
    assert lines[0] == "squashfs"
    assert lines[1:3] == ["3", "3"]  # partitions: 2^n - 1
    assert lines[3:] == ["rmmod stp", "rmmod llc", "llc", ""]


def test_a_module_is_added_to_the_package(sh):
    added, listed = sh("""
        cd /lib/modules/$(uname -r)
        cp kernel/lib/crc7.ko mine.ko && depmod && modprobe -D mine
        grep -c ^kernel/net/802/stp modules.dep
    """).splitlines()
    assert re.fullmatch("insmod /lib/modules/.*/mine.ko *", added)
    assert listed == "1"


def test_the_configuration_is_that_of_the_kernel(sh):
    """A host that has /proc/config.gz shows the kernel's there, not its own."""
    script = """
        config=/boot/config-$(uname -r)
        grep CONFIG_KPROBES= $config
        test ! -e /proc/config.gz || zcat /proc/config.gz | cmp - $config
        test ! -w $config || : >>$config
    """
    assert "CONFIG_KPROBES=y" in sh(script).split("\n")


def test_a_host_without_kmod():
    """The tool that is found then names the package."""
    tool = harness.ROOT / "kpfs/bin/modprobe"
    environment = {**os.environ, "KPFS_KERNEL": "6.1.0-9-amd64"}
    done = subprocess.run([tool, "stp"], env=environment, capture_output=True)
    said = b"modprobe: kmod is missing (Debian: apt install kmod)\n"
    assert (done.returncode, done.stderr) == (127, said)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("modprobe nothing", "modprobe: FATAL: Module nothing not found in directory"),
        ("rmmod nothing", "rmmod: ERROR: Module nothing is not currently loaded"),
        ("rmmod llc", "rmmod: ERROR: Module llc is in use by: stp"),
        (
            "insmod /etc/passwd",
            "insmod: ERROR: could not insert module /etc/passwd: Invalid module format",
        ),
        ("insmod /none.ko", "insmod: ERROR: could not load module /none.ko: No such"),
    ],
)
def test_tools_of_kmod_say_why_they_refuse(kpfs, command, said):
    first = "modprobe stp; " if "llc" in command else ""
    script = f"{first}{command}; echo $?"
    done = kpfs("run", "--kernel", harness.KERNEL, "--", "sh", "-c", script)
    assert (done.stdout, done.stderr.startswith(said)) == ("1\n", True), done.stderr


def test_system_calls(python):
    script = """
print(call(313, -1, b"", 0), call(313, 0, b"", 0))
with open("/etc/passwd") as text, open("/dev/null", "w") as null:
    print(call(313, text.fileno(), b"", 0), call(313, null.fileno(), b"", 0))
print(call(175, b"text", 4, b""), call(175, bytes(200), 200, b""))
print(call(175, ctypes.c_void_p(8), 200, b""))
print(call(176, b"nothing", 0), call(176, None, 0))
"""
    assert python(script).split() == [
        *("EBADF", "EINVAL"),  # standard input is no file
        *("ENOEXEC", "EBADF"),
        *("ENOEXEC", "ENOEXEC"),
        "EFAULT",
        *("ENOENT", "EFAULT"),
    ]


def test_the_kernels_log_by_syslog(python):
    script = """
buffer = ctypes.create_string_buffer(1 << 18)
size = call(103, 3, buffer, len(buffer))
text = buffer.raw[:size].decode()
print(text.splitlines()[0][5:60])
print(call(103, 10, None, 0), call(103, 3, None, 5), call(103, 99, None, 0))
"""
    first, second = python(script).splitlines()
    assert "Linux version 6.1." in first
    assert second == "131072 EINVAL EINVAL"


def test_a_module_that_was_built_for_it(sh, built):
    script = f"""
        cd {built}
        insmod probe.ko; cat /sys/kernel/debug/kprobes/list
        $KPFS_PYTHON -c 'import os; os.getppid()'
        insmod probe.ko 2>&1
        rmmod probe; cat /sys/kernel/debug/kprobes/list; dmesg | tail -n 1
        modinfo=/sys/module/module/parameters/sig_enforce
        echo 1 >$modinfo; insmod probe.ko 2>&1; modprobe crc7 && lsmod | grep crc7
    """
    lines = sh(script).splitlines()
    assert re.fullmatch(r"[0-9a-f]{16} +k +__do_sys_getppid.*\[FTRACE\]", lines[0])
    assert lines[1].endswith("could not insert module probe.ko: File exists")
    assert lines[2].endswith("] __x64_sys_getppid was hit")
    assert lines[3].endswith("module probe.ko: Key was rejected by service")
    assert re.fullmatch(r"crc7 +\d+  0", lines[4])


def test_a_module_that_takes_long_holds_nobody_up(sh, built):
    script = f"""
        cd {built}
        insmod slow.ko & first=$!
        until grep -q " Loading " /proc/modules; do sleep 0.02; done
        cat /sys/kernel/debug/kprobes/list
        echo 1 >/sys/module/slow/parameters/enough
        wait $first; echo $?; cat /proc/modules
    """
    status, after = sh(script).splitlines()
    assert status == "0"
    assert re.match(r"slow \d+ 0 - Live ", after)


def test_a_killed_insmod_does_not_load(kpfs, built):
    script = "echo there; insmod slow.ko; echo $?"
    words = "run", "--kernel", harness.KERNEL, "--", "sh", "-c", script
    with kpfs.started(*words, cwd=built) as process:
        assert process.stdout.readline() == b"there\n"
        time.sleep(1)
        assert process.poll() is None
        process.terminate()
        assert process.wait(20) != 0


def test_a_long_read_leaves_the_neighbours_alone(sh, tmp_path):
    """The data are larger than the memory that a task shares with the host."""
    (tmp_path / "large").write_bytes(bytes(1 << 20))
    read = (
        f"import os; fd = os.open('{tmp_path}/large', 0); os.read(fd, 1 << 20); "
        "os.lseek(fd, 0, 0); os.readv(fd, [bytearray(1 << 19), bytearray(1 << 19)])"
    )
    assert sh(f'{sys.executable} -ISc "{read}" | cat; dmesg | tail -n 1').startswith(
        "["
    )


@pytest.mark.parametrize("inside", [(), ("--inside",)], ids=("files", "inside"))
def test_coverage(kpfs, built, tmp_path, inside):
    """The report covers a module that is loaded, and no other."""
    made = tmp_path / "made"
    made.write_text("longer than what is written" * 9999)
    words = "run", "--kernel", harness.KERNEL, *inside, "--coverage", made, "--", "sh"
    script = "modprobe dummy && modprobe -r dummy; exit 4"
    done = kpfs(*words, "-c", script, cwd=built)
    assert (done.returncode, done.stderr) == (4, "")
    text = made.read_text()
    assert re.findall(r"^SF:.*", text, re.M) == ["SF:dummy"]
    assert text.endswith("end_of_record\n")
    assert {"FNDA:1,dummy_init_module", "FNDA:0,dummy_xmit"} <= set(text.splitlines())
    assert kpfs(*words[:-1], "nosuch", cwd=built).returncode == 127
    assert made.read_text() == text


def test_coverage_of_a_mount_and_while_events_are_recorded(kpfs, tmp_path):
    m = kpfs.mount("--kernel", harness.KERNEL, "--coverage")
    (m / "machine" / "insmod").write_text("dummy")
    made = tmp_path / "made"
    words = "trace", "--kernel", harness.KERNEL, "-e", "module:", "--coverage", made
    done = kpfs(*words, "--", "modprobe", "dummy")
    assert "module_load: dummy" in done.stdout
    for file in (m / "machine" / "coverage", made):
        assert "FNDA:1,dummy_init_module" in file.read_text().splitlines()
