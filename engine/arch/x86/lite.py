# SPDX-License-Identifier: GPL-2.0-or-later
"""Copies of the code in guest/runtime/lite.S, each made for one probed address.

A copy is a whole site's stub: it handles the hit in guest code without building a
struct pt_regs, if that is simple, and enters the runtime as a stub does, if not.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from engine.ktypes import KAddr
from engine.machine import Machine

SITE, DATA, ADDR, CONT, REL = range(1, 6)  # what an operand is to be
FIELD = Struct("<iI")  # an entry of kp_lite_fixups
OPERAND = Struct("<I")
_MASK32 = 0xFFFF_FFFF


class Template(NamedTuple):
    addr: KAddr
    size: int  # bytes
    fields: tuple[tuple[int, int, int], ...]  # (offset, what, its operand there)


class LiteCode:
    """The templates, by name: KIND_event and KIND_kret, KIND as in runtime.symbols.

    Context: control.
    """

    def __init__(self, machine: Machine, symbols: dict[str, KAddr]) -> None:
        self._machine = machine
        self._symbols = symbols
        self._found: dict[str, Template] = {}
        prefix, end = "kp_lite_", "_end"
        self._names = [
            name[len(prefix) : -len(end)]
            for name in symbols
            if name.startswith(prefix) and name.endswith(end)
        ]
        self.read()
        self.max_size = max((t.size for t in self._found.values()), default=0)

    def read(self) -> None:
        """Read them anew: struct kp_config has changed."""
        read, symbols = self._machine.read, self._symbols
        fields = []
        at = symbols["kp_lite_fixups"]
        (self._base,) = OPERAND.unpack(read(at, OPERAND.size))
        at = KAddr(at + OPERAND.size)
        while True:
            distance, what = FIELD.unpack(read(at, FIELD.size))
            if not what:
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
            self._found[name] = Template(start, end - start, tuple(own))

    def copy(
        self, name: str, at: int, site: int, data: int, addr: int, cont: int
    ) -> bytes:
        """The code that stands at ``at``; data: what the site's one handler is for."""
        template = self._found[name]
        code = bytearray(self._machine.read(template.addr, template.size))
        values = {SITE: site, DATA: data, ADDR: addr}
        for offset, what, operand in template.fields:
            if what == REL:
                operand += template.addr - at
            elif what == CONT:
                operand = cont - (at + offset + OPERAND.size)
            else:
                operand += values[what] - self._base
            OPERAND.pack_into(code, offset, operand & _MASK32)
        return bytes(code)
