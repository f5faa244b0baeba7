# SPDX-License-Identifier: GPL-2.0-or-later
"""Tell why a kernel cannot run a program: its architecture, or its interpreter.

Kernel: struct elf64_hdr, elf64_phdr, elf32_hdr, elf32_phdr
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kpfs.base.elf import EM_386, EM_AARCH64, EM_ARM, EM_X86_64, MACHINES

if TYPE_CHECKING:
    from kpfs.linux.inside.loop import Worker

_HEAD = 4096  # bytes of a program that are read
_ORDER = {1: "<", 2: ">"}  # by EI_DATA
_MACHINE_AT = 18
# by EI_CLASS: e_phoff, e_phentsize and e_phnum; p_type, p_offset and p_filesz
_LAYOUTS = {1: ("28xI10xHH", "2I8xI"), 2: ("32xQ14xHH", "I4xQ16xQ")}
_INTERPRETER = 3  # PT_INTERP
_SCRIPT = b"#!"
_BLANKS = b" \t"
_DEEPEST = 4  # scripts whose interpreters are scripts
# most kernels for these run 32-bit programs, too, which are for another machine
_RUNS_TOO = {EM_X86_64: EM_386, EM_AARCH64: EM_ARM}


def why_not(worker: Worker, path: str) -> str:
    """Return what is wrong with a program that execve() refuses; "" if unknown."""
    from kpfs.linux.inside import texts  # why_not_here() needs none of it

    read = partial(texts.read_head, worker, size=_HEAD)
    return _why_not(path, read, worker.board.arch.elf_machine)


def why_not_here(path: str) -> str:
    """Return likewise what is wrong with a program that the host refuses."""
    try:
        own = own_machine()
    except (struct.error, KeyError, IndexError):  # there is no /proc
        return ""
    return _why_not(path, _head_here, own)


def own_machine() -> int:
    """Return the machine of the host's programs."""
    return read_head(_head_here("/proc/self/exe"))[0]


def _why_not(path: str, read: Callable[[str], bytes], own: int, depth: int = 0) -> str:
    """Return what is wrong with a program.

    read: returns the first bytes of a file, b"" if it cannot be read.  own: the machine
    of programs that the kernel runs.
    """
    head = read(path)
    if head[:2] == _SCRIPT and depth < _DEEPEST:
        line = head.partition(b"\n")[0][len(_SCRIPT) :].strip(_BLANKS)
        # a CR before the line's end belongs to the name
        interpreter = os.fsdecode(line.replace(b"\t", b" ").partition(b" ")[0])
        lacks = _lacks(path, interpreter, read)
        return lacks or _why_not(interpreter, read, own, depth + 1)
    try:
        machine, interpreter = read_head(head)
    except (struct.error, KeyError, IndexError):
        return ""
    lacks = _lacks(path, interpreter, read)
    if lacks and machine in (own, _RUNS_TOO.get(own)):
        return lacks
    if machine != own:
        meant, runs = _name(machine), _name(own)
        return f"{path} is a program for {meant}, and this kernel runs those for {runs}"
    return ""


def _lacks(path: str, interpreter: str, read: Callable[[str], bytes]) -> str:
    if not interpreter or read(interpreter):
        return ""
    if interpreter.endswith("\r"):
        return f"{path} has lines that end in CR LF; sed -i 's/\\r$//' {path} mends it"
    return f"{path} needs {interpreter}, which is not there"


def read_head(head: bytes) -> tuple[int, str]:
    """Return a program's machine, and the interpreter that it asks for if any.

    Raises struct.error, KeyError or IndexError if this is no ELF file.
    """
    if head[:4] != b"\x7fELF":
        raise KeyError(head[:4])
    order, (table, segment) = _ORDER[head[5]], _LAYOUTS[head[4]]
    (machine,) = struct.unpack_from(f"{order}H", head, _MACHINE_AT)
    at, size, count = struct.unpack_from(order + table, head)
    for number in range(count):
        row = struct.unpack_from(order + segment, head, at + number * size)
        kind, offset, length = row
        if kind == _INTERPRETER:
            return machine, os.fsdecode(head[offset : offset + length].rstrip(b"\0"))
    return machine, ""


def _name(machine: int) -> str:
    return MACHINES.get(machine, f"machine {machine}")


def _head_here(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b""
