# SPDX-License-Identifier: GPL-2.0-or-later
"""The errnos of open(2) and of calls with names, as Linux 6.1 has them."""

import subprocess
import sys

import pytest

from tests import harness

pytestmark = pytest.mark.fuse

GUEST = pytest.param((), id="guest", marks=pytest.mark.guest)
LINUX = pytest.param(("--kernel", harness.KERNEL), id="linux", marks=pytest.mark.kernel)
START = """
import errno, os, stat, sys
tracing, debug = sys.argv[1:]

def made(call, *args):
    try:
        result = call(*args)
    except OSError as error:
        return errno.errorcode[error.errno]
    if call is os.open:
        os.close(result)
    return "made"
"""
DIRECT = """
wrong = []
for top in tracing, debug + "/kprobes":
    for folder, names, files in os.walk(top):
        if folder.endswith("/events"):
            names[:] = ["sched"]
        for path in [folder, *(os.path.join(folder, name) for name in files)]:
            for way in os.O_RDONLY, os.O_WRONLY, os.O_RDWR:
                flags = way | os.O_DIRECT | os.O_NONBLOCK
                refusal = "EISDIR" if way and path == folder else "EINVAL"
                if made(os.open, path, flags) != refusal:
                    wrong.append((path, way))
# what was opened by the way is closed
pipes = [made(os.open, tracing + "/trace_pipe", os.O_RDONLY) for _ in range(2)]
print(wrong, pipes)
"""
# by call: its arguments for a name, and what it fails with if the name may be
NAMES = """
def calls(name, other):
    create = os.O_CREAT | os.O_RDWR
    return [
        (os.stat, name), (os.open, name, os.O_RDONLY), (os.open, name, create),
        (os.mkdir, name), (os.rmdir, name), (os.unlink, name), (os.chdir, name),
        (os.symlink, "x", name), (os.link, other, name), (os.rename, name, other),
        (os.rename, other, name), (os.mknod, name), (os.readlink, name),
        (os.mknod, name, stat.S_IFIFO), (os.chmod, name, 0), (os.truncate, name, 0),
        (os.stat, name + "/x"),
    ]

for length in 255, 256, 1024, 1025:
    for folder in tracing, tracing + "/instances", tracing + "/options":
        name = folder + "/" + "a" * length
        found = [made(*call) for call in calls(name, tracing + "/trace")]
        print(length, *(found if length == 255 else sorted(set(found))))
"""
SHORT = (
    *("ENOENT", "ENOENT", "EACCES", "EPERM", "ENOENT", "ENOENT", "ENOENT", "EPERM"),
    *("EPERM", "ENOENT", "EPERM", "EACCES", "ENOENT", "EPERM", "ENOENT", "ENOENT"),
    "ENOENT",
)
INSTANCE = [*SHORT[:3], "made", "made", *SHORT[5:]]
LONG = [f"{length} ENAMETOOLONG" for length in (256, 1024, 1025) for _ in range(3)]
REFUSED = [
    "[] ['made', 'made']",
    *(" ".join(["255", *found]) for found in (SHORT, INSTANCE, SHORT)),
    *LONG,
]
SCRIPT = START + DIRECT + NAMES


@pytest.mark.parametrize("options", [GUEST, LINUX])
def test_under_run(kpfs, options):
    where = "/sys/kernel/tracing", "/sys/kernel/debug"
    command = "run", *options, "--", sys.executable, "-ISc", SCRIPT, *where
    assert kpfs(*command).stdout.splitlines() == REFUSED


@pytest.mark.parametrize(
    "options",
    [GUEST, pytest.param(("--transport", "libfuse"), marks=pytest.mark.libfuse)],
)
def test_on_a_mount(kpfs, options):
    mount = kpfs.mount(*options)
    where = str(mount / "tracing"), str(mount)
    done = subprocess.run(
        [sys.executable, "-ISc", SCRIPT, *where], capture_output=True, text=True
    )
    assert done.stdout.splitlines() == REFUSED, done.stderr
