# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.guest.loader.debug_info: the image of the kernel with its debug information."""

import os
from pathlib import Path

from kpfs.base.elf import ElfFile
from kpfs.guest.images import IMAGE_DIR
from kpfs.guest.loader.debug_info import with_debug_info

ROOM = b"guest" + 999 * b"/"


def image(name):
    return Path(os.path.join(IMAGE_DIR, name)).read_bytes()


def test_both_files_are_in_one():
    kernel, debug = image("vmlinux"), image("vmlinux.debug")
    joined = with_debug_info(kernel, debug, b"/usr/lib/kpfs/guest")
    own, others, both = map(ElfFile, (kernel, debug, joined))
    assert both.segments == own.segments
    assert both.entry == own.entry
    assert both.symbols() == own.symbols()
    first, changed = len(own.sections), []
    assert [s.name for s in both.sections[:first]] == [s.name for s in own.sections]
    for before, after in zip(own.sections, both.sections, strict=False):
        if before.name != ".shstrtab":
            assert after == before
    added = {s.name: both.contents(s) for s in both.sections[first:]}
    assert {".debug_line", ".debug_info"} <= added.keys()
    for section in others.sections:
        if section.name.startswith(".debug_"):
            data, built = added.pop(section.name), others.contents(section)
            assert len(data) == len(built)
            if data != built:
                changed.append(section.name)
                assert data.count(b"/usr/lib/kpfs/guest\0") == built.count(ROOM)
                assert ROOM not in data
    assert not added
    assert ".debug_line_str" in changed


def test_the_image_has_none_of_its_own():
    assert not [s for s in ElfFile(image("vmlinux")).sections if "debug" in s.name]
