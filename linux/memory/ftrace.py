# SPDX-License-Identifier: GPL-2.0-or-later
"""The ftrace sites of a kernel, read from its memory.

Kernel: struct ftrace_page, dyn_ftrace; both have had this form since 5.10.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kpfs.linux.memory.memory import KernelMemory, OneLook
from kpfs.linux.memory.symbols import CoreSymbols

_PAGE = struct.Struct("<QQii")  # next, records, their number, order
_RECORD = struct.Struct("<QQ")  # address, flags


def ftrace_sites(memory: KernelMemory, symbols: CoreSymbols) -> Iterator[int]:
    """Return the addresses of all sites, also of modules; raises MemoryFault."""
    memory = OneLook(memory)
    page = memory.word(symbols.address("ftrace_pages_start"))
    while page:
        page, records, count, _ = _PAGE.unpack(memory.read(page, _PAGE.size))
        for site, _ in _RECORD.iter_unpack(memory.read(records, count * _RECORD.size)):
            yield site


def without_calls(code: bytes, start: int, sites: Iterator[int], nop: bytes) -> bytes:
    """Return the text with a nop at each site."""
    text, end = bytearray(code), start + len(code)
    for site in sites:
        if start <= site <= end - len(nop):
            text[site - start : site - start + len(nop)] = nop
    return bytes(text)
