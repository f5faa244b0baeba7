# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks and searches of modules on arm64; test_checks.py has those of x86-64.

Also tests kpfs.linux.search.places.
"""

import json
import re
import shlex

import pytest

from tests import checked, harness
from tests.checked import LOCKS, MEMORY
from tests.programs import static_program

KERNEL = harness.ARM64_TWO_CPUS
COMPILER = "aarch64-linux-gnu-"
pytestmark = [pytest.mark.fuse, pytest.mark.arm64_kernel, pytest.mark.arm64_two_cpus]
# the kernel's release of a lock is in line, and has another place in the report
OTHERWISE = {"lock_after_free": "write of 4 bytes after free"}


@pytest.fixture
def use(kpfs, tmp_path, monkeypatch):
    """Return a function that uses a module by a command, with words of kpfs before."""
    (tmp_path / "data/kpfs").mkdir(parents=True)
    kernels = harness.kernels() / "kpfs" / "kernels"
    (tmp_path / "data/kpfs/kernels").symlink_to(kernels)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def used(name, *words, by="true", mended=False):
        module = checked.build(tmp_path, KERNEL, name, mended=mended).stem
        script = f"busybox insmod {module}.ko && {by}; s=$?; busybox rmmod {module}"
        command = "/bin/sh", "-c", f"PATH=/bin; {script}; exit $s"
        options = "--kernel", KERNEL, "--root", harness.arm64_root()
        return kpfs(words[0], *options, *words[1:], "--", *command, cwd=tmp_path)

    return used


def test_each_error_of_memory_is_found_and_the_mended_module_has_none(use):
    done = use("memory", "run", "--inside", "--check", "memory")
    found = re.findall(
        r"^kpfs: memory: (.*) at (\w+)\+\S+ \[memory\]", done.stderr, re.M
    )
    assert {name: what for what, name in reversed(found)} == MEMORY | OTHERWISE
    report = done.stderr.split("\nkpfs: ")[0].splitlines()
    assert re.search(r"write_behind\+\S+ \[memory\] \(\S+/memory.c:\d+\)", report[0])
    stack = re.findall(r"(\w+)\+0x", report[1])
    assert stack[:3] == ["begin", "do_one_initcall", "do_init_module"]
    done = use("memory", "run", "--inside", "--check", "memory,lock", mended=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_each_error_of_locks_is_found(use):
    done = use("locks", "run", "--inside", "--check", "lock")
    found = re.findall(r"^kpfs: lock: (.*?) at (\w+)\+\S+ \[", done.stderr, re.M)
    assert {name: what.replace("_noprof", "") for what, name in found} == LOCKS


def test_a_lost_update_is_found_and_seen_again(kpfs, use, tmp_path):
    static_program("races", tmp_path, COMPILER)
    options = "--runs", "6", "--jobs", "2", "--kinds", "race,schedule", "--json"
    done = use("races", "search", *options, by="./races lost")
    found = {each["kind"]: each for each in json.loads(done.stdout)["findings"]}
    assert re.search(r"lost\+.* (reads|writes) what lost\+", found["race"]["title"])
    assert found["schedule"]["title"] == "wrong result: status 3, wrong"
    words = shlex.split(found["schedule"]["replay"])
    again = kpfs(*words[1:], cwd=tmp_path)
    assert (again.returncode, again.stdout) == (3, "wrong\n")
    assert again.stderr.endswith("kpfs: wrong result: status 3, wrong\n")
