# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules with errors on purpose, and with these mended: how they are built."""

from pathlib import Path

from kpfs.linux.running.saved_kernel import SavedKernel
from kpfs.linux.store import store
from tests import bare_module

SOURCES = Path(__file__).parent


def build(folder: Path, kernel: str, name: str, *, mended: bool = False) -> Path:
    """Build the module of a source here for a kernel; return its file."""
    saved = SavedKernel(store.folder(kernel))
    try:
        symbols = saved.symbols
        options = {
            "-DNOPROF": symbols.address("__kmalloc_noprof"),
            "-DCACHE_ARGS": symbols.address("__kmem_cache_create_args"),
            "-DMENDED": mended,
            "-mstack-protector-guard-symbol=__ref_stack_chk_guard": symbols.address(
                "__ref_stack_chk_guard"
            ),
        }
        words = [option for option, wanted in options.items() if wanted]
        file = f"{name}_mended" if mended else name
        source = SOURCES / f"{name}.c"
        include = f"-I{SOURCES}"
        return bare_module.build(folder, saved, source, include, *words, name=file)
    finally:
        saved.close()
