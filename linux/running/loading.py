# SPDX-License-Identifier: GPL-2.0-or-later
"""Loads and unloads modules, by a task of the kernel."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KERN_WARNING
from kpfs.linux.errors import UnfitError
from kpfs.linux.running.inserting import Request, insert
from kpfs.linux.running.machine import Op
from kpfs.linux.store import image, kmod

if TYPE_CHECKING:
    from kpfs.linux.running.linux_kernel import LinuxKernel
    from kpfs.linux.running.tasks import AgentTask
    from kpfs.linux.store.modules import ModuleArchive


def load_named(
    kernel: LinuxKernel, task: AgentTask, name: str, words: bytes = b""
) -> None:
    """Load a module of the kernel's package with what it needs, in modprobe's order.

    Raises KernelError: ENOENT if the package has no such module, EEXIST, or an error of
    load().  Context: the kernel's lock is held.
    """
    from kpfs.linux.store.modules import module_name

    loaded = {module.name for module in kernel.modules()}
    try:
        names = kmod.load_order(kernel.folder, kernel.meta.release, name)
        if not names:
            raise KernelError(errno.ENOENT, f"no module {name!r}")
        # of an alias the last one is meant
        wanted = module_name(name) if module_name(name) in names else names[-1]
        with _archive(kernel.folder) as archive:
            needed = archive.needed(wanted) if wanted in archive else []
            for each in names:
                if each not in archive or (each in loaded and each != wanted):
                    continue
                try:
                    load(kernel, task, archive.read(each), words * (each == wanted))
                except KernelError as refused:
                    there = refused.errno == errno.EEXIST
                    if each == wanted or (each in needed and not there):
                        raise
    except (KeyError, UnfitError, OSError) as missing:
        raise KernelError(errno.ENOENT, f"no module {missing}") from None


def load_at_start(folder: str, request: Request, names: Sequence[str]) -> None:
    """Load modules that are neither loaded nor built in.  Raises UnfitError.

    folder: of the kernel, which need not have kmod's tables yet.
    """
    files: dict[str, bytes] = {}
    with _archive(folder) as archive:
        for name in names:
            if name in archive:  # else it is built in, or its user will complain
                try:
                    wanted = (*archive.needed(name), name)
                    files.update((each, archive.read(each)) for each in wanted)
                except KeyError as missing:
                    raise UnfitError(f"{name} needs the module {missing}") from None
    for name, data in files.items():
        try:
            made = insert(request, data)
        except KernelError as error:
            made = -error.errno
        if made < 0 and made != -errno.EEXIST:
            why = os.strerror(-made)
            raise UnfitError(f"the module {name} cannot be loaded: {why}")


def load(kernel: LinuxKernel, task: AgentTask, data: bytes, words: bytes = b"") -> None:
    """Load a module's file with parameters.

    Raises KernelError with the last warning of the log. Context: the kernel's lock is
    held.
    """
    seen = {record.seq for record in kernel.dmesg()}
    made = insert(partial(kernel.tasks.request, task), data, words)
    if made < 0:
        new = [record for record in kernel.dmesg() if record.seq not in seen]
        said = [r.text for r in new if r.priority & 7 <= KERN_WARNING]
        raise KernelError(-made, (said or [""])[-1])


def unload(kernel: LinuxKernel, task: AgentTask, name: str) -> None:
    """Unload a module. Context: the kernel's lock is held."""
    removing = Op(nr.DELETE_MODULE, (os.fsencode(name) + b"\0", os.O_NONBLOCK))
    kernel.tasks.call(task, removing, why=name)


def _archive(folder: str) -> ModuleArchive:
    from kpfs.linux.store.modules import ModuleArchive

    return ModuleArchive(os.path.join(folder, image.MODULES))
