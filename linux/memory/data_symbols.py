# SPDX-License-Identifier: GPL-2.0-or-later
"""The places of data in kernels that list symbols of functions alone.

Without CONFIG_KALLSYMS_ALL, /proc/kallsyms names no variables and tables. But it names
functions, and some of them use hardly anything else: the instructions of find_bug()
have both ends of the table of BUGs in themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from kpfs.linux.memory.memory import KernelMemory
from kpfs.linux.memory.symbols import CoreSymbols

# code, its address -> addresses in its instructions, as TextTools has them
Named = Callable[[bytes, int], Iterator[tuple[int, bool]]]
# what is sought: functions that use it, and which of those addresses it is. The first
# ones are those of memory, the others the addresses as such.
_ACCESSED, _FIRST, _LOWER, _UPPER = range(4)
_USERS = {
    "ftrace_pages_start": (("lookup_rec", "ftrace_location_range"), _ACCESSED),
    "kprobe_blacklist": (("kprobe_blacklist_seq_next",), _FIRST),
    "__start___bug_table": (("find_bug",), _LOWER),
    "__stop___bug_table": (("find_bug",), _UPPER),
    "__start___ex_table": (("search_kernel_exception_table",), _LOWER),
    "__stop___ex_table": (("search_kernel_exception_table",), _UPPER),
    "__start___jump_table": (("jump_label_text_reserved",), _LOWER),
    "__stop___jump_table": (("jump_label_text_reserved",), _UPPER),
}


class DataSymbols:
    """Addresses of a kernel's data by name.  Context: any."""

    def __init__(
        self, memory: KernelMemory, symbols: CoreSymbols, named: Named | None
    ) -> None:
        """named: None for an architecture whose instructions are not read."""
        self._memory, self._symbols, self._named = memory, symbols, named
        self._found = lru_cache(None)(self._find)

    def address(self, name: str) -> int:
        """Return the address of a name, 0 if it is not known.  Raises MemoryFault."""
        return self._symbols.address(name) or self._found(name)

    def _find(self, name: str) -> int:
        if self._named is None or name not in _USERS:
            return 0
        users, which = _USERS[name]
        text = self._symbols.address("_etext")
        for user in users:
            for symbol in self._symbols.lookup_name(user)[:1]:
                code = self._memory.read(symbol.addr, symbol.size)
                found = [
                    addr
                    for addr, accessed in self._named(code, symbol.addr)
                    if addr >= text and accessed is (which == _ACCESSED)
                ]
                if which in (_ACCESSED, _FIRST):
                    return found[0] if found else 0
                if len(found) > 1:
                    return (min if which == _LOWER else max)(found[:2])
        return 0
