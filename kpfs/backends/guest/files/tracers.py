# SPDX-License-Identifier: GPL-2.0-or-later
"""tracing/: tracers, the functions and tasks that they trace, saved names of tasks."""

from __future__ import annotations

import errno
from contextlib import suppress

from kpfs.backends.guest.files.array_file import ArrayFile, CpuFile
from kpfs.backends.guest.files.buffers import BLANKS
from kpfs.backends.guest.files.guest_file import GuestFile, ShowsTasks
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.base.errors import KernelError
from kpfs.base.typed import TYPE_CHECKING
from kpfs.engine.kstrtox import kstrtoul_from_user
from kpfs.fs.node import Dir, truncates
from kpfs.fs.seqfile import SeqFile, SeqHandle, ValueFile

if TYPE_CHECKING:
    from kpfs.base.ktypes import KAddr
    from kpfs.engine.trace.func.func_probe import FunctionProbes
    from kpfs.engine.trace.pids import PidSet

TRACER_NAME_MAX = 100
FILTER_BUF_SIZE = 669  # Kernel: FTRACE_BUFF_MAX
ENDS = [bytes([byte]) for byte in BLANKS + b"\0"]  # bytes that end a word
ALL_ENABLED = "#### all functions enabled ####\n"
NONE_DISABLED = "#### no functions disabled ####\n"
NO_PID = "4194304\n"
CMDLINES_MAX = 32768
CMDLINES_DEFAULT = 128
CMDLINE_SIZE = 20  # a name and a pid


class CurrentTracer(ArrayFile, ValueFile):
    """The tracer.  Kernel: set_tracer_fops."""

    def show(self) -> str:
        return f"{self.tr.current_tracer}\n"

    def store(self, data: bytes) -> None:
        name = data[:TRACER_NAME_MAX].split(b"\0", 1)[0].strip(BLANKS)
        self.tr.set_tracer(name.decode("latin-1"))


class AvailableTracers(ArrayFile, SeqFile):
    """Kernel: show_traces_fops"""

    def show(self) -> str:
        return " ".join(self.tr.tracers) + "\n"


class AvailableFunctions(GuestFile, SeqFile):
    """Functions that can be traced.  Kernel: ftrace_avail_fops."""

    def show(self) -> str:
        return "".join(f.text() for f in self.kernel.trace.traced_functions.all())


class FilterHandle(SeqHandle):
    """An open set_ftrace_filter.  Kernel: struct ftrace_iterator"""

    file: FunctionFilter

    def __init__(self, file: FunctionFilter, flags: int, pid: int) -> None:
        super().__init__(file, flags, pid)
        self.changed = truncates(flags)
        self.chosen = set() if self.changed else set(file.get())
        self.begun = ""  # a word that the last write has not ended
        self.failed = False  # a word was too long: no further one has an effect

    def take(self, data: bytes, pos: int) -> int:
        """Take the first word; the bytes consumed.

        A word that no blank follows goes on with the next write, or ends with the file.
        Kernel: ftrace_regex_write()
        """
        from kpfs.engine.trace.words import trace_get_user

        if not data:
            return 0
        if not pos:
            self.begun = ""
        if self.begun and data[:1] in ENDS:
            word, used = "", 1
        else:
            try:
                word, used = trace_get_user(data, FILTER_BUF_SIZE - len(self.begun))
            except KernelError:
                self.failed = True
                raise
        word, self.begun = self.begun + word, ""
        if word and data[used - 1 : used] not in ENDS:
            self.begun = word
        elif word:
            self._choose(word)
        return used

    def _choose(self, word: str) -> None:
        from kpfs.engine.trace.func.function_tracer import FilterState

        if self.failed:
            return
        file, functions = self.file, self.file.kernel.trace.traced_functions
        FilterState(functions, self.chosen, file.mods(), file.probes()).take(word)
        self.changed = True

    def release(self) -> None:
        """Kernel: ftrace_regex_release()"""
        if self.begun:
            with suppress(KernelError):  # no caller is left to get an errno
                self._choose(self.begun)
        if self.changed:
            self.file.set(self.chosen)
        super().release()


class FunctionFilter(ArrayFile, SeqFile):
    """set_ftrace_filter.  What is written takes effect when the file is closed.

    Kernel: ftrace_filter_fops
    """

    handle_type = FilterHandle
    empty = ALL_ENABLED
    seq_for_writers = False
    tracing_lseek = True

    def get(self) -> set[KAddr]:
        return self.tr.function.filter

    def set(self, chosen: set[KAddr]) -> None:
        self.tr.function.filter = chosen
        self.tr.function.update()

    def mods(self) -> list[tuple[str, str]] | None:
        """Return the patterns for modules that are not loaded."""
        return self.tr.function.filter_mods

    def probes(self) -> FunctionProbes | None:
        """Return the commands at functions."""
        return self.tr.function.probes

    def show(self) -> str:
        """Kernel: t_show()"""
        functions, chosen = self.kernel.trace.traced_functions, self.get()
        mods, probes = self.mods() or [], self.probes()
        text = functions.text(chosen) if chosen or mods else self.empty
        text += "".join(f"{pattern}:mod:{module}\n" for pattern, module in mods)
        return text + (probes.text() if probes else "")

    def emptied(self) -> None:
        if mods := self.mods():
            mods.clear()


class FunctionNotrace(FunctionFilter):
    """set_ftrace_notrace.  Kernel: ftrace_notrace_fops"""

    empty = NONE_DISABLED

    def get(self) -> set[KAddr]:
        return self.tr.function.notrace

    def set(self, chosen: set[KAddr]) -> None:
        self.tr.function.notrace = chosen
        self.tr.function.update()

    def mods(self) -> list[tuple[str, str]] | None:
        return self.tr.function.notrace_mods

    def probes(self) -> FunctionProbes | None:
        return None


class StackTraceFilter(FunctionFilter):
    """stack_trace_filter: kept for the stack tracer, which is never on.

    Kernel: stack_trace_filter_fops
    """

    def __init__(self, kernel: GuestKernel) -> None:
        super().__init__(kernel)
        self.chosen: set[KAddr] = set()

    def get(self) -> set[KAddr]:
        return self.chosen

    def set(self, chosen: set[KAddr]) -> None:
        self.chosen = chosen

    def mods(self) -> list[tuple[str, str]] | None:
        return None

    def probes(self) -> FunctionProbes | None:
        return None


class FunctionProfileEnabled(GuestFile, ValueFile):
    """The switch that counts calls of functions.  Kernel: ftrace_profile_fops."""

    def show(self) -> str:
        return f"{int(self.kernel.trace.profile.enabled)}\n"

    def store(self, data: bytes) -> None:
        self.kernel.trace.profile.enable(bool(kstrtoul_from_user(data, 10)))


class TraceStat(CpuFile, SeqFile):
    """trace_stat/functionN: the counts of a CPU.  Kernel: function_stats."""

    cpu: int

    def show(self) -> str:
        return self.kernel.trace.profile.text(self.cpu)


class TraceStatDir(Dir):
    """trace_stat/, with a file for each CPU."""

    def __init__(self, kernel: GuestKernel) -> None:
        super().__init__()
        for cpu in range(kernel.guest.nr_cpus):
            self.add(f"function{cpu}", 0o440, TraceStat(kernel, cpu))


class PidFile(ShowsTasks, ArrayFile, SeqFile):
    """A list of tasks."""

    empty = ""

    def pids(self) -> PidSet:
        raise NotImplementedError

    def write(self, data: bytes | None) -> int:
        raise NotImplementedError

    def emptied(self) -> None:
        self.write(None)

    def show(self) -> str:
        return self.pids().text(self.empty)

    def store(self, data: bytes) -> int:
        return self.write(data)


class SetEventPid(PidFile):
    """The tasks whose events are recorded.  Kernel: ftrace_set_event_pid_fops."""

    def pids(self) -> PidSet:
        return self.tr.array_events.event_pids

    def write(self, data: bytes | None) -> int:
        return self.tr.array_events.set_event_pids(self.pids(), data)


class SetEventNotracePid(SetEventPid):
    """The tasks whose events are not.  Kernel: ftrace_set_event_notrace_pid_fops."""

    def pids(self) -> PidSet:
        return self.tr.array_events.event_no_pids


class SetFtracePid(PidFile):
    """The tasks whose functions are traced.  Kernel: ftrace_pid_fops."""

    empty = "no pid\n"
    tracing_lseek = True

    def show(self) -> str:
        """Return the pids; the first number that is none, 4194304, reads "no pid"."""
        lines = super().show().splitlines(keepends=True)
        return "".join(self.empty if line == NO_PID else line for line in lines)

    def pids(self) -> PidSet:
        return self.tr.function.pids

    def write(self, data: bytes | None) -> int:
        return self.tr.function.set_pids(self.pids(), data)


class SetFtraceNotracePid(SetFtracePid):
    """The tasks whose functions are not.  Kernel: ftrace_no_pid_fops."""

    def pids(self) -> PidSet:
        return self.tr.function.no_pids


class SavedCmdlines(GuestFile, SeqFile):
    """Names of tasks.  Kernel: tracing_saved_cmdlines_fops."""

    def show(self) -> str:
        names = self.kernel.trace.runtime.cmdlines()
        return "".join(f"{pid} {comm}\n" for pid, comm in names)


def cmdline_places(wanted: int) -> int:
    """Return how many names Linux has places for when it is asked for so many.

    Its table of pids stands before them, and all takes a power of two of pages.
    Kernel: allocate_cmdlines_buffer()
    """
    head, size = 20 + 4 * (CMDLINES_MAX + 1), 4096
    while size < head + CMDLINE_SIZE * wanted:
        size *= 2
    return (size - head) // CMDLINE_SIZE


class SavedCmdlinesSize(GuestFile, ValueFile):
    """The number of names that have a place: at least as many as asked for.

    Kernel: tracing_saved_cmdlines_size_fops
    """

    nonseekable = True
    places = cmdline_places(CMDLINES_DEFAULT)

    def show(self) -> str:
        return f"{self.places}\n"

    def store(self, data: bytes) -> None:
        size = kstrtoul_from_user(data, 10)
        if not 0 < size <= CMDLINES_MAX:
            raise KernelError(errno.EINVAL, f"{size} names")
        self.places = cmdline_places(size)
        self.kernel.trace.runtime.resize_cmdlines(self.places)


class PrintkFormats(GuestFile, SeqFile):
    """Formats of trace_printk(), which nothing in the guest calls.

    Kernel: ftrace_formats_fops
    """

    def show(self) -> str:
        return ""
