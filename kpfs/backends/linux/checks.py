# SPDX-License-Identifier: GPL-2.0-or-later
"""Look for errors of a Linux kernel's modules while a command runs inside.

The board looks (``linux/board/text.h``); here its findings become text, with functions,
lines, stacks and tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kpfs.backends.linux.module_files import ModuleFiles
from kpfs.base import abi
from kpfs.base.errors import MemoryFault
from kpfs.linux.errors import UnfitError
from kpfs.linux.search.locks import Locks, OrderRow
from kpfs.linux.search.objects import ObjectRow, Objects
from kpfs.linux.search.plan import LOOKERS
from kpfs.linux.search.texts import FindingRow, LookedText, Texts

if TYPE_CHECKING:
    from kpfs.coverage.collector import CoverableImage
    from kpfs.linux.running.kernel_on_board import KernelOnBoard

_OF_SEARCHES = abi.FOUND_RACE, abi.FOUND_CHANGED, abi.FOUND_FAULT
_DEEPEST = 8  # functions of a stack that are told
_CALL, _CALL_SIZE = 0xE8, 5
_MAX_CALL = 7  # bytes of an indirect call
_INDIRECT = 0xFF
_INDENT = "\n    "
_HEADER = ".h"
_HARD_IRQ = 0xFF0000  # in the count of preemption
_INTERRUPTS = ("an interrupt", "a soft interrupt")
_OUTERMOST = ("do_syscall_64+", "ret_from_fork+", "kthread+", "asm_")


class ModuleChecks:
    """The checks of one run.  Context: the kernel stands still."""

    def __init__(
        self, kernel: KernelOnBoard, kinds: Sequence[str], texts: Texts | None = None
    ) -> None:
        """kinds: of config.CHECKS.  Raises UnfitError, EmulatorError.

        texts: those that are looked at already, by lookers that others switch on.
        """
        if not kernel.structures["task_struct"].has("comm"):
            raise UnfitError("--check: this kernel does not tell of its types (BTF)")
        self._kernel = kernel
        self._files = ModuleFiles(kernel)
        self._files.follow()
        self._images: dict[int, CoverableImage] = {}  # by the numbers of texts
        is_ours = texts is None
        self._texts = texts = texts or Texts(kernel)
        texts.follow(self._begins, self._ends)
        self._objects = Objects(kernel, texts) if "memory" in kinds else None
        self._locks = Locks(kernel.machine.board, texts) if "lock" in kinds else None
        if "ibt" in kinds:
            texts.look_at_kernel()
        self._gone: set[int] = set()  # the numbers of texts that are no more
        if is_ours:
            texts.set(on=sum(LOOKERS[kind] for kind in kinds))

    def _begins(self, text: LookedText) -> None:
        if text.module is None:
            return
        self._images[text.number] = self._files.image(text.module)
        if self._objects is not None and text.start == text.module.text[0]:
            self._objects.begin_module(text.number, self._files.gaps(text.module))

    def _ends(self, text: LookedText) -> None:
        self._gone.add(text.number)
        if self._objects is not None:
            self._objects.end_module(text.number)
        if self._locks is not None and text.module is not None:
            if text.start == text.module.text[0]:
                self._locks.end_module(text.module)

    # ---- the report
    def report(self) -> list[str]:
        """Return a text for each finding, the first one first."""
        rows = self._texts.findings()
        told = [self._told(row) for row in rows if row.kind not in _OF_SEARCHES]
        if lost := self._texts.get(abi.Texts.findings_lost):
            told.append(f"{lost} more findings: only {abi.NR_FINDINGS} are kept")
        return [*told, *self._leaks()]

    def _told(self, row: FindingRow) -> str:
        lines = [self._headline(row)]
        times = f", {row.count} times" if row.count > 1 else ""
        task = _task(row.pid, row.comm)
        lines.append(f"by {task} on CPU {row.cpu}{times}{self._stack(row.stack)}")
        if self._objects is not None and row.object:
            lines += self._of_object(self._objects.row(row.object - 1), row)
        if self._locks is not None and row.kind == abi.FOUND_LOCK_ORDER:
            lines += self._of_circle(self._locks.circle(row))
        return _INDENT.join(lines)

    def _headline(self, row: FindingRow) -> str:
        place = self.place(row.at)
        size = f"{row.b} byte{'s' * (row.b != 1)}"
        access = f"{'write' if row.c else 'read'} of {size}"
        told = {
            abi.FOUND_OUT_OF_BOUNDS: f"memory: {access} out of bounds at {place}",
            abi.FOUND_USE_AFTER_FREE: f"memory: {access} after free at {place}",
            abi.FOUND_DOUBLE_FREE: f"memory: double free at {self.call(row.at)}",
            abi.FOUND_INVALID_FREE: (
                f"memory: free of what is no object at {self.call(row.at)}"
            ),
            abi.FOUND_STACK: (
                f"memory: {access} beyond an array on the stack at {place}"
            ),
            abi.FOUND_GLOBAL: f"memory: {access} beside a variable at {place}",
        }
        if row.kind in told:
            return told[row.kind]
        if row.kind == abi.FOUND_LOCK_ORDER:
            return f"lock: {row.a} locks are taken in a circle at {place}"
        if row.kind == abi.FOUND_LOCK_IN_IRQ:
            what, other = _INTERRUPTS[row.a], self.place(row.other)
            return (
                f"lock: taken in {what} at {place}, and while one may come at {other}"
            )
        if row.kind == abi.FOUND_SLEEP:
            name = self._texts.function_name(row.a)
            return f"lock: {name} may sleep at {place}, {self._why_atomic(row)}"
        target = self.place(row.a)
        return f"ibt: a branch at {place} leads to {target}, which is no endbr64"

    def _why_atomic(self, row: FindingRow) -> str:
        if row.c:
            return f"under the spinlock taken at {self.place(row.c)}"
        if row.b & _HARD_IRQ:
            return "in an interrupt"
        return "with preemption off" if row.b else "with interrupts off"

    def _of_circle(self, orders: Sequence[OrderRow]) -> Iterator[str]:
        for order in orders:
            task, stack = _task(order.pid, order.comm), self._stack(order.stack)
            held, wanted = self.place(order.held_at), self.place(order.wanted_at)
            yield (
                f"{task} has lock {order.held:#x}, taken at {held},"
                f" and takes {order.wanted:#x} at {wanted}{stack}"
            )

    def _of_object(self, found: ObjectRow, row: FindingRow) -> Iterator[str]:
        distance = row.a - found.addr
        if distance < 0:
            where = f"{-distance} before"
        elif distance >= found.size:
            where = f"{distance - found.size} behind"
        else:
            where = f"byte {distance} of"
        yield f"{where} an object of {found.size} bytes"
        yield f"allocated by {self._maker(found)}"
        if found.freed_at:
            task = _task(found.freed_pid, found.freed_comm)
            stack = self._stack(found.freed_stack)
            yield f"freed by {task} at {self.call(found.freed_at)}{stack}"

    def _maker(self, found: ObjectRow) -> str:
        name = self._texts.function_name(found.function)
        task, stack = _task(found.pid, found.comm), self._stack(found.stack)
        return f"{task} with {name} at {self.place(found.at)}{stack}"

    def _leaks(self) -> Iterator[str]:
        if self._objects is None:
            return
        by_place: dict[int, list[ObjectRow]] = {}
        for number in sorted(self._gone):
            for found in self._objects.of_owner(number):
                by_place.setdefault(found.at, []).append(found)
        for rows in by_place.values():
            first, more = rows[0], len(rows) - 1
            others = f", and {more} more of the same place" if more else ""
            yield (
                f"memory: leak of {first.size} bytes at {self.place(first.at)}{others}"
                f"{_INDENT}allocated by {self._maker(first)}"
            )

    # ---- names
    def place(self, address: int) -> str:
        """Return function, offset, module and line of an instruction."""
        text = self._texts.text_at(address)
        place = self._texts.place(address) or f"{address:#x}"
        image = self._images.get(text.number) if text is not None else None
        if text is None or image is None:
            return place
        begin = address - text.symbol(address)[1]
        before = [s for s in image.spans if begin <= s.start <= address]
        # an inline function's line says less than the line of its caller
        own = [s for s in before if not s.file.endswith(_HEADER)] or before
        return f"{place} ({own[-1].file}:{own[-1].line})" if own else place

    def call(self, back: int) -> str:
        """Return place() of the call that returns to an address."""
        return self.place(back - 1)

    def _stack(self, words: Sequence[int]) -> str:
        """Return the functions that a stack's words return to, innermost first."""
        names = [
            self._texts.place(word)
            for word in words
            if word and self._is_behind_call(word)
        ]
        found = list(dict.fromkeys(filter(None, names)))[:_DEEPEST]
        for number, name in enumerate(found):
            if name.startswith(_OUTERMOST):  # what follows is left of earlier calls
                found = found[: number + 1]
                break
        return f", in {', '.join(found)}" if found else ""

    def _is_behind_call(self, address: int) -> bool:
        try:
            code = self._kernel.memory.read(address - _MAX_CALL, _MAX_CALL)
        except MemoryFault:
            return self._texts.text_at(address) is not None  # it is gone
        return code[-_CALL_SIZE] == _CALL or any(
            code[at] == _INDIRECT and code[at + 1] >> 3 & 7 == 2
            for at in range(_MAX_CALL - 1)
        )


def _task(pid: int, comm: Any) -> str:
    name = bytes(comm).split(b"\0")[0].decode("latin-1")
    return f"task {pid} ({name})"
