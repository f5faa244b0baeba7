# SPDX-License-Identifier: GPL-2.0-or-later
"""The configuration of the guest kernel: the table of ``--config NAME=VALUE``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kpfs.base.typed import NamedTuple

_VALUES = {"y": True, "n": False}
_FUNCTION_TRACER = (
    "tracing/available_filter_functions", "tracing/stack_trace_filter",
    "tracing/set_ftrace_filter", "tracing/set_ftrace_notrace",
    "tracing/set_ftrace_pid", "tracing/set_ftrace_notrace_pid",
    "tracing/function_profile_enabled", "tracing/trace_stat",
    "tracing/options/function-trace", "tracing/options/function-fork",
    "tracing/options/func_stack_trace", "sys/kernel/ftrace_enabled",
)  # fmt: skip


class ConfigOption(NamedTuple):
    """A row of the table."""

    name: str
    meaning: str
    default: bool = True
    absent: tuple[str, ...] = ()  # files of the mount that are missing with n


OPTIONS = (
    ConfigOption(
        "OPTPROBES",
        "probes become jumps where they can",
        absent=("sys/debug/kprobes-optimization", "sys/debug/kprobes_optimization"),
    ),
    # on x86 this and DYNAMIC_FTRACE are on or off together
    ConfigOption(
        "KPROBES_ON_FTRACE",
        "functions begin with an ftrace site, which probes there use",
        absent=_FUNCTION_TRACER,
    ),
    # dynamic_events stays: there are synthetic events
    ConfigOption(
        "KPROBE_EVENTS",
        "probes can be defined by files",
        absent=("tracing/kprobe_events", "tracing/kprobe_profile"),
    ),
    ConfigOption("PREEMPT", "a task can lose its CPU within the kernel"),
    ConfigOption("KALLSYMS_ALL", "kallsyms has data beside functions"),
    ConfigOption("MODULES", "modules can be loaded", absent=("modules",)),
    ConfigOption("MODULE_UNLOAD", "modules can be unloaded"),
    ConfigOption("DEBUG_INFO", "machine/vmlinux has debug information"),
    # Documentation/trace/kprobes.rst has it in an example; no Linux 6.1 does
    ConfigOption(
        "DOCUMENTED_SYSCTL",
        "debug.kprobes_optimization is there too, and takes y and n",
        default=False,
        absent=("sys/debug/kprobes_optimization",),
    ),
    # Documentation/kprobes.txt of 2006 to 2012 probes them in its examples
    ConfigOption(
        "LEGACY_SYMBOLS",
        "tasks are made by do_fork() and files opened by sys_open(), as in 2.6",
        default=False,
        absent=("messages",),
    ),
)
_BY_NAME = {option.name: option for option in OPTIONS}


class Config(NamedTuple):
    """The values of the options: the given ones, else the defaults."""

    changed: tuple[tuple[str, bool], ...] = ()

    def on(self, name: str) -> bool:
        """Return True if the option is y."""
        return dict(self.changed).get(name, _BY_NAME[name].default)

    def absent(self) -> frozenset[str]:
        """Return the paths below the mount that are missing."""
        return frozenset(
            path for o in OPTIONS if not self.on(o.name) for path in o.absent
        )


def parse_one(text: str) -> tuple[str, bool]:
    """Parse NAME=y or NAME=n. Raises ValueError with one line for the user."""
    name, _, value = text.partition("=")
    if name not in _BY_NAME:
        raise ValueError(f"no option {name!r}; there are {', '.join(_BY_NAME)}")
    if value not in _VALUES:
        raise ValueError(f"{name} is y or n, not {value!r}")
    return name, _VALUES[value]


def make(words: Iterable[tuple[str, bool]]) -> Config:
    """Make a Config. Of several values of one option the last counts."""
    return Config(tuple(dict(words).items()))


def help_text() -> str:
    """Return the table for the help of commands."""
    return "\n".join(
        f"  {o.name + ('=y' if o.default else '=n'):<20}{o.meaning}" for o in OPTIONS
    )


TRANSPORTS = DEVICE, LIBFUSE = ("device", "libfuse")  # ways of the mount's requests

COVERAGES = OF_MODULES, OF_KERNEL = ("modules", "kernel")  # the latter has both


class Settings(NamedTuple):
    """The choices of the command line about the kernel and the daemon."""

    cpus: int = 2
    quiet_guest: bool = False
    verbose: bool = False
    log: str = ""  # "": the default
    mirror: bool = False  # a supervisor awaits the listener of a command
    lazy: bool = False  # only calls that could be noticed there are made
    host_uname: bool = False  # the command is told the host's release and version
    config: Config = Config()
    debugfs: str = ""  # a folder that shows by links what lies in debug/ of the tree
    kernel: str = ""  # name of a Linux kernel, "": the guest kernel
    console: int = -1  # a descriptor that gets the guest's messages
    hints: int = -1  # a descriptor that gets what the guest lacks: kpfs.host.hints
    transport: str = DEVICE
    coverage: str = ""  # one of COVERAGES: machine/coverage says what was reached
    gdb: str = ""  # the folder of the sockets for gdb, "": gdb is not served
    gdb_at: str = ""  # another address for gdb, "": none
    workload: bool = True  # programs run in the guest kernel's background
    gdb_wait: bool = False  # the command's calls wait until gdb lets them be made


class GdbChoice(NamedTuple):
    """How gdb may attach to a kernel."""

    folder: str  # folder of the sockets
    at: str = ""  # another address, "": none
    wait: bool = False  # nothing runs before gdb has let it


class CoverageChoice(NamedTuple):
    """The choice of what coverage counts, and of the file that it is written to."""

    of: str  # one of COVERAGES
    write: Callable[[bytes], None]  # raises SetupError


class CheckChoice(NamedTuple):
    """The choice of what errors are looked for, and in which text."""

    kinds: Sequence[str]  # some of kinds.RUN_CHECKS
    of: Sequence[str] = ()  # names of text; empty: all modules and BPF programs


class KernelChoice(NamedTuple):
    """Two kernels that were chosen alike can take each other's place."""

    kernel: str
    quiet: bool
    root: str = "/"  # absolute real path of the files that it has
