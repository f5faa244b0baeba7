# SPDX-License-Identifier: GPL-2.0-or-later
"""bpftrace, bpftool, perf, trace-cmd and gdb as programs of a distribution's kernel.

Each tool runs once for a whole table, as starting it takes the longest.
"""

import os
import re
import shutil
import subprocess

import pytest

from tests import harness

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

KERNEL = harness.KERNEL
STAT = "/usr/bin/stat"
LIBC = os.path.realpath("/lib/x86_64-linux-gnu/libc.so.6")

# what is tested: statements of BEGIN that print one line, and that line
STATEMENTS = {
    "arithmetic": (r'printf("%d %d", 7 * 6 - 2, 17 % 5);', "40 2"),
    "bits": (r'printf("%d %d", 6 & 3 | 8, 1 << 4);', "10 16"),
    "comparison": (r'printf("%d%d%d", 1 < 2, 2 == 3, 2 != 3);', "101"),
    "logic": (r'printf("%d%d%d", 1 && 0, 1 || 0, !1);', "010"),
    "ternary": (r'printf("%s", 2 > 1 ? "yes" : "no");', "yes"),
    "if": (r'if (1 == 2) { printf("a") } else { printf("b") }', "b"),
    "unroll": (r'unroll(3) { printf("u") }', "uuu"),
    "while": (r'$i = 0; while ($i < 4) { printf("%d", $i); $i++ }', "0123"),
    "variable": (r'$v = 5; $v += 2; printf("%d", $v);', "7"),
    "increment": (r'$w = 1; printf("%d", $w++); printf("%d", ++$w);', "13"),
    "hexadecimal": (r'printf("%x %d", 255, 0x10);', "ff 16"),
    "width": (r'printf("[%4d] [%-4d]", 7, 7);', r"\[   7\] \[7   \]"),
    "string": (r'$s = "abc"; printf("%s", $s);', "abc"),
    "string equality": (r'printf("%d", "ab" == "ab");', "1"),
    "strncmp": (r'printf("%d", strncmp("abcd", "abxx", 2));', "0"),
    "tuple": (r'$t = (1, "x"); printf("%d%s", $t.0, $t.1);', "1x"),
    "cast": (r'printf("%d", (uint8)300);', "44"),
    "sizeof": (r'printf("%d", sizeof(uint32));', "4"),
    "map": (r'@map = 3; printf("%d", @map); clear(@map);', "3"),
    "map with a key": (r'@k["a"] = 4; printf("%d", @k["a"]); clear(@k);', "4"),
    "map with keys": (r'@m[1, "b"] = 5; printf("%d", @m[1, "b"]); clear(@m);', "5"),
    "delete": (r'@d[1] = 5; delete(@d[1]); printf("%d", @d[1]);', "0"),
    "parameter": (r'printf("%d", $1);', "42"),
    "parameter as text": (r'printf("%s", str($2));', "word"),
    "parameters": (r'printf("%d", $#);', "2"),
    "pid": (r'printf("%d", pid > 0);', "1"),
    "comm": (r'printf("%s", comm);', "bpftrace"),
    "uid": (r'printf("%d %d", uid, gid);', "0 0"),
    "cpu": (r'printf("%d", cpu);', "0"),
    "nsecs": (r'printf("%d", nsecs > 0);', "1"),
    "elapsed": (r'printf("%d", elapsed >= 0);', "1"),
    "rand": (r'printf("%d", rand >= 0);', "1"),
    "time": (r'time("%Y");', r"20\d\d"),
    "strftime": (r'printf("%s", strftime("%Y", nsecs));', r"20\d\d"),
    "kaddr and ksym": (r'printf("%s", ksym(kaddr("vfs_read")));', "vfs_read"),
    "ntop": (r'printf("%s", ntop(0x0100007f));', r"127\.0\.0\.1"),
    "buffer": (r'printf("%r", buf("ab", 2));', "ab"),
    "file": (r'cat("/proc/sys/kernel/ostype");', "Linux"),
    "curtask": (r'printf("%d", curtask > 0);', "1"),
    "cgroup": (r'printf("%d", cgroup > 0);', "1"),
}
# what is tested: a map that BEGIN fills, and what is printed of it
MAPS = {
    "count": ("@count = count();", "@count: 1"),
    "sum": ("@sum = sum(4); @sum = sum(5);", "@sum: 9"),
    "min": ("@min = min(4); @min = min(2);", "@min: 2"),
    "max": ("@max = max(4); @max = max(2);", "@max: 4"),
    "avg": ("@avg = avg(4); @avg = avg(2);", "@avg: 3"),
    "stats": ("@stats = stats(4);", "@stats: count 1, average 4, total 4"),
    "hist": ("@hist = hist(10);", r"@hist: \n\[8, 16\) +1 \|"),
    "lhist": ("@lhist = lhist(5, 0, 10, 2);", r"@lhist: \n\[4, 6\) +1 \|"),
    "zero": ("@zero[1] = 3; zero(@zero);", r"@zero\[1\]: 0"),
}
# what is tested: probes, and what is printed at the end
PROBES = {
    "kprobe": ("kprobe:vfs_statx { @kprobe[comm] = count() }", r"@kprobe\[stat\]: \d+"),
    "kretprobe": (
        'kretprobe:vfs_statx /comm == "stat"/ { @retval = retval }',
        r"@retval: \d+",
    ),
    "offset": ("kprobe:vfs_statx+5 { @offset = count() }", r"@offset: \d+"),
    "kfunc": ('kfunc:vfs_statx /comm == "stat"/ { @kfunc = count() }', r"@kfunc: \d+"),
    "kretfunc": ("kretfunc:vfs_statx { @kretfunc = count() }", r"@kretfunc: \d+"),
    "tracepoint": (
        "tracepoint:syscalls:sys_enter_newfstatat /pid == cpid/"
        " { @flags[args->flag] = count() }",
        r"@flags\[\d+\]: \d+",
    ),
    "tracepoint's arguments": (
        'tracepoint:sched:sched_process_exec /comm == "stat"/'
        " { @file = str(args->filename) }",
        r"@file: /usr/bin/stat$",
    ),
    "uprobe": (
        f'uprobe:{LIBC}:getenv /comm == "stat"/ {{ @uprobe[str(arg0)] = count() }}',
        r"@uprobe\[\w+\]: \d+",
    ),
    "uretprobe": (
        f'uretprobe:{LIBC}:malloc /comm == "stat"/ {{ @uretprobe = retval > 0 }}',
        r"@uretprobe: 1$",
    ),
    "interval": ("interval:ms:1 { @interval = count() }", r"@interval: \d+"),
    "profile": ("profile:hz:999 { @profile = count() }", r"@profile: \d+"),
    "software": ("software:page-faults:1 { @faults = count() }", r"@faults: \d+"),
    "kernel's stack": (
        'kprobe:vfs_getattr /comm == "stat"/ { @stack[kstack(2)] = count() }',
        r"@stack\[\n +vfs_getattr\+\d+\n",
    ),
    "arguments": ('kprobe:vfs_open /comm == "stat"/ { @arg = arg0 > 0 }', r"@arg: 1"),
    "end": ('END { printf("the end\\n") }', "the end"),
}


def tool(kpfs, name, script):
    """Return the output of a script inside; skip the test where the tool is missing."""
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    command = ("run", "--kernel", KERNEL, "--inside", "--", "sh", "-ec", script)
    done = kpfs(*command, timeout=400)
    assert done.returncode == 0, done.stderr
    return done.stdout


def missing(rows, text):
    """Names of those rows whose pattern is not in the text."""
    return [name for name, pattern in rows if not re.search(pattern, text, re.M)]


def test_bpftrace_statements(kpfs):
    lines = [
        f'printf("\\n{number}: "); {statement}'
        for number, (statement, _) in enumerate(STATEMENTS.values())
    ]
    maps = [statement for statement, _ in MAPS.values()]
    program = "BEGIN { " + "\n".join([*lines, *maps]) + ' printf("\\n"); exit() }'
    out = tool(kpfs, "bpftrace", f"bpftrace - 42 word <<'EOF'\n{program}\nEOF\n")
    rows = [
        (name, rf"^{number}: {expected}$")
        for number, (name, (_, expected)) in enumerate(STATEMENTS.items())
    ]
    rows += [(name, f"^{expected}") for name, (_, expected) in MAPS.items()]
    assert missing(rows, out) == [], out


def test_bpftrace_probes(kpfs):
    program = "\n".join(probes for probes, _ in PROBES.values())
    script = f"bpftrace -c '{STAT} /etc/hostname' - <<'EOF'\n{program}\nEOF\n"
    out = tool(kpfs, "bpftrace", script)
    rows = [(name, f"^{expected}") for name, (_, expected) in PROBES.items()]
    assert missing(rows, out) == [], out


def test_bpftool(kpfs):
    out = tool(
        kpfs,
        "bpftool",
        "bpftool map create /sys/fs/bpf/m type array key 4 value 4 entries 2 name mine;"
        "bpftool map update pinned /sys/fs/bpf/m key 1 0 0 0 value 7 0 0 0;"
        "bpftool map dump pinned /sys/fs/bpf/m; bpftool map list; bpftool prog list;"
        "bpftool btf dump file /sys/kernel/btf/vmlinux format raw | grep -c vfs_read",
    )
    assert "mine" in out
    assert re.search(r"01 00 00 00 .*07 00 00 00|\"value\": 7", out)
    assert int(out.splitlines()[-1]) > 0


def test_perf(kpfs):
    out = tool(
        kpfs,
        "perf",
        "cd /tmp; perf probe -q 'vfs_statx dfd=%di'; perf probe -l;"
        f"perf record -q -e probe:vfs_statx -aR -o p {STAT} / >/dev/null;"
        "perf script -i p; perf stat -x, -e context-switches,page-faults true 2>&1",
    )
    assert "probe:vfs_statx" in out
    assert re.search(r"stat +\d+ \[000\] +[0-9.]+: +probe:vfs_statx: \(.* dfd=", out)
    assert re.search(r"^\d+,,page-faults,", out, re.M)


def test_trace_cmd(kpfs):
    out = tool(
        kpfs,
        "trace-cmd",
        "cd /tmp; trace-cmd record -q -e sched_process_exec -p function -l vfs_statx"
        f" -o t {STAT} / >/dev/null; trace-cmd report -i t",
    )
    assert re.search(r"stat-\d+ .* function: +vfs_statx", out)
    assert re.search(r"stat-\d+ .* sched_process_exec: .*filename=/usr/bin/stat", out)


CALLED = """#include <stdio.h>
static int f(int i)
{
	return i * i;
}
int main(void)
{
	int sum = 0;
	for (int i = 0; i < 6; i++)
		sum += f(i);
	printf("sum %d\\n", sum);
}
"""
# commands that write breakpoints into code which has run, and where gdb stops then
GDB = {
    "run": r"Breakpoint 1, f \(i=2\)",
    "finish": r"in main .*Value returned is \$1 = 4$",
    "tbreak 12": "^Temporary breakpoint 2 at",
    "advance f": r"^f \(i=3\)",
    "up": "in main",
    "delete 1": "",
    "continue": "^Temporary breakpoint 2, main .*:12$",
    "print sum": r"^\$2 = 55$",
}


def test_gdb(kpfs, tmp_path):
    if not shutil.which("gcc"):
        pytest.skip("no C compiler")
    source = tmp_path / "called.c"
    source.write_text(CALLED)
    subprocess.run(["gcc", "-g", "-O0", "-o", tmp_path / "called", source], check=True)
    words = " ".join(f"-ex '{command}'" for command in GDB)
    line = f"gdb -q -batch -ex 'break f if i == 2' {words} {tmp_path}/called 2>&1"
    out = tool(kpfs, "gdb", line)
    assert re.search(".*".join(GDB.values()), out, re.M | re.S), out
