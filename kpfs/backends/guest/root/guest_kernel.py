# SPDX-License-Identifier: GPL-2.0-or-later
"""One kernel: the guest, the engine on it, and the lock that both are used under.

What is not needed to answer the first request is built when it is first asked for.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from functools import partial

from kpfs.backends.guest.root.background import Background
from kpfs.backends.guest.root.debugfs import DebugFs, shown_nowhere
from kpfs.backends.guest.root.host_calls import HostCalls
from kpfs.backends.guest.root.module_support import ModuleSupport, PartsBuilt
from kpfs.backends.guest.root.watched import GuestWatch
from kpfs.base.errors import KernelError
from kpfs.base.lock import FairLock
from kpfs.base.skip_policy import SkipPolicy
from kpfs.base.typed import TYPE_CHECKING, Generic, TypeVar, cast
from kpfs.config import Config
from kpfs.guest.machine import Configuration, Guest

if TYPE_CHECKING:
    from kpfs.backends.guest.root.event_dirs import EventDirs
    from kpfs.engine.arch.arches import GuestArch, MakeArch
    from kpfs.engine.state import State
    from kpfs.engine.trace.array.dynevent import DynEvents
    from kpfs.engine.trace.array.trace_state import TraceState
    from kpfs.engine.trace.probe.trace_kprobe import TraceKprobeOps
    from kpfs.engine.trace.synth.trace_events_synth import TraceSynthOps
    from kpfs.guest.running.klog import KernelLog, LogRecord

DEFAULTS = Config()
MakeConsole = Callable[["KernelLog"], "Callable[[Sequence[LogRecord]], None] | None"]
T = TypeVar("T")


def _configuration(config: Config) -> Configuration:
    """Return the part of the configuration that concerns the guest."""
    return Configuration(
        dynamic_ftrace=config.on("KPROBES_ON_FTRACE"),
        preemption=config.on("PREEMPT"),
        kallsyms_all=config.on("KALLSYMS_ALL"),
        modules=config.on("MODULES"),
        module_unload=config.on("MODULE_UNLOAD"),
        legacy_symbols=config.on("LEGACY_SYMBOLS"),
    )


def _no_mount_table(_pid: int) -> bytes:
    raise KernelError(errno.ENOENT, "there is no mount")


def _no_reboot() -> None:
    raise KernelError(errno.ENOTSUP, "nobody can reboot it")


class part(Generic[T]):  # noqa: N801 (a decorator, as property is)
    """A part of the kernel, built when it is first asked for (the lock may be held).

    It then stands in the kernel's dictionary, where an attribute is looked for first.
    """

    def __init__(self, build: Callable[[GuestKernel], T]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    def __get__(self, kernel: GuestKernel, _owner: type[GuestKernel]) -> T:
        name, built = self._build.__name__, vars(kernel)
        with kernel.lock:
            if name not in built:
                built[name] = self._build(kernel)
            return cast(T, built[name])


def _makers(arch: str) -> tuple[MakeArch, type[State]]:
    """Import and return the makers of the engine; that takes as long as a boot."""
    from kpfs.engine.arch.arches import ARCHES
    from kpfs.engine.state import State

    return ARCHES[arch](), State


class GuestKernel:
    """The composition root.  ``lock`` is held for whatever touches what is below."""

    def __init__(
        self,
        *,
        nr_cpus: int = 2,
        quiet: bool = False,
        workload: bool = True,
        config: Config = DEFAULTS,
        mount_table: Callable[[int], bytes] = _no_mount_table,
        show_debugfs: Callable[[str, bool], None] = shown_nowhere,
        console: MakeConsole = lambda _log: None,
        reboot: Callable[[], None] = _no_reboot,
        lock: FairLock | None = None,
    ) -> None:
        """quiet: a virtual clock and no workload, so that runs repeat.

        workload: programs run in the background, as in any kernel that is in use.
        mount_table: what /proc/PID/mounts of a process of the host is to show.
        show_debugfs: told of what comes to the root of debugfs and leaves it.
        console: returns what shows new records of the guest's log.
        reboot: puts a fresh kernel, with this one's lock, in its place.
        """
        self.mount_table = mount_table
        self.reboot = reboot
        self._console = console
        self.lock = lock or FairLock()
        self.config = config
        self.guest = Guest(
            nr_cpus,
            quiet=quiet,
            workload=workload,
            configuration=_configuration(config),
        )
        self.debugfs = DebugFs(self.guest, show_debugfs)
        ModuleSupport(self.guest, self)
        self._let_in()

    def _let_in(self) -> None:
        """Make the parts by which the host uses the guest."""
        show = self._console(self.guest.log)
        self.background = Background(self.guest, self.lock, show)
        self.guest.sched.share(self._step_aside, self.background.wake_all)
        self.syscalls = HostCalls(self.guest, self.background, self.lock)
        self.watch = GuestWatch(self.guest, partial(vars(self).get, "arch"))
        self.skip_policy = SkipPolicy(self.watch, self.lock)

    def _step_aside(self, seconds: float) -> None:
        """Let other threads run the guest while a request takes long.

        seconds: sleep so long without the lock.
        """
        self.background.guest_ran()
        self.lock.step_aside(seconds)

    @part
    def arch(self) -> GuestArch:
        """Make the architecture's side of the engine."""
        return _makers(self.guest.arch)[0](self.guest)

    @part
    def state(self) -> State:
        """Make the kprobes core."""
        return _makers(self.guest.arch)[1](
            self.guest,
            self.arch,
            optprobes=self.config.on("OPTPROBES"),
            kprobes_on_ftrace=self.config.on("KPROBES_ON_FTRACE"),
            preemption=self.config.on("PREEMPT"),
        )

    @part
    def trace(self) -> TraceState:
        """Make the trace of the kernel, which the files of tracefs show."""
        from kpfs.engine.trace.array.trace_state import TraceState

        return TraceState(self.state, self.arch.runtime, self.event_dirs)

    @part
    def kprobe_events(self) -> TraceKprobeOps:
        """Make the kprobe events among the dynamic events."""
        from kpfs.engine.trace.probe.trace_kprobe import TraceKprobeOps

        return TraceKprobeOps(self.trace)

    @part
    def synthetic_events(self) -> TraceSynthOps:
        """Make the synthetic events among the dynamic events."""
        from kpfs.engine.trace.synth.trace_events_synth import TraceSynthOps

        return TraceSynthOps(self.trace)

    @part
    def dynamic_events(self) -> DynEvents:
        """Make the dynamic events of all kinds that are configured."""
        if self.config.on("KPROBE_EVENTS"):
            _ = self.kprobe_events
        _ = self.synthetic_events
        return self.trace.dyn_events

    @part
    def event_dirs(self) -> EventDirs:
        """Make the directories of events that the guest knows."""
        from kpfs.backends.guest.root.event_dirs import EventDirs

        return EventDirs(self.guest)

    def parts_built(self) -> PartsBuilt:
        """Return the parts that somebody has asked for."""
        built = vars(self)
        return PartsBuilt(**{name: built.get(name) for name in PartsBuilt._fields})

    def preload(self) -> None:
        """Import what most of the first requests need.  Context: any."""
        _makers(self.guest.arch)

    def stats(self) -> dict[str, int]:
        """Return counters of the machine."""
        return {**self.syscalls.stats(), **self.guest.stats()}

    def stop(self) -> None:
        """End the guest; nothing of this kernel may be used afterwards."""
        self.background.stop()
        with self.lock:
            self.retire()

    def retire(self, *, in_use: bool = False) -> None:
        """End the guest at once; its open files answer ESHUTDOWN.

        in_use: as of Guest.close().  Context: control, lock held.
        """
        self._shut_out()
        self.guest.close(in_use=in_use)

    def change(self, action: Callable[[], None]) -> None:
        """Do what makes the guest another one; to the host that is a reboot.

        Context: control, lock held.
        """
        self._shut_out()
        action()
        self._let_in()
        self.debugfs.show()

    def _shut_out(self) -> None:
        """Have all that the host holds of the guest answer ESHUTDOWN."""
        self.background.retire()
        self.debugfs.hide()
        self.syscalls.close()
