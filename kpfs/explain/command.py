# SPDX-License-Identifier: GPL-2.0-or-later
"""The command ``kpfs explain``: is a probe accepted and optimised, and if not, why.

It asks a guest kernel booted for the purpose, with --kernel a Linux kernel that was
made, or with --image the dump of one. kpfs.explain.verdicts judges; this module puts a
verdict in words.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kpfs.base.errors import (
    KernelError,
    MemoryFault,
    SetupError,
    of_file,
    told_to_user,
)
from kpfs.base.ktypes import MASK64, KAddr
from kpfs.base.shown import raw, shown
from kpfs.engine.arch.arches import JUDGES
from kpfs.engine.judge import Judge
from kpfs.engine.kprobe import NO_ADDR
from kpfs.engine.kstrtox import kstrtouint, kstrtoul
from kpfs.engine.register import kprobe_addr
from kpfs.engine.state import State
from kpfs.explain.image import DumpedImage
from kpfs.explain.verdicts import (
    Verdict,
    check_text,
    errno_name,
    judge,
    judging_state,
)
from kpfs.host.progress import waiting_for

if TYPE_CHECKING:
    from argparse import Namespace

    from kpfs.linux.running.linux_kernel import LinuxKernel

EXIT_REFUSED = 1
RED, GREEN, YELLOW, CYAN = 31, 32, 33, 36  # ECMA-48, 8.3.117 (SGR)
COLOURS = {"FTRACE": CYAN, "OPTIMIZED": GREEN, "none": YELLOW}  # by tag; else RED


class Explainer:
    """The words for verdicts on the probe points of one kernel."""

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
        sym = self.st.machine.kallsyms.symbol_at(addr)
        if sym is None:
            return f"{addr:#x}"
        return f"{sym.name}+{addr - sym.addr:#x}" if addr > sym.addr else sym.name

    def check(self, point: str) -> None:
        """Raise SetupError if a point is none, or not in the function that it names.

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
        if symbol and ":" not in symbol:
            places = [s.addr for s in self.st.machine.kallsyms.lookup_name(symbol)]
            if len(places) > 1 and not self._takes_shared_names():
                listed = ", ".join(f"{place:#x}" for place in places)
                why = f"{len(places)} symbols have this name, at {listed}"
                raise KernelError(errno.EADDRNOTAVAIL, why)
        return kprobe_addr(self.st, addr, symbol, offset)[0]

    def explain(self, point: str) -> tuple[Verdict, str]:
        """Return the verdict on SYMBOL[+OFFSET] or an address, and its words."""
        try:
            addr = self._address(point)
            verdict = judge(self.st, self.arch, addr)
        except KernelError as refused:
            return Verdict(refused.errno, refused.why), f"{point}: {_refusal(refused)}"
        except MemoryFault as fault:
            words = f"{point}: the image lacks the bytes of {self.name(fault.addr)}"
            return Verdict(errno.EFAULT, words), words
        lines = [f"{point}: {self.name(addr)} at {addr:#x}"]
        jump = verdict.jump
        if verdict.errno:
            lines.append(f"  {_refusal(KernelError(verdict.errno, verdict.why))}")
            if self.st.machine.text.is_text(addr):
                lines += self._listing(addr, addr)
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

    def explain_all(self, point: str, *, coloured: bool) -> tuple[int, str]:
        """Judge each instruction of the function around a point: (errno, words)."""
        try:
            addr = self._address(point)
            sym = self.st.machine.kallsyms.symbol_at(addr)
            if sym is None:
                raise KernelError(errno.ENOENT, f"no function at {addr:#x}")
            check_text(self.st, addr)
            listing = self.arch.listing(sym.addr, sym.size, self.name)
        except KernelError as refused:
            return refused.errno, f"{point}: {_refusal(refused)}"
        except MemoryFault as fault:
            words = f"{point}: the image lacks the bytes of {self.name(fault.addr)}"
            return errno.EFAULT, words
        lines = [shown(f"{sym.name}: {sym.size} bytes at {sym.addr:#x}")]
        for at, code, words in listing:
            tag, why = self._in_short(at, sym.addr)
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
            return "?", f"the image lacks the bytes of {self.name(fault.addr)}"
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
    return f"refused, {errno_name(refused.errno)}: {refused.why}"


def parse_point(point: str) -> tuple[str | None, KAddr, int]:
    """Parse SYMBOL[+OFFSET] or 0xADDRESS into (symbol, address, offset).

    Raises SetupError. Kernel: traceprobe_split_symbol_offset(), trace_kprobe_create()
    """
    parts = re.fullmatch(r"([^+-]+)(?:\+([^+-]+))?", point)
    try:
        if not parts:
            raise ValueError
        name, offset = parts[1], kstrtouint(parts[2]) if parts[2] else 0
        if name[0].isdigit():
            return None, KAddr(kstrtoul(name) + offset), 0
    except (ValueError, KernelError):
        raise SetupError(
            f"explain: {point!r} is not SYMBOL[+OFFSET], with an offset from 0 to "
            f"{2**32 - 1}"
        ) from None
    return name, NO_ADDR, offset


# ---- the command


def main(arguments: Namespace) -> int:
    """Print the fate of a probe at each point; return the exit status.

    The status is 0 if every point is accepted, 1 if one is refused or its bytes are
    unknown.  Raises SetupError.
    """
    if arguments.image and arguments.kernel:
        raise SetupError("--image and --kernel name two kernels: say one")
    points, functions = arguments.points, arguments.all
    if arguments.kernel:
        return _explain_kernel(arguments.kernel, points, arguments.insmod, functions)
    if arguments.insmod:
        raise SetupError("explain: --insmod wants a kernel: --kernel NAME")
    if arguments.image:
        return _explain_image(Path(arguments.image), points, functions)
    with ExitStack() as stack:
        with waiting_for("starting the kernel"):
            explainer = stack.enter_context(guest_explainer())
        return print_points(explainer, points, functions=functions)


def _explain_image(folder: Path, points: Sequence[str], functions: bool) -> int:
    try:
        with waiting_for("reading the image"):
            image = DumpedImage(folder)
    except (OSError, ValueError, KeyError) as err:
        why = of_file(err, err.filename) if isinstance(err, OSError) else err
        raise SetupError(f"explain: no image in {folder}: {why}") from None
    explainer = Explainer(judging_state(image, image.judge), image.judge)
    return print_points(explainer, points, functions=functions)


def _explain_kernel(
    name: str, points: Sequence[str], modules: Sequence[str], functions: bool
) -> int:
    """Judge points in a Linux kernel, started from its image.

    The modules of points like MODULE:SYMBOL are loaded, too.
    """
    from kpfs.emulator.libunicorn import EmulatorError
    from kpfs.linux.running.linux_kernel import LinuxKernel

    try:
        linux = LinuxKernel(name, quiet=True, callers=False)
    except EmulatorError as error:
        raise SetupError(str(error)) from None
    try:
        linux.start()
        named = (point.partition(":") for point in points)
        _load(linux, [*modules, *(module for module, colon, _ in named if colon)])
        return print_points(explainer_of(linux), points, functions=functions)
    finally:
        linux.stop()


def _load(linux: LinuxKernel, modules: Sequence[str]) -> None:
    """Load module files, and modules of the package that are not loaded yet."""
    from kpfs.linux.running import loading
    from kpfs.linux.store.modules import module_name

    for module in modules:
        is_file = "/" in module or module.endswith(".ko")
        try:
            with told_to_user(f"explain: {module}"), linux.lock:
                agent, loaded = linux.tasks.agent, [m.name for m in linux.modules()]
                if is_file:
                    loading.load(linux, agent, Path(module).read_bytes())
                elif module_name(module) not in loaded:
                    loading.load_named(linux, agent, module)
        except KernelError as refused:
            why = refused.why or errno_name(refused.errno)
            raise SetupError(f"explain: {module}: {why}") from None


def explainer_of(linux: LinuxKernel) -> Explainer:
    """Return an explainer of a Linux kernel as if it had no probes.

    Context: the kernel's lock is not held.
    """
    from kpfs.explain.linux import UnprobedTables

    image = UnprobedTables(linux)
    state = judging_state(image, image.judge)
    state.module_states.update(image.module_states)
    return Explainer(state, image.judge, image.takes_shared_names)


@contextmanager
def guest_explainer() -> Iterator[Explainer]:
    """Start a guest kernel for this alone, and yield an explainer of it."""
    from kpfs.guest.machine import Guest

    guest = Guest(1, quiet=True)
    try:
        arch = JUDGES[guest.arch](guest)
        yield Explainer(judging_state(guest, arch), arch)
    finally:
        guest.close()


def wants_colours(stream: TextIO) -> bool:
    """Return True for a terminal, unless the user wants none: no-color.org."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


def print_points(
    explainer: Explainer, points: Sequence[str], *, functions: bool
) -> int:
    """Print what becomes of each point; return the exit status of main().

    Raises SetupError, before anything is printed, for a point that is none.
    """
    for point in points:
        explainer.check(point)
    status = 0
    coloured = wants_colours(sys.stdout)
    for point in points:
        if functions:
            number, words = explainer.explain_all(point, coloured=coloured)
        else:
            verdict, words = explainer.explain(point)
            number = verdict.errno
        print(words, file=raw(sys.stdout) if coloured and functions else sys.stdout)
        if number:
            status = EXIT_REFUSED
    return status
