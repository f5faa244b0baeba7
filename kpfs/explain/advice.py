# SPDX-License-Identifier: GPL-2.0-or-later
"""Advice about a probe point of a Linux kernel, beyond its verdict.

It says by which ways the point can be reached, what has become of a function that is
gone, and which callers pass by an entry that is there.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property

from kpfs.base.errors import MemoryFault
from kpfs.base.ktypes import KAddr, Symbol
from kpfs.engine.judge import SITE
from kpfs.explain.linux import UnprobedTables
from kpfs.explain.successors import (
    PART,
    find_successor,
    in_words,
    inlined_in,
    renamed,
)
from kpfs.explain.verdicts import Verdict
from kpfs.linux.memory.functions import FunctionIndex
from kpfs.linux.memory.kprobes import function_ranges
from kpfs.linux.memory.lockdown import LOCKED
from kpfs.linux.package import options
from kpfs.linux.package.config import is_on
from kpfs.linux.running.saved_kernel import SavedKernel

LACKING = "the kernel lacks"
WHOLE = LACKING, LOCKED  # begin why a way is closed in all of a kernel
# by architecture: code of a return, behind which x86 has a trap
_RETURN = {
    "x86": b"\xc3\xcc",
    "arm64": b"\xc0\x03\x5f\xd6",
    "riscv64": b"\x82\x80",
    "s390x": b"\x07\xfe",
    "ppc64": b"\x20\x00\x80\x4e",
    "armhf": b"\x1e\xff\x2f\xe1",
    "i386": b"\xc3\xcc",
    "mips64": b"\x08\x00\xe0\x03",
}
_CALL = re.compile(r"(call|bl|blr|c\.jalr|(c\.)?jal ra,.*|jalr ra,.*)\b")
# jumps through a pointer, and returns of other forms: on armhf whatever loads pc
_LEAVES = re.compile(
    r"jmp (?!0x)|br |(c\.)?jr |jalr |i?ret|sysret|bx\w* |(pop|ldm)\w* .*\bpc\}"
    r"|(ldr|mov|add)\w* pc,"
)
_TARGET = re.compile(r" <(\S+?)(?:\+0x[0-9a-f]+)?(?: \[\w+\])?>$")
MANY = 50  # names that take longer than a look at all symbols
# names of system calls' functions, by architecture and age
CALLS = "__x64_sys_", "__arm64_sys_", "__riscv_sys_", "__do_sys_", "sys_"
_CALL_NAME = re.compile(r"(?:__(?:x64|arm64|riscv|do|se)_sys_|sys_|SyS_)(\w+)$")
Others = Callable[[], Iterable[tuple[str, FunctionIndex]]]


class Advice:
    """Answers for the points of one kernel, beside others that were made."""

    def __init__(self, saved: SavedKernel, tables: UnprobedTables, others: Others):
        """others: names and functions of kernels to compare with, the best ones first.

        They are asked for only if something is to be compared.
        """
        self._saved, self._tables, self._others = saved, tables, others
        self._lacking = cache(self._why_lacking)

    def look_ahead(self, names: Sequence[str]) -> None:
        """Find many names at once, where that is faster than one after the other."""
        if len(names) > MANY:
            self._saved.symbols.look_ahead(names)

    # ---- ways
    def ways(self, symbol: Symbol, verdict: Verdict) -> dict[str, str]:
        """Return the ways to a function's entry, each with why it is none, or ""."""
        site = self._tables.ftrace_location(symbol.addr, KAddr(symbol.addr + SITE))
        site = site if site is not None and site < symbol.addr + symbol.size else None
        unsited = "" if site is not None else "no ftrace site"
        of_probe = verdict.why if verdict.errno else ""
        multi = self._needing(options.ATTACHMENT, "BPF_TRACE_KPROBE_MULTI") or unsited
        fentry = self._lacking("DYNAMIC_FTRACE_WITH_DIRECT_CALLS") or unsited
        fentry = fentry or self._untyped(symbol)
        return {
            "kprobe_events": of_probe,
            "kretprobe": of_probe or self._never_returning(symbol),
            "kprobe_multi": multi,
            "fentry/fexit": fentry,
            "fmod_ret": fentry or self._unchangeable(symbol, hook=True),
            "override": self._needing(options.HELPER, "override_return")
            or of_probe
            or self._unchangeable(symbol, hook=False),
        }

    def _why_lacking(self, option: str) -> str:
        config = self._tables.config
        return (
            "" if not config or is_on(config, option) else f"{LACKING} CONFIG_{option}"
        )

    def _needing(self, kind: str, name: str) -> str:
        option = options.lacking_for(self._tables.config, kind, name)
        return f"{LACKING} {option}" if option else ""

    def _untyped(self, symbol: Symbol) -> str:
        untyped = self._lacking("DEBUG_INFO_BTF")
        if untyped or symbol.module:
            return untyped or self._lacking("DEBUG_INFO_BTF_MODULES")
        if self._saved.functions.prototype(symbol.name):
            return ""
        return "no prototype in BTF"

    def _never_returning(self, symbol: Symbol) -> str:
        """Return why return probes of a function are not hit, "" if they may be.

        A tail call is no reason: what is jumped to returns in the function's place.
        """
        if self._may_return(symbol):
            return ""
        cold = self._tables.kallsyms.lookup_name(f"{symbol.name}.cold")
        returns = any(map(self._may_return, cold))
        return "" if returns else f"{symbol.name} never returns"

    def _may_return(self, symbol: Symbol) -> bool:
        try:
            code = self._tables.read(symbol.addr, symbol.size)
            if _RETURN[self._saved.arch.name] in code:
                return True
            names = self._tables.kallsyms.name_of
            rows = self._tables.judge.listing(symbol.addr, symbol.size, names)
        except MemoryFault:
            return True
        words = [words for _, _, words in rows if not _CALL.match(words)]
        targets = {found[1] for found in map(_TARGET.search, words) if found}
        inside = {symbol.name, f"{symbol.name}.cold", symbol.name.removesuffix(".cold")}
        return any(map(_LEAVES.match, words)) or not targets <= inside

    def _unchangeable(self, symbol: Symbol, *, hook: bool) -> str:
        """Return why a program may not change the result.

        hook: those of Linux security modules may be changed, too.
        Kernel: check_attach_modify_return()
        """
        if symbol.addr in self._injectable or (hook and symbol.name[:9] == "security_"):
            return ""
        return "not in the error injection list"

    @cached_property
    def _injectable(self) -> frozenset[int]:
        memory, symbols = self._saved.memory, self._saved.symbols
        rows = function_ranges(memory, symbols, "error_injection_list")
        return frozenset(start for start, _ in rows)

    # ---- sentences
    def hints(self, name: str, verdict: Verdict) -> list[str]:
        """Return what a user of this name wants to know besides; [] if nothing."""
        if verdict.errno == errno.ENOENT:
            return self._of_missing(name)
        if verdict.ftrace and self._tables.ftrace_is_off:
            return ["not hit as long as kernel.ftrace_enabled is 0"]
        told = renamed().get(name)
        if told is not None and told.successor in self._saved.functions:
            return [
                f"since {told.since} mostly {told.successor} is called in its place "
                f"({told.source})"
            ]
        for other, functions in self._others():
            passing = inlined_in(name, functions, self._saved.functions)
            if passing and name in functions:
                return [
                    f"not hit by calls from {in_words(passing)}, which have it inlined "
                    f"here and call it in {other}"
                ]
        return []

    def _of_missing(self, name: str) -> list[str]:
        module, colon, rest = name.partition(":")
        ours = self._saved.functions
        if colon:
            if rest in ours:
                return [
                    f"{rest} is in the kernel itself: name it without {module}: "
                    "(tracefs takes it for one of a module to come, and never hits it)"
                ]
            return []
        call = _CALL_NAME.match(name)
        if call and (here := [each for each in CALLS if each + call[1] in ours]):
            return [f"this kernel has {here[0]}{call[1]}"]
        made = [each for each in ours.made_of(name) if ".cold" not in each]
        whole = [each for each in made if PART not in each]
        if whole:
            return [f"this kernel has {in_words(whole)}"]
        told = renamed().get(name)
        if told is not None:
            return [f"since {told.since} it is {told.successor} ({told.source})"]
        for other, functions in self._others():
            if name in functions:
                return self._compared(name, other, functions, made)
        return []

    def _compared(
        self, name: str, other: str, functions: FunctionIndex, made: list[str]
    ) -> list[str]:
        ours = self._saved.functions
        found = None if made else find_successor(name, functions, ours)
        if found is not None:
            perhaps = "" if found.is_sure else "perhaps "
            return [
                f"{perhaps}{found.name} now: the same {', '.join(found.reasons)} as "
                f"{name} in {other}"
            ]
        callers = inlined_in(name, functions, ours)
        rest = f"; {in_words(made)} is the rest of it" if made else ""
        if callers:
            return [f"inlined in {in_words(callers)}, which call it in {other}{rest}"]
        called = in_words(sorted(functions.callers(name))) or "pointers alone"
        return [f"gone without a likely successor; called in {other} by {called}{rest}"]
