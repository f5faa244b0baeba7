# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs explain``: is a probe accepted and optimised, and if not, why.

The checks are those of registration: kpfs.engine.register for the address, the
architecture's for the instruction and the jump, engine.trace for what kprobe_events
adds.  They judge
our guest or, with --image, the dump of a real kernel (kpfs.explain.image).
"""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

from kpfs.engine.arch.arches import JUDGES
from kpfs.engine.arch_hooks import Arch
from kpfs.engine.errors import KernelError, MemoryFault
from kpfs.engine.judge import Judge, Jump
from kpfs.engine.kprobe import NO_ADDR, Kprobe, kprobe_ftrace
from kpfs.engine.kprobe_ftrace import check_ftrace_location
from kpfs.engine.ktypes import KAddr
from kpfs.engine.machine import Machine
from kpfs.engine.register import check_kprobe_address_safe, kprobe_addr
from kpfs.engine.state import State
from kpfs.engine.trace.probe.notrace import within_notrace_func
from kpfs.explain.image import DumpedImage, needed_functions, read_functions
from kpfs.explain.supplement import OracleError, ask_oracle, supplement
from kpfs.host.mounts import SetupError

TABLE_OFFSETS = range(41)  # of each function, in the table of --all
TABLE_COLUMNS = ("symbol", "addr", "size", "offset", "verdict", "tags")
EXIT_REFUSED = 1


class Verdict(NamedTuple):
    """What becomes of a probe."""

    errno: int  # 0: accepted
    why: str  # it was refused
    ftrace: bool = False
    jump: Jump | None = None  # None: refused, or uses ftrace

    @property
    def name(self) -> str:
        """Of the errno; ok if accepted."""
        return errno_name(self.errno) if self.errno else "ok"

    @property
    def tag(self) -> str:
        """As in kprobes/list; - if refused."""
        if self.errno:
            return "-"
        if self.ftrace:
            return "FTRACE"
        return "none" if self.jump is None or self.jump.why_not else "OPTIMIZED"


def errno_name(number: int) -> str:
    """The kernel's name: Python prefers ENOTSUP, which Linux has not."""
    if number == errno.EOPNOTSUPP:
        return "EOPNOTSUPP"
    return errno.errorcode.get(number, str(number))


def judge(st: State, arch: Judge, addr: int) -> Verdict:
    """The fate of an event `p ADDR` that is alone in its function.

    Raises MemoryFault if it depends on bytes that are not there.
    Context: control.
    """
    p = Kprobe(addr=KAddr(addr))
    try:
        try:
            if within_notrace_func(st.machine, addr):
                raise KernelError(errno.EINVAL, "its function has no ftrace site")
        except MemoryFault:
            # what the tables forbid is EINVAL with and without a site
            check_kprobe_address_safe(st, KAddr(addr))
            raise
        check_ftrace_location(st, p)
        check_kprobe_address_safe(st, KAddr(addr))
        if kprobe_ftrace(p):
            return Verdict(0, "", ftrace=True)
        arch.check_instruction(addr)
    except KernelError as refused:
        return Verdict(refused.errno, refused.why)
    return Verdict(0, "", jump=arch.check_jump(addr))


class _JudgingArch:
    """The little that the core's checks ask of an architecture."""

    kretprobe_blacklist = ()

    def __init__(self, arch: Judge) -> None:
        self.arch_within_kprobe_blacklist = arch.arch_within_kprobe_blacklist
        self.arch_adjust_kprobe_addr = arch.arch_adjust_kprobe_addr

    def arch_init_kprobes(self, core: object) -> None:
        """No probe will ever be armed."""


def judging_state(tables: Machine | DumpedImage, arch: Judge) -> State:
    """A State in which addresses can be judged as by registration, and no more.

    The casts say: those checks read the tables alone.
    """
    return State(cast(Machine, tables), cast(Arch, _JudgingArch(arch)))


# ---- the table of --all


def table(st: State, image: DumpedImage) -> Iterator[tuple[str, ...]]:
    """Rows in the columns of verdicts.tsv: each function of the dump, by name.

    Where the bytes that decide are not known, verdict and tag are "?".
    """
    for fn in sorted(image.functions):
        for offset in TABLE_OFFSETS:
            try:
                verdict = judge(st, image.judge, fn.addr + offset)
            except MemoryFault:
                words = ("?", "?")
            else:
                words = (verdict.name, verdict.tag)
            yield fn.symbol, f"{fn.addr:x}", str(fn.size), str(offset), *words


# ---- one probe point in words


class Explainer:
    """Puts verdicts on the probe points of one kernel in words."""

    def __init__(self, st: State, arch: Judge) -> None:
        self.st = st
        self.arch = arch

    def name(self, addr: int) -> str:
        """symbol+offset of an address."""
        sym = self.st.machine.kallsyms.symbol_at(addr)
        if sym is None:
            return f"{addr:#x}"
        return f"{sym.name}+{addr - sym.addr:#x}" if addr > sym.addr else sym.name

    def explain(self, point: str) -> tuple[Verdict, str]:
        """The verdict on SYMBOL[+OFFSET] or an address, and the words for it."""
        symbol, addr, offset = parse_point(point)
        try:
            addr, _ = kprobe_addr(self.st, addr or NO_ADDR, symbol, offset)
            verdict = judge(self.st, self.arch, addr)
        except KernelError as refused:
            return Verdict(refused.errno, refused.why), f"{point}: {_refusal(refused)}"
        except MemoryFault as fault:
            words = f"{point}: the image lacks the bytes of {self.name(fault.addr)}"
            return Verdict(errno.EFAULT, words), words
        lines = [f"{point}: {self.name(addr)} at {addr:#x}"]
        jump = verdict.jump
        if verdict.errno:
            said = _refusal(KernelError(verdict.errno, verdict.why))
            lines += [f"  {said}", *self._listing(addr, addr)]
        elif jump is None:
            lines += ["  accepted, [FTRACE]: the entry nop becomes a call"]
            lines += self._listing(addr, 0)
        elif not jump.why_not:
            lines += [f"  accepted, [OPTIMIZED]: a jump replaces {jump.size} bytes"]
            lines += self._listing(addr, 0, jump.size)
        else:
            lines += [f"  accepted, not optimised: {jump.why_not}"]
            lines += self._listing(addr, jump.culprit, jump.size)
            if jump.culprit and not addr <= jump.culprit < addr + jump.size:
                lines += ["  where:", *self._listing(jump.culprit, jump.culprit)]
        return verdict, "\n".join(lines)

    def _listing(self, addr: int, marked: int, size: int = 1) -> list[str]:
        """The instructions that touch [addr, addr+size), the marked one pointed at."""
        lines = []
        for at, raw, words in self.arch.listing(addr, size, self.name):
            sign = ">" if at <= marked < at + len(raw) else " "
            lines.append(f"  {sign} {at:x}  {raw.hex(' '):<30} {words}")
        return lines


def _refusal(refused: KernelError) -> str:
    return f"refused, {errno_name(refused.errno)}: {refused.why}"


def parse_point(point: str) -> tuple[str | None, KAddr | None, int]:
    """(symbol, address, offset) of SYMBOL[+OFFSET] or 0xADDRESS.

    Raises SetupError.
    """
    name, plus, offset = point.partition("+")
    try:
        distance = int(offset, 0) if plus else 0
        if name[:1].isdigit():
            return None, KAddr(int(name, 0) + distance), 0
    except ValueError:
        raise SetupError(f"explain: {point!r} is not SYMBOL[+OFFSET]") from None
    return name, None, distance


# ---- the command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kpfs explain``."""
    parser.add_argument(
        "points", metavar="SYMBOL[+OFFSET]", nargs="*", help="a probe point; or 0xADDR"
    )
    parser.add_argument(
        "--image",
        metavar="DIR",
        type=Path,
        help="judge a real kernel that was dumped into DIR, not kpfs' own",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="with --image: a table of verdicts for offsets 0 to 40 of its functions",
    )
    parser.add_argument(
        "--functions",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="with --image: more functions, in the form of DIR/functions.tsv",
    )
    parser.add_argument(
        "--oracle",
        metavar="RUN",
        type=Path,
        help="program that boots the kernel of DIR and is asked for functions that DIR "
        "lacks (default: DIR/../oracle/run, if there is one)",
    )
    parser.add_argument("--no-oracle", action="store_true", help="do not ask one")


def main(args: argparse.Namespace) -> int:
    """0: every point is accepted; 1: one is refused, or a row is not known.

    Raises SetupError.
    """
    if args.all and not args.image:
        raise SetupError("explain: --all needs --image")
    if not args.all and not args.points:
        raise SetupError("explain: needs a SYMBOL[+OFFSET], or --image DIR --all")
    if args.image:
        return _explain_image(args)
    return _explain_guest(args.points)


def _explain_image(args: argparse.Namespace) -> int:
    try:
        image = DumpedImage(args.image)
        for path in args.functions:
            image.add(read_functions(path))
    except (OSError, ValueError, KeyError) as err:
        raise SetupError(f"explain: no image in {args.image}: {err}") from None
    st = judging_state(image, image.judge)
    if not args.all:
        _complete(image, args, _addresses(image, args.points))
        return _print_points(Explainer(st, image.judge), args.points)
    reach = [fn.addr + offset for fn in image.functions for offset in TABLE_OFFSETS]
    _complete(image, args, reach)
    unknown = 0
    print(*TABLE_COLUMNS, sep="\t")
    for row in table(st, image):
        unknown += row[-1] == "?"
        print(*row, sep="\t")
    if unknown:
        print(f"explain: {unknown} rows not known, marked ?", file=sys.stderr)
    return EXIT_REFUSED if unknown else 0


def _addresses(image: DumpedImage, points: list[str]) -> list[int]:
    found = []
    for point in points:
        symbol, addr, offset = parse_point(point)
        if symbol is not None:
            named = image.lookup_name(symbol)
            addr = named[0].addr if named else None
        if addr is not None:
            found.append(addr + offset)
    return found


def _complete(image: DumpedImage, args: argparse.Namespace, addrs: list[int]) -> None:
    """Get the bytes of what addrs need and the dump lacks, as far as possible."""
    missing = supplement(image, needed_functions(image, addrs))
    oracle = args.oracle or args.image.resolve().parent / "oracle" / "run"
    if not missing or args.no_oracle or not oracle.exists():
        return
    print(
        f"explain: {len(missing)} functions that the verdicts depend on are not in "
        f"{args.image}; reading them from a kernel booted by {oracle}",
        file=sys.stderr,
    )
    try:
        ask_oracle(image, missing, oracle)
    except OracleError as err:
        print(f"explain: {oracle}: {err}", file=sys.stderr)


def _explain_guest(points: list[str]) -> int:
    """Judge a guest of our own, booted for the purpose; nobody else sees it."""
    from kpfs.guest.machine import Guest

    guest = Guest(1, quiet=True)
    try:
        arch = JUDGES[guest.arch](guest)
        return _print_points(Explainer(judging_state(guest, arch), arch), points)
    finally:
        guest.close()


def _print_points(explainer: Explainer, points: list[str]) -> int:
    status = 0
    for point in points:
        verdict, words = explainer.explain(point)
        print(words)
        if verdict.errno:
            status = EXIT_REFUSED
    return status
