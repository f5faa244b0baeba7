# SPDX-License-Identifier: GPL-2.0-or-later
from types import SimpleNamespace
from typing import Any

from kpfs.engine.trace.func.functions import Functions

OWN, LOADED = 0x1000, 0x9000


def test_a_module_at_the_place_of_another_has_its_own_names():
    symbols = {OWN: ("vfs_read", ""), LOADED: ("first", "a")}
    asked = []

    def symbol_at(addr):
        asked.append(addr)
        name, module = symbols[addr]
        return SimpleNamespace(name=name, module=module)

    machine: Any = SimpleNamespace(
        text=SimpleNamespace(ftrace_locations=lambda: sorted(symbols)),
        kallsyms=SimpleNamespace(symbol_at=symbol_at),
    )
    functions = Functions(machine)
    assert [f.name for f in functions.all()] == ["vfs_read", "first"]
    assert functions.modules_changed("a") == {OWN}
    symbols[LOADED] = "second", "b"
    assert functions.modules_changed("") == {OWN, LOADED}
    assert [f.text() for f in functions.all()] == ["vfs_read\n", "second [b]\n"]
    assert asked.count(OWN) == 1  # the kernel's own stay
