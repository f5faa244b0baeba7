# SPDX-License-Identifier: GPL-2.0-or-later
"""Tells what the name of a kernel means that has parameters: ``6.12+kptr_restrict=2``.

A parameter is a sysctl if the kernel has a file of this name below /proc/sys, or, for a
name without a dot, below /proc/sys/kernel; it is set before anything else happens.
``cpus=N`` is the number of processors.  Everything else goes to the kernel's command
line, so it makes an image of its own, which is kept beside that of the kernel.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.emulator.libunicorn import EmulatorError
from kpfs.linux.errors import UnfitError
from kpfs.linux.store import image, store
from kpfs.linux.store.store import JOIN

if TYPE_CHECKING:
    from kpfs.linux.running.machine import Op

CPUS = "cpus"
_NO_FILE = -errno.ENOENT, -errno.ENOTDIR, -errno.EISDIR


class ChosenKernel(NamedTuple):
    """An image, and what is set when it is used."""

    image: str  # name of the image that goes on from its boot
    base: str  # name of the kernel without parameters
    words: tuple[str, ...] = ()  # parameters that the image was made with
    sysctls: tuple[tuple[str, str], ...] = ()  # names and values

    @property
    def cpus(self) -> int:
        """The number of processors that is asked for; 0: no number is."""
        return next((number for word in self.words if (number := _cpus(word))), 0)

    @property
    def append(self) -> tuple[str, ...]:
        """The parameters that stand on the kernel's command line."""
        return tuple(word for word in self.words if not _cpus(word))


def chosen(text: str) -> list[str]:
    """Return the names in NAME,...; UnfitError: there is none, or one stands twice."""
    found = text.split(",")
    if "" in found:
        raise UnfitError(f"--kernels {text}: an empty name is among them")
    seen: dict[tuple[str, ...], str] = {}
    for name in found:
        base, words = parts(name)
        same = base, *sorted(words)
        if same in seen:
            other = "" if seen[same] == name else f", also as {seen[same]}"
            raise UnfitError(f"--kernels {text}: {name} is named twice{other}")
        seen[same] = name
    return found


def parts(name: str) -> tuple[str, list[str]]:
    """Return a kernel's name without its parameters, and these.

    Names of kernels may have a + of their own: releases of Debian, and what users call
    theirs.  So the first name counts that there is, or that a distribution offers.
    """
    base, *words = name.split(JOIN)
    if not words or "" in words:
        return name, []
    from kpfs.linux.distribution.distributions import is_name

    if ":" not in name and is_name(name):
        return name, []
    starts = [JOIN.join((base, *words[:number])) for number in range(len(words))]
    there = store.names()
    for number, start in enumerate(starts):
        if start in there:
            return start, words[number:]
    for number, start in enumerate(starts):
        if is_name(start):
            return start, words[number:]
    return (base, words) if "=" in name else (name, [])


def kernel(name: str) -> ChosenKernel:
    """Return what a name means.  Raises UnfitError, also if its kernel is not there."""
    base, words = parts(store.check_name(name))
    if not words:
        return ChosenKernel(name, base)
    if name in store.names():
        return ChosenKernel(name, base, tuple(words))
    folder = store.folder(base)
    digest = image.read_meta(folder).digest
    sysctls, rest = [], []
    for word in words:
        key, is_set, value = word.partition("=")
        if key == CPUS and not _cpus(word):
            raise UnfitError(f"{name}: {CPUS} is 1 to {abi.MAX_CPUS}, not {value!r}")
        if key != CPUS and is_set and _has_file(folder, digest, path_of(key)):
            sysctls.append((key, value))
        else:
            if key != CPUS:
                _check_module(folder, key)
            rest.append(word)
    made = tuple(sorted(rest))
    return ChosenKernel(JOIN.join((base, *made)), base, made, tuple(sysctls))


def folder(name: str) -> str:
    """Return the folder of a kernel's image.  Raises UnfitError where there is none."""
    found = kernel(name)
    if found.words and found.image not in store.names():
        raise UnfitError(
            f"no kernel {found.image}: {found.base} was not made with "
            f"{' '.join(found.words)} yet (kpfs kernel make {found.image})"
        )
    return store.folder(found.image)


def made_with(base: str) -> list[str]:
    """Return the names of images that are this kernel with parameters."""
    found = []
    for name in store.names():
        start, words = parts(name)
        if start == base and words:
            with contextlib.suppress(UnfitError):
                made = image.read_meta(store.folder(name)).append.split()
                if {*ChosenKernel(name, base, tuple(words)).append} <= {*made}:
                    found.append(name)
    return found


def path_of(sysctl: str) -> str:
    """Return the file of a sysctl, which need not be there."""
    below = sysctl.replace(".", "/") if "." in sysctl else f"kernel/{sysctl}"
    return f"/proc/sys/{below}"


def set_sysctls(
    sysctls: Sequence[Sequence[str]], attempt: Callable[[list[Op]], list[int]]
) -> None:
    """Set sysctls by a task's calls.  Raises UnfitError for one that is refused."""
    from kpfs.linux.running.machine import writing

    for name, value in sysctls:
        results = attempt(writing(path_of(name), value))
        if refused := [result for result in results[:2] if result < 0]:
            raise UnfitError(
                f"{path_of(name)} does not take {value!r}: {os.strerror(-refused[0])}"
            )


def unknown(word: str) -> UnfitError:
    key = word.partition("=")[0]
    return UnfitError(f"{key} is neither a boot parameter nor a sysctl of this kernel")


def _check_module(folder: str, key: str) -> None:
    """Raise UnfitError for MODULE.PARAMETER if the kernel has no such module."""
    from kpfs.linux.store.modules import ModuleArchive

    module, dot, parameter = key.replace("-", "_").partition(".")
    if not dot:
        return
    symbol = f" __param_str_{parameter}\n".encode()
    with open(os.path.join(folder, image.SYMBOLS), "rb") as file:
        is_built_in = symbol in file.read()
    with ModuleArchive(os.path.join(folder, image.MODULES)) as modules:
        if not is_built_in and module not in modules:
            raise unknown(key)


def _cpus(word: str) -> int:
    """Return the number in cpus=N; 0: it is another word, or no such number."""
    key, _, value = word.partition("=")
    fits = key == CPUS and value.isascii() and value.isdecimal()
    return int(value) if fits and 1 <= int(value) <= abi.MAX_CPUS else 0


@cache
def _has_file(folder: str, _digest: str, path: str) -> bool:
    """Ask the kernel of an image if it has a file.  Raises UnfitError."""
    from kpfs.linux.running.machine import AGENT, LinuxMachine, Op

    meta = image.read_meta(folder)
    try:
        with image.open_ram(folder, meta) as ram, closing(image.load(ram, meta)) as one:
            machine = LinuxMachine(one, quiet=True)
            where = nr.AT_FDCWD, path.encode() + b"\0", os.O_WRONLY, 0
            machine.start(AGENT, [Op(nr.OPENAT, where)])
            machine.run(AGENT)
            return machine.results(AGENT, 1)[0] not in _NO_FILE
    except EmulatorError as error:
        raise UnfitError(str(error)) from None
