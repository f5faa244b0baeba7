# SPDX-License-Identifier: GPL-2.0-or-later
"""The other C library: a command of musl is mirrored, and loads what is ours."""

import platform
import shutil
import subprocess

import pytest

from tests.harness import ROOT

pytestmark = [pytest.mark.fuse, pytest.mark.long]
# threads and children are made by other system calls than in glibc
PROGRAM = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

static void *other(void *path)
{
	return fopen(path, "r");
}

int main(int argc, char **argv, char **environ)
{
	char *shell[] = { "sh", "-c", ": </etc/group", NULL };
	pthread_t thread;
	void *file;
	int status;
	pid_t pid;

	if (!dlopen(argv[1], RTLD_NOW))
		return puts(dlerror()), 1;
	pthread_create(&thread, NULL, other, "/etc/passwd");
	pthread_join(thread, &file);
	posix_spawn(&pid, "/bin/sh", NULL, NULL, shell, environ);
	waitpid(pid, &status, 0);
	return !file || status;
}
"""
LIBRARY = ROOT / f"linux/image/x86/board-{platform.machine()}.so"
OPENED = "p:opened do_sys_openat2 file=+0(%si):ustring"


def test_a_command_of_musl(kpfs, tmp_path):
    if not shutil.which("musl-gcc"):
        pytest.skip("musl-gcc is missing (Debian: musl-tools)")
    program = tmp_path / "of_musl"
    command = ["musl-gcc", "-o", str(program), "-x", "c", "-"]
    subprocess.run(command, input=PROGRAM, text=True, check=True)
    done = kpfs("trace", "--quiet-guest", "-e", OPENED, "--", program, LIBRARY)
    assert (done.returncode, done.stderr) == (0, "")
    opened = [line for line in done.stdout.splitlines() if "opened: (" in line]
    seen = {(line.split("-")[0].strip(), line.split('"')[1]) for line in opened}
    assert {
        ("of_musl", str(LIBRARY)),
        ("of_musl", "/etc/passwd"),
        ("sh", "/etc/group"),
    } <= seen
