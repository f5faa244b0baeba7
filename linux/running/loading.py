# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules are loaded and unloaded, as a task of the guest does it."""

from __future__ import annotations

import errno
import os

from kpfs.base.errors import KernelError
from kpfs.linux.errors import UnfitError
from kpfs.linux.running import syscalls as nr
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.machine import Op
from kpfs.linux.running.tasks import Task
from kpfs.linux.store import image
from kpfs.linux.store.modules import Modules
from kpfs.linux.store.probing import Prober, Step

WARNING = 4  # level of the log


def load_named(kernel: LinuxKernel, task: Task, name: str, words: bytes = b"") -> None:
    """Load what a name of the kernel's package stands for, in modprobe's order.

    ENOENT: the package has none of that name; else as load(), also EEXIST.
    Context: the kernel's lock is held.
    """
    loaded = {module.name for module in kernel.modules()}
    try:
        with Modules(os.path.join(kernel.folder, image.MODULES)) as package:
            prober = Prober(package)
            found = [each.name for each in prober.lookup(name)]
            if not found:
                raise KernelError(errno.ENOENT, f"no module {name!r}")
            for wanted in found:
                for step in prober.steps(wanted):
                    if step.name == wanted and step.name in package:
                        load(kernel, task, package.read(wanted), words)
                    elif step.name in package and step.name not in loaded:
                        _load_other(kernel, task, package.read(step.name), step)
    except (KeyError, UnfitError) as missing:
        raise KernelError(errno.ENOENT, f"no module {missing}") from None


def _load_other(kernel: LinuxKernel, task: Task, data: bytes, step: Step) -> None:
    """Load one for the sake of another."""
    try:
        load(kernel, task, data)
    except KernelError as refused:
        if step.required and refused.errno != errno.EEXIST:
            raise


def load(kernel: LinuxKernel, task: Task, data: bytes, words: bytes = b"") -> None:
    """Load a module's file with parameters; the reason is what the log says.

    Context: the kernel's lock is held.
    """
    seen = {record.seq for record in kernel.dmesg()}
    fd = kernel.make_file(task, data)
    loading = Op(nr.FINIT_MODULE, (fd, words + b"\0", 0))
    made, _ = kernel.request(task, [loading, Op(nr.CLOSE, (fd,))]).results
    if made < 0:
        new = [record for record in kernel.dmesg() if record.seq not in seen]
        said = [r.text for r in new if r.priority & 7 <= WARNING]
        raise KernelError(-made, (said or [""])[-1])


def unload(kernel: LinuxKernel, task: Task, name: str) -> None:
    """Unload one.  Context: the kernel's lock is held."""
    removing = Op(nr.DELETE_MODULE, (os.fsencode(name) + b"\0", os.O_NONBLOCK))
    made = kernel.request(task, [removing]).results[0]
    if made < 0:
        raise KernelError(-made, name)
