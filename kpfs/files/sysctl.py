# SPDX-License-Identifier: GPL-2.0-or-later
"""sys/debug/kprobes-optimization."""

from __future__ import annotations

from engine.optimizer import set_kprobes_optimization
from kpfs.kernel import Kernel
from kpfs.seqfile import Sysctl


class KprobesOptimization(Sysctl):
    """Whether probes are turned into jumps where they can be.

    Kernel: proc_kprobes_optimization_handler()
    """

    kernel: Kernel

    def get(self) -> int:
        return int(self.kernel.state.kprobes_allow_optimization)

    def set(self, value: int) -> None:
        set_kprobes_optimization(self.kernel.state, bool(value))
