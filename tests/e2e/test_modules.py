# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules through the mount, and insmod and its kin under ``kpfs run``.

This also tests kpfs.commands.guest_tools.
"""

import re
import shlex
import shutil
import sys

import pytest

from tests import harness
from tests.modbox import build, module

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

# print the name of the errno; what programs say instead is their own
TRY = """
import errno, os, sys
try:
    {}
except OSError as error: print(errno.errorcode[error.errno])
"""
READ = TRY.format("os.read(os.open(sys.argv[1], os.O_RDONLY), 4096)")
READ_ALL = TRY.format(
    "fd = os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)\n"
    "    while data := os.read(fd, 8192): os.write(1, data)"
)
WRITE = TRY.format("os.write(os.open(sys.argv[1], os.O_WRONLY), sys.argv[2].encode())")

HELLO = r"""
static char *who = "world"; module_param(who, charp, 0);
INIT(pr_info("hello, %s\n", who); return 0;)
EXIT(pr_info("good bye\n");)
"""


def test_files_of_a_module_in_debugfs(kpfs):
    """At the kernel's own path, while it is loaded."""
    path = build("debugfs_calls")
    done = kpfs.sh(
        f"""
        cd /sys/kernel/debug
        insmod {path} && cat calls/u32 && echo 12 > calls/u32 && cat calls/u32
        echo 13 > calls/twice || ls -d calls/sub; find calls/sub/; readlink calls
        exec 3< calls/text; rmmod debugfs_calls; exec 3<&-; rmmod debugfs_calls
        ls
        """
    )
    assert done.stdout.splitlines() == [
        *("7", "12", "calls/sub", "calls/sub/", "calls/sub/lines"),
        *("/sys/kernel/debug/kpfs/debug/calls", "kpfs", "kprobes", "tracing"),
    ]
    assert "Module debugfs_calls is in use" in done.stderr
    assert done.stderr.count("\n") == 2


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


USER = r"""
int hello_value(void); INIT(pr_info("%d\n", hello_value()); return 0;)
EXIT()
"""
OWNER = "int hello_value(void) { return 5; }\nEXPORT_SYMBOL_GPL(hello_value);\n" + HELLO


def test_tools_say_why_a_module_is_refused(kpfs, tmp_path):
    """The tools use kmod's words; those of the kernel are in the log."""
    user, owner = module("user", USER), module("owner", OWNER)
    (tmp_path / "bad.ko").write_bytes(b"no ELF" * 20)
    numbered = "static int n; module_param(n, int, 0);\n" + HELLO
    done = kpfs.sh(
        f"""
        cd {tmp_path}; dmesg -C
        try() {{ "$@" 2>&1; echo $?; }}
        try insmod; try rmmod; try insmod bad.ko; try insmod {user}
        try insmod {module("numbered", numbered)} n=x
        try modprobe kprobe_example symbol=no_such_function
        try insmod {owner}; try insmod {user}; lsmod; try rmmod owner; try rmmod user
        try rmmod owner; lsmod
        dmesg -r | grep -v optimiz
        """
    )
    refused = "insmod: ERROR: could not insert module"
    unknown = "Unknown symbol in module, or unknown parameter (see dmesg)"
    path, *log = done.stdout.split("\nModule                  Size  Used by\n")
    assert path.splitlines() == [
        *("insmod: ERROR: missing filename.", "1"),
        *("rmmod: ERROR: missing module name.", "1"),
        *(f"{refused} bad.ko: Invalid module format", "1"),
        *(f"{refused} {user}: {unknown}", "1"),
        *(f"{refused} {module('numbered', numbered)}: Invalid parameters", "1"),
        *(f"modprobe: ERROR: could not insert 'kprobe_example': {unknown}", "1"),
        *("0", "0"),
    ]
    assert [re.sub(" +", " ", line) for line in log[0].splitlines()] == [
        *("user 12288 0", "owner 12288 1 user"),
        *("rmmod: ERROR: Module owner is in use by: user", "1", "0", "0"),
    ]
    assert [re.sub(r"\[.*?\] ", "", line) for line in log[1].splitlines()] == [
        r"<3>Invalid ELF header magic: != \x7fELF",
        "<4>user: Unknown symbol hello_value (err -2)",
        "<3>numbered: `x' invalid for parameter `n'",
        "<6>hello, world",
        "<6>5",
        "<6>good bye",
    ]
    assert done.stderr == ""


def test_a_file_that_the_caller_alone_sees(kpfs):
    """The caller has a mount namespace of its own, and the module holds itself."""
    held = HELLO.replace("return 0;", "__module_get(THIS_MODULE); return 0;", 1)
    done = kpfs.sh(
        f"""
        unshare -m sh -ec 'mount -t tmpfs none /mnt; cp {module("held", held)} /mnt
            insmod /mnt/held.ko'
        ls /mnt/held.ko; cut -d" " -f 1,3,4 $KPFS/modules; rmmod held
        """
    )
    assert done.stdout == "held 1 -\n"
    assert done.stderr.splitlines()[1:] == ["rmmod: ERROR: Module held is in use"]


@pytest.mark.user
def test_an_ordinary_user_loads_modules(ordinary):
    """Inside, the user is root, but still cannot read files that the host protects."""
    script = """
        modprobe kprobe_example && lsmod && rmmod kprobe_example
        cp "${kpfs%/scripts/kpfs}/guest/image/modules/jprobe_example.ko" mine.ko
        insmod mine.ko && cut -c 17- $KPFS/kprobes/list; rmmod jprobe_example
        insmod /etc/shadow; python3 -c "$WRITE" $KPFS/machine/insmod /etc/shadow; lsmod
    """
    script = f"export WRITE={shlex.quote(WRITE)}\n{script}"
    done = ordinary(f"export kpfs; $kpfs run -- sh -c {shlex.quote(script)}")
    head = "Module                  Size  Used by\n"
    loaded = "kprobe_example         12288  0\n"
    listed = "  j  do_sys_openat2+0x0    [FTRACE]\n"
    assert done.stdout == head + loaded + listed + "EACCES\n" + head
    said = "insmod: ERROR: could not load module /etc/shadow: Permission denied\n"
    assert done.stderr == said


def test_dmesg(kpfs):
    path = module("hello", HELLO)
    done = kpfs.sh(f"dmesg -C; insmod {path}; dmesg; dmesg -r -l info; dmesg -l err")
    plain, raw = done.stdout.splitlines()
    assert re.fullmatch(r"\[ *\d+\.\d{6}\] hello, world", plain)
    assert raw == f"<6>{plain}"


def test_dmesg_ends_though_each_read_is_logged(kpfs):
    done = kpfs.sh(
        "modprobe kretprobe_example; dmesg; rmmod kretprobe_example", timeout=60
    )
    assert "kretprobe_example: vfs_read = " in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


OOPS = """
PRE(pre, if (!strcmp(current->comm, "victim"))
    __asm__ __volatile__("movq 0x18, %%rax" ::: "rax"); return 0;)
WITH_KPROBE(.symbol_name = "vfs_read", .pre_handler = pre)
"""


def test_a_mount_survives_an_oops(kpfs, tmp_path):
    """The reader in whose name it was gets an error; the log tells the rest."""
    path, target = module("oops", OOPS), kpfs.mount()
    (tmp_path / "victim").write_text(f"#!{sys.executable} -IS\n{READ}")
    (tmp_path / "victim").chmod(0o755)
    script = f"""
        cd {target}
        echo {path} > machine/insmod
        for i in 1 2; do {tmp_path}/victim kprobes/list; cat kprobes/list; done
        {sys.executable} -ISc {shlex.quote(READ_ALL)} kmsg
        echo oops > machine/rmmod && cat kprobes/list modules
        echo unloaded
    """
    done = harness.run("sh", "-c", script)
    entry = r"[0-9a-f]{16}  k  vfs_read\+0x0    \[FTRACE\]\n"
    assert re.match(f"(EFAULT\n{entry}){{2}}", done.stdout), done
    patterns = (
        "BUG: kernel NULL pointer dereference, address: 0000000000000018",
        r"Oops: 0000 \[#1\]",
        r"CPU: \d PID: \d+ Comm: victim",
        r"RIP: 0010:pre\+0x.*\[oops\]",
        "RSP: [0-9a-f:]+ EFLAGS: [0-9a-f]{8}",
        "RAX: [0-9a-f]{16} RBX: [0-9a-f]{16} RCX: [0-9a-f]{16}",
        "Call Trace:",
        r"vfs_read\+0x",
        r"ksys_read\+0x",
        "BUG: kernel NULL pointer",  # the second
    )
    log = done.stdout
    for pattern in patterns:
        found = re.search(pattern, log)
        assert found, pattern
        log = log[found.end() :]
    assert re.fullmatch(r"[^\n]*\n(.*,-;.*\n)*EAGAIN\nunloaded\n", log)


def test_an_oops_names_the_tool(kpfs):
    path = module("wild", "static int *volatile at; INIT(return *at;)")
    done = kpfs.sh(f"insmod {path}; dmesg")
    assert "Comm: insmod" in done.stdout


@pytest.mark.parametrize("function", ["vfs_open", "vfs_read", "vfs_write"])
def test_the_log_can_be_read_whatever_oopses(kpfs, function):
    """The faulty module can be found and unloaded, although readers die of it."""
    handler = "PRE(pre, return *(volatile int *)0;)\n"
    probe = f'WITH_KPROBE(.symbol_name = "{function}", .pre_handler = pre)\n'
    path, target = module("fatal", handler + probe), kpfs.mount()
    script = f"""
        cd {target}
        echo {path} > machine/insmod
        (cat kprobes/list && echo 0 > kprobes/enabled) >/dev/null
        dd if=kmsg bs=8192 iflag=nonblock 2>/dev/null
        cut -d " " -f 1 modules; echo fatal > machine/rmmod; cat modules kprobes/list
    """
    done = harness.run("sh", "-c", script)
    assert re.fullmatch(r".*(Bad address|I/O error)\n", done.stderr)
    assert done.stdout.endswith("\nfatal\n")
    fault = r"BUG: kernel NULL pointer dereference, address: 0{16}"
    assert re.search(fault, done.stdout)
    texts = kpfs.log.read_text().split("the emulated kernel has oopsed:\n")[1:]
    for number, text in enumerate(texts, 1):
        assert re.match(fault, text)
        assert f"Oops: 0000 [#{number}]" in text
        rip = r"RIP: 0010:pre\+0x.*\[fatal\]"
        for pattern in (rip, f" {function}\\+0x", "end trace"):
            assert re.search(pattern, text), pattern
    assert len(texts) > 1


def test_files_of_a_mount(kpfs, tmp_path):
    """Any tool can write them; a refusal is the write's errno."""
    path = module("hello", HELLO)
    (tmp_path / "here.ko").write_bytes(path.read_bytes())
    target = kpfs.mount()
    script = f"""
        cd {tmp_path}
        echo ./here.ko who=me > {target}/machine/insmod &&
        cut -d' ' -f1 {target}/modules
        {sys.executable} -ISc {shlex.quote(WRITE)} {target}/machine/insmod ./here.ko
        echo hello > {target}/machine/rmmod && cat {target}/modules
    """
    done = harness.run("sh", "-c", script)
    assert (done.stdout, done.stderr) == ("hello\nEEXIST\n", "")


SLOW = """
#include <linux/delay.h>
static int soft, enough; module_param(soft, int, 0);
module_param(enough, int, 0644);
INIT(if (soft) msleep_interruptible(3600000);
  else do msleep(20); while (!READ_ONCE(enough));
  return 0;)
EXIT(msleep(50);)
"""


LOADING = "until grep -q Loading $KPFS/modules; do sleep 0.02; done"


@pytest.mark.parametrize("options", [[], ["--no-mirror"]], ids=["mirrored", "not"])
def test_init_that_sleeps(kpfs, options):
    """The task that loads the module waits, and no other."""
    script = f"""
        insmod {module("slow", SLOW)} & pid=$!
        {LOADING}
        cat /sys/kernel/debug/kprobes/list; ls / >/dev/null
        grep -c Loading $KPFS/modules
        echo 1 >/sys/module/slow/parameters/enough
        wait $pid; echo $?
        grep -c Live $KPFS/modules
        rmmod slow; echo $?
        cat $KPFS/modules
        """
    done = kpfs("run", *options, "--", "sh", "-c", script)
    assert done.stdout.split() == ["1", "0", "1", "0"]
    assert done.stderr == ""


def test_ctrl_c_while_init_sleeps(kpfs):
    """An interruptible sleep ends, and the module is there, as on Linux.

    Another one goes on.
    """
    done = kpfs.sh(
        f"""
        for soft in 1 0; do
            insmod {module("slow", SLOW)} soft=$soft & pid=$!
            {LOADING}
            kill -INT $pid; kill -TERM $pid
            if [ $soft = 0 ]; then
                sleep 0.3
                grep -c Loading $KPFS/modules
                echo 1 >/sys/module/slow/parameters/enough
            fi
            wait $pid; echo $?
            grep -c Live $KPFS/modules
            rmmod slow
        done
        """
    )
    soft, hard = ["143", "1"], ["1", "143", "1"]
    assert done.stdout.split() == soft + hard


POLLS = """
static int flag; module_param(flag, int, 0644);
PRE(pre, while (current->comm[0] == 'p' && !READ_ONCE(flag)) cpu_relax(); return 0;)
WITH_KPROBE(.symbol_name = "__x64_sys_getppid", .pre_handler = pre)
"""


def test_a_handler_that_waits_for_another_process(kpfs):
    """The process that hit it stands; another goes on, and sets the flag."""
    path = module("polls", POLLS)
    done = kpfs.sh(
        f"""
        insmod {path}
        {sys.executable} -Sc 'import os; os.getppid(); print("went on")' &
        until grep -q HIT_ACTIVE $KPFS/machine/probes; do sleep 0.01; done
        grep -c getppid $KPFS/kprobes/list
        echo 1 >/sys/module/polls/parameters/flag
        wait; rmmod polls; cat $KPFS/kprobes/list
        """
    )
    assert done.stdout == "1\nwent on\n"
    assert done.stderr == ""


def test_coverage(kpfs, tmp_path):
    """The file that the command names and machine/coverage tell what it reached."""
    path = module("hello", HELLO, "-g")
    made = tmp_path / "made"
    made.write_text("longer than nothing\n" * 1000)
    script = f"insmod {path}; grep -c SF: $KPFS/machine/coverage; rmmod hello; exit 3"
    words = "run", "--quiet-guest", "--coverage", made
    done = kpfs(*words, "--", "sh", "-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (3, "1\n", "")
    records = made.read_text().splitlines()
    assert [row for row in records if row[:2] in ("SF", "LF", "LH")] == [
        *(f"SF:{records[1][3:]}", "LF:2", "LH:2")
    ]
    assert records[1].endswith("/hello.c")
    assert {"FNDA:1,go", "FNDA:1,end", "FNF:2"} <= set(records)
    if shutil.which("genhtml"):  # in the package lcov
        moved = str(path.parent / "hello.c")  # since it was built
        made.write_text(made.read_text().replace(records[1][3:], moved))
        page = harness.run("genhtml", "-q", "-o", tmp_path / "pages", made)
        assert (page.returncode, page.stderr) == (0, "")
        assert (tmp_path / "pages/index.html").exists()
    reached = kpfs(*words, "--coverage-kernel", "--", "true")
    assert reached.returncode == 0
    counts = dict(
        reversed(row[5:].split(","))
        for row in made.read_text().splitlines()
        if row.startswith("FNDA:")
    )
    assert int(counts["vfs_open"]) > 0
    assert int(counts["unregister_kprobe"]) == 0
    text = made.read_text()
    assert kpfs(*words, "--", "nosuch").returncode == 127
    assert made.read_text() == text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--coverage-kernel",), "--coverage-kernel is for --coverage"),
        (("--coverage", "/no/such/file"), "/no/such/file: No such file or directory"),
        (("--coverage", "/"), "/: Is a directory"),
    ],
)
def test_coverage_that_cannot_be_written(kpfs, words, said):
    done = kpfs("run", *words, "--", "true")
    assert (done.returncode, done.stderr) == (2, f"kpfs: {said}\n")
