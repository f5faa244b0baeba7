# SPDX-License-Identifier: GPL-2.0-or-later
"""One of many processes that read and toggle: stress.py MOUNT ROLE NUMBER SECONDS.

Prints how often it went round; a failed check is a traceback.
"""

import os
import random
import re
import sys
import time

FIXED = ("vfs_open", "vfs_write", "kfree", "dput", "ksys_write", "do_sys_openat2")
LINE = re.compile(
    r"[0-9a-f]{16}  [kr]  [\w.]+\+0x[0-9a-f]+ +(\[DISABLED\]|\[FTRACE\]|\[OPTIMIZED\])*"
)


def whole(path, size=65536):
    """The file's text, read in pieces of size."""
    pieces = []
    fd = os.open(path, os.O_RDONLY)
    while piece := os.read(fd, size):
        pieces.append(piece)
    os.close(fd)
    return b"".join(pieces).decode()


def check(text):
    """A list is whole lines, and shows each fixed probe exactly once."""
    lines = text.splitlines()
    assert text.endswith("\n"), text[-80:]
    for line in lines:
        assert LINE.fullmatch(line), line
    for name in FIXED:
        assert text.count(f"{name}+0x0 ") == 1, text
    return lines


def reader(top, _number):
    check(whole(f"{top}/kprobes/list", random.choice((7, 100, 1000, 65536))))


def looker(top, _number):
    for name in ("kprobe_profile", "trace", "kprobe_events", "dynamic_events"):
        whole(f"{top}/tracing/{name}", 1000)


def write(path, text):
    fd = os.open(path, os.O_WRONLY)
    try:
        assert os.write(fd, text) == len(text)
    finally:
        os.close(fd)


def toggler(top, number, *, strict=True):
    """Switch our own event, and look whether it is so."""
    enable = f"{top}/tracing/events/stress/t{number}/enable"
    for value in (b"1", b"0"):
        write(enable, value)
        assert whole(enable) == value.decode() + "\n"
        text = whole(f"{top}/kprobes/list")
        lines = [x for x in check(text) if f" {TARGETS[number]}+0x0 " in x]
        assert len(lines) == 1, text
        if strict or value == b"0":
            assert ("[DISABLED]" in lines[0]) == (value == b"0"), lines


def lax_toggler(top, number):
    """Beside a switcher: an event enabled while all are disarmed stays disabled."""
    toggler(top, number, strict=False)


def switcher(top, _number):
    """The global switch; one process alone has this role."""
    turn(f"{top}/kprobes/enabled")


def optimizer(top, _number):
    """The sysctl; one process alone has this role."""
    turn(f"{top}/sys/debug/kprobes-optimization")


def turn(path):
    for value in (b"0", b"1"):
        write(path, value)
        assert whole(path) == value.decode() + "\n"


TARGETS = ("vfs_read", "ksys_read", "schedule", "vfs_fsync_range", "kernel_clone")
ROLES = {
    "reader": reader,
    "looker": looker,
    "toggler": toggler,
    "lax_toggler": lax_toggler,
    "switcher": switcher,
    "optimizer": optimizer,
}


def definitions():
    """What the mount needs before the processes start."""
    lines = [f"p:stress/f{i} {name}" for i, name in enumerate(FIXED)]
    lines += [f"p:stress/t{i} {name}" for i, name in enumerate(TARGETS)]
    return "\n".join(lines) + "\n"


def main():
    top, role, number, seconds = sys.argv[1:]
    random.seed(int(number))
    end = time.monotonic() + float(seconds)
    rounds = 0
    while time.monotonic() < end:
        ROLES[role](top, int(number))
        rounds += 1
    print(rounds)


if __name__ == "__main__":
    main()
