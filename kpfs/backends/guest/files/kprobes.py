# SPDX-License-Identifier: GPL-2.0-or-later
"""kprobes/: list, enabled, blacklist."""

from __future__ import annotations

from kpfs.backends.guest.files.addresses import AddressHandle
from kpfs.backends.guest.files.guest_file import GuestFile
from kpfs.base.typed import TYPE_CHECKING
from kpfs.engine.arm import arm_all_kprobes, disarm_all_kprobes
from kpfs.engine.kprobe import KprobeFlag
from kpfs.engine.kstrtox import kstrtobool_from_user
from kpfs.engine.register import show_entries
from kpfs.fs.seqfile import SeqFile, ValueFile

if TYPE_CHECKING:
    from kpfs.backends.guest.root.guest_kernel import GuestKernel
    from kpfs.engine.machine import Kallsyms

KEPT_MAX = 1 << 14  # lines


def tags(p_flags: int, entry_flags: int) -> str:
    """Return the tags in brackets: of the probe, then of its entry in kprobe_table."""
    gone = p_flags & KprobeFlag.GONE
    return "".join(
        (
            "[GONE]" if gone else "",
            "[DISABLED]" if p_flags & KprobeFlag.DISABLED and not gone else "",
            "[OPTIMIZED]" if entry_flags & KprobeFlag.OPTIMIZED else "",
            "[FTRACE]" if entry_flags & KprobeFlag.FTRACE else "",
        )
    )


class List(GuestFile, SeqFile):
    """All probes.  Kernel: report_probe().

    Most lines are those of the last time, so their text is kept by all that it is made
    of: address, kind and flags, as long as the symbols stay the same.
    """

    handle_type = AddressHandle

    def __init__(self, kernel: GuestKernel) -> None:
        super().__init__(kernel)
        self._lines: dict[tuple[int, str, int, int], str] = {}
        self._symbols = 0  # the generation that these lines are of

    def show(self) -> str:
        state = self.kernel.state
        symbols = state.machine.kallsyms
        if self._symbols != symbols.generation or len(self._lines) > KEPT_MAX:
            self._lines, self._symbols = {}, symbols.generation
        known, lines = self._lines, []
        for p, entry in show_entries(state):
            # enum arithmetic is slow
            key = p.addr, p.kind, p.flags._value_, entry.flags._value_
            line = known.get(key)
            if line is None:
                line = known[key] = self._line(symbols, *key)
            lines.append(line)
        return "".join(lines)

    @staticmethod
    def _line(
        symbols: Kallsyms, addr: int, kind: str, p_flags: int, entry_flags: int
    ) -> str:
        symbol = symbols.symbol_at(addr)
        if symbol is None:
            where = f"0x{addr:016x}"
        else:
            module = symbol.module or " "
            where = f"{symbol.name}+0x{addr - symbol.addr:x}  {module}"
        return f"{addr:016x}  {kind}  {where} {tags(p_flags, entry_flags)}\n"


class Enabled(GuestFile, ValueFile):
    """The switch that arms and disarms all probes.  Kernel: fops_kp."""

    write_moves = 0

    def show(self) -> str:
        return f"{int(not self.kernel.state.kprobes_all_disarmed)}\n"

    def store(self, data: bytes) -> None:
        st = self.kernel.state
        if kstrtobool_from_user(data):
            arm_all_kprobes(st)
        else:
            disarm_all_kprobes(st)


class Blacklist(GuestFile, SeqFile):
    """Ranges where probes are refused.  Kernel: kprobe_blacklist_seq_show()."""

    handle_type = AddressHandle

    def show(self) -> str:
        return "".join(
            [
                f"0x{start:016x}-0x{end:016x}\t{name}\n"
                for start, end, name in self.kernel.state.kprobe_blacklist
            ]
        )
