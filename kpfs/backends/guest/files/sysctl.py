# SPDX-License-Identifier: GPL-2.0-or-later
"""sys/: the switch of jump optimization, and what kernel/ has."""

from __future__ import annotations

from kpfs.backends.guest.files.guest_file import GuestFile
from kpfs.backends.guest.files.proc import UTS_RELEASE, UTS_VERSION, uts_name
from kpfs.base.typed import TYPE_CHECKING
from kpfs.engine.arm import set_ftrace_enabled
from kpfs.engine.kstrtox import proc_dointvec_minmax
from kpfs.engine.optimizer import set_kprobes_optimization
from kpfs.fs.node import PROC_SYS
from kpfs.fs.seqfile import OnceHandle, Sysctl

if TYPE_CHECKING:
    from typing import ClassVar


class KprobesOptimization(GuestFile, Sysctl):
    """The switch that turns probes into jumps where possible.

    Kernel: proc_kprobes_optimization_handler()
    """

    def get(self) -> int:
        return int(self.kernel.state.kprobes_allow_optimization)

    def set(self, value: int) -> None:
        set_kprobes_optimization(self.kernel.state, bool(value))


class DocumentedOptimization(KprobesOptimization):
    """KprobesOptimization with the name and the values of the documentation."""

    VALUES: ClassVar = {b"y": 1, b"n": 0}

    def store(self, data: bytes) -> int:
        value = self.VALUES.get(data.strip().lower())
        if value is None:
            return super().store(data)
        self.set(value)
        return len(data)


class FtraceEnabled(GuestFile, Sysctl):
    """The switch for calls of tracers and probes at functions' entries.

    Kernel: ftrace_enable_sysctl()
    """

    low = -(1 << 31)
    high = (1 << 31) - 1

    def get(self) -> int:
        return self.kernel.state.ftrace_enabled

    def set(self, value: int) -> None:
        set_ftrace_enabled(self.kernel.state, value)


class Printk(GuestFile, Sysctl):
    """The levels of the console and of messages.  Kernel: proc_dointvec()"""

    low = -(1 << 31)
    high = (1 << 31) - 1

    def show(self) -> str:
        return "\t".join(map(str, self.kernel.guest.log.levels())) + "\n"

    def store(self, data: bytes) -> int:
        taken = 0
        for index in range(len(self.kernel.guest.log.levels())):
            if index and taken == len(data):
                break
            value, used = proc_dointvec_minmax(data[taken:], self.low, self.high)
            self.kernel.guest.log.set_level(index, value)
            taken += used
        return taken


class KptrRestrict(GuestFile, Sysctl):
    """The switch that hides addresses in files and of %pK.  Kernel: kptr_restrict"""

    high = 2

    def get(self) -> int:
        return self.kernel.guest.kptr_restrict

    def set(self, value: int) -> None:
        self.kernel.guest.kptr_restrict = value


class Osrelease(GuestFile):
    """The release that uname() gives.  Kernel: proc_do_uts_string()"""

    fs = PROC_SYS
    field = UTS_RELEASE
    handle_type = OnceHandle
    splices_from = splices_into = True

    def show(self) -> bytes:
        return uts_name(self.kernel, self.field) + b"\n"


class Osversion(Osrelease):
    """The version that uname() gives."""

    field = UTS_VERSION
