# SPDX-License-Identifier: GPL-2.0-or-later
"""guest/image: it is built of its sources, and has what the engine's cases assume."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kpfs.engine.arch.x86.checks.optimize import Region, can_optimize
from kpfs.engine.arch.x86.checks.probe import KernelView, decode_at
from kpfs.engine.arch.x86.insn import decode

ROOT = Path(__file__).resolve().parents[3]
NOP5 = bytes.fromhex("0f1f440000")
# of what readelf shows of debug information
DIE = re.compile(r" *<[0-9a-f]+><([0-9a-f]+)>: Abbrev Number: \d+ \(DW_TAG_(\w+)\)")
ATTRIBUTE = re.compile(r" +<[0-9a-f]+> +DW_AT_(\w+) *: (.*)")
NAMED = (
    *("vfs_read", "vfs_write", "ksys_read", "ksys_write", "do_sys_openat2"),
    *("vfs_open", "kfree", "dput", "schedule", "vfs_fsync_range"),
)
OPTIMISABLE = (
    *("vfs_read", "vfs_write", "ksys_read", "ksys_write", "do_sys_openat2"),
    "vfs_fsync_range",
)
ONCE = (
    *("kernel_clone", "do_sys_open", "do_sys_openat2", "vfs_symlink"),
    *("tracefs_create_dir", "inet_csk_accept", "tcp_v4_rcv", "ip_rcv", "kfree"),
    *("linux_proc_banner", "linux_banner", "_sdata", "jiffies", "init_task"),
    *("try_to_wake_up", "kernel_read", "getname_flags", "link_path_walk"),
    *("vprintk_emit", "__kmalloc", "copy_process", "do_exit", "process_timeout"),
)


@pytest.fixture(scope="module")
def text(shared_guest):
    return KernelView(shared_guest)


def address(guest, name):
    symbols = guest.kallsyms.lookup_name(name)
    assert len(symbols) == 1, f"{len(symbols)} symbols {name}"
    return symbols[0].addr


def functions(guest):
    """Text symbols with a nop at their entry, one per address."""
    found: dict[int, str] = {}
    for symbol in guest.kallsyms:
        at = symbol.addr
        if symbol.type in "tT" and guest.text.ftrace_location(at, at) == at:
            found.setdefault(at, symbol.name)
    return found


MADE_OF = (
    *("guest/src/init/main.c", "scripts/asm-offsets", "scripts/call-graph"),
    "base/abi.py",
)


@pytest.mark.parametrize("changed", MADE_OF)
def test_a_changed_source_is_noticed(tmp_path, changed):
    guest = "guest/emu", "guest/include", "guest/modules", "guest/image", "kpfs/mirror"
    for name in (*guest, "emulator", "engine/runtime", "linux/board", "linux/agent"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("scripts/build-module", *MADE_OF):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("", encoding="ascii")
    script = tmp_path / "scripts" / "build-guest"
    script.write_bytes((ROOT / "scripts" / "build-guest").read_bytes())
    script.chmod(0o755)
    noted = tmp_path / "guest" / "image" / "DIGEST"
    command = [script, "--digest"]
    digest = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    noted.write_text(f"{digest}old aarch64\n", encoding="ascii")
    done = subprocess.run(
        [script, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "aarch64 hosts" in done.stderr
    noted.write_text(f"{digest}{digest.strip()} aarch64\n", encoding="ascii")
    assert subprocess.run([script, "--check"], check=False).returncode == 0
    (tmp_path / changed).write_text("\n", encoding="ascii")
    done = subprocess.run(
        [script, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1


def test_at_least_400_functions_with_an_entry_nop(shared_guest):
    found = functions(shared_guest)
    assert len(found) >= 400
    assert all(shared_guest.read(at, 5) == NOP5 for at in found)


def test_256_functions_can_be_probed_behind_the_nop(shared_guest, text):
    second = [decode_at(text, at + 5) for at in functions(shared_guest)]
    assert sum(insn is not None for insn in second) >= 256


@pytest.mark.parametrize("name", NAMED)
def test_named_functions_begin_with_the_nop_alone(shared_guest, name):
    at = address(shared_guest, name)
    assert shared_guest.read(at, 5) == NOP5
    insn = decode(shared_guest.read(at + 5, 15), at + 5)
    assert insn is not None
    if name == "vfs_read":
        assert insn.length > 1


@pytest.mark.parametrize("name", OPTIMISABLE)
def test_named_functions_can_be_optimised_behind_the_nop(shared_guest, text, name):
    verdict = can_optimize(text, address(shared_guest, name) + 5)
    assert isinstance(verdict, Region), str(verdict)


@pytest.mark.parametrize("name", ["vfs_read", "ksys_read"])
def test_the_boundary_inside_the_jump_can_be_optimised(shared_guest, text, name):
    first = address(shared_guest, name) + 5
    insn = decode_at(text, first)
    assert insn is not None
    assert insn.length < 5
    assert isinstance(can_optimize(text, first + insn.length), Region)


def test_getppid_has_an_alias_and_no_room(shared_guest, text):
    at = address(shared_guest, "__x64_sys_getppid")
    assert address(shared_guest, "__do_sys_getppid") == at
    symbol = shared_guest.kallsyms.symbol_at(at)
    assert symbol is not None
    assert symbol.name == "__do_sys_getppid"
    assert decode_at(text, at + 5) is not None
    assert not isinstance(can_optimize(text, at + 5), Region)


@pytest.mark.parametrize("name", ONCE)
def test_names_that_tools_expect_are_there_once(shared_guest, name):
    address(shared_guest, name)


@pytest.mark.parametrize(
    "name", ["name_show", "init_once", "t_start", "t_next", "m_show"]
)
def test_some_static_names_are_there_twice(shared_guest, name):
    assert len(shared_guest.kallsyms.lookup_name(name)) >= 2


def test_text_has_what_compilers_make_of_c(shared_guest):
    names = [symbol.name for symbol in shared_guest.kallsyms]
    assert any(name.endswith(".cold") for name in names)
    assert any(".isra." in name for name in names)
    assert any(".constprop." in name for name in names)
    assert not any(name.startswith(".L") for name in names)


def test_blacklist_has_marked_functions_and_sections(shared_guest):
    names = {entry.name for entry in shared_guest.text.blacklist()}
    assert {"get_kprobe", "aggr_pre_handler", "kprobe_ftrace_handler"} <= names
    assert {"do_int3", "exc_int3", "noist_exc_debug", "do_syscall_64"} <= names
    assert {"asm_exc_int3", "asm_exc_page_fault", "entry_SYSCALL_64"} <= names


def test_some_text_is_reserved_or_may_fault(shared_guest):
    at = address(shared_guest, "_copy_from_user")
    assert not shared_guest.text.has_exception_entry(at, at + 64)
    at = address(shared_guest, "copy_user_generic")
    assert shared_guest.text.has_exception_entry(at, at + 64)
    names = ("vfs_read", "mutex_lock", "close_files", "__slab_free")
    at = {name: address(shared_guest, name) for name in names}
    assert not shared_guest.text.text_reserved(at["vfs_read"], at["vfs_read"] + 64)
    assert shared_guest.text.text_reserved(at["mutex_lock"], at["mutex_lock"] + 64)
    assert shared_guest.text.text_reserved(at["__slab_free"], at["__slab_free"] + 64)


def inlined_and_kept(image):
    """Return the names of functions with code of their own that are inlined, too."""
    command = ["readelf", "--wide", "--debug-dump=info", image]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    names, kept, inlined = {}, set(), set()
    at = tag = origin = ""
    for line in done.stdout.splitlines():
        if head := DIE.match(line):
            at, tag, origin = *head.groups(), ""
        elif attribute := ATTRIBUTE.match(line):
            name, value = attribute.groups()
            if name == "name" and tag == "subprogram":
                names[at] = value.rpartition(": ")[2].strip()
            elif name == "abstract_origin":
                origin = value.partition("<0x")[2].partition(">")[0]
                if tag == "inlined_subroutine":
                    inlined.add(origin)
            elif name in ("low_pc", "ranges") and tag == "subprogram":
                kept.add(origin or at)
    assert kept
    return {names[at] for at in kept & inlined}


def test_a_function_that_can_be_probed_is_never_inlined():
    """A probe would miss calls that are inlined."""
    if not shutil.which("readelf"):
        pytest.skip("readelf is missing (Debian: binutils)")
    assert inlined_and_kept(ROOT / "guest" / "image" / "vmlinux.debug") == set()


def test_libraries_of_arm64_hosts_need_none_of_the_compilers():
    """Python there has no libgcc: one that needs it is not loaded, and nobody tells."""
    folders = "emulator/image", "kpfs/mirror/image", "linux/image/*"
    images = [path for each in folders for path in ROOT.glob(f"{each}/*-aarch64.so")]
    assert len(images) >= 9
    assert [path.name for path in images if b"__aarch64_" in path.read_bytes()] == []
