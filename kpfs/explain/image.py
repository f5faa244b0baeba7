# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel that is not running: tables and bytes dumped out of one, in a folder.

    functions.tsv      symbol, addr, size, hex[, category]: the bytes of functions
    symbols.tsv.gz     addr, type, name in the order of /proc/kallsyms
    blacklist.txt      kprobes/blacklist
    ex_table.tsv, jump_labels.tsv, static_calls.tsv    address in the first column
    sections.txt       addr, type, name of markers such as __entry_text_start

DumpedImage answers what checks of probe points ask of a Machine.  A dump has neither
the table of ftrace sites nor that of BUG sites: both are read off the bytes.
"""

from __future__ import annotations

import csv
import gzip
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from kpfs.base.errors import MemoryFault
from kpfs.base.ktypes import KAddr, Symbol
from kpfs.engine.arch.arches import DUMP_JUDGES
from kpfs.engine.judge import DumpJudge
from kpfs.explain.tables import JUMP_LABEL_MAX, KernelTables, read_blacklist_line

ARCH = "x86"  # the architecture of all dumps in this form


class DumpedFunction(NamedTuple):
    """A row of functions.tsv."""

    symbol: str
    addr: int
    size: int
    code: bytes


class DumpedImage(KernelTables):
    """The tables of a dump, as kpfs.engine.judge.Tables and for the engine's core.

    Context: none, it never runs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.functions = read_functions(folder / "functions.tsv")
        self._code: dict[int, bytes] = {}
        self._sites: dict[int, list[int]] = {}
        self._bugs: dict[int, frozenset[int]] = {}
        self._read_symbols()
        lines = (folder / "blacklist.txt").read_text().splitlines()
        self._blacklist = [read_blacklist_line(line) for line in lines]
        self._exceptions = _read_addresses(folder / "ex_table.tsv")
        self._jump_labels = _read_addresses(folder / "jump_labels.tsv")
        self._static_calls = _read_addresses(folder / "static_calls.tsv")
        self.add(self.functions)
        # one object is all three: each is small
        self.kallsyms = self.text = self.log = self
        self.generation = 0  # the symbols' generation: they never change
        self.judge: DumpJudge = DUMP_JUDGES[ARCH](self)

    def _read_symbols(self) -> None:
        self._names: dict[str, list[tuple[int, str]]] = {}
        first_name: dict[int, tuple[str, str]] = {}
        table = gzip.decompress((self.folder / "symbols.tsv.gz").read_bytes())
        for line in table.decode().splitlines():
            addr, kind, name = line.split()[:3]
            self._names.setdefault(name, []).append((int(addr, 16), kind))
            first_name.setdefault(int(addr, 16), (name, kind))
        for line in (self.folder / "sections.txt").read_text().splitlines():
            addr, kind, name = line.split()[:3]
            self._names.setdefault(name, [(int(addr, 16), kind)])
        self._first_name = first_name
        self._addrs = sorted(first_name)
        self._text = self._names["_text"][0][0]
        self._etext = self._names["_etext"][0][0]

    def add(self, functions: Iterable[DumpedFunction]) -> None:
        """Add the bytes of functions."""
        for fn in functions:
            self._code[fn.addr] = fn.code
            self._sites.pop(fn.addr, None)
            self._bugs.pop(fn.addr, None)

    # ---- what the checks read of kpfs.engine.machine.Machine

    def lookup_name(self, name: str) -> Sequence[Symbol]:
        """Return the symbols of a name in kallsyms order."""
        return [
            Symbol(name, KAddr(addr), self._size(addr), kind)
            for addr, kind in self._names.get(name, ())
        ]

    def symbol_at(self, addr: int) -> Symbol | None:
        """Return the first function or object around an address."""
        if not self._text <= addr < self._addrs[-1]:
            return None
        start = self._addrs[bisect_right(self._addrs, addr) - 1]
        name, kind = self._first_name[start]
        return Symbol(name, KAddr(start), self._size(start), kind)

    def _size(self, start: int) -> int:
        i = bisect_right(self._addrs, start)
        return self._addrs[i] - start if i < len(self._addrs) else 0

    def read(self, addr: int, size: int) -> bytes:
        """Read bytes of one or more functions, fewer if later bytes are unknown.

        Raises MemoryFault if the first bytes are unknown.
        """
        out = b""
        while len(out) < size:
            sym = self.symbol_at(addr + len(out))
            code = self._code.get(sym.addr) if sym else None
            if code is None or sym is None:
                break
            at = addr + len(out) - sym.addr
            out += code[at : at + size - len(out)]
        if not out:
            raise MemoryFault(addr)
        return out

    def ftrace_location(self, start: int, end: int) -> KAddr | None:
        """Return the first ftrace site in [start, end].

        It is looked for only in the function of start. Raises MemoryFault if the bytes
        at start are unknown.
        """
        sym = self.symbol_at(start)
        if sym is None or not self.is_text(start):
            return None
        if sym.addr not in self._sites:
            self._sites[sym.addr] = self._find_sites(sym)
        sites = self._sites[sym.addr]
        i = bisect_left(sites, start)
        return KAddr(sites[i]) if i < len(sites) and sites[i] <= end else None

    def _find_sites(self, sym: Symbol) -> list[int]:
        code = self._code.get(sym.addr)
        if code is None:
            raise MemoryFault(sym.addr)
        return [
            site
            for site in self.judge.entry_sites(code, sym.addr)
            if not self.text_reserved(site, site + JUMP_LABEL_MAX - 1)
        ]

    def is_bug_site(self, addr: int) -> bool:
        sym = self.symbol_at(addr)
        code = self._code.get(sym.addr) if sym else None
        if sym is None or code is None:
            return False
        if sym.addr not in self._bugs:
            self._bugs[sym.addr] = frozenset(self.judge.bug_sites(code, sym.addr))
        return addr in self._bugs[sym.addr]


def read_functions(path: Path) -> list[DumpedFunction]:
    """Return the rows of a functions.tsv."""
    with path.open(newline="") as lines:
        return [
            DumpedFunction(
                row["symbol"],
                int(row["addr"], 16),
                int(row["size"]),
                bytes.fromhex(row["hex"]),
            )
            for row in csv.DictReader(lines, delimiter="\t")
        ]


def _read_addresses(path: Path) -> list[int]:
    lines = path.read_text().splitlines()
    return sorted(int(line.split()[0], 16) for line in lines[1:])
