# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules with errors on purpose, and with these mended: how they are built."""

from pathlib import Path

from kpfs.linux.memory.btf import read_btf
from kpfs.linux.running.saved_kernel import SavedKernel
from kpfs.linux.search import places
from kpfs.linux.store import store
from tests import bare_module

SOURCES = Path(__file__).parent
_GUARD = "-mstack-protector-guard=sysreg", "-mstack-protector-guard-reg=sp_el0"
_GUARD_AT = "-mstack-protector-guard-offset"
_CALLS = {"unlocked_ioctl": "IOCTL", "open": "OPEN", "release": "RELEASE"}
# what a function of modules is called, with the name in the newest kernels first
_NAMES = {
    "ALLOC_PAGES": ("alloc_pages_noprof", "alloc_pages", "alloc_pages_current"),
    "MUTEX_INIT": ("mutex_init_generic", "__mutex_init"),
    "TIMER_INIT": ("timer_init_key", "init_timer_key"),
    "TIMER_DELETE": ("timer_delete", "del_timer"),
    "PUT_PAGE": ("__folio_put", "__put_page"),
}

# function of tests/checked/memory.c -> what is said of it
MEMORY = {
    "write_behind": "write of 1 byte out of bounds",
    "read_behind": "read of 1 byte out of bounds",
    "read_before": "read of 1 byte out of bounds",
    "write_before": "write of 8 bytes out of bounds",
    "use_after_free": "read of 8 bytes after free",
    "double_free": "double free",
    "free_inside": "free of what is no object",
    "copy_too_much": "write of 34 bytes out of bounds",
    "set_too_much": "write of 51 bytes out of bounds",
    "string_too_long": "write of 6 bytes out of bounds",
    "duplicate_too_short": "read of 1 byte out of bounds",
    "page_after_free": "read of 1 byte after free",
    "behind_page": "write of 1 byte out of bounds",
    "behind_pages": "read of 1 byte out of bounds",
    "string_behind_page": "write of 97 bytes out of bounds",
    "struct_page_after_free": "read of 1 byte after free",
    "page_freed_twice": "double free",
    "leak_of_page": "leak of 4096 bytes",
    "vmalloc_after_free": "read of 1 byte after free",
    "vmalloc_behind": "read of 1 byte out of bounds",
    "cache_behind": "write of 1 byte out of bounds",
    "cache_before": "read of 1 byte out of bounds",
    "cache_after_free": "read of 1 byte after free",
    "beside_variable": "write of 1 byte beside a variable",
    "beyond_array": "read of 8 bytes beyond an array on the stack",
    "before_large": "write of 1 byte out of bounds",
    "behind_large": "write of 1 byte out of bounds",
    "set_beyond_variable": "write of 40 bytes beside a variable",
    "free_variable": "free of what is no object",
    "free_other_kind": "free of an object of another kind",
    "lock_after_free": "read of 4 bytes after free",
    "never_written": "read of 8 bytes that nobody has written",
    "never_written_in_cache": "read of 1 byte that nobody has written",
    "never_written_to_user": "read of 24 bytes that nobody has written",
    "copy_into_neighbour": "write of 40 bytes beyond an array on the stack",
    "never_written_on_stack": "read of 4 bytes that nobody has written",
    "stack_to_user": "read of 40 bytes that nobody has written",
    "leak": "leak of 123 bytes",
}
LOCKS = {
    "two_locks": "2 locks are taken in a circle",
    "three_locks": "3 locks are taken in a circle",
    "sleep_under_spinlock": "__kmalloc may sleep",
    "mutex_without_interrupts": "mutex_lock may sleep",
}


def build(
    folder: Path, kernel: str, name: str, *, mended: bool = False, called: str = ""
) -> Path:
    """Build the module of a source here, or else in the folder; return its file.

    called: what the module is to be called, "": as its source, with a word if mended.
    It is loaded by force, which busybox's insmod, as on arm64, does without being told.
    """
    saved = SavedKernel(store.folder(kernel))
    try:
        symbols = saved.symbols
        options = {
            "-DNOPROF": symbols.address("__kmalloc_noprof"),
            "-D__mutex_init=mutex_init_generic": symbols.address("mutex_init_generic"),
            "-Dinit_timer_key=timer_init_key": symbols.address("timer_init_key"),
            "-DCACHE_ARGS": symbols.address("__kmem_cache_create_args"),
            "-DINLINE_UNLOCK": not symbols.address("_raw_spin_unlock"),
            "-DMENDED": mended,
            "-mstack-protector-guard-symbol=__ref_stack_chk_guard": symbols.address(
                "__ref_stack_chk_guard"
            ),
        }
        words = [option for option, wanted in options.items() if wanted]
        words += [
            f"-D{name}={next(each for each in names if symbols.address(each))}"
            for name, names in _NAMES.items()
        ]
        is_arm64 = saved.arch.name == "arm64"
        if is_arm64:
            canary = saved.structures["task_struct"].at["stack_canary"]
            words += ["-fstack-protector-strong", *_GUARD, f"{_GUARD_AT}={canary}"]
            pages = places.pages_of_section(saved.memory, symbols)
            words.append(f"-DPAGES_AT={pages:#x}")
        btf = read_btf(saved.memory, symbols)
        assert btf is not None
        files = btf.layouts({"file_operations": _CALLS, "file": ("private_data",)})
        calls = files["file_operations"].at
        words += [f"-D{name}_AT={calls[member]}" for member, name in _CALLS.items()]
        words.append(f"-DPRIVATE_AT={files['file'].at['private_data']}")
        file = called or (f"{name}_mended" if mended else name)
        source = SOURCES / f"{name}.c"
        if not source.exists():
            source = folder / f"{name}.c"
        include = f"-I{SOURCES}"
        return bare_module.build(
            folder, saved, source, include, *words, name=file, versions=not is_arm64
        )
    finally:
        saved.close()
