# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules that use an interface of the kernel, and what a real Linux showed of them."""

import os
import subprocess

import pytest

from tests import harness, modbox

HERE = harness.CONFORMANCE
SCRIPTS = sorted(path.stem for path in (HERE / "modules").glob("*.sh"))
MODULES = ("synth_calls", "watch_calls", "debugfs_calls", "kprobe_calls")
# insmod and its kin by the mount's own files, which is faster than by kpfs run
RUN = """
insmod() { echo "$*" >"$M/machine/insmod"; } 2>/dev/null
rmmod() { echo "$1" >"$M/machine/rmmod"; } 2>/dev/null
dmesg() { /bin/dd if="$M/kmsg" iflag=nonblock bs=8192 2>/dev/null; }
. "$1/lib.sh"
(. "$1/modules/$2.sh") 2>&1 | norm
"""


@pytest.mark.fuse
@pytest.mark.guest
@pytest.mark.parametrize("script", SCRIPTS)
def test_script(kpfs, applets, script, tmp_path):
    mount = kpfs.mount("--quiet-guest")
    for name in MODULES:
        (tmp_path / f"{name}.ko").symlink_to(modbox.build(name))
    variables = {
        "M": mount,
        "TRACING": mount / "tracing",
        "HITSYM": "__x64_sys_getppid",
        "DEBUGFS": mount / "debug",
        "HIT": f"{HERE}/hit-by-file {mount}/machine/syscall",
        "KMODULES": tmp_path,
        "PATH": f"{applets}:/usr/sbin:/usr/bin:/sbin:/bin",
    }
    done = subprocess.run(
        ["sh", "-c", RUN, "sh", HERE, script],
        env=os.environ | {name: str(value) for name, value in variables.items()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == (
        (HERE / "modules" / f"{script}.out").read_text().splitlines()
    )
    assert (done.returncode, done.stderr) == (0, "")
