# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists text as it is beside what it once was: where they differ, it was patched.

It cannot tell what did so: probes, the function tracer or jump labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kpfs.engine.arch.x86.insn import (
    MAX_INSN_SIZE,
    Disassembler,
    decode,
    disassemble,
)

NOTES = {0xCC: "breakpoint", 0xE8: "call", 0xE9: "jump"}


def compared_listing(
    live: bytes, saved: bytes, start: int, name: Callable[[int], str], bits: int = 64
) -> Iterator[str]:
    """Yield a line for each instruction from start on, noting those that were others.

    name gives what is written behind the target of a jump or call.  bits: see insn.py.
    """
    dis, at = Disassembler(bits), 0
    while at < len(live):
        row = dis.line(saved[at : at + MAX_INSN_SIZE], start + at, name)
        end = at + len(row.raw)
        if live[at:end] != saved[at:end]:
            patch = dis.line(live[at : at + MAX_INSN_SIZE], start + at)
            end = _whole(saved, at, at + len(patch.raw), bits)
            was = "; ".join(
                each.text for each in disassemble(saved[at:end], start + at, dis)
            )
            row = patch._replace(raw=live[at:end])
            yield row.shown(f"{NOTES.get(live[at], 'patched')}, was: {was}")
        else:
            yield row.shown()
        at = end


def _whole(code: bytes, at: int, until: int, bits: int) -> int:
    """Return the end of the instruction that has the last byte before until."""
    while at < until:
        insn = decode(code, at, at, bits)
        at += insn.length if insn else 1
    return min(at, len(code))
