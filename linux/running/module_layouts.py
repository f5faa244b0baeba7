# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds struct module in a kernel on trial.

A module of the kernel's package is loaded.  The kernel tells where its sections are,
and its file how large they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from kpfs.base.elf import ANY_MACHINE, SHF_EXECINSTR, ElfFile, Section
from kpfs.base.units import PAGE_SIZE
from kpfs.linux.memory.btf import StructLayout
from kpfs.linux.memory.modules import COMING, LIVE
from kpfs.linux.memory.structures import Tables
from kpfs.linux.running.trial import SeenCall, Trial, UnseenError, first

_NAMES = "fuse", "overlay", "tun"  # without needs, one of which each kernel has
_READS, _BEGINS = "load_module", "do_init_module"
_SIZE = 2048  # bytes that are looked at
_INIT = ".init"  # begins the names of sections that go
_MAGIC, _MAX_SYMBOLS = b"\x7fELF", 1 << 16
# enum mod_mem_type has had these values since 6.4
_KINDS = {"MOD_TEXT": 0, "MOD_INIT_TEXT": 4, "MOD_MEM_NUM_TYPES": 7}
_JUMPS = "__jump_table"
_EXCEPTIONS, _NOTE = "__ex_table", b".note.gnu.build-id"
_SIGNED = b"~Module signature appended~\n"
# by section: the fields of its address and of the number of its rows
_TABLES = {
    _JUMPS: ("jump_entries", "num_jump_entries"),
    _EXCEPTIONS: ("extable", "num_exentries"),
    "__bug_table": ("bug_table", "num_bugs"),
    ".static_call_sites": ("static_call_sites", "num_static_call_sites"),
}
_ROWS, _NEAR = (8, 12, 16), 6  # bytes of a row; longs between two fields
_MAX_BYTES, _BEGIN = 1 << 24, 128


def find_modules(trial: Trial, tables: Tables) -> None:
    """Add struct module and where the list of modules is.  Raises UnseenError."""
    name, data = trial.module(_NAMES)
    if not any(each.name == _EXCEPTIONS for each in _sections(data)):
        # few modules have any; nothing reads these, nor a signature without its end
        data = data.removesuffix(_SIGNED)
        data = data.replace(_NOTE, _EXCEPTIONS.encode().ljust(len(_NOTE), b"\0"))
    raws = list[bytes]()

    def look(function: str, call: SeenCall) -> None:
        addr = call.arguments[0]
        if function == _BEGINS:
            raws.append(trial.raw(addr, _SIZE))
        else:
            _add_file(trial, tables, addr, len(data))

    seen = trial.calls((_READS, _BEGINS), lambda: trial.insert(data), look)
    module, long = first(seen[_BEGINS]).arguments[0], trial.long
    raws.append(trial.raw(module, _SIZE))
    coming, live = raws
    sections = _sections(data)
    folder = f"/sys/module/{name}/sections"
    places = {
        each.name: int(trial.text(f"{folder}/{each.name}"), 16)
        for each in sections
        if each.flags & SHF_EXECINSTR or each.name in _TABLES
    }
    states = [COMING, LIVE]
    found = {
        "state": trial.equal(raws, states, 4),
        "list": long,
        "name": coming.index(name.encode() + b"\0"),
        "kallsyms": _kallsyms(trial, live, name),
    }
    head = trial.memory.word(module + 2 * long)  # the newest comes first
    if trial.memory.word(head) != module + long:
        raise UnseenError
    for each in sections:
        if each.name in _TABLES:
            field, count = _TABLES[each.name]
            found[field], found[count] = find_table(
                trial, coming, places[each.name], each
            )
    code = {name: at for name, at in places.items() if name not in _TABLES}
    found |= _memories(trial, tables, coming, module, code)
    _add_sections(trial, tables, found, live, places)
    tables.data["modules"] = head, 2 * long
    tables.layouts["module"] = StructLayout(max(found.values()) + 8, found, {})
    symbols = {
        field: number * long
        for number, field in enumerate(("symtab", "num_symtab", "strtab", "typetab"))
    }
    tables.layouts["mod_kallsyms"] = StructLayout(4 * long, symbols, {})


def _sections(data: bytes) -> list[Section]:
    return [each for each in ElfFile(data, ANY_MACHINE).sections if each.size]


def _add_sections(
    trial: Trial,
    tables: Tables,
    found: dict[str, int],
    live: bytes,
    places: dict[str, int],
) -> None:
    """Add the list of a module's sections.  places: where some of them are."""
    long = trial.long
    for at in range(0, len(live), long):
        listed = trial.words(trial.number(live, at), _BEGIN)
        for field, rows in enumerate(listed):
            for row in trial.words(rows, _BEGIN):
                place = places.get(trial.string(trial.there(row)))
                if place is None:
                    continue
                address = trial.equal([trial.raw(row, _BEGIN)], [place])
                found["sect_attrs"] = at
                names = {"grp.bin_attrs": field * long}
                row_at = {"battr.attr.name": 0, "address": address}
                tables.layouts["module_sect_attrs"] = StructLayout(
                    (field + 1) * long, names, {}
                )
                tables.layouts["module_sect_attr"] = StructLayout(
                    address + long, row_at, {}
                )
                return


def _add_file(trial: Trial, tables: Tables, info: int, size: int) -> None:
    """Add struct load_info, which has a module's file."""
    raw = trial.raw(info, _SIZE)
    found = {
        "hdr": trial.offset([raw], lambda _, word: trial.raw(word, 4) == _MAGIC),
        "len": trial.equal([raw], [size]),
    }
    last = max(found.values()) + trial.long
    tables.layouts["load_info"] = StructLayout(last, found, {})


def _kallsyms(trial: Trial, live: bytes, name: str) -> int:
    """Return the field that leads to the module's symbols: four words in its memory."""
    rows = [row.split() for row in trial.text("/proc/kallsyms").splitlines()]
    names = {row[2] for row in rows if row[3:] == [f"[{name}]"]}

    def has_symbols(_: int, word: int) -> bool:
        raw, long = trial.raw(word, 4 * trial.long), trial.long
        if not 0 < trial.number(raw, long, 4) < _MAX_SYMBOLS:
            return False
        text = trial.raw(trial.number(raw, 2 * long), PAGE_SIZE).decode("latin-1")
        return text[:1] == "\0" and not names.isdisjoint(text.split("\0"))

    return trial.offset([live], has_symbols)


def find_table(
    trial: Trial, coming: bytes, table: int, section: Section
) -> tuple[int, int]:
    """Return the fields of a table's address and of the number of its rows, nearby."""
    long = trial.long  # jumps have distances or, as on mips64, addresses
    rows = (8 + long, 3 * long) if section.name == _JUMPS else _ROWS
    for at in trial.offsets([coming], lambda _, word: word == table):
        near = range(at - _NEAR * long, at + _NEAR * long, 4)
        for each in sorted(near, key=lambda each: abs(each - at)):
            count = trial.number(coming, each, 4)
            if count in (section.size // row for row in rows):
                return at, each
    raise UnseenError


def _memories(
    trial: Trial, tables: Tables, coming: bytes, module: int, places: dict[str, int]
) -> dict[str, int]:
    """Return where a module has its memories: two, or since 6.4 one of each kind.

    places: where its sections with code are.
    """
    long, code = trial.long, list[int]()
    for name, at in places.items():
        code += [at] * (not name.startswith(_INIT))

    def holds(at: int, size: int, addrs: Iterable[int]) -> bool:
        base = trial.number(coming, at)
        end = base + min(trial.number(coming, at + size, 4), _MAX_BYTES)
        return not base % PAGE_SIZE and all(base <= addr < end for addr in addrs)

    text, size = first(
        (at, size)
        for at in range(0, _SIZE, long)
        for size in range(long, _NEAR * long, 4)
        if holds(at, size, code)
    )
    found = {"base": 0, "size": size, "text_size": size + 4}
    is_old = holds(text, size, [module])  # else that is in the next one
    other = min(at for name, at in places.items() if name.startswith(_INIT))
    steps = (
        each
        for each in range(-(-(size + 4) // long) * long, _SIZE, long)
        if holds(text + each, size, [other if is_old else module])
    )
    if is_old:
        # powerpc has no memory that goes after the start
        both = [("core", text), *(("init", text + step) for step in islice(steps, 1))]
        return {
            f"{name}_layout.{field}": base + at
            for name, base in both
            for field, at in found.items()
        }
    step = first(steps)
    tables.values.update(_KINDS)
    tables.layouts["module_memory"] = StructLayout(step, {}, {})
    return {"mem": text, "mem.base": text, "mem.size": text + size}
