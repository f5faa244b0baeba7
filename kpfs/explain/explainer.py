# SPDX-License-Identifier: GPL-2.0-or-later
"""Puts the verdicts on the probe points of one kernel in words."""

from __future__ import annotations

import errno
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kpfs.base.errors import KernelError, MemoryFault, SetupError
from kpfs.base.ktypes import FUNCTION_TYPES, MASK64, KAddr, Symbol
from kpfs.base.shown import shown
from kpfs.base.typed import Protocol
from kpfs.engine.judge import Judge, place_of
from kpfs.engine.kprobe import NO_ADDR
from kpfs.engine.kstrtox import kstrtouint, kstrtoul
from kpfs.engine.register import kprobe_addr
from kpfs.engine.state import State
from kpfs.explain.verdicts import Verdict, check_text, judge

RED, GREEN, YELLOW, CYAN = 31, 32, 33, 36  # ECMA-48, 8.3.117 (SGR)
COLOURS = {"FTRACE": CYAN, "OPTIMIZED": GREEN, "none": YELLOW}  # by tag; else RED


class Advisor(Protocol):
    """Knows more of a kernel than verdicts: kpfs.explain.advice.Advice."""

    def look_ahead(self, names: Sequence[str]) -> None: ...
    def ways(self, symbol: Symbol, verdict: Verdict) -> dict[str, str]: ...
    def hints(self, name: str, verdict: Verdict) -> list[str]: ...


class Fate(NamedTuple):
    """The fate of a probe at a point, and more that a user wants to know of it."""

    point: str
    addr: KAddr  # 0: it has none
    verdict: Verdict
    by: dict[str, str]  # by addresses, where the name stands for several
    shared: int  # how many symbols have that name
    ways: dict[str, str]  # to a function's entry, each with why it is none, or ""
    hints: list[str]

    def for_json(self) -> dict[str, Any]:
        """Return what programs want of it."""
        verdict = self.verdict
        return {
            "point": self.point,
            "address": self.addr,
            "errno": verdict.name if verdict.errno else "",
            "why": verdict.why or (verdict.jump.why_not if verdict.jump else ""),
            "tag": verdict.tag,
            "by": self.by,
            "ways": self.ways,
            "hints": self.hints,
        }

    def in_words(self) -> list[str]:
        """Return lines about the ways besides kprobe_events, and the hints."""
        ways = {way: why for way, why in self.ways.items() if way != "kprobe_events"}
        open_ways = ", ".join(way for way, why in ways.items() if not why)
        closed = defaultdict[str, list[str]](list)
        for way, why in ways.items():
            if why and why != self.verdict.why:
                closed[why].append(way)
        lines = [f"  also by {open_ways}"] if open_ways else []
        lines += [f"  not by {', '.join(each)}: {why}" for why, each in closed.items()]
        return lines + [f"  {hint}" for hint in self.hints]


class JudgedInstruction(NamedTuple):
    """An instruction, and the fate of a probe at it."""

    address: int
    code: bytes
    words: str
    tag: str  # or the errno's name
    why: str


class Explainer:
    """The words for verdicts on the probe points of one kernel."""

    advice: Advisor | None = None  # None: it is no kernel of which more is known
    locked = ""  # why the kernel has no event of any probe

    def __init__(
        self,
        st: State,
        arch: Judge,
        takes_shared_names: Callable[[], bool] = lambda: False,
    ) -> None:
        """takes_shared_names: is asked whether one name may stand for several symbols.

        Linux before 6.7, and before the stable kernels of that time, took the first.
        """
        self.st = st
        self.arch = arch
        self._takes_shared_names = takes_shared_names

    def name(self, addr: int) -> str:
        """Return symbol+offset of an address."""
        return place_of(self.st.machine.kallsyms, addr)

    def check(self, points: Sequence[str]) -> None:
        """Raise SetupError for a point that is none, or not in the function it names.

        All that are asked for are checked at once, so that many names are found fast.
        """
        names = [name for name, _, _ in map(parse_point, points) if name is not None]
        if self.advice is not None:
            self.advice.look_ahead(names)
        for point in points:
            self._check(point)

    def _check(self, point: str) -> None:
        """Raise SetupError for a point that is not in the function that it names.

        A kernel takes an offset beyond the function for a place in a later one.
        """
        symbol, _, offset = parse_point(point)
        kallsyms = self.st.machine.kallsyms
        for named in kallsyms.lookup_name(symbol)[:1] if symbol else ():
            at = (named.addr + offset) & MASK64
            around = kallsyms.symbol_at(named.addr)
            if around is not None and kallsyms.symbol_at(at) != around:
                raise SetupError(
                    f"explain: {point}: past the end of {symbol}, at {self.name(at)}"
                )

    def _address(self, point: str) -> KAddr:
        """Return the address of a point. Raises KernelError for what has none."""
        symbol, addr, offset = parse_point(point)
        count = len(self.places(point))
        if count > 1 and not self._takes_shared_names():
            raise KernelError(errno.EADDRNOTAVAIL, f"{count} symbols have this name")
        return kprobe_addr(self.st, addr, symbol, offset)[0]

    def places(self, point: str) -> Sequence[KAddr]:
        """Return the addresses that a point's name stands for, with its offset."""
        symbol, _, offset = parse_point(point)
        found = self.st.machine.kallsyms.lookup_name(symbol) if symbol else ()
        return [KAddr((each.addr + offset) & MASK64) for each in found]

    def fate(self, point: str) -> Fate:
        """Return all that is known of SYMBOL[+OFFSET] or an address."""
        places = self.places(point)
        addr = KAddr(0)
        try:
            addr = self._address(point)
            if self.locked:  # as it asks that before it looks at the place
                raise KernelError(errno.EPERM, self.locked)
            verdict = judge(self.st, self.arch, addr)
        except KernelError as refused:
            verdict = Verdict(refused.errno, refused.why)
        except MemoryFault as fault:
            verdict = Verdict(errno.EFAULT, self._lacking(fault))
        by = {}
        if verdict.errno == errno.EADDRNOTAVAIL:
            by = {f"{place:#x}": self._by(place) for place in places}
        symbol, _, offset = parse_point(point)
        ways, hints = dict[str, str](), list[str]()
        if self.advice is not None and symbol is not None:
            found = self.st.machine.kallsyms.lookup_name(symbol)
            if found and not (offset or by) and found[0].type in FUNCTION_TYPES:
                ways = self.advice.ways(found[0], verdict)
            hints = self.advice.hints(symbol, verdict)
        return Fate(point, addr, verdict, by, len(places), ways, hints)

    def explain(self, point: str) -> tuple[Verdict, str]:
        """Return the verdict on SYMBOL[+OFFSET] or an address, and its words."""
        fate = self.fate(point)
        verdict, addr = fate.verdict, fate.addr
        lines = [f"{point}: {verdict.in_short}"]
        if verdict.errno == errno.EFAULT:
            lines = [f"{point}: {verdict.why}"]
        elif addr:
            lines = [f"{point}: {self.name(addr)} at {addr:#x}"]
            lines += [f"  {verdict.in_short}", *self._shown(addr, verdict)]
            lines += self._of_modules(point, addr, verdict)
        lines += [f"  by {place}: {words}" for place, words in fate.by.items()]
        if addr and fate.shared > 1:
            others = ", ".join(f"{place:#x}" for place in self.places(point)[1:])
            lines.append(f"  the first of {fate.shared} of this name; others: {others}")
        lines += fate.in_words()
        return verdict, "\n".join(lines)

    def _shown(self, addr: KAddr, verdict: Verdict) -> list[str]:
        """List the instructions that a verdict speaks of."""
        jump = verdict.jump
        if verdict.errno:
            known = self.st.machine.text.is_text(addr)
            return self._listing(addr, addr) if known else []
        if jump is None:
            return self._listing(addr, 0)
        lines = self._listing(addr, jump.culprit if jump.why_not else 0, jump.size)
        if jump.culprit and not addr <= jump.culprit < addr + jump.size:
            lines += ["  where:", *self._listing(jump.culprit, jump.culprit)]
        return lines

    def _of_modules(self, point: str, addr: KAddr, verdict: Verdict) -> list[str]:
        """Return what concerns probes that modules register.

        Kernel: arch_adjust_kprobe_addr(), arm_kprobe_ftrace()
        """
        lines = []
        if addr not in self.places(point)[:1] and parse_point(point)[0] is not None:
            lines.append(f"  kp.addr becomes {addr:#x}, {self.arch.behind_entry}")
        if verdict.ftrace:
            lines.append(
                "  with a post_handler there is no live patch of it beside (ipmodify)"
            )
        return lines

    def _by(self, place: KAddr) -> str:
        """Return what becomes of a probe that is put there by its address, in short."""
        try:
            verdict = judge(self.st, self.arch, kprobe_addr(self.st, place, None, 0)[0])
        except KernelError as refused:
            return _refusal(refused)
        except MemoryFault:
            return "the image lacks its bytes"
        return verdict.in_short

    def explain_all(self, point: str, *, coloured: bool) -> tuple[int, str]:
        """Judge each instruction of the function around a point: (errno, words).

        Where several functions have the name, that is each of them.
        """
        try:
            addr = self._address(point)
        except KernelError as refused:
            words = [f"{point}: {_refusal(refused)}"]
            if refused.errno == errno.EADDRNOTAVAIL:
                places = self.places(point)
                words += [self._function(point, each, coloured)[1] for each in places]
            return refused.errno, "\n".join(words)
        except MemoryFault as fault:
            return errno.EFAULT, f"{point}: {self._lacking(fault)}"
        return self._function(point, addr, coloured)

    def _lacking(self, fault: MemoryFault) -> str:
        return f"the image lacks the bytes of {self.name(fault.addr)}"

    def instructions(self, addr: int) -> tuple[Symbol, list[JudgedInstruction]]:
        """Return the function around an address, with the fate of each instruction.

        Raises KernelError, MemoryFault.
        """
        sym = self.st.machine.kallsyms.symbol_at(addr)
        if sym is None:
            raise KernelError(errno.ENOENT, f"no function at {addr:#x}")
        check_text(self.st, addr)
        return sym, [
            JudgedInstruction(at, code, words, *self._in_short(at, sym.addr))
            for at, code, words in self.arch.listing(sym.addr, sym.size, self.name)
        ]

    def _function(self, point: str, addr: int, coloured: bool) -> tuple[int, str]:
        try:
            sym, found = self.instructions(addr)
        except KernelError as refused:
            return refused.errno, f"{point}: {_refusal(refused)}"
        except MemoryFault as fault:
            return errno.EFAULT, f"{point}: {self._lacking(fault)}"
        lines = [shown(f"{sym.name}: {sym.size} bytes at {sym.addr:#x}")]
        for at, code, words, tag, why in found:
            head = f"{tag:<9}"
            if coloured:
                head = f"\033[{COLOURS.get(tag, RED)}m{head}\033[0m"
            line = f"  +{at - sym.addr:<#6x} {code.hex(' '):<30} {words:<40}  {why}"
            lines.append(f"  {head}{shown(line[1:].rstrip())}")
        return 0, "\n".join(lines)

    def _in_short(self, addr: int, start: int) -> tuple[str, str]:
        """Return the fate of a probe at an instruction, as tag or errno, and why.

        start: of its function.
        """
        try:
            verdict = judge(self.st, self.arch, addr)
        except MemoryFault as fault:
            return "?", self._lacking(fault)
        if verdict.errno:
            return verdict.name, verdict.why
        jump = verdict.jump
        if jump is None or not jump.why_not:
            return verdict.tag, ""
        where = f": +{jump.culprit - start:#x}" if jump.culprit > addr else ""
        return verdict.tag, f"{jump.why_not}{where}"

    def _listing(self, addr: int, marked: int, size: int = 1) -> list[str]:
        """List the instructions that touch [addr, addr+size), with a mark at one."""
        lines = []
        for at, code, words in self.arch.listing(addr, size, self.name):
            sign = ">" if at <= marked < at + len(code) else " "
            lines.append(f"  {sign} {at:x}  {code.hex(' '):<30} {words}")
        return lines


def _refusal(refused: KernelError) -> str:
    return Verdict(refused.errno, refused.why).in_short


def parse_point(point: str) -> tuple[str | None, KAddr, int]:
    """Parse SYMBOL[+OFFSET] or 0xADDRESS into (symbol, address, offset).

    Raises SetupError. Kernel: traceprobe_split_symbol_offset(), trace_kprobe_create()
    """
    parts = re.fullmatch(r"([^+-]+)(?:\+([^+-]+))?", point)
    try:
        if not parts:
            raise ValueError
        name, offset = parts[1], kstrtouint(parts[2]) if parts[2] else 0
        if not name.isprintable() or " " in name:
            raise ValueError
        if name[0].isdigit():
            return None, KAddr(kstrtoul(name) + offset), 0
    except (ValueError, KernelError):
        raise SetupError(
            f"explain: {point!r} is not SYMBOL[+OFFSET], with an offset from 0 to "
            f"{2**32 - 1}"
        ) from None
    return name, NO_ADDR, offset


def modules_of(points: Sequence[str]) -> list[str]:
    """Return the modules of points like MODULE:SYMBOL."""
    named = (point.partition(":") for point in points)
    return [module for module, colon, _ in named if colon]
