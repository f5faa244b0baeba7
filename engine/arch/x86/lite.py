# SPDX-License-Identifier: GPL-2.0-or-later
"""Copies of the code in engine/runtime/lite.S and krets.S, each for one probed address.

A copy of lite.S is a whole site's stub: it handles the hit in guest code without
building a struct pt_regs, if that is simple, and enters the runtime as any stub does,
if not.  Copies from krets.S are pieces of a block.
"""

from __future__ import annotations

from struct import Struct

from kpfs.base import abi
from kpfs.base.ktypes import KAddr
from kpfs.base.typed import NamedTuple
from kpfs.engine.machine import Memory

FIELD = Struct("<iI")  # an entry of kp_lite_fixups
OPERAND = Struct("<I")
_MASK32 = 0xFFFF_FFFF


class Template(NamedTuple):
    addr: KAddr
    code: bytes
    fields: tuple[tuple[int, int, int], ...]  # (offset, what, its operand there)


class Operands(NamedTuple):
    """The addresses to fill in; 0 for those that the template does not use."""

    site: int  # struct kp_site
    addr: int  # probed
    cont: int  # the address to go on at
    data: int = 0  # the record for a handler
    handler: int = 0  # struct kp_handler


class LiteCode:
    """The templates by name: KIND_event, KIND_kret ...  Context: control."""

    def __init__(self, memory: Memory, symbols: dict[str, KAddr]) -> None:
        self._memory = memory
        self._symbols = symbols
        self._found: dict[str, Template] = {}
        prefix, end = "kp_lite_", "_end"
        self._names = [
            name[len(prefix) : -len(end)]
            for name in symbols
            if name.startswith(prefix) and name.endswith(end)
        ]
        self.read()
        self.max_size = max((len(t.code) for t in self._found.values()), default=0)

    def read(self) -> None:
        """Read the templates anew, when struct kp_config has changed."""
        read, symbols = self._memory.read, self._symbols
        fields = []
        at = symbols["kp_lite_fixups"]
        (self._base,) = OPERAND.unpack(read(at, OPERAND.size))
        at = KAddr(at + OPERAND.size)
        while True:
            distance, mark = FIELD.unpack(read(at, FIELD.size))
            what = mark - abi.LITE_MARK
            if not abi.LITE_SITE <= what <= abi.LITE_HANDLER:
                break
            fields.append((at + distance, what))
            at = KAddr(at + FIELD.size)
        for name in self._names:
            start, end = symbols[f"kp_lite_{name}"], symbols[f"kp_lite_{name}_end"]
            own = []
            for place, what in fields:
                if start <= place < end:
                    (operand,) = OPERAND.unpack(read(place, OPERAND.size))
                    own.append((place - start, what, operand))
            self._found[name] = Template(start, read(start, end - start), tuple(own))

    def block_size(self, parts: int) -> int:
        """Return the bytes of a block of krets.S for so many return probes, at most."""
        size = {name: len(template.code) for name, template in self._found.items()}
        return max(
            size[name] + parts * size[f"{name}_kret"] + size[f"{name}_leave"]
            for name in size
            if name.endswith("_krets")
        )

    def copy(self, name: str, at: int, operands: Operands) -> bytes:
        """Return the code that stands at ``at``."""
        site, addr, cont, data, handler = operands
        template = self._found[name]
        code = bytearray(template.code)
        values = {
            abi.LITE_SITE: site,
            abi.LITE_DATA: data,
            abi.LITE_ADDR: addr,
            abi.LITE_HANDLER: handler,
        }
        for offset, what, operand in template.fields:
            if what == abi.LITE_REL:
                operand += template.addr - at
            elif what == abi.LITE_CONT:
                operand = cont - (at + offset + OPERAND.size)
            else:
                operand += values[what] - self._base
            OPERAND.pack_into(code, offset, operand & _MASK32)
        return bytes(code)
