# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists s390x's instructions beside what they once were: see ../x86/compare.py.

The words come from capstone, imported when the first listing is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kpfs.base.data_model import BIG_64
from kpfs.base.ktypes import MASK64
from kpfs.engine.listing import CapstoneWords, instructions

UNIT, LONGEST = 2, 6  # bytes
BYTES_WIDTH = 3 * LONGEST - 1
_BREAKPOINT = b"\x00\x02"
# brc and bras; brcl and brasl: by the first byte, and the low bits of the second one
_NEAR, _FAR, _BRANCH, _CALL = 0xA7, 0xC0, 4, 5


class Disassembler(CapstoneWords):
    """Words for instructions; capstone is loaded by the first one made."""

    def __init__(self) -> None:
        import capstone

        super().__init__(
            capstone.Cs(capstone.CS_ARCH_SYSZ, capstone.CS_MODE_BIG_ENDIAN)
        )

    def unknown(self, raw: bytes) -> str:
        return f".insn 0x{raw.hex()}"

    def target(self, raw: bytes, addr: int) -> int | None:
        return branch_target(raw, addr)


def size_of(raw: bytes) -> int:
    """Return the size of an instruction by its first byte."""
    return (2, 4, 4, 6)[raw[0] >> 6]


def branch_target(raw: bytes, addr: int) -> int | None:
    """Return where a relative branch or call goes; None for another instruction."""
    size = {_NEAR: 4, _FAR: 6}.get(raw[0])
    if len(raw) != size or raw[1] & 15 not in (_BRANCH, _CALL):
        return None
    return addr + 2 * BIG_64.number(raw[2:], signed=True) & MASK64


def compared_listing(
    live: bytes, saved: bytes, start: int, name: Callable[[int], str]
) -> Iterator[str]:
    """Yield a line for each instruction from start on, noting those that were others.

    name gives what is written behind the target of a jump or call.
    """
    dis = Disassembler()
    for at, was in instructions(saved, size_of):
        raw, addr = live[at : at + len(was)], start + at
        text = dis.named(raw, addr, name)
        line = f"  {addr:016x}  {raw.hex(' '):<{BYTES_WIDTH}} {text}"
        if raw != was:
            line = f"{line:<84} # {_patch(raw)}, was: {dis.text(was, addr)}"
        yield line


def _patch(raw: bytes) -> str:
    """Return what an instruction that was put in place of another is."""
    if raw[:UNIT] == _BREAKPOINT:
        return "breakpoint"
    if raw[0] == _FAR and len(raw) == LONGEST:
        return {_BRANCH: "jump", _CALL: "call"}.get(raw[1] & 15, "patched")
    return "patched"
