# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs run --check``: errors of modules are found, and correct modules have none.

Also tests kpfs.linux.search.checks, kpfs.linux.search.objects,
kpfs.linux.search.frames and kpfs.linux.search.locks.
"""

import re
import shutil
import subprocess

import pytest

from tests import checked, harness
from tests.checked import LOCKS, MEMORY

SBIN = "/usr/sbin:/sbin"
pytestmark = [
    pytest.mark.fuse,
    pytest.mark.kernel,
    pytest.mark.skipif(
        not (shutil.which("gcc") and shutil.which("insmod", path=SBIN)),
        reason="no gcc or kmod (Debian: apt install gcc kmod)",
    ),
]
# modules of the distribution; each command uses some of them
USES = {
    "network": """
        modprobe -a dummy veth bridge tun
        ip link add d0 type dummy && ip link set d0 up && ip link del d0
        ip link add v0 type veth peer name v1 && ip link add br0 type bridge
        ip link set v0 master br0 && ip link set v0 up
        ip link del br0; ip link del v0
        modprobe -r dummy veth tun bridge
    """,
    "disk": """
        modprobe zram 2>/dev/null || modprobe loop
        modprobe ext4 && modprobe -r ext4
    """,
}


def check(kpfs, kinds, command, **options):
    words = "run", "--kernel", harness.KERNEL, "--inside", "--check", kinds
    return kpfs(*words, "--", "sh", "-c", command, **options)


def load(path):
    return f"insmod -f {path} && rmmod {path.stem}"


def test_each_error_of_memory_is_found_and_the_mended_module_has_none(kpfs, tmp_path):
    module = checked.build(tmp_path, harness.KERNEL, "memory")
    done = check(kpfs, "memory", load(module))
    assert done.returncode == 1
    found = re.findall(
        r"^kpfs: memory: (.*) at (\w+)\+\S+ \[memory\]", done.stderr, re.M
    )
    said = {name: what for what, name in reversed(found)}
    assert said == MEMORY
    report = done.stderr.split("\nkpfs: ")[0].splitlines()
    assert re.search(r"write_behind\+\S+ \[memory\] \(\S+/memory.c:\d+\)", report[0])
    assert re.match(r"    by task \d+ \(insmod\) on CPU 0, in begin\+", report[1])
    assert report[2] == "    0 behind an object of 60 bytes"
    assert re.match(r"    allocated by task \d+ \(insmod\) with __kmalloc", report[3])
    assert "    freed by task " in report[4]

    mended = checked.build(tmp_path, harness.KERNEL, "memory", mended=True)
    done = check(kpfs, "memory", f"{load(mended)}; exit 3")
    assert (done.returncode, done.stderr) == (3, "")


MANY = """
#include "kernel.h"
#define TEN(X) X X X X X X X X X X
static noinline void many(volatile char *p)
{
	TEN(TEN(p[64] = 1; p[65] = 1; p[66] = 1;))
}
static int begin(void)
{
	void *p = __kmalloc(64, GFP_KERNEL);

	many(p);
	kfree(p);
	return 0;
}
static void finish(void) {}
"""


def test_findings_that_are_too_many_for_one_run_are_counted_by_place(kpfs, tmp_path):
    (tmp_path / "many.c").write_text(MANY)
    done = check(kpfs, "memory", load(checked.build(tmp_path, harness.KERNEL, "many")))
    assert done.returncode == 1
    *found, more = done.stderr.splitlines()
    assert sum(line.startswith("kpfs: memory: write") for line in found) == 256
    assert more == (
        "kpfs: memory: 44 more findings of one run are only counted: 44 at many [many]"
    )


def test_two_files_under_one_name_have_their_own_lines(kpfs, tmp_path):
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder, name in zip(folders, ("branches", "locks", "memory"), strict=True):
        folder.mkdir()
        checked.build(folder, harness.KERNEL, name, called="twin")
    command = "; ".join(load(folder / "twin.ko") for folder in [*folders, folders[1]])
    done = check(kpfs, "memory,lock", command)
    assert done.returncode == 1
    told = re.findall(r"\[(twin\S*)\] \(\S*/(\w+)\.c:", done.stderr)
    assert {*told} == {("twin#2", "locks"), ("twin#3", "memory")}


def test_each_error_of_locks_is_found_and_the_mended_module_has_none(kpfs, tmp_path):
    module = checked.build(tmp_path, harness.KERNEL, "locks")
    done = check(kpfs, "lock", load(module))
    assert done.returncode == 1
    found = re.findall(r"^kpfs: lock: (.*?) at (\w+)\+\S+ \[", done.stderr, re.M)
    assert {name: what for what, name in found} == LOCKS
    circle = re.findall(r"has lock (\S+), taken .* takes (\S+) at", done.stderr)
    (first, second), (third, fourth) = circle[:2]
    assert (second, fourth) == (third, first)

    mended = checked.build(tmp_path, harness.KERNEL, "locks", mended=True)
    done = check(kpfs, "lock", load(mended))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_kernel_without_landing_places_is_not_checked_for_them(kpfs):
    done = check(kpfs, "ibt", "true")
    why = "--check ibt: this kernel is built without CONFIG_X86_KERNEL_IBT"
    assert (done.returncode, done.stderr) == (2, f"kpfs: {why}\n")


@pytest.mark.two_cpus
def test_a_branch_that_does_not_land_is_found(kpfs, tmp_path):
    words = "run", "--kernel", harness.TWO_CPUS, "--inside", "--check", "ibt", "--"
    module = checked.build(tmp_path, harness.TWO_CPUS, "branches")
    done = kpfs(*words, "sh", "-c", load(module))
    assert done.returncode == 1
    told = r"^kpfs: ibt: a branch at call_by_address\+.* leads to target"
    assert len(re.findall(told, done.stderr, re.M)) == done.stderr.count("kpfs:") == 1
    mended = checked.build(tmp_path, harness.TWO_CPUS, "branches", mended=True)
    done = kpfs(*words, "sh", "-c", load(mended))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_modules_of_the_distribution_have_no_errors(kpfs, use):
    done = check(kpfs, "memory,lock", use)
    assert "kpfs:" not in done.stderr


def test_what_cannot_be_checked_is_refused(kpfs):
    done = check(kpfs, "memory,luck", "true")
    assert done.returncode == 2
    assert "no kind 'luck'; there are race, memory" in done.stderr
    done = kpfs("run", "--check", "memory", "true")
    assert (done.returncode, done.stderr) == (2, "kpfs: --check is for --inside\n")


def test_a_run_without_anything_to_check_says_so(kpfs):
    done = check(kpfs, "memory,lock", "exit 3")
    said = "kpfs: nothing was checked: CMD loaded no module or BPF program\n"
    assert (done.returncode, done.stderr) == (3, said)


def test_chosen_functions_of_the_kernel_are_checked(kpfs, tmp_path):
    module = checked.build(tmp_path, harness.KERNEL, "memory")
    of = "--of", "memory", "--of", "kmemdup", "--of", "kmemdup_nowhere"
    words = "run", "--kernel", harness.KERNEL, "--inside", "--check", "memory", *of
    done = kpfs(*words, "--", "sh", "-c", load(module))
    assert done.returncode == 1
    assert "memory: read of 34 bytes out of bounds at kmemdup+" in done.stderr
    assert "duplicate_too_much" in done.stderr
    assert "--of kmemdup_nowhere: CMD loads no module or BPF program" in done.stderr


def test_a_bpf_program_that_reads_what_is_freed_is_found(kpfs, tmp_path):
    program = tmp_path / "reads"
    source = harness.ROOT / "tests/programs/reads.c"
    subprocess.run(["gcc", "-O1", "-o", str(program), str(source)], check=True)
    for mended in (False, True):
        module = checked.build(tmp_path, harness.KERNEL, "shown", mended=mended)
        use = f"insmod -f {module} && {program} __virt_addr_valid rmmod {module.stem}"
        done = check(kpfs, "memory", use)
        found = re.findall(r"^kpfs: memory: (.*?) at bpf_prog_", done.stderr, re.M)
        assert found == ([] if mended else ["read of 8 bytes after free"])
        assert done.returncode == (not mended)
