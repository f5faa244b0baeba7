# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of a command under ``kpfs run`` are made in the guest too."""

import os
import re
import sys

import pytest

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

START = """
cd /sys/kernel/tracing
for e in {events}; do echo "$e" >>kprobe_events; done
echo 1 >events/kprobes/enable
"""
STOP = """
echo 0 >events/kprobes/enable
grep -v '^#' trace
"""


def traced(kpfs, events, script, *options):
    """Run a script with events on; return the lines of the trace, and its pid."""
    quoted = " ".join(f"'{event}'" for event in events)
    words = START.format(events=quoted), script, STOP, "echo pid $$"
    done = kpfs("run", "--quiet-guest", *options, "sh", "-c", "\n".join(words))
    assert done.stderr == ""
    *lines, pid = done.stdout.splitlines()
    return lines, pid.split()[1]


def test_a_fork_of_the_shell_is_one_of_the_guest(kpfs):
    lines, pid = traced(kpfs, ["p:fork kernel_clone"], "( echo forked )")
    assert lines[0] == "forked"
    hits = [line for line in lines if "fork: (kernel_clone+0x0" in line]
    assert hits[0].split()[0] == f"sh-{pid}"


def test_the_number_of_a_child_is_that_of_the_host(kpfs):
    events = ["r:fork kernel_clone child=$retval:s32"]
    lines, _ = traced(kpfs, events, 'sh -c "echo child \\$\\$"')
    child = lines[0].split()[1]
    assert f"child={child}" in "\n".join(lines)


def test_names_are_in_kernel_memory(kpfs, tmp_path):
    events = ["p:link vfs_symlink name=+0(%dx):string wrong=+0(%dx):ustring"]
    lines, _ = traced(kpfs, events, f"ln -s foo {tmp_path}/bar")
    (hit,) = [line for line in lines if "vfs_symlink" in line]
    assert re.search(r'^ *ln-\d+ .*name="foo" wrong=\(fault\)', hit)
    assert (tmp_path / "bar").is_symlink()


UNTOUCHED = """
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
fd = os.open(sys.argv[1], os.O_RDONLY)
text = [libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE, fd, 0) for _ in "12"]
for at in text:
    for _ in "12":
        libc.open(ctypes.c_void_p(at), os.O_RDONLY)
libc.rename(ctypes.c_void_p(libc.mmap(None, 4096, 1, 2, fd, 0)), b"/nowhere/b")
# fails before it reads its path
libc.access(ctypes.c_void_p(libc.mmap(None, 4096, 1, 2, fd, 0)), 8)
os.open("/sys/kernel/tracing/README", os.O_RDONLY)
"""


def test_a_string_that_nobody_has_touched_is_a_fault_at_first(kpfs, tmp_path):
    """The kernel brings it in after the entry of the call, as Linux does."""
    (tmp_path / "text").write_bytes(b"/nowhere/a\0")
    (tmp_path / "script").write_text(UNTOUCHED)
    events = [
        "p:open do_sys_openat2 path=+0(%si):ustring",
        "p:filp do_filp_open path=+0(+0(%si)):string",
        "p:access __x64_sys_access path=+0(+112(%di)):ustring",
        "p:rename __x64_sys_rename old=+0(+112(%di)):ustring new=+0(+104(%di)):ustring",
    ]
    script = f"{sys.executable} -I -S {tmp_path}/script {tmp_path}/text"
    lines, _ = traced(kpfs, events, script)
    hits = [line.split(": ", 1)[1] for line in lines if line.lstrip().startswith("py")]
    first = next(at for at, hit in enumerate(hits) if f"{tmp_path}/text" in hit) + 2
    found = [hit.partition(") ")[2] for hit in hits[first:] if "text" not in hit]
    whole = 'path="/nowhere/a"'
    each = ["path=(fault)", whole, whole, whole]
    assert found[: 2 * len(each)] == 2 * each
    assert 'old=(fault) new="/nowhere/b"' in found
    assert found[-3:] == ["path=(fault)", *2 * ['path="/sys/kernel/tracing/README"']]


PARTS = """
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
fd = os.open(sys.argv[1], os.O_RDONLY)

def opened(number, at):
    for _ in "12":
        libc.openat(number, ctypes.c_void_p(at), os.O_RDONLY)

def pages():
    return libc.mmap(None, 2 * 4096, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)

opened(1001, libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE, fd, 0))
at = pages() + 4096 - 8
ctypes.memmove(at, b"abcdefgh", 8)
opened(1002, at)
at = pages()
libc.munmap(ctypes.c_void_p(at + 4096), 4096)
ctypes.memset(at, ord("a"), 4096)
opened(1003, at)
opened(1004, at + 1)
"""


def test_a_string_is_a_fault_if_its_end_is_untouched(kpfs, tmp_path):
    """The present part can be read; a string without an end makes no record."""
    (tmp_path / "text").write_bytes(b"nowhere\0")
    (tmp_path / "script").write_text(PARTS)
    events = [
        "p:part do_sys_openat2 fd=%di:s32 head=+u4(%si):x32 path=+0(%si):ustring",
        "r:part_end do_sys_openat2 $retval:s32",
    ]
    script = f"{sys.executable} -I -S {tmp_path}/script {tmp_path}/text"
    lines, _ = traced(kpfs, events, script)
    hits = "\n".join(lines).partition("fd=1001")
    found = re.findall(r"(?<=fd=)100\d .*|(?<=arg1=)-\d+", "".join(hits[1:]))
    assert found == [
        *("1001 head=0x0 path=(fault)", "-9"),
        *('1001 head=0x657265 path="nowhere"', "-9"),
        *("1002 head=0x68676665 path=(fault)", "-9"),
        *('1002 head=0x68676665 path="abcdefgh"', "-9"),
        *("-36", "-36"),
        *2 * ("1004 head=0x0 path=(fault)", "-14"),  # Linux reads the head
    ]


def test_paths_are_in_user_memory(kpfs, tmp_path):
    (tmp_path / "file").write_text("x")
    events = ["p:open do_sys_openat2 path=+0(%si):ustring kernel=+0(%si):string"]
    lines, _ = traced(kpfs, events, f"cat {tmp_path}/file >/dev/null")
    (hit,) = [line for line in lines if f'path="{tmp_path}/file"' in line]
    assert hit.split()[0].startswith("cat-")


def test_results_are_those_of_the_host(kpfs, tmp_path):
    (tmp_path / "file").write_text("x" * 1234)
    events = [
        "r:opened do_sys_openat2 ret=$retval:s64",
        "r:got vfs_read ret=$retval:s64",
    ]
    program = f"""
import os
os.read(os.open("{tmp_path}/file", os.O_RDONLY), 2000)
try: os.open("{tmp_path}/none", os.O_RDONLY)
except FileNotFoundError: pass
"""
    lines, _ = traced(kpfs, events, f"'{sys.executable}' -Sc '{program}'")
    ours = [line for line in lines if line.split()[0].startswith("python")]
    results = [re.findall(r"(opened|got): .* ret=(.*)", line)[0] for line in ours]
    assert results[-3:] == [("opened", "3"), ("got", "1234"), ("opened", "-2")]


def test_readlink_returns_the_hosts_result(kpfs, tmp_path):
    (tmp_path / "link").symlink_to("where it leads")
    (tmp_path / "file").write_text("x")
    program = f"""
import os
for name in "link", "file", "none":
    try: os.readlink("{tmp_path}/" + name)
    except OSError: pass
"""
    events = ["r:link do_readlinkat ret=$retval:s32"]
    lines, _ = traced(kpfs, events, f"'{sys.executable}' -Sc '{program}'")
    found = [line.split("ret=")[1] for line in lines if " link: " in line]
    assert found[-3:] == ["14", "-22", "-2"]


def test_the_mounts_own_files_are_opened_once(kpfs):
    events = ["p:open do_sys_openat2 path=+0(%si):ustring"]
    lines, _ = traced(kpfs, events, "cat kprobe_profile >/dev/null")
    # by the mount, at the place that Linux has it
    assert sum("kprobe_profile" in line for line in lines) == 1


def test_without_mirroring(kpfs):
    lines, _ = traced(kpfs, ["p:fork kernel_clone"], "(:); (:)", "--no-mirror")
    # the guest learns of a process only when it comes to the mount
    assert sum("kernel_clone" in line for line in lines) <= 1


KILL_DAEMON = """
# the one child of our parent of that name: no other daemon can be meant
daemon=$(pgrep -P $PPID -x kpfs)
case $daemon in '' | *[!0-9]*) echo "not one daemon: $daemon"; exit 9 ;; esac
kill -9 $daemon
"""


def test_the_command_outlives_the_supervisor(kpfs, tmp_path):
    kpfs.announced.append("daemon")
    done = kpfs.sh(f"{KILL_DAEMON} ls /dev/null; (echo forked); exit 4")
    assert (done.returncode, done.stdout) == (4, "/dev/null\nforked\n")


def test_background_processes_outlive_the_command(kpfs, tmp_path):
    """A process in the background keeps its system calls."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    script = f"(read x <{fifo}; ls / >/dev/null && echo ok >{fifo}) "
    done = kpfs.sh(f"{script} >/dev/null 2>&1 &")
    assert done.returncode == 0
    with fifo.open("w") as f:
        f.write("go\n")
    with fifo.open() as f:
        assert f.read() == "ok\n"


def test_sizes_and_syncs_of_files(kpfs, tmp_path):
    functions = ("do_sys_ftruncate", "do_sys_truncate", "do_fsync")
    program = f"""
import os
fd = os.open("{tmp_path}/file", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 10)
os.fsync(fd)
os.truncate("{tmp_path}/file", 5)
try: os.truncate("{tmp_path}/none", 5)
except FileNotFoundError: pass
"""
    events = [f"r:{name} {name} ret=$retval:s64" for name in functions]
    script = f"'{sys.executable}' -Sc '{program}'"
    lines, _ = traced(kpfs, events, script)
    seen = [re.search(r": (\w+): .* ret=(-?\d+)$", line) for line in lines]
    assert [hit.groups() for hit in seen if hit] == [
        ("do_sys_ftruncate", "0"),
        ("do_fsync", "0"),
        ("do_sys_truncate", "0"),
        ("do_sys_truncate", "-2"),
    ]


TOOLS = {
    "iterate_dir": "ls {0}",
    "vfs_link": "ln {0}/file {0}/link",
    "vfs_utimes": "touch {0}/file",
    "chown_common": "chown $(id -u) {0}/file",
    "vfs_statfs": "stat -f {0}",
    "ksys_lseek": "head -n 1 {0}/file",
}


def test_usual_tools_reach_their_kernel_functions(kpfs, tmp_path):
    (tmp_path / "file").write_text("1\n2\n")
    script = "; ".join(f"{line.format(tmp_path)} >/dev/null" for line in TOOLS.values())
    lines, _ = traced(kpfs, [f"p:{name} {name}" for name in TOOLS], script)
    for function, line in TOOLS.items():
        comm = line.split()[0]
        hit = re.compile(rf" *{comm}-\d+ .*: {function}: ")
        assert any(map(hit.match, lines)), function
