# SPDX-License-Identifier: GPL-2.0-or-later
"""Names, versions and modules of the kernel that a command under ``kpfs run`` sees.

This also tests kpfs.mirror.host_overrides.
"""

import os

import pytest

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

RELEASE = "6.1.0-kpfs"
SHOW = """
uname -r; uname -n; uname -v
cat /proc/sys/kernel/osrelease /proc/cmdline; cut -d " " -f 3 /proc/version
zcat /proc/config.gz | grep CONFIG_KPROBES=
"""
MODULES = """
modprobe kprobe_example
cut -d " " -f 1 /proc/modules
cd /proc; cut -d " " -f 5 modules; [ -f modules ] && echo there
cat /sys/module/kprobe_example/initstate; ls /sys/module
"""


def shell(kpfs, script, *options):
    done = kpfs("run", *options, "--", "sh", "-c", script)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_names(kpfs):
    host = os.uname()
    assert shell(kpfs, SHOW) == [
        RELEASE,
        host.nodename,
        "#1 SMP PREEMPT kpfs 1 (2024-01-01)",
        RELEASE,
        "kpfs",
        RELEASE,
        "CONFIG_KPROBES=y",
    ]
    assert shell(kpfs, "uname -v", "--config", "PREEMPT=n") == [
        "#1 SMP kpfs 1 (2024-01-01)"
    ]


@pytest.mark.parametrize("option", ["--host-uname", "--no-mirror"])
def test_names_of_the_host(kpfs, option):
    assert shell(kpfs, "uname -r", option) == [os.uname().release]


def test_modules_whatever_the_host_has(kpfs):
    """A kernel without modules has no /proc/modules, and nobody can make one."""
    assert shell(kpfs, MODULES) == [
        *("kprobe_example", "Live", "there", "live", "kprobe_example"),
    ]


def test_a_configuration_without_the_file(kpfs):
    """A file of the host that cannot be hidden is empty."""
    done = kpfs("run", "--config", "MODULES=n", "--", "cat", "/proc/modules")
    assert done.stdout == ""
    assert done.returncode == (0 if os.path.exists("/proc/modules") else 1)


def test_looks_at_files_that_the_host_may_lack(kpfs):
    """`ls -l` also asks for attributes of security, `readlink` for a link's place."""
    script = "cd /proc; ls -l modules /proc/config.gz; readlink -v modules version"
    done = kpfs("run", "--", "sh", "-c", script)
    assert [line.split()[-1] for line in done.stdout.splitlines()] == [
        *("/proc/config.gz", "modules"),
    ]
    assert done.stderr.count("\n") == done.stderr.count(": Invalid argument\n") == 2
