# SPDX-License-Identifier: GPL-2.0-or-later
"""Every file is read to its end under ``kpfs run``, and nothing hangs.

Tests kpfs.fs.fuse.server, whose process must not wait for itself: with thresholds of 0
the C library gives memory back, and so reads files of /proc, as often as it can.
"""

import sys

import pytest

from tests import harness

pytestmark = pytest.mark.fuse

READ_ALL = """
import os, sys
skipped = {"events", "kcore", "trace_pipe", "trace_pipe_raw", "per_cpu"}
# those of processes, and kcore, are as long as memory
for folder, names, files in os.walk(os.environ["KPFS"]):
    most = 6 if folder.count("/") < 6 else 2  # sysfs is wide, far down, too
    names[:] = sorted(n for n in names if not n.isdigit() and n not in skipped)[:most]
    for name in sorted(set(files) - skipped)[: 2 * most]:
        path = os.path.join(folder, name)
        print(path, file=sys.stderr, flush=True)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue  # it is for writing
        try:
            while os.read(fd, 1 << 20):
                pass
        except OSError:
            pass
        os.close(fd)
print("all")
"""


KERNELS = [
    pytest.param("", id="guest", marks=pytest.mark.guest),
    harness.on(harness.KERNEL),
    *harness.on_each(harness.FOREIGN),
]


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_file_is_read(kernel, kpfs, monkeypatch):
    options = ("--kernel", kernel) if kernel else ()
    for name in ("TRIM_THRESHOLD", "TOP_PAD"):
        monkeypatch.setenv(f"MALLOC_{name}_", "0")
    done = kpfs("run", *options, "--", sys.executable, "-ISc", READ_ALL)
    assert done.stdout == "all\n", done.stderr.splitlines()[-1]
    assert "/machine/vmlinux" in done.stderr
