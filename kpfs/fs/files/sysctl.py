# SPDX-License-Identifier: GPL-2.0-or-later
"""sys/: the switch of jump optimization, and kernel/ftrace_enabled."""

from __future__ import annotations

from typing import ClassVar

from kpfs.engine.kprobe_ftrace import set_ftrace_enabled
from kpfs.engine.optimizer import set_kprobes_optimization
from kpfs.fs.seqfile import Sysctl


class KprobesOptimization(Sysctl):
    """Whether probes are turned into jumps where they can be.

    Kernel: proc_kprobes_optimization_handler()
    """

    def get(self) -> int:
        return int(self.kernel.state.kprobes_allow_optimization)

    def set(self, value: int) -> None:
        set_kprobes_optimization(self.kernel.state, bool(value))


class DocumentedOptimization(KprobesOptimization):
    """The same switch, with the name and the values that the documentation has."""

    VALUES: ClassVar = {b"y": 1, b"n": 0}

    def store(self, data: bytes) -> int:
        value = self.VALUES.get(data.strip().lower())
        if value is None:
            return super().store(data)
        self.set(value)
        return len(data)


class FtraceEnabled(Sysctl):
    """Whether functions call tracers and probes at their entry.

    Kernel: ftrace_enable_sysctl()
    """

    low = -(1 << 31)
    high = (1 << 31) - 1

    def get(self) -> int:
        return self.kernel.state.ftrace_enabled

    def set(self, value: int) -> None:
        set_ftrace_enabled(self.kernel.state, value)
