# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules through the mount, and insmod and its kin under ``kpfs run``."""

import re
import subprocess

import pytest

from tests.modbox import module

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

HELLO = (
    'static char *who = "world"; module_param(who, charp, 0);\n'
    'static int __init go(void) { pr_info("hello, %s\\n", who); return 0; }\n'
    "module_init(go);\n"
    'static void __exit end(void) { pr_info("good bye\\n"); }\nmodule_exit(end);\n'
)


def test_the_tools(kpfs):
    path = module("hello", HELLO)
    done = kpfs.sh(
        f"""
        dmesg -C
        insmod {path} who=you && lsmod && insmod {path}; echo $?
        rmmod hello && lsmod
        dmesg -c -t; dmesg
        rmmod hello; echo $?
        insmod nothing.ko; echo $?
        modprobe nothing; echo $?
        modprobe kretprobe_example symbol=vfs_write && modprobe kretprobe_example
        sed 's/0x.*//' $KPFS/modules; modprobe -r kretprobe_example; cat $KPFS/modules
        """
    )
    assert done.stdout == (
        "Module                  Size  Used by\n"
        "hello                  12288  0\n"
        "1\n"
        "Module                  Size  Used by\n"
        "hello, you\ngood bye\n"
        "1\n1\n1\n"
        "kretprobe_example 12288 0 - Live \n"
    )
    assert done.stderr == (
        f"insmod: ERROR: could not insert module {path}: File exists\n"
        "rmmod: ERROR: Module hello is not currently loaded\n"
        "insmod: ERROR: could not load module nothing.ko: No such file or directory\n"
        "modprobe: FATAL: Module nothing not found in directory "
        "/lib/modules/6.1.0-kpfs\n"
    )


def test_dmesg(kpfs):
    path = module("hello", HELLO)
    done = kpfs.sh(f"dmesg -C; insmod {path}; dmesg; dmesg -r -l info; dmesg -l err")
    plain, raw = done.stdout.splitlines()
    assert re.fullmatch(r"\[ *\d+\.\d{6}\] hello, world", plain)
    assert raw == f"<6>{plain}"


def test_files_of_a_mount(kpfs, tmp_path):
    """Any tool can write them; a refusal is the write's errno."""
    path = module("hello", HELLO)
    (tmp_path / "here.ko").write_bytes(path.read_bytes())
    target = kpfs.mount()
    script = f"""
        cd {tmp_path}
        echo ./here.ko who=me > {target}/machine/insmod &&
        cut -d' ' -f1 {target}/modules
        python3 -c 'import os, sys
try:
    os.write(os.open(sys.argv[1], os.O_WRONLY), b"./here.ko")
except OSError as e:
    print(e.strerror)' {target}/machine/insmod
        echo hello > {target}/machine/rmmod && cat {target}/modules
    """
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("hello\nFile exists\n", "")
