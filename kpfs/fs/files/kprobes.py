# SPDX-License-Identifier: GPL-2.0-or-later
"""kprobes/: list, enabled, blacklist."""

from __future__ import annotations

from kpfs.engine.arm import arm_all_kprobes, disarm_all_kprobes
from kpfs.engine.kprobe import KprobeFlag
from kpfs.engine.kstrtox import kstrtobool_from_user
from kpfs.engine.register import show_entries
from kpfs.fs.seqfile import SeqFile, ValueFile


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


class List(SeqFile):
    """All probes.  Kernel: report_probe()."""

    def show(self) -> str:
        lines = []
        # the same few pairs of flags, and enum arithmetic is slow
        known: dict[tuple[int, int], str] = {}
        for p, entry, symbol in show_entries(self.kernel.state):
            addr = p.addr
            if symbol is None:
                where = f"0x{addr:016x}"
            else:
                module = symbol.module or " "
                where = f"{symbol.name}+0x{addr - symbol.addr:x}  {module}"
            flags = p.flags._value_, entry.flags._value_
            text = known.get(flags)
            if text is None:
                text = known[flags] = tags(*flags)
            lines.append(f"{addr:016x}  {p.kind}  {where} {text}\n")
        return "".join(lines)


class Enabled(ValueFile):
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


class Blacklist(SeqFile):
    """Ranges where probes are refused.  Kernel: kprobe_blacklist_seq_show()."""

    def show(self) -> str:
        return "".join(
            [
                f"0x{start:016x}-0x{end:016x}\t{name}\n"
                for start, end, name in self.kernel.state.kprobe_blacklist
            ]
        )
