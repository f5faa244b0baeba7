# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse errors: their texts, the log that keeps the last eight, and raising them.

All functions are for control context.
"""

from __future__ import annotations

import enum
import errno
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from kpfs.base.errors import KernelError

TRACING_LOG_ERRS_MAX = 8
CMD_PREFIX = "  Command: "


class Err(enum.Enum):
    """The errors of a probe definition.  Kernel: ERRORS in trace_probe.h."""

    MAXACT_NO_KPROBE = "Maxactive is not for kprobe"
    BAD_MAXACT = "Invalid maxactive number"
    MAXACT_TOO_BIG = "Maxactive is too big"
    BAD_PROBE_ADDR = "Invalid probed address or symbol"
    NON_UNIQ_SYMBOL = "The symbol is not unique"
    BAD_RETPROBE = "Retprobe address must be an function entry"
    BAD_ADDR_SUFFIX = "Invalid probed address suffix"
    NO_GROUP_NAME = "Group name is not specified"
    GROUP_TOO_LONG = "Group name is too long"
    BAD_GROUP_NAME = "Group name must follow the same rules as C identifiers"
    NO_EVENT_NAME = "Event name is not specified"
    EVENT_TOO_LONG = "Event name is too long"
    BAD_EVENT_NAME = "Event name must follow the same rules as C identifiers"
    EVENT_EXIST = "Given group/event name is already used by another event"
    RETVAL_ON_PROBE = "$retval is not available on probe"
    BAD_STACK_NUM = "Invalid stack number"
    BAD_ARG_NUM = "Invalid argument number"
    BAD_VAR = "Invalid $-variable specified"
    BAD_REG_NAME = "Invalid register name"
    BAD_MEM_ADDR = "Invalid memory address"
    BAD_IMM = "Invalid immediate value"
    IMMSTR_NO_CLOSE = "String is not closed with '\"'"
    FILE_ON_KPROBE = "File offset is not available with kprobe"
    TOO_MANY_OPS = "Dereference is too much nested"
    DEREF_NEED_BRACE = "Dereference needs a brace"
    BAD_DEREF_OFFS = "Invalid dereference offset"
    DEREF_OPEN_BRACE = "Dereference brace is not closed"
    COMM_CANT_DEREF = "$comm can not be dereferenced"
    BAD_FETCH_ARG = "Invalid fetch argument"
    ARRAY_NO_CLOSE = "Array is not closed"
    BAD_ARRAY_SUFFIX = "Array has wrong suffix"
    BAD_ARRAY_NUM = "Invalid array size"
    ARRAY_TOO_BIG = "Array number is too big"
    BAD_TYPE = "Unknown type is specified"
    BAD_STRING = "String accepts only memory argument"
    BAD_SYMSTRING = "Symbol String doesn't accept data/userdata"
    BAD_BITFIELD = "Invalid bitfield"
    ARG_NAME_TOO_LONG = "Argument name is too long"
    NO_ARG_NAME = "Argument name is not specified"
    BAD_ARG_NAME = "Argument name must follow the same rules as C identifiers"
    USED_ARG_NAME = "This argument name is already used"
    ARG_TOO_LONG = "Argument expression is too long"
    NO_ARG_BODY = "No argument expression"
    BAD_INSN_BNDRY = "Probe point is not an instruction boundary"
    FAIL_REG_PROBE = "Failed to register probe event"
    DIFF_PROBE_TYPE = "Probe type is different from existing probe"
    DIFF_ARG_TYPE = "Argument type or name is different from existing probe"
    SAME_PROBE = "There is already the exact same probe event"
    EVENT_TOO_BIG = "Event too big (too many fields?)"


class SynthErr(enum.Enum):
    """Errors of a synthetic event's definition.  Kernel: trace_events_synth.c"""

    BAD_NAME = "Illegal name"
    INVALID_CMD = "Command must be of the form: <name> field[;field] ..."
    INVALID_DYN_CMD = (
        "Command must be of the form: s or -:[synthetic/]<name> field[;field] ..."
    )
    EVENT_EXISTS = "Event already exists"
    TOO_MANY_FIELDS = "Too many fields"
    INCOMPLETE_TYPE = "Incomplete type"
    INVALID_TYPE = "Invalid type"
    INVALID_FIELD = "Invalid field"
    INVALID_ARRAY_SPEC = "Invalid array specification"


class ErrorEntry(NamedTuple):
    """One error.  Kernel: struct tracing_log_err."""

    ts: int  # ns since boot
    loc: str
    text: str
    command: str
    pos: int  # column of the caret within the command

    def show(self) -> str:
        """Three lines of error_log; newlines in the text or the command are kept."""
        secs, ns = divmod(self.ts, 1_000_000_000)
        return (
            f"[{secs:5d}.{ns // 1000:06d}] {self.loc}: error: {self.text}\n"
            f"{CMD_PREFIX}{self.command}\n"
            f"{' ' * (len(CMD_PREFIX) + self.pos)}^\n"
        )


class ErrorLog:
    """The last eight errors.  Kernel: trace_array.err_log."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._entries: deque[ErrorEntry] = deque(maxlen=TRACING_LOG_ERRS_MAX)

    def record(self, loc: str, text: str, command: str, pos: int) -> None:
        """Kernel: tracing_log_err()."""
        entry = ErrorEntry(self._clock(), loc, text, command, pos & 0xFFFF)
        self._entries.append(entry)

    def clear(self) -> None:
        self._entries.clear()

    def text(self) -> str:
        return "".join(entry.show() for entry in self._entries)


class TraceProbeLog:
    """Logs errors of one command with their places.  Kernel: trace_probe_log."""

    def __init__(self, log: ErrorLog, subsystem: str, argv: Sequence[str]) -> None:
        self._log = log
        self._subsystem = subsystem
        self._argv = argv
        self.index = 0  # the word from whose beginning offsets count

    def err(self, code: Err, offset: int) -> None:
        """Record an entry, its caret offset characters behind the start of word index.

        Kernel: __trace_probe_log_err().
        """
        command = " ".join(self._argv)
        if self.index >= len(self._argv):
            pos = len(command) + 1
        else:
            pos = offset + sum(len(word) + 1 for word in self._argv[: self.index])
        self._log.record(self._subsystem, code.value, command, pos)

    def fail(
        self, code: Err, offset: int, number: int = errno.EINVAL, why: str = ""
    ) -> NoReturn:
        """Record the entry, then raise KernelError(number)."""
        self.err(code, offset)
        raise KernelError(number, why or code.value)
