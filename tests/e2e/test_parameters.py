# SPDX-License-Identifier: GPL-2.0-or-later
"""Parameters in a kernel's name: sysctls, boot parameters, CPUs.

Tests kpfs.linux.running.chosen over kernels that run.
"""

import json

import pytest

import kpfs as api
from kpfs.linux.running import chosen
from kpfs.linux.store import store
from tests import harness

pytestmark = [pytest.mark.kernel, pytest.mark.parameters]

KERNEL, BOOTED = harness.KERNEL, harness.WITH_PARAMETERS
VALUE = "/proc/sys/kernel/kptr_restrict"


def test_columns_of_the_matrix(kpfs):
    names = [KERNEL, f"{KERNEL}+kptr_restrict=2", BOOTED, f"{BOOTED}+kptr_restrict=1"]
    script = f"echo $(cat {VALUE}) $(nproc); grep -q preempt=full /proc/cmdline"
    words = "--kernels", ",".join(names), "--explain-failures", "--json"
    done = kpfs("matrix", *words, "--", "sh", "-c", script)
    rows = json.loads(done.stdout)
    assert [(row["kernel"], row["status"], row["output"]) for row in rows] == [
        (names[0], 1, "0 1\n"),
        (names[1], 1, "2 1\n"),
        (names[2], 0, "0 2\n"),
        (names[3], 0, "1 2\n"),
    ], done.stderr


@pytest.mark.fuse
def test_behind_the_files(kpfs):
    name = f"{BOOTED}+kernel.kptr_restrict=2"
    done = kpfs("run", "--kernel", name, "--", "cat", VALUE, "/proc/cmdline")
    value, line = done.stdout.splitlines()
    assert (value, line.split()[-1]) == ("2", "preempt=full")


def test_in_the_process():
    with api.Kernel(kernel=f"{KERNEL}+kptr_restrict=2") as kernel:
        assert kernel.read("sys/kernel/kptr_restrict") == "2\n"


def test_explained(kpfs):
    names = f"{KERNEL}+kptr_restrict=2,{BOOTED}"
    done = kpfs("explain", "--kernels", names, "vfs_read")
    assert done.stdout.splitlines()[0].split() == [names]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("run --kernel {}+kptr_restrict=9 true", f"{VALUE} does not take '9': Inv"),
        (
            "run --kernel {}+kptr_restrict=9 --inside true",
            f"{VALUE} does not take '9': Invalid argument",
        ),
        ("run --kernel {}+a=1 --inside true", "no kernel {}+a=1: {} was not made with"),
        ("matrix --kernels {}+a=1 true", "no kernel {}+a=1: {} was not made with"),
        ("explain --kernels {}+a=1 vfs_read", "no kernel {}+a=1: {} was not made"),
        (
            "run --kernel {}+cpus=2+preempt=full --cpus 3 true",
            "with --cpus 2; for 3 say --kernel {}+preempt=full+cpus=3 --make",
        ),
        ("kernel make {}+kptr_restrict=1", "kptr_restrict is a sysctl, which is set"),
        ("kernel make {}+a=1 --cpus 2", "--cpus is for a name without parameters"),
        pytest.param(  # it boots, as the next one does
            "kernel make {}+nosuch=1",
            "nosuch is neither a boot parameter nor a sysctl",
            marks=pytest.mark.long,
        ),
        ("matrix --make --kernels {},{}+nosuch=1 true", "{}+nosuch=1: nosuch is neith"),
        ("kernel rm {}+kptr_restrict=1", "no kernel {}+kptr_restrict=1"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(kpfs, words, why):
    done = kpfs(*words.replace("{}", KERNEL).split())
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert why.replace("{}", KERNEL) in done.stderr


def test_an_image_with_parameters_goes_with_its_kernel(kpfs, monkeypatch, tmp_path):
    harness.own_kernels(tmp_path, {KERNEL: KERNEL, BOOTED: BOOTED, "other": KERNEL})
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert chosen.made_with(KERNEL) == [BOOTED]
    assert BOOTED in kpfs("kernel", "list").stdout
    assert kpfs("kernel", "rm", KERNEL).returncode == 0
    assert store.names() == ["other"]
