# SPDX-License-Identifier: GPL-2.0-or-later
"""Loading and unloading: what is refused and how, parameters, symbols, init text.

This also tests kpfs.backends.guest.machine_info, kpfs.guest.loader.layout,
kpfs.guest.loader.modules, kpfs.guest.loader.percpu and
kpfs.backends.guest.root.module_support.
"""

import errno
import os
import struct
import subprocess

import pytest

from kpfs.base.errors import KernelError
from kpfs.guest.loader.modelf import THIS_MODULE, RelocatableFile
from tests.modbox import HEAD, ROOT, build, module, need_compiler, refused
from tests.there import code, there

PLAIN = r"""
TARGET int plain_function(int x) { return x + 1; }
static int __init plain_init(void) { pr_info("plain: loaded\n"); return 0; }
static void __exit plain_exit(void) { pr_info("plain: gone\n"); }
module_init(plain_init);
module_exit(plain_exit);
"""


@pytest.mark.parametrize("header", ["stdio.h", "unistd.h", "asm/unistd_64.h"])
def test_no_header_of_the_host_is_found(tmp_path, header):
    """A header that the kernel lacks is missing, even if the host has it."""
    need_compiler()
    (tmp_path / "m.c").write_text(f"#include <{header}>\n")
    tool = ROOT / "scripts" / "build-module"
    done = subprocess.run([tool, "m.c"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode != 0
    assert f"{header}: No such file".encode() in done.stderr


@pytest.mark.parametrize("header", ["stdarg.h", "stddef.h", "stdbool.h"])
def test_headers_of_the_compiler_are_found(header):
    module("uses", f"#include <{header}>\n#include <linux/limits.h>\n")


def patched(tmp_path, path, change):
    """A changed copy of a file."""
    data = change(bytearray(path.read_bytes()))
    made = tmp_path / path.name
    made.write_bytes(bytes(data))
    return made


# ---- one module
def test_life_of_a_module(box):
    path = module("plain", PLAIN)
    box.log()
    box.insmod(path)
    assert box.log() == ["plain: loaded"]
    name, size, refs, users, state, addr = box.read("/modules").split()
    assert (name, refs, users, state) == ("plain", "0", "-", "Live")
    assert int(size) % 4096 == 0
    assert addr == "0xffffffffc0000000"
    assert box.call("plain_function", 41) == 42
    box.rmmod("plain")
    assert box.log() == ["plain: gone"]
    assert box.read("/modules") == ""
    assert box.kernel.guest.kallsyms.lookup_name("plain_function") == []


def test_it_comes_to_the_same_place_again(box):
    path = module("plain", PLAIN)
    for _ in range(5):
        box.insmod(path)
        assert box.read("/modules").split()[5] == "0xffffffffc0000000"
        assert box.call("plain_function", 1) == 2
        box.rmmod("plain")


def test_symbols_and_freed_init(box):
    box.insmod(module("plain", PLAIN))
    lines = [x.split() for x in box.read("/kallsyms").splitlines() if "[plain]" in x]
    names = {name: kind for _, kind, name, _ in lines}
    assert names["plain_function"] == "t"  # not exported
    assert "plain_exit" in names
    assert "plain_init" not in names
    assert "init_module" not in names
    symbol = box.kernel.guest.kallsyms.lookup_name("plain:plain_function")[0]
    assert symbol.module == "plain"
    assert symbol.addr + symbol.size <= 0xFFFFFFFFC0001000
    assert box.kernel.guest.kallsyms.symbol_at(symbol.addr + 1) == symbol


def test_init_sections_are_given_back(box):
    """Text and data; the next module may lie there."""
    big = "static char big[500000] __initdata = { 1 };\n"
    body = big + PLAIN.replace("return 0;", "return big[0] - 1;", 1)
    before = _free_pages(box)
    box.insmod(module("plain", body))
    box.settle()
    core = box.kernel.guest.modules.find("plain").layout.core
    used = before - _free_pages(box)
    assert used * 4096 == core.size
    assert box.read("/modules").split()[1] == str(core.size)


def test_unloading_what_is_not_there(box):
    assert code(box.rmmod, "plain") == "ENOENT"


def test_twice_is_refused(box):
    box.insmod(module("plain", PLAIN))
    assert refused(box, errno.EEXIST, module("plain", PLAIN)) == []
    assert box.modules() == ["plain"]


def test_only_root_may(box):
    from kpfs.base.ktypes import Caller

    path = module("plain", PLAIN)
    box.caller = Caller(os.getpid(), 1000, 1000)
    assert refused(box, errno.EPERM, path) == []


def test_newest_first(box):
    box.insmod(module("plain", PLAIN))
    box.insmod(module("other", PLAIN.replace("plain", "other")))
    assert box.modules() == ["other", "plain"]


def test_taints(box):
    box.log()
    box.insmod(module("plain", PLAIN))
    assert box.read("/modules").endswith("0xffffffffc0000000\n")
    box.rmmod("plain")
    path = build("foreign", '#include <linux/module.h>\nMODULE_LICENSE("Secret");\n')
    data = path.read_bytes().replace(b"intree=Y", b"intruder")
    path = path.with_name("foreign_2.ko")
    path.write_bytes(data)
    box.log()
    box.insmod(path)
    assert box.log() == [
        "foreign: loading out-of-tree module taints kernel.",
        "foreign: module license 'Secret' taints kernel.",
        "Disabling lock debugging due to kernel taint",
    ]
    assert box.read("/modules").endswith(" (PO)\n")


def test_shipped_by_name(box):
    box.insmod("kretprobe_example", "symbol=vfs_write")
    assert box.list() == ["r vfs_write+0x0 [FTRACE]"]
    box.rmmod("kretprobe_example")
    assert refused(box, errno.ENOENT, "no_such_module") == []


SHIPPED = (
    *("kprobe_example", "jprobe_example", "kretprobe_example"),
    *("fault_injection", "function_time"),
)


@pytest.mark.parametrize("name", SHIPPED)
def test_each_shipped_module(box, name):
    box.insmod(name, "pid=777000" if name == "fault_injection" else "")
    assert len(box.list()) == 1
    fd = box.syscall("openat", -100, "/proc/version", 0, 0)
    assert fd == (-errno.EIO if name == "fault_injection" else 0)
    if fd == 0:
        buffer = box.kernel.guest.host_tasks.of_process(777_000, 0, "caller", 1).buffer
        assert box.syscall("read", fd, buffer, 5) == 5
        assert box.syscall("close", fd) == 0
    box.rmmod(name)
    assert box.list() == []
    assert any(name in line for line in box.log())


# ---- per-CPU variables
PERCPU = """
#include <linux/percpu.h>
DEFINE_PER_CPU(long[%d], numbers) = { 7, 8 };
long *where(int cpu) { return *per_cpu_ptr(&numbers, cpu); }
INIT(return 0;) EXIT()
"""


def test_per_cpu_variables(box):
    read, percpu = box.kernel.guest.read_u64, box.kernel.guest.modules.percpu
    paths = [module(f"percpu_{n}", PERCPU % n) for n in (100, 200)]
    for path in paths:
        box.insmod(path)
    places = [
        box.call(f"{path.stem}:where", cpu) % (1 << 64)
        for path in paths
        for cpu in range(2)
    ]
    for place in places:
        assert (read(place), read(place + 8), read(place + 16)) == (7, 8, 0)
        box.kernel.guest.write_u64(place + 16, 1)
    assert places[0] + 800 <= places[2] or places[2] + 1600 <= places[0]
    assert sum(percpu._used.values()) == 2400
    for path in paths:
        box.rmmod(path.stem)
    box.settle()
    assert not percpu._used
    box.insmod(paths[0])
    assert read(places[0] + 16) == 0


def test_too_many_per_cpu_variables(box):
    path = module("percpu_much", PERCPU % 2000)
    assert refused(box, errno.ENOMEM, path) == [
        "percpu_much: Could not allocate 16000 bytes percpu data"
    ]
    free = list(box.kernel.guest.memory.area._free)
    refused(box, errno.ENOMEM, path)
    assert box.kernel.guest.memory.area._free == free


# ---- the file
def test_no_file(box, tmp_path):
    assert refused(box, errno.ENOENT, tmp_path / "nothing.ko") == []
    assert refused(box, errno.EISDIR, tmp_path) == []


def test_a_relative_path_is_the_callers(box, tmp_path, monkeypatch):
    (tmp_path / "here.ko").write_bytes(module("plain", PLAIN).read_bytes())
    monkeypatch.chdir(tmp_path)
    box.insmod("./here.ko")
    assert box.modules() == ["plain"]


def _put(fmt, at, value):
    def change(data):
        struct.pack_into(fmt, data, at, value)
        return data

    return change


SHOFF, SHENTSIZE, SHSTRNDX = 40, 58, 62


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d[:3], "Invalid ELF header len 3"),
        (lambda d: b"#!/bin/sh" + d[9:], "Invalid ELF header magic: != \x7fELF"),
        (_put("<H", 16, 2), "Invalid ELF header type: 2 != 1"),
        (_put("<H", 18, 183), "Invalid architecture in ELF header: 183"),
        (_put("<H", SHENTSIZE, 63), "Invalid ELF section header size"),
        (_put("<Q", SHOFF, 1 << 40), "Invalid ELF section header overflow"),
        (lambda d: d[:1000], "Invalid ELF section header overflow"),
    ],
)
def test_bad_elf(box, tmp_path, change, message):
    path = patched(tmp_path, module("plain", PLAIN), change)
    assert refused(box, errno.ENOEXEC, path) == [message]
    assert box.modules() == []


def test_every_cut_is_refused(box, tmp_path):
    """Nothing but a refusal comes of a file that ends anywhere."""
    path = module("plain", PLAIN)
    size = path.stat().st_size
    for length in range(0, size, 97):
        cut = patched(tmp_path, path, lambda d, n=length: d[:n])
        refused(box, errno.ENOEXEC, cut)
    assert box.modules() == []


MAGIC = "SMP preempt mod_unload"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            b"6.1.0-kpfs",
            b"6.1.0-kpfx",
            f"version magic '6.1.0-kpfx {MAGIC} ' should be '6.1.0-kpfs {MAGIC} '",
        ),
        (b".this_module", b".that_module", "No module found in object"),
    ],
    ids=["of another kernel", "not a module"],
)
def test_file_that_is_no_module_of_this_kernel(box, tmp_path, old, new, message):
    path = patched(tmp_path, module("plain", PLAIN), lambda d: d.replace(old, new))
    assert refused(box, errno.ENOEXEC, path) == [f"plain: {message}"]


def test_struct_module_takes_no_memory(box, tmp_path):
    """Linux looks for sections among those that it loads.  Kernel: find_sec()"""

    def not_loaded(data):
        this = there(RelocatableFile(bytes(data)).index(THIS_MODULE))
        (headers,) = struct.unpack_from("<Q", data, 40)
        struct.pack_into("<Q", data, headers + 64 * this + 8, 0)
        return data

    path = patched(tmp_path, module("plain", PLAIN), not_loaded)
    assert refused(box, errno.ENOEXEC, path) == ["plain: No module found in object"]


# ---- symbols
def test_unknown_symbol(box):
    text = "void nobody_has_me(void);\nINIT(nobody_has_me(); return 0;)\n"
    path = module("unknown", text)
    assert refused(box, errno.ENOENT, path) == [
        "unknown: Unknown symbol nobody_has_me (err -2)"
    ]
    assert box.modules() == []


def test_weak_symbol_may_be_missing(box):
    text = "void __weak nobody_has_me(void);\n"
    text += "INIT(return nobody_has_me ? -EBUSY : 0;)\n"
    box.insmod(module("weakly", text))


def test_gpl_only_symbols(box):
    text = HEAD + 'WITH_KPROBE()\nMODULE_LICENSE("Proprietary");\n'
    log = refused(box, errno.ENOENT, build("closed", text))
    assert log[-1] == "closed: Unknown symbol register_kprobe (err -2)"


PROVIDER = """
TARGET int provided(int x) { return 2 * x; }
EXPORT_SYMBOL_GPL(provided);
int provided_data = 7;
EXPORT_SYMBOL(provided_data);
INIT(return 0;) EXIT()
"""
USER = r"""
int provided(int x);
extern int provided_data;
INIT(pr_info("%d\n", provided(provided_data)); return 0;) EXIT()
"""


def test_exports(box):
    refused(box, errno.ENOENT, module("user", USER))
    box.insmod(module("provider", PROVIDER))
    box.insmod(module("user", USER))
    assert box.log()[-1] == "14"
    lines = {x.split()[0]: x.split()[1:4] for x in box.read("/modules").splitlines()}
    assert lines["provider"][1:] == ["1", "user,"]
    assert lines["user"][1:] == ["0", "-"]
    assert " T provided\t[provider]\n" in box.read("/kallsyms")
    assert code(box.rmmod, "provider") == "EAGAIN"
    box.rmmod("user")
    box.rmmod("provider")
    assert box.modules() == []


def test_users_come_before_a_missing_exit(box):
    box.insmod(module("provider", PROVIDER.replace("EXIT()", "")))
    with pytest.raises(KernelError, match="EBUSY"):
        box.rmmod("provider")
    box.insmod(module("user", USER))
    with pytest.raises(KernelError, match="EAGAIN"):
        box.rmmod("provider")


def test_duplicate_export(box):
    box.insmod(module("provider", PROVIDER))
    again = module("again", PROVIDER)
    assert refused(box, errno.ENOEXEC, again) == [
        "again: exports duplicate symbol provided (owned by provider)"
    ]
    mine = PROVIDER.replace("provided", "vfs_fsync")
    log = refused(box, errno.ENOEXEC, module("mine", mine))
    assert log == ["mine: exports duplicate symbol vfs_fsync (owned by kernel)"]


# ---- init and exit
def test_init_that_fails(box):
    path = module("failing", "INIT(return -ENODEV;)\n")
    assert refused(box, errno.ENODEV, path) == []
    assert box.modules() == []
    before = _free_pages(box)
    refused(box, errno.ENODEV, path)
    assert _free_pages(box) == before


def _free_pages(box):
    return sum(count for _, count in box.kernel.guest.memory.area._free)


def test_init_that_is_too_pleased(box):
    path = module("pleased", "INIT(return 5;) EXIT()\n")
    box.log()
    box.insmod(path)
    assert box.log()[:2] == [
        "do_init_module: 'pleased'->init suspiciously returned 5, it should follow "
        "0/-E convention",
        "do_init_module: loading module anyway...",
    ]


def test_no_exit_no_unloading(box):
    box.insmod(module("stays", "INIT(return 0;)\n"))
    assert code(box.rmmod, "stays") == "EBUSY"


def test_a_module_that_is_in_use(box):
    text = """
        TARGET int take(void) { return try_module_get(THIS_MODULE); }
        TARGET void give(void) { module_put(THIS_MODULE); }
        INIT(return 0;) EXIT()
    """
    box.insmod(module("used", text))
    assert box.call("take") == 1
    assert box.read("/modules").split()[2] == "1"
    assert code(box.rmmod, "used") == "EAGAIN"
    box.call("give")
    box.rmmod("used")


def test_oops_in_init_leaves_it_loading(box):
    init = 'INIT(int *p = NULL; __asm__("" : "+r"(p)); p[2] = 1; return 0;)'
    path = module("oops", f"{init} EXIT()\n")
    box.log()
    with pytest.raises(KernelError):
        box.insmod(path)
    log = box.log()
    assert "BUG: kernel NULL pointer dereference, address: 0000000000000008" in log
    assert any(line.startswith("RIP: 0010:go+0x") for line in log)
    assert any(line.startswith(" do_one_initcall+") for line in log)
    _, size, refs, _, state, _ = box.read("/modules").split()
    assert (refs, state) == ("1", "Loading")
    layout = box.kernel.guest.modules.find("oops").layout
    assert int(size) == layout.core.size + layout.init.size > layout.core.size
    assert code(box.rmmod, "oops") == "EBUSY"
    assert box.syscall("getpid") == 777_000  # the kernel lives


# ---- tables of a module's text
def test_exceptions_and_warnings_in_module_text(box):
    body = r"""
        #include <asm/asm.h>
        #define READS(name, row) TARGET long name(unsigned long at) { long bad = 0; \
        __asm__ __volatile__("1: movl (%1), %%ecx; jmp 3f; 2: movl $1, %k0; 3:\n" \
        row : "+a"(bad) : "r"(at) : "rcx", "memory"); return bad; }
        #define ROW(data) ".pushsection __ex_table, \"a\"; .balign 4\n" \
        ".long 1b - .; .long 3b - .; .long " #data "; .popsection"
        READS(probe_read, _ASM_EXTABLE(1b, 2b))
        READS(user_read, _ASM_EXTABLE_UA(1b, 2b))
        READS(which_trap, _ASM_EXTABLE_FAULT(1b, 3b))
        READS(efault, ROW(0xfff20011)) /* rax becomes -14 */
        READS(unknown, ROW(99))
        TARGET int warns(void) { return WARN_ON(1); }
    """
    box.insmod(module("tables", body + PLAIN))
    wild = {"probe_read": 1, "user_read": 1, "which_trap": 14, "efault": -errno.EFAULT}
    for name, value in wild.items():
        assert box.call(name, 0x10) == value
        assert box.call(name, box.address(name)) == 0
    box.log()
    box.call("unknown", 0x10)
    assert any("Oops" in line for line in box.log())
    box.log()
    assert box.call("warns") == 1
    assert any("warns+0x" in line and "[tables]" in line for line in box.log())


LISTS = "__param __ex_table __bug_table __jump_table .static_call_sites _ftrace_events"
LISTS += " _ftrace_eval_map __mcount_loc _kprobe_blacklist"


@pytest.mark.parametrize("name", LISTS.split())
def test_part_of_a_row_is_none(box, name):
    """Linux divides a list's size by that of a row, which has grown since 2006."""
    part = f'asm(".pushsection {name},\\"a\\"; .long 1; .popsection");'
    box.insmod(module("short", part + PLAIN))
    assert box.call("plain_function", 2) == 3
    box.rmmod("short")


def test_notifiers(box):
    body = r"""
        static int event(struct notifier_block *nb, unsigned long state, void *m) {
        pr_info("%s: %lu\n", ((struct module *)m)->name, state); return 0; }
        static struct notifier_block nb = { .notifier_call = event };
        INIT(return register_module_notifier(&nb);)
        EXIT(unregister_module_notifier(&nb);)
    """
    box.insmod(module("watcher", body))
    box.log()
    box.insmod(module("plain", PLAIN))
    box.rmmod("plain")
    said = "1", "loaded", "0", "gone", "2"
    assert box.log() == [f"plain: {one}" for one in said]
    box.rmmod("watcher")


def test_blacklist(box):
    before = box.read("/kprobes/blacklist")
    body = """
        TARGET int not_me(void) { return 1; } NOKPROBE_SYMBOL(not_me);
        int __kprobes nor_me(void); int __kprobes nor_me(void) { return 2; }
    """
    box.insmod(module("shy", body + PLAIN))
    added = box.read("/kprobes/blacklist").removeprefix(before)
    names = [line.split("\t")[1] for line in added.splitlines()]
    assert names == ["not_me [shy]", "nor_me [shy]"]
    for name in ("not_me", "nor_me"):
        assert code(box.write, "/tracing/kprobe_events", f"p {name}\n") == "EINVAL"
    box.write("/tracing/kprobe_events", "p plain_function\n")
    box.rmmod("shy")
    assert box.read("/kprobes/blacklist") == before
