# SPDX-License-Identifier: GPL-2.0-or-later
"""tracing/: trace_options, options/, trace_marker."""

from __future__ import annotations

import errno

from kpfs.backends.guest.files.array_file import ArrayFile
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.base.errors import KernelError
from kpfs.engine.kstrtox import kstrtoul_from_user
from kpfs.fs.node import Dir
from kpfs.fs.seqfile import SeqFile, ValueFile


class TraceOptions(ArrayFile, SeqFile):
    """All options, one a line.  Kernel: tracing_iter_fops."""

    def show(self) -> str:
        return self.tr.options.text(self.tr.current_tracer)

    def store(self, data: bytes) -> None:
        self.tr.options.store(data, self.tr.current_tracer)


class OptionFile(ArrayFile, ValueFile):
    """options/NAME.  Kernel: trace_options_core_fops."""

    def __init__(self, kernel: GuestKernel, name: str) -> None:
        super().__init__(kernel)
        self.name = name

    def show(self) -> str:
        return f"{int(self.tr.options[self.name])}\n"

    def store(self, data: bytes) -> None:
        value = kstrtoul_from_user(data, 10)
        if value > 1:
            raise KernelError(errno.EINVAL, f"{value} is neither 0 nor 1")
        self.tr.options.set(self.name, bool(value))


class OptionsDir(Dir):
    """options/, with those of all tracers."""

    def __init__(self, kernel: GuestKernel) -> None:
        from kpfs.engine.trace.trace_options import OPTIONS

        super().__init__()
        for option in OPTIONS:
            self.add(option.name, 0o640, OptionFile(kernel, option.name))


class TraceMarker(ArrayFile):
    """A file each write to which makes a record.  Kernel: tracing_mark_fops."""

    nonseekable = True

    def store(self, data: bytes) -> int:
        from kpfs.engine.trace.array.marker import write_marker

        return write_marker(self.tr, data)


class TraceMarkerRaw(ArrayFile):
    """A TraceMarker for a number and bytes.  Kernel: tracing_mark_raw_fops."""

    nonseekable = True

    def store(self, data: bytes) -> int:
        from kpfs.engine.trace.array.marker import write_raw_marker

        return write_raw_marker(self.tr, data)
