# SPDX-License-Identifier: GPL-2.0-or-later
"""Long texts of the kernel that are not made again for each reader.

The kernel takes a fifth of a second and a thousand system calls for /proc/kallsyms or
available_filter_functions. Each text begins with lines about the kernel itself, which
never change and are kept with the image. The lines of modules, probes and the like
follow, and are read once after each change. Changes show in lists in the kernel's
memory.

The kernel itself makes the first piece for each open file, which also tells whether
this reader may see addresses. After that a read of 0 bytes is made for each of the
reader's reads.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

from kpfs.base.errors import MemoryFault
from kpfs.linux.memory.memory import KernelMemory, OneLook
from kpfs.linux.memory.structures import Structures
from kpfs.linux.store import image

PIECE = 64 << 10
MAX_NODES = 4096
MAX_TAIL = 64 << 20  # bytes
# an address of 64 or 32 bits that begins a line, before the type of a symbol
ADDRESS = re.compile(rb"^(?:[0-9a-f]{8}){1,2}(?= \w )", re.M)
# reads so many bytes at an offset of the kernel's own file
Real = Callable[[int, int], bytes]


class KernelList(NamedTuple):
    """A list of the kernel, with the bytes around each node that identify it."""

    symbol: str
    before: int
    behind: int


MODULES = KernelList("modules", 8, 72)  # struct module: state, list, name
LISTS = {
    image.SYMBOLS: (
        MODULES,
        KernelList("ftrace_mod_maps", 0, 64),
        KernelList("ftrace_ops_trampoline_list", 64, 64),
        KernelList("bpf_kallsyms", 544, 16),  # struct bpf_ksym: start, end, name, lnode
        KernelList("kprobe_insn_slots", 0, 32),  # struct kprobe_insn_page: list, insns
        KernelList("kprobe_optinsn_slots", 0, 32),
    ),
    image.FUNCTIONS: (MODULES,),
}
PATHS = {
    b"/proc/kallsyms": image.SYMBOLS,
    b"/sys/kernel/tracing/available_filter_functions": image.FUNCTIONS,
    b"/sys/kernel/debug/tracing/available_filter_functions": image.FUNCTIONS,
}


def hide(lines: bytes | mmap.mmap) -> bytes:
    """Return lines with zeros for the addresses they begin with."""
    return ADDRESS.sub(lambda found: b"0" * len(found[0]), lines)


class ReadyText:
    """The kept part of one text, for one machine.  Context: its lock is held."""

    def __init__(
        self,
        shown: mmap.mmap,
        lists: tuple[KernelList, ...],
        saved: KernelMemory,
        memory: KernelMemory,
        structures: Structures,
    ) -> None:
        """shown: the text with addresses, as it is in the saved kernel."""
        self._shown = shown
        self._hidden = b""
        self.has_addresses = ADDRESS.match(shown) is not None
        self._lists, self._structures = lists, structures
        self._saved, self._memory = saved, memory
        self._tails: tuple[bytes, dict[bool, bytes]] = b"", {}

    @cached_property
    def _places(self) -> list[tuple[KernelList, int, int]]:
        """Return the lists that this kernel has: where their heads are, and sizes."""
        return [(each, *self._structures.data(each.symbol)) for each in self._lists]

    @cached_property
    def _first(self) -> bytes:
        return self.fingerprint(self._saved)

    def begin(self, hidden: bool) -> mmap.mmap | bytes:
        """Return the lines about the kernel itself; hidden: without addresses."""
        if not hidden:
            return self._shown
        self._hidden = self._hidden or hide(self._shown)
        return self._hidden

    def tail(self, hidden: bool, real: Real) -> bytes:
        """Return the lines that stand behind those of begin() now."""
        now = self.fingerprint(self._memory)
        if now == self._first:
            return b""
        if self._tails[0] != now:
            self._tails = now, {}
        tails = self._tails[1]
        if hidden not in tails:
            tail, start = bytearray(), len(self._shown)
            while len(tail) < MAX_TAIL and (piece := real(start + len(tail), PIECE)):
                tail += piece
            tails[hidden] = bytes(tail)
        return tails[hidden]

    def fingerprint(self, memory: KernelMemory) -> bytes:
        """Return a value that differs after each change of the text."""
        memory = OneLook(memory)
        return b"".join(
            node for place in self._places for node in _nodes(memory, *place)
        )


def _nodes(
    memory: KernelMemory, each: KernelList, addr: int, length: int
) -> Iterator[bytes]:
    """Yield the bytes that identify each node of a list; a structure has its head."""
    size = each.before + each.behind
    long = memory.model.long
    for head in range(addr, addr + length, long):
        node, left = _word(memory, head), MAX_NODES
        if _word(memory, node + long) != head:
            continue  # no head: what it points at does not point back
        while node not in (head, 0) and left:
            yield _around(memory, node - each.before, size)
            node, left = _word(memory, node), left - 1


def _word(memory: KernelMemory, addr: int) -> int:
    return memory.model.number(_around(memory, addr, memory.model.long))


def _around(memory: KernelMemory, addr: int, size: int) -> bytes:
    try:
        return memory.read(addr, size)
    except MemoryFault:
        return b""


class ReadyReader:
    """A reader of one open file. Context: the machine's lock is held."""

    def __init__(self, text: ReadyText) -> None:
        self._text = text
        # True if addresses may be hidden from this reader
        self._choices = [False, True] if text.has_addresses else [False]
        self._decided = False

    def read(self, offset: int, size: int, real: Real) -> bytes:
        """Return so many bytes at an offset."""
        if not self._decided or not self._choices:
            data = real(offset, size)
            self._decide(offset, data)
            return data
        hidden = self._choices[0]
        begin = self._text.begin(hidden)
        tail = self._text.tail(hidden, real)
        real(offset, 0)
        data = begin[offset : offset + size]
        at = max(offset - len(begin), 0)
        return data + tail[at : at + size - len(data)]

    def _decide(self, offset: int, data: bytes) -> None:
        """Find out from the kernel's first piece whether this reader sees addresses."""
        self._choices = [
            hidden
            for hidden in self._choices
            if self._text.begin(hidden)[offset : offset + len(data)] == data
        ]
        if len(self._choices) < 2:
            self._decided = True


def open_texts(folder: str) -> dict[str, mmap.mmap]:
    """Return the texts of an image by the names of their files."""
    texts = {}
    for name in LISTS:
        with (
            contextlib.suppress(OSError, ValueError),  # an image of an older kpfs
            open(os.path.join(folder, name), "rb") as file,
        ):
            texts[name] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return texts


class ReadyTexts:
    """The ready texts of one machine."""

    def __init__(
        self,
        texts: dict[str, mmap.mmap],
        saved: KernelMemory,
        memory: KernelMemory,
        structures: Structures,
    ) -> None:
        """texts: of open_texts(); saved, memory: the kernel's memory then and now."""
        self._texts = {
            name: ReadyText(text, LISTS[name], saved, memory, structures)
            for name, text in texts.items()
        }

    def reader(self, path: bytes) -> ReadyReader | None:
        """Return a reader for an opened path, None if it has no ready text."""
        text = self._texts.get(PATHS.get(path, ""))
        return ReadyReader(text) if text else None
