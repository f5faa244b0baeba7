# SPDX-License-Identifier: GPL-2.0-or-later
"""Debug information for the image of the kernel, which stands in a file of its own.

The running kernel needs none of it. Readers of vmlinux (objdump -l, perf probe) get
both as one file.
"""

from __future__ import annotations

import re

from kpfs.base.elf import EHDR, SHDR, ElfFile

_ALIGN = 16
# the folder of the sources as scripts/build-guest leaves it, with room for a real one
_FOLDER = re.compile(rb"guest/{999,}")
_SHOFF, _SHNUM, _SHSTRNDX = 6, 12, 13  # fields of the ELF header


def with_debug_info(image: bytes, debug: bytes, folder: bytes) -> bytes:
    """Return the image with the sections .debug_* of the other file appended.

    Names of sources begin with the folder. Numbers of sections stay as they are, but
    for that of the sections' names.
    """
    head = list(EHDR.unpack_from(image, 0))
    own, others = ElfFile(image), ElfFile(debug)
    rows = [
        SHDR.unpack_from(image, head[_SHOFF] + i * SHDR.size)
        for i in range(head[_SHNUM])
    ]
    out = bytearray(image)
    names = bytearray(own.contents(own.sections[head[_SHSTRNDX]]))
    added = []
    for section in others.sections:
        if not section.name.startswith(".debug_"):
            continue
        out += bytes(-len(out) % _ALIGN)
        row = (len(names), *section[1:4], len(out), *section[5:])
        added.append(row)
        names += section.name.encode() + b"\0"
        out += _FOLDER.sub(
            lambda room: folder.ljust(len(room[0]), b"\0"), others.contents(section)
        )
    strings = list(rows[head[_SHSTRNDX]])
    strings[4:6] = len(out), len(names)
    rows[head[_SHSTRNDX]] = tuple(strings)
    out += names
    out += bytes(-len(out) % _ALIGN)
    head[_SHOFF], head[_SHNUM] = len(out), len(rows) + len(added)
    for row in (*rows, *added):
        out += SHDR.pack(*row)
    EHDR.pack_into(out, 0, *head)
    return bytes(out)
