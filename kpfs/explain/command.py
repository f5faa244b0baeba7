# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs explain``: is a probe accepted and optimised, and if not, why.

It asks a guest of ours, booted for the purpose, or with --image the dump of a real
kernel.  kpfs.explain.verdicts judges; here a verdict is put in words.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from kpfs.engine.arch.arches import JUDGES
from kpfs.engine.errors import KernelError, MemoryFault
from kpfs.engine.judge import Judge
from kpfs.engine.kprobe import NO_ADDR
from kpfs.engine.ktypes import KAddr
from kpfs.engine.register import kprobe_addr
from kpfs.engine.state import State
from kpfs.explain.image import DumpedImage
from kpfs.explain.verdicts import Verdict, errno_name, judge, judging_state
from kpfs.host.errors import SetupError

EXIT_REFUSED = 1


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
            addr, _ = kprobe_addr(self.st, addr, symbol, offset)
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


def parse_point(point: str) -> tuple[str | None, KAddr, int]:
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
    return name, NO_ADDR, distance


# ---- the command


def main(points: Sequence[str], *, image: str | None = None) -> int:
    """0: every point is accepted; 1: one is refused, or its bytes are not known.

    Raises SetupError.
    """
    if image:
        return _explain_image(Path(image), points)
    return _explain_guest(points)


def _explain_image(folder: Path, points: Sequence[str]) -> int:
    try:
        image = DumpedImage(folder)
    except (OSError, ValueError, KeyError) as err:
        raise SetupError(f"explain: no image in {folder}: {err}") from None
    return _print_points(judging_state(image, image.judge), image.judge, points)


def _explain_guest(points: Sequence[str]) -> int:
    """Judge a guest of our own; nobody else sees it."""
    from kpfs.guest.machine import Guest

    guest = Guest(1, quiet=True)
    try:
        arch = JUDGES[guest.arch](guest)
        return _print_points(judging_state(guest, arch), arch, points)
    finally:
        guest.close()


def _print_points(st: State, arch: Judge, points: Sequence[str]) -> int:
    explainer = Explainer(st, arch)
    status = 0
    for point in points:
        verdict, words = explainer.explain(point)
        print(words)
        if verdict.errno:
            status = EXIT_REFUSED
    return status
