# SPDX-License-Identifier: GPL-2.0-or-later
"""Loadable modules: where a .ko comes to lie, what of it is known, and when it goes.

The life of a module is the guest's own C (src/kernel/module.c), run by the task that
loads it; it asks for what is done here (control calls): the file is checked, placed and
linked, the notifiers outside the guest are told, pages are given back.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain

from kpfs.base import abi, elf
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KERN_ERR, KERN_WARNING, Symbol
from kpfs.base.typed import NamedTuple, Protocol
from kpfs.base.units import MODULE_MAX, PAGE_SIZE
from kpfs.guest.emu.cpu import Cpu
from kpfs.guest.emu.memory import Memory
from kpfs.guest.loader.kallsyms import TEXT, Kallsyms
from kpfs.guest.loader.layout import (
    PERCPU_SECTION,
    ModulePages,
    ModulePlaces,
    place_module,
)
from kpfs.guest.loader.modelf import (
    GPL_LICENSES,
    THIS_MODULE,
    RelocatableFile,
    Say,
    open_module,
)
from kpfs.guest.loader.modtables import EXPORT
from kpfs.guest.loader.percpu import ModulePerCpu
from kpfs.guest.loader.sections import SectionTables

CTL_MODULE = range(abi.CTL_MODULE_LOAD, abi.CTL_MODULE_FREE + 1)
STATES = {
    abi.MODULE_STATE_LIVE: "LIVE",
    abi.MODULE_STATE_COMING: "COMING",
    abi.MODULE_STATE_GOING: "GOING",
}
INIT_FREED = "INIT_FREED"
DROP_ALL = 16  # modules that are freed, after which all translated code is dropped
_STATE_SHOWN = {"LIVE": "Live", "COMING": "Loading", "GOING": "Unloading"}

_TWO, _THREE = struct.Struct("<2Q"), struct.Struct("<3Q")
_TAINT_PROPRIETARY = 1 << abi.TAINT_PROPRIETARY_MODULE
_TAINT_OOT = 1 << abi.TAINT_OOT_MODULE
_TAINT_LETTERS = ((_TAINT_PROPRIETARY, "P"), (_TAINT_OOT, "O"))

# called with the new state (a name of STATES, or INIT_FREED) and the module's name
Notifier = Callable[[str, str], None]


class TextFollower(Protocol):
    """Is told of the text of modules.  Context: control."""

    def placed(self, module: Module) -> None:
        """Note that a module's text is in memory, and has not run yet."""

    def freed(self, pages: ModulePages) -> None:
        """Note that pages go that had text; no task can be in it any more."""

    def changed(self, modules: Iterable[Module]) -> None:
        """Note that these modules are loaded now, as a snapshot was restored."""


class Parameter(NamedTuple):
    """A parameter of a module.  Kernel: struct kernel_param"""

    name: str
    mode: int  # mode of its file in sysfs; 0: it has none
    addr: int  # its struct kernel_param
    set: int  # addresses of functions, 0: there is none
    get: int


class Export(NamedTuple):
    """A symbol that modules may use.  Kernel: struct kernel_symbol"""

    addr: int
    gpl: bool
    owner: Module | None  # None: the kernel


class Module:
    """A module that is loaded, or being loaded or unloaded."""

    def __init__(self, name: str, file: RelocatableFile, layout: ModulePlaces) -> None:
        self.name = name
        self.file = file
        self.layout = layout
        self.addr = 0  # its struct module
        self.taints = 0
        self.gpl = True
        self.exports: dict[str, Export] = {}
        self.uses: list[Module] = []
        self.users: list[Module] = []  # newest first
        self.symbols: list[Symbol] = []
        self.tables = SectionTables()
        self.eh_frame: tuple[int, bytes] | None = None  # (address, contents)

    def section_addresses(self) -> dict[str, int]:
        """Return where the sections lie that are in memory, by their names."""
        sections = self.file.sections
        return {sections[i].name: at for i, at in self.layout.places.items()}

    def section(self, name: str) -> tuple[int, bytes]:
        """Return (address, contents) of a section; (0, b"") if there is none."""
        index = self.file.index(name)
        if index is None or index not in self.layout.places:
            return 0, b""
        section = self.file.sections[index]
        return self.layout.places[index], self.file.contents(section)


class Modules:
    """The modules of the guest, and the text of Linux's files about them."""

    def __init__(
        self,
        memory: Memory,
        cpu: Cpu,
        kallsyms: Kallsyms,
        kernel: elf.ElfFile,
        percpu: ModulePerCpu,
        *,
        say: Say,
        current_pid: Callable[[], int],
        later: Callable[[Callable[[], None]], None],
        vermagic: str,
        can_unload: bool = True,
    ) -> None:
        """``later`` runs a function once no task can be in text that was unlinked.

        can_unload: their users are counted.  Kernel: CONFIG_MODULE_UNLOAD
        """
        self._can_unload = can_unload
        self._memory = memory
        self._cpu = cpu
        self._kallsyms = kallsyms
        self._kernel = kernel
        self.percpu = percpu
        self._say = say
        self._current_pid = current_pid
        self._later = later
        self.vermagic = vermagic
        self._list: dict[str, Module] = {}  # oldest first
        self._by_addr: dict[int, Module] = {}
        self._by_page: dict[int, Module] = {}
        self._notify: Notifier = lambda _state, _name: None
        # files that tasks are about to load, by pid: what init_module() is given
        self.pending: dict[int, bytes] = {}
        self._keep_init_names: Callable[[], bool] = lambda: False
        self.text_follower: TextFollower | None = None
        self.taints = 0
        self._nr_freed = 0

    def attach(self, notify: Notifier, keep_init_names: Callable[[], bool]) -> None:
        """Set functions: one is told of modules, one says if init names are kept.

        Freed init functions keep their names while functions are traced.
        """
        self._notify, self._keep_init_names = notify, keep_init_names

    # ---- questions
    def __iter__(self) -> Iterator[Module]:
        """Yield the modules newest first, as Linux keeps them."""
        return reversed(self._list.values())

    def __len__(self) -> int:
        return len(self._list)

    def find(self, name: str) -> Module | None:
        return self._list.get(name)

    def at(self, addr: int) -> Module | None:
        """Return the module that addr lies in."""
        return self._by_page.get(addr // PAGE_SIZE)

    def by_age(self) -> Iterable[Module]:
        """Return the modules oldest first."""
        return self._list.values()

    # ---- uses that are counted from outside the guest
    def try_module_get(self, module: int) -> bool:
        """module: address of a struct module.  Kernel: try_module_get()"""
        memory, at = self._memory, module + abi.Module.refcnt
        count = memory.read_u64(at)
        if not count or STATES[memory.read_u32(module + abi.Module.state)] == "GOING":
            return False
        memory.write_u64(at, count + 1)
        return True

    def module_put(self, module: int) -> None:
        """Kernel: module_put()"""
        at = module + abi.Module.refcnt
        self._memory.write_u64(at, self._memory.read_u64(at) - 1)

    # ---- what files show
    def show(self) -> str:
        """Return /proc/modules. Kernel: m_show()"""
        return "".join(self._line(mod) for mod in self)

    def _line(self, mod: Module) -> str:
        state = self.state(mod)
        refs = self.refcount(mod)
        users = "".join(f"{user.name}," for user in mod.users) or "-"
        uses = f"{refs} {users}" if self._can_unload else "- -"
        size = mod.layout.core.size + mod.layout.init.size
        flags = self.taint_letters(mod)
        flags += {"GOING": "-", "COMING": "+"}.get(state, "")
        taints = f" ({flags})" if mod.taints else ""
        return (
            f"{mod.name} {size} {uses} {_STATE_SHOWN[state]} "
            f"0x{mod.layout.core.base:016x}{taints}\n"
        )

    def refcount(self, mod: Module) -> int:
        """Kernel: module_refcount()"""
        return self._memory.read_u64(mod.addr + abi.Module.refcnt) - 1

    @staticmethod
    def taint_letters(mod: Module) -> str:
        """Kernel: module_flags_taint()"""
        return "".join(c for bit, c in _TAINT_LETTERS if mod.taints & bit)

    @staticmethod
    def section_addresses(mod: Module) -> list[tuple[str, int]]:
        """Return the sections that are loaded, in the order of the file."""
        sections = mod.file.sections
        places = sorted(mod.layout.places.items())
        return [(sections[i].name, at) for i, at in places if sections[i].size]

    def parameters(self, mod: Module) -> list[Parameter]:
        """Return the module's parameters, in the order of the file."""
        read = self._memory.read_u64
        start, raw = mod.section("__param")
        found = []
        for at in range(start, start + len(raw), abi.KernelParam.SIZE):
            name = self._memory.read_cstring(read(at + abi.KernelParam.name), 256)
            ops = read(at + abi.KernelParam.ops)
            found.append(
                Parameter(
                    name.decode("latin-1"),
                    self._memory.read_u32(at + abi.KernelParam.perm) & 0xFFFF,
                    at,
                    read(ops + abi.KernelParamOps.set),
                    read(ops + abi.KernelParamOps.get),
                )
            )
        return found

    def state(self, mod: Module) -> str:
        """Return a name of STATES; "" before the guest's C has seen the module."""
        return STATES.get(self._memory.read_u32(mod.addr + abi.Module.state), "")

    # ---- control calls
    def serve(self, number: int, first: int, second: int) -> int:
        """See guest/include/kpfs/control.h."""
        if number == abi.CTL_MODULE_LOAD:
            data = self.pending.pop(self._current_pid(), None)
            if data is None:
                if second > MODULE_MAX:
                    raise KernelError(errno.ENOMEM, "the module is too large")
                data = self._memory.read(first, second)
            return self.load(data).addr
        mod = self._by_addr.get(first)
        if mod is None:
            raise KernelError(errno.ENOENT, f"no module at {first:#x}")
        if number == abi.CTL_MODULE_STATE:
            if second not in STATES:
                raise KernelError(errno.EINVAL, f"no state {second:#x}")
            self._notify(STATES[second], mod.name)
        elif number == abi.CTL_MODULE_FREE_INIT:
            self._free_init(mod)
            self._notify(INIT_FREED, mod.name)
        elif number == abi.CTL_MODULE_FREE:
            self._free(mod)
        return 0

    def find_symbol(self, _number: int, first: int, _second: int) -> int:
        """Fill in a struct kpfs_symbol (CTL_SYMBOL_FIND).  Kernel: find_symbol()"""
        fields, memory = abi.KpfsSymbol, self._memory
        name = memory.read_cstring(memory.read_u64(first + fields.name), 128)
        found = self._find_export(name.decode("latin-1"))
        if found is None:
            raise KernelError(errno.ENOENT, f"nothing exports {name!r}")
        memory.write_u64(first + fields.addr, found.addr)
        memory.write_u64(first + fields.gpl, found.gpl)
        owner = found.owner.addr if found.owner else 0
        memory.write_u64(first + fields.owner, owner)
        return 0

    # ---- loading
    def load(self, data: bytes) -> Module:
        """Place and link a module; the guest's C goes on with it.

        ENOEXEC, ENOENT (a symbol is nowhere), EEXIST, ENOMEM: nothing stays.
        Kernel: the first half of load_module()
        """
        image = open_module(data, self.vermagic, self._say)
        name = self._name_of(image)
        if name in self._list:
            raise KernelError(errno.EEXIST, f"{name} is loaded")
        mod = Module(name, image, ModulePlaces())
        self._check_modinfo(mod, image.modinfo())
        try:
            place_module(self._memory, image, mod.layout)
            self._place_percpu(mod)
            self._link(mod)
            self._collect(mod)
        except BaseException:
            self._unuse(mod)
            if mod.layout.percpu:
                self.percpu.free(mod.layout.percpu)
            mod.layout.free(self._memory)
            raise
        mod.addr = mod.layout.places[image.index(THIS_MODULE) or 0]
        self._write(mod)
        self._list[name] = mod
        self._by_addr[mod.addr] = mod
        for part in (mod.layout.core, mod.layout.init):
            self._by_page.update(dict.fromkeys(part.pages(), mod))
        self._kallsyms.set_module(name, mod.symbols)
        if self.text_follower is not None:
            self.text_follower.placed(mod)
        return mod

    def _place_percpu(self, mod: Module) -> None:
        """Kernel: percpu_modalloc()"""
        index = mod.file.index(PERCPU_SECTION)
        if index is None or not mod.file.sections[index].size:
            return
        section = mod.file.sections[index]
        try:
            at = self.percpu.alloc(section.size, section.align)
        except KernelError:
            text = f"{mod.name}: Could not allocate {section.size} bytes percpu data"
            self._say(KERN_WARNING, text)
            raise
        mod.layout.places[index] = mod.layout.percpu = at

    @staticmethod
    def _name_of(image: RelocatableFile) -> str:
        section = image.section(THIS_MODULE)
        raw = b"" if section is None else image.contents(section)
        if len(raw) != abi.Module.SIZE:
            raise KernelError(errno.ENOEXEC, "struct module of another size")
        name = raw[abi.Module.name : abi.Module.name + abi.MODULE_NAME_LEN]
        return name.split(b"\0")[0].decode("latin-1")

    def _check_modinfo(self, mod: Module, info: dict[str, str]) -> None:
        """Kernel: the second half of check_modinfo()"""
        if "intree" not in info:
            text = f"{mod.name}: loading out-of-tree module taints kernel."
            self._taint(mod, _TAINT_OOT, text)
        license_text = info.get("license", "unspecified")
        mod.gpl = license_text in GPL_LICENSES
        if not mod.gpl:
            text = f"{mod.name}: module license '{license_text}' taints kernel."
            lockdep = "Disabling lock debugging due to kernel taint"
            self._taint(mod, _TAINT_PROPRIETARY, text, lockdep)

    def _taint(self, mod: Module, flag: int, *lines: str) -> None:
        """Set a taint; the first of its kind is logged.  Kernel: add_taint_module()"""
        if not self.taints & flag:
            for line in lines:
                self._say(KERN_WARNING, line)
        mod.taints |= flag
        self.taints |= flag

    @cached_property
    def _kernel_exports(self) -> dict[str, Export]:
        """Return the symbols that the kernel exports, by src/kernel/ksymtab.S."""
        table = self._kernel.section("__ksymtab")
        result: dict[str, Export] = {}
        if table is not None:
            for addr, name, gpl in _THREE.iter_unpack(self._kernel.contents(table)):
                if addr:
                    text = self._memory.read_cstring(name, 128).decode("latin-1")
                    result[text] = Export(addr, bool(gpl), None)
        return result

    def _find_export(self, name: str) -> Export | None:
        """Return the kernel's export, else that of the module that was loaded first."""
        of_modules = (module.exports for module in self._list.values())
        tables = chain((self._kernel_exports,), of_modules)
        return next((table[name] for table in tables if name in table), None)

    def _resolve(self, mod: Module, name: str) -> int | None:
        """Kernel: resolve_symbol(), which also makes the owner used"""
        found = self._find_export(name)
        if found is None or (found.gpl and not mod.gpl):
            return None
        if found.owner is not None and found.owner not in mod.uses:
            self._use(mod, found.owner)
        return found.addr

    def _use(self, mod: Module, owner: Module) -> None:
        """Kernel: ref_module()"""
        if self.state(owner) != "LIVE":
            raise KernelError(errno.EBUSY, f"{owner.name} is not live")
        mod.uses.append(owner)
        owner.users.insert(0, mod)
        self._count_use(owner, 1)

    def _count_use(self, owner: Module, by: int) -> None:
        for at in (abi.Module.refcnt, abi.Module.nr_users):
            value = self._memory.read_u64(owner.addr + at)
            self._memory.write_u64(owner.addr + at, value + by)

    def _unuse(self, mod: Module) -> None:
        for owner in mod.uses:
            owner.users.remove(mod)
            self._count_use(owner, -1)
        mod.uses.clear()

    def _link(self, mod: Module) -> None:
        """Kernel: simplify_symbols(), apply_relocations(), post_relocation()"""
        image, missing = mod.file, []

        def resolve(name: str) -> int | None:
            found = self._resolve(mod, name)
            if found is None:
                missing.append(name)
            return found

        weak = {s.name for s in image.symbols() if s.bind == elf.STB_WEAK}
        try:
            image.linked, _ = elf.relocate(image, mod.layout.places, resolve)
        except KernelError as exc:
            unknown = next((n for n in missing if n not in weak), None)
            if unknown is not None:
                text = f"{mod.name}: Unknown symbol {unknown} (err -{errno.ENOENT})"
                self._say(KERN_WARNING, text)
                raise KernelError(errno.ENOENT, text) from None
            self._say(KERN_ERR, f"{mod.name}: {exc.why}")
            raise

    def _collect(self, mod: Module) -> None:
        """Collect exports, symbols and tables from the linked sections."""
        image = mod.file
        for index in mod.layout.places:
            section = image.sections[index]
            if section.name.startswith(EXPORT):
                addr, _, gpl = _THREE.unpack_from(image.linked[index])
                name = section.name.partition("+")[2]
                self._check_duplicate(mod, name)
                mod.exports[name] = Export(addr, bool(gpl), mod)
        mod.symbols = mod.layout.symbols(image, mod.name, mod.exports)
        place, frames = mod.section(".eh_frame")
        mod.eh_frame = (place, frames) if frames else None
        mod.tables.add(image, lambda name: mod.section(name)[0] or None)

    def _check_duplicate(self, mod: Module, name: str) -> None:
        """Kernel: verify_exported_symbols()"""
        found = self._find_export(name)
        if found is not None:
            owner = found.owner.name if found.owner else "kernel"
            text = f"{mod.name}: exports duplicate symbol {name} (owned by {owner})"
            self._say(KERN_ERR, text)
            raise KernelError(errno.ENOEXEC, text)

    def _write(self, mod: Module) -> None:
        """Write the sections to the guest, and bring struct module up to date."""
        memory, layout = self._memory, mod.layout
        for index, contents in mod.file.linked.items():
            place = layout.places[index]
            if place == layout.percpu:
                self.percpu.write(place, bytes(contents))
            elif contents:
                memory.write(place, bytes(contents))
        this = mod.addr
        self._write_layouts(mod)
        for at, name, size in (
            (abi.Module.kp, "__param", abi.KernelParam.SIZE),
            (abi.Module.extable, "__ex_table", abi.ExceptionTableEntry.SIZE),
            (abi.Module.bug_table, "__bug_table", abi.BugEntry.SIZE),
            (abi.Module.trace_events, "_ftrace_events", abi.TraceEventCall.SIZE),
        ):
            place, raw = mod.section(name)
            memory.write(this + at, _TWO.pack(place, len(raw) // size))
        unformed = abi.MODULE_STATE_UNFORMED.to_bytes(4, "little")
        memory.write(this + abi.Module.state, unformed)
        memory.write_u64(this + abi.Module.taints, mod.taints)
        self._write_symbols(mod)

    def _write_layouts(self, mod: Module) -> None:
        for at, part in (
            (abi.Module.core_layout, mod.layout.core),
            (abi.Module.init_layout, mod.layout.init),
        ):
            row = abi.ModuleLayout.STRUCT.pack(part.base, part.size, part.text_size)
            self._memory.write(mod.addr + at, row)

    def _write_symbols(self, mod: Module) -> None:
        """Write the table for the guest's own kallsyms."""
        names, rows = b"", b""
        start = mod.layout.symtab
        strings = start + abi.ModuleSymbol.SIZE * len(mod.symbols)
        for sym in mod.symbols:
            name_at = strings + len(names)
            rows += abi.ModuleSymbol.STRUCT.pack(sym.addr, sym.size, name_at)
            names += sym.name.encode("latin-1") + b"\0"
        self._memory.write(start, rows + names)
        self._memory.write(
            mod.addr + abi.Module.symtab, _TWO.pack(start, len(mod.symbols))
        )

    # ---- going
    def _free_init(self, mod: Module) -> None:
        """Free the init part of a module, as its init function has returned."""
        init = mod.layout.init
        mod.layout.init = ModulePages()
        self._write_layouts(mod)
        if self._keep_init_names():
            # of several at one address the first, as for the sites' own names
            sites = {s for s in mod.tables.ftrace_sites if not mod.layout.holds(s)}
            first = {s.addr: s for s in reversed(mod.symbols) if s.addr in sites}
            freed = [first[a]._replace(type="T") for a in sorted(first)]
            self._kallsyms.set_freed(mod.name, freed)
        left = [s for s in mod.symbols if mod.layout.holds(s.addr)]
        if not self._kallsyms.everything:  # Kernel: is_core_symbol()
            left = [s for s in left if s.type in TEXT]
        mod.symbols = left
        self._kallsyms.set_module(mod.name, mod.symbols)
        self._write_symbols(mod)
        mod.tables.drop_range(init.base, init.base + init.size)
        self._give_back([init])

    def _free(self, mod: Module) -> None:
        """Kernel: free_module()"""
        del self._list[mod.name], self._by_addr[mod.addr]
        self._kallsyms.remove_module(mod.name)
        self._unuse(mod)
        self._give_back([mod.layout.core, mod.layout.init], mod)

    def _give_back(self, parts: list[ModulePages], last: Module | None = None) -> None:
        for part in parts:
            for page in part.pages():
                del self._by_page[page]

        def free() -> None:
            for part in parts:
                if part.size:
                    if self.text_follower is not None:
                        self.text_follower.freed(part)
                    # text alone: on other pages that counts as a fault
                    self._cpu.drop(part.base, part.text_size)
                    self._memory.area.free(part.base)
            if last is not None:
                if last.layout.percpu:
                    self.percpu.free(last.layout.percpu)
                # dropped piece by piece, code stays in the emulator's buffer
                self._nr_freed += 1
                if self._nr_freed % DROP_ALL == 0:
                    self._cpu.drop_all()
            self._cpu.flush_tlb()

        self._later(free)
