# SPDX-License-Identifier: GPL-2.0-or-later
"""The console of ``kpfs run --console``, and syslog(2).

This also tests kpfs.backends.guest.syslog.
"""

import re
import shutil
import sys

import pytest

from tests import harness

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

KMSG = "; ".join(f"echo '<{n}>level {n}' >/dev/kmsg" for n in (3, 6, 7))


def run(script, *options):
    done = harness.run(harness.KPFS, "run", *options, "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize(
    ("before", "levels"),
    [
        (":", [3, 6]),
        ("echo 8 >/proc/sys/kernel/printk", [3, 6, 7]),
        ("dmesg -n 4", [3]),
        ("dmesg --console-off", []),
        ("dmesg --console-off; dmesg --console-on", [3, 6]),
    ],
)
def test_messages_below_the_level_are_shown(before, levels):
    said = run(f"{before}; {KMSG}", "--console").stderr
    assert re.sub(r"(?m)^\[ *\d+\.\d{6}\] ", "", said).splitlines() == [
        f"level {n}" for n in levels
    ]


def test_no_message_moves_the_cursor():
    """Console and dmesg show what a terminal would obey, as util-linux's dmesg does."""
    script = r"printf '<1>\033[31m\007 \303\251 \302\233 \377\n' >/dev/kmsg"
    done = run(f"{script}; dmesg | grep 31m; dmesg -r | grep 31m", "--console")
    said = [line.partition("] ")[2] for line in done.stdout.splitlines()]
    assert said == ["\\x1b[31m\\x07 \u00e9 \\x9b \ufffd"] * 2
    assert done.stderr.partition("] ")[2] == "\\x1b[31m\\x07 \u00e9 \\x9b \\xff\n"


def test_without_the_option_nothing_is_shown():
    assert run(f"dmesg -n 8; {KMSG}").stderr == ""


def test_messages_of_modules_come_as_they_are_printed():
    """A message stands before the next output of the command."""
    script = "exec 1>&2; modprobe kretprobe_example; rmmod kretprobe_example; echo end"
    *_, last, end = run(script, "--console").stderr.splitlines()
    assert re.fullmatch(r"\[ +\d+\.\d+\] kretprobe_example: 0 missed", last)
    assert end == "end"


def test_levels_are_written_as_on_linux():
    script = """
        show() { tr '\\t' ' ' <$file; }
        set_to() { printf -- "$1" >$file 2>/dev/null || echo refused; show; }
        file=/proc/sys/kernel/printk
        show; set_to 8; set_to '5 3\n'; set_to '6 5 2 6 1\n'; set_to ' 7\t4 1 7'
        set_to x; set_to 3x; set_to '-1 -2\n'; set_to '4 y\n'; set_to 99999999999
        set_to ''; set_to '0x10 010'
        dmesg -n 1; show; dmesg -n 8; show; echo '0 4 4 7' >$file; dmesg -n 2; show
    """
    assert run(script).stdout.splitlines() == [
        *("7 4 1 7", "8 4 1 7", "5 3 1 7", "6 5 2 6", "7 4 1 7"),
        *("refused", "7 4 1 7", "refused", "7 4 1 7", "-1 -2 1 7"),
        *("refused", "4 -2 1 7", "refused", "4 -2 1 7", "4 -2 1 7", "16 8 1 7"),
        *("1 8 1 7", "8 8 1 7", "4 4 4 7"),
    ]


SYSLOG = """
import ctypes, errno, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def klogctl(action, size=0, buffer=True, place=None):
    room = ctypes.create_string_buffer(max(size, 0) + 1) if buffer else None
    ret = libc.klogctl(action, place or room, size)
    if ret < 0:
        return errno.errorcode[ctypes.get_errno()]
    return room.raw[:ret] if action in (2, 3, 4) and ret else ret
def log(text):
    os.write(kmsg, text)
kmsg = os.open("/dev/kmsg", os.O_WRONLY)
klogctl(2, 1 << 16)  # all that is there
klogctl(5)
print(klogctl(9), klogctl(10), klogctl(3, 100))
log(b"<3>first"); log(b"<14>second")
one = klogctl(3, 35)
print(one[:4], one[-8:], klogctl(9), len(klogctl(3, 100)))
print(klogctl(2, 10)[:4], klogctl(2, 100)[-8:], klogctl(9))
print(len(klogctl(4, 100)), klogctl(3, 100))
print(klogctl(3, -1), klogctl(3, 1, buffer=False), klogctl(3, 0), klogctl(11))
print(klogctl(8, 0), klogctl(8, 9), klogctl(8, 3))
if not os.fork():
    log(b"<5>third"); os._exit(0)
print(klogctl(2, 100)[-7:])
log(b"<5>fourth"); log(b"<5>fifth")
bad = ctypes.c_void_p(8)
print(klogctl(2, 100, place=bad), klogctl(4, 100, place=bad), klogctl(2, 100)[-6:])
print(klogctl(3, 100)[-6:])
signal.setitimer(signal.ITIMER_REAL, 0.2)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, True)
print(klogctl(2, 100))
"""


def test_syslog():
    done = harness.run(harness.KPFS, "run", "--", sys.executable, "-ISc", SYSLOG)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "0 65536 0",
        "b'<14>' b' second\\n' 51 51",
        "b'<11>' b' second\\n' 0",
        "51 0",
        "EINVAL EINVAL 0 EINVAL",
        "EINVAL EINVAL 0",
        "b' third\\n'",
        "EFAULT EFAULT b'fifth\\n'",
        "b'fifth\\n'",
        "EINTR",
    ]


@pytest.mark.parametrize("program", ["busybox dmesg", "dmesg -S"])
def test_programs_that_read_the_log_by_syslog(program):
    if not shutil.which("busybox"):
        pytest.skip("busybox is missing (Debian: busybox)")
    shown = run(f"modprobe kretprobe_example; {program}").stdout
    assert "Linux version 6.1.0-kpfs" in shown


FOLLOWED = """
import subprocess
kmsg = open("/dev/kmsg", "wb", buffering=0)
words = ["dmesg", "-w"]
with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as follower:
    for number in range(3):
        kmsg.write(b"<6>line %d" % number)
        print(next(line for line in follower.stdout if "line" in line)[-7:], end="")
    follower.terminate()
print(follower.returncode)
"""


def test_a_reader_follows_the_log():
    """A reader shows each line before the next is written, and a signal ends it."""
    done = harness.run(
        harness.KPFS, "run", "--quiet-guest", "--", sys.executable, "-ISc", FOLLOWED
    )
    assert done.stdout.splitlines() == ["line 0", "line 1", "line 2", "-15"]


def test_a_linux_kernel_has_its_own_console():
    done = harness.run(
        harness.KPFS, "run", "--console", "--kernel", "any", "--", "true"
    )
    assert done.returncode == 2
    assert done.stderr == (
        "kpfs: --console is for the guest kernel: run dmesg -w beside CMD\n"
    )
