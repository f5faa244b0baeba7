# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists s390x's instructions beside what they once were: see ../x86/compare.py."""

from __future__ import annotations

from kpfs.base.data_model import BIG_64
from kpfs.base.ktypes import MASK64
from kpfs.engine.listing import CapstoneWords

_BREAKPOINT = b"\x00\x02"
# brc and bras; brcl and brasl: by the first byte, and the low bits of the second one
_NEAR, _FAR, _BRANCH, _CALL = 0xA7, 0xC0, 4, 5


def branch_target(raw: bytes, addr: int) -> int | None:
    """Return where a relative branch or call goes; None for another instruction."""
    size = {_NEAR: 4, _FAR: 6}.get(raw[0])
    if len(raw) != size or raw[1] & 15 not in (_BRANCH, _CALL):
        return None
    return addr + 2 * BIG_64.number(raw[2:], signed=True) & MASK64


class Disassembler(CapstoneWords):
    processor, modes = "SYSZ", ("BIG_ENDIAN",)
    unit, longest, cut_by_saved = 2, 6, True

    @staticmethod
    def size_of(raw: bytes) -> int:
        return (2, 4, 4, 6)[raw[0] >> 6]

    @staticmethod
    def number(raw: bytes) -> int:
        return BIG_64.number(raw[:2])

    def unknown(self, raw: bytes) -> str:
        return f".insn 0x{raw.hex()}"

    def target(self, raw: bytes, addr: int) -> int | None:
        return branch_target(raw, addr)

    def patch(self, raw: bytes) -> str:
        if raw[: self.unit] == _BREAKPOINT:
            return "breakpoint"
        if raw[0] == _FAR and len(raw) == self.longest:
            return {_BRANCH: "jump", _CALL: "call"}.get(raw[1] & 15, "patched")
        return "patched"
