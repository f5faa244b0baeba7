# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists i386's instructions beside what they once were: see ../x86/compare.py.

Words and sizes come from capstone, imported when the first listing is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kpfs.engine.listing import CapstoneWords

_CALL, _JUMP, _SHORT, _TWO_BYTES = 0xE8, 0xE9, 0xEB, 0x0F
_U32 = 0xFFFF_FFFF
_PATCHES = {0xCC: "breakpoint", _CALL: "call", _JUMP: "jump"}
_LONGEST, _WIDTH = 15, 33  # bytes of an instruction; columns for those of most


class Disassembler(CapstoneWords):
    """Words for instructions; capstone is loaded by the first one made."""

    def __init__(self) -> None:
        import capstone

        super().__init__(capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_32))

    def first(
        self, code: bytes, addr: int, name: Callable[[int], str]
    ) -> tuple[bytes, str]:
        """Return bytes and words of the first instruction."""
        code = code[:_LONGEST]
        sizes = (size for _, size, _, _ in self._cs.disasm_lite(code, addr, 1))
        raw = code[: next(sizes, 1)]
        return raw, self.named(raw, addr, name)

    def unknown(self, raw: bytes) -> str:
        return ".byte " + ", ".join(f"{byte:#04x}" for byte in raw)

    def target(self, raw: bytes, addr: int) -> int | None:
        return branch_target(raw, addr)


def branch_target(raw: bytes, addr: int) -> int | None:
    """Return where a call or jump goes; None if it has no distance in itself."""
    first, size = raw[0], len(raw)
    if first in (_CALL, _JUMP) and size == 5:
        distance = raw[1:]
    elif first == _TWO_BYTES and size == 6 and raw[1] & 0xF0 == 0x80:
        distance = raw[2:]
    elif size == 2 and (first == _SHORT or first & 0xF0 == 0x70):
        distance = raw[1:]
    else:
        return None
    return addr + size + int.from_bytes(distance, "little", signed=True) & _U32


def compared_listing(
    live: bytes, saved: bytes, start: int, name: Callable[[int], str]
) -> Iterator[str]:
    """Yield a line for each instruction from start on, noting those that were others.

    name gives what is written behind the target of a jump or call.
    """
    dis, at = Disassembler(), 0
    while at < len(live):
        raw, text = dis.first(saved[at:], start + at, name)
        end, was, note = at + len(raw), [text], ""
        if live[at:end] != raw:
            patch, text = dis.first(live[at:], start + at, name)
            while end < min(at + len(patch), len(live)):
                more, words = dis.first(saved[end:], start + end, name)
                was.append(words)
                end += len(more)
            note = f"{_PATCHES.get(live[at], 'patched')}, was: {'; '.join(was)}"
        line = f"  {start + at:016x}  {live[at:end].hex(' '):<{_WIDTH}} {text}"
        yield f"{line:<84} # {note}" if note else line
        at = end
