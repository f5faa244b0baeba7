# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs dump, read by gdb and crash.

This also tests kpfs.backends.linux.dumped.
"""

import os
import re
import shutil

import pytest

from tests import harness

pytestmark = [pytest.mark.fuse, pytest.mark.guest]


def test_gdb_reads_a_dump_of_the_guest_kernel(kpfs, tmp_path):
    if not shutil.which("gdb"):
        pytest.skip("gdb is missing (Debian: gdb)")
    done = kpfs(
        *("run", "--quiet-guest", "--", "sh", "-c"),
        f"cd {tmp_path}; {harness.KPFS} dump core; cp $KPFS/machine/vmlinux .",
    )
    assert (done.returncode, done.stderr) == (0, "")
    core = tmp_path / "core"
    assert core.stat().st_blocks * 512 < 16 << 20 < core.stat().st_size
    asked = "print init_task.comm", "info threads", "bt", "x/i vfs_read"
    words = [word for line in asked for word in ("-ex", line)]
    said = harness.run("gdb", "-batch", "-nx", *words, tmp_path / "vmlinux", core)
    assert '"swapper/0' in said.stdout
    assert len(re.findall(r"^[* ] *\d+ .*default_idle", said.stdout, re.M)) == 2
    assert re.search(r"^#\d+ .*startup_64", said.stdout, re.M)
    assert "<vfs_read>:" in said.stdout


@pytest.mark.skipif(shutil.which("gdb-multiarch") is None, reason="no gdb-multiarch")
@pytest.mark.parametrize("kernel", harness.on_each((harness.ARMHF, harness.I386)))
def test_gdb_reads_a_dump_of_a_dead_kernel_of_32_bits(kpfs, tmp_path, kernel):
    kpfs.announce("the guest is dead")
    script = f"""cd {tmp_path}
    (echo c >$KPFS/proc/sysrq-trigger) 2>/dev/null
    {harness.KPFS} dump core; cp $KPFS/machine/vmlinux ."""
    kpfs("run", "--quiet-guest", "--kernel", kernel, "--", "bash", "-c", script)
    words = "gdb-multiarch", "-batch", "-nx", "-ex", "bt"
    said = harness.run(*words, tmp_path / "vmlinux", tmp_path / "core").stdout
    names = re.findall(r"^#\d+ .*? in ([\w.]+) \(\)$", said, re.M)
    assert [name.removesuffix(".cold") for name in names[1:8]] == [
        *("panic", "sysrq_handle_crash", "__handle_sysrq", "write_sysrq_trigger"),
        *("proc_reg_write", "vfs_write", "ksys_write"),
    ]
    assert "corrupt" not in said


@pytest.mark.kernel
def test_crash_and_readelf_read_a_dump_of_a_linux_kernel(kpfs, tmp_path):
    core = tmp_path / "core"
    words = "run", "--kernel", harness.KERNEL, "--", "sh", "-c"
    done = kpfs(*words, f"{harness.KPFS} dump {core}; uname -r")
    assert (done.returncode, done.stderr) == (0, "")
    assert core.stat().st_blocks * 512 < core.stat().st_size // 4
    release = done.stdout.strip()
    with open(core, "rb") as file:
        head = file.read(0x2_0000)
    assert f"OSRELEASE={release}\n".encode() in head
    assert b"\nKERNELOFFSET=" in head
    if not shutil.which("crash"):
        pytest.skip("crash is missing (Debian: crash)")
    vmlinux = f"/usr/lib/debug/boot/vmlinux-{release}"
    if not os.path.exists(vmlinux):
        pytest.skip(f"{vmlinux} is missing (Debian: linux-image-{release}-dbg)")
    said = harness.run("crash", "-s", vmlinux, core, input="sys\nbt\nlog | head -1\n")
    assert f"RELEASE: {release}" in said.stdout
    assert "Linux version" in said.stdout
