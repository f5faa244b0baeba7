# SPDX-License-Identifier: GPL-2.0-or-later
"""The interface of trace events for guest modules: files of events, synthetic events.

trace_get_event_file() and the like are C in the guest (src/kernel/trace_dynevent.c).
They pass addresses, and their arguments are read from guest memory.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable

from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.engine.trace.array.trace_array import TraceArray
from kpfs.engine.trace.array.trace_state import TraceState
from kpfs.engine.trace.event.event_file import EventFile
from kpfs.engine.trace.synth.synth_field import field_size
from kpfs.engine.trace.synth.trace_events_synth import TraceSynthOps

_WORDS = struct.Struct("<3Q")
_NAME_MAX = 4096


class SynthApi:
    """Serves the calls of guest modules.  Context: control."""

    def __init__(self, ops: Callable[[], tuple[TraceState, TraceSynthOps]]) -> None:
        """ops: gives the objects to work on, which are made when first needed."""
        self._get_ops = ops
        # the files that guest code holds, by their address
        self._files: dict[int, EventFile] = {}
        self._calls: dict[int, Callable[[int, int], int]] = {
            abi.CTL_TRACE_GET_FILE: self._get_event_file,
            abi.CTL_TRACE_PUT_FILE: self._put_event_file,
            abi.CTL_TRACE_SET_CLR: self._set_clr_event,
            abi.CTL_SYNTH_COMMAND: self._command,
            abi.CTL_SYNTH_DELETE: self._delete,
            abi.CTL_SYNTH_SIZE: lambda at, _: field_size(self._text(at)),
        }

    def serve(self, number: int, first: int, second: int) -> int:
        """Serve one call of the guest; raises the error that the guest gets."""
        return self._calls[number](first, second)

    @property
    def _ts(self) -> TraceState:
        return self._get_ops()[0]

    def _words(self, at: int) -> tuple[int, int, int]:
        first, second, third = _WORDS.unpack(self._ts.st.machine.read(at, _WORDS.size))
        return first, second, third

    def _text(self, at: int) -> str:
        return self._ts.st.machine.read_cstring(at, _NAME_MAX).decode("latin-1")

    # ---- files

    def _get_event_file(self, at: int, _: int) -> int:
        """Return an event's struct kp_file; ENOENT: no such instance, EINVAL: no event.

        Kernel: trace_get_event_file()
        """
        ts, (instance, system, name) = self._ts, self._words(at)
        array: TraceArray | None = ts
        if instance:
            array = ts.instances.get(self._text(instance))
        if array is None:
            raise KernelError(errno.ENOENT, "no such instance")
        file = array.find_event_file(self._text(system), self._text(name))
        if file is None:
            raise KernelError(errno.EINVAL, "no such event")
        file.event.hold(True)
        array.ref += 1
        guest = file.guest_file()
        symbols = ts.runtime.symbols
        guest.begin, guest.commit = symbols["kp_file_begin"], symbols["kp_file_event"]
        file.write_description()
        self._files[guest.addr] = file
        return guest.addr

    def _put_event_file(self, at: int, _: int) -> int:
        """Release a file; EINVAL: it is not held.  Kernel: trace_put_event_file()"""
        file = self._files.get(at)
        if file is None or not file.event.refcnt:
            raise KernelError(errno.EINVAL, f"{at:#x} is not held")
        file.event.hold(False)
        file.array.ref -= 1
        return 0

    def _set_clr_event(self, at: int, _: int) -> int:
        """Switch events; EINVAL: none such.  Kernel: trace_array_set_clr_event()"""
        ts = self._ts
        raw = ts.st.machine.read(at, abi.KpfsSetClr.SIZE)
        address, system, name, enable = abi.KpfsSetClr.STRUCT.unpack(raw)
        for array in ts.arrays():
            if array.guest.addr == address:
                break
        else:
            raise KernelError(errno.ENOENT, "no such trace array")
        array.array_events.set_clr_event(
            self._text(system) if system else None,
            self._text(name) if name else None,
            bool(enable),
        )
        return 0

    # ---- synthetic events

    def _command(self, at: int, _: int) -> int:
        """Make a synthetic event.  Kernel: synth_event_run_command()"""
        _ts, ops = self._get_ops()
        command, name, module = self._words(at)
        ops.own_command(self._text(command))
        event = ops.find(self._text(name))
        if event is None:
            raise KernelError(errno.ENOENT, "the command has made another event")
        event.event.module = module
        return 0

    def _delete(self, at: int, _: int) -> int:
        self._get_ops()[1].delete(self._text(at))
        return 0
