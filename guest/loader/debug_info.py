# SPDX-License-Identifier: GPL-2.0-or-later
"""Line numbers for the image of the kernel, which stand in a file of their own.

What runs needs none of them; who reads vmlinux (objdump -l) gets both as one.
"""

from __future__ import annotations

from kpfs.guest.loader.elf import EHDR, SHDR, ElfFile

_ALIGN = 16
_SHOFF, _SHNUM, _SHSTRNDX = 6, 12, 13  # fields of the ELF header


def with_debug_info(image: bytes, debug: bytes) -> bytes:
    """Return the image with the sections .debug_* of the other file appended.

    Numbers of sections stay as they are, but for that of the sections' names.
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
        out += others.contents(section)
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
