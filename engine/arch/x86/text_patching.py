# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes all writes to guest text, and knows what stood there before.

Checks, listings and the copies in slots want the text without patches, and thousands of
probes are switched at a time.  To look for a patch at each byte that is read would cost
more than the read, and each write makes the emulator drop the code translated of it.
So each page has a mask of its patched bytes, by which one operation on large integers
undoes them all; and in a batch (``with patcher``) writes are gathered, made a page at a
time, and above DROP_ALL all translated code is dropped at once.

Invariants: The mask is ff at the bytes of patches alone, and ``old`` is 0 elsewhere.
Within a batch the guest does not run.  Text is read by original(), which first writes
what is put off.
"""

from __future__ import annotations

from collections.abc import Iterator

from kpfs.engine.machine import Memory, TextWriter

# with more addresses than this, dropping all translated code is cheaper
DROP_ALL = 20
_SHIFT = 12
_PAGE = 1 << _SHIFT
_IN_PAGE = _PAGE - 1
_ZEROS = [bytes(size) for size in range(17)]
_ONES = [b"\xff" * size for size in range(17)]


class _Page:
    """The patches that begin in one page of text; the last may reach into the next."""

    __slots__ = ("mask", "old", "patches", "pending", "start")

    def __init__(self, start: int) -> None:
        room = _PAGE + 16
        self.start = start
        # writes due at the end of a batch: (offset, bytes)
        self.pending: list[tuple[int, bytes]] = []
        self.patches: dict[int, bytes] = {}  # address -> the original bytes
        self.mask = bytearray(room)  # ff where a byte is patched
        self.old = bytearray(room)  # the original of such bytes, else 0

    def take(self, addr: int) -> bytes | None:
        """Drop the patch that begins at addr, if there is one; return the original."""
        original = self.patches.pop(addr, None)
        if original is not None:
            at, size = addr & _IN_PAGE, len(original)
            if size == 1:  # most are: a breakpoint's
                self.mask[at] = self.old[at] = 0
            else:
                self.mask[at : at + size] = self.old[at : at + size] = _ZEROS[size]
        return original


class TextPatcher:
    """Patches text and drops the code translated of it, in batches if asked to.

    Context: control.  Kernel: text_poke(), text_poke_bp()
    """

    def __init__(self, memory: Memory, writer: TextWriter) -> None:
        self._memory = memory
        self._writer = writer
        # writes memory of the engine's own of which no code is, as a new slot
        self.fill = self._poke_text = writer.poke_text
        self._depth = 0
        self._stale: list[tuple[int, int]] = []
        self._all_stale = False
        self._pending: list[_Page] = []  # those with anything to be written
        self._pages: dict[int, _Page] = {}
        self.changes = 0  # counts changes to the patches of the kernel's text

    def __enter__(self) -> TextPatcher:
        """Put off patching and dropping translated code until the end; it nests."""
        self._depth += 1
        return self

    def __exit__(self, *_exc: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._write_pending()
            self._drop()

    def poke(self, addr: int, data: bytes) -> None:
        """Write memory of the engine's own that may have run before."""
        self._poke_text(addr, data)
        if self._depth:
            self._stale.append((addr, len(data)))
        else:
            self._writer.drop(addr, len(data))

    def _put(self, page: _Page, at: int, data: bytes) -> None:
        """Write the kernel's text, in a batch later and a page at a time."""
        if not self._depth or at + len(data) > _PAGE:
            self.poke(page.start + at, data)
            return
        if not page.pending:
            self._pending.append(page)
        page.pending.append((at, data))

    def _write_pending(self) -> None:
        pages, self._pending = self._pending, []
        for page in pages:
            start, pending = page.start, page.pending
            page.pending = []
            text = bytearray(self._memory.read(start, _PAGE))
            for at, data in pending:
                text[at : at + len(data)] = data
            self._poke_text(start, bytes(text))
            if len(pending) > DROP_ALL:
                self._all_stale = True
            else:
                self._stale += [(start + at, len(data)) for at, data in pending]

    def _drop(self) -> None:
        stale, self._stale = self._stale, []
        if self._all_stale or len(stale) > DROP_ALL:
            self._all_stale = False
            self._writer.drop_all()
            return
        for addr, size in stale:
            self._writer.drop(addr, size)

    # ---- the kernel's text
    def patch(self, addr: int, data: bytes, original: bytes) -> None:
        """Write data over text whose bytes without any patch are ``original``.

        A patch that begins at the same address is replaced; with ``original`` longer
        than data, the bytes behind data are put back.
        """
        page = self._pages.get(addr >> _SHIFT)
        if page is None:
            page = self._pages[addr >> _SHIFT] = _Page(addr & ~_IN_PAGE)
        at, size = addr & _IN_PAGE, len(data)
        self.changes += 1
        if addr in page.patches:
            page.take(addr)
        if size == 1:
            page.patches[addr] = original[:1]
            page.old[at] = original[0]
            page.mask[at] = 0xFF
        else:
            page.patches[addr] = page.old[at : at + size] = original[:size]
            page.mask[at : at + size] = _ONES[size]
        self._put(page, at, data if len(original) == size else data + original[size:])

    def unpatch(self, addr: int) -> None:
        """Put the original bytes back, if there is a patch at addr."""
        page = self._pages.get(addr >> _SHIFT)
        original = page.take(addr) if page is not None else None
        if page is not None and original:
            self.changes += 1
            self._put(page, addr & _IN_PAGE, original)

    def forget(self, addr: int) -> None:
        """Drop the record of a patch, whose text may be gone."""
        page = self._pages.get(addr >> _SHIFT)
        if page is not None and page.take(addr):
            self.changes += 1

    def addresses(self) -> Iterator[int]:
        """Return the addresses where patches begin."""
        for page in self._pages.values():
            yield from page.patches

    def patched(self, addr: int) -> bool:
        """Return True if a patch begins at addr."""
        page = self._pages.get(addr >> _SHIFT)
        return page is not None and addr in page.patches

    def original(self, addr: int, size: int) -> bytes:
        """Return text without the patches.

        Raises MemoryFault where there is none. Kernel: recover_probed_instruction()
        """
        if self._pending:
            self._write_pending()
        text = self._memory.read(addr, size)
        # a patch of the page before may reach into the first one
        for number in range(addr - 16 >> _SHIFT, (addr + size - 1 >> _SHIFT) + 1):
            page = self._pages.get(number)
            if page is not None and page.patches:
                text = self._undo(text, addr, page, number << _SHIFT)
        return text

    @staticmethod
    def _undo(text: bytes, addr: int, page: _Page, start: int) -> bytes:
        """Return text without one page's patches: all bytes at once, as integers."""
        first = max(addr, start)
        end = min(addr + len(text), start + len(page.mask))
        if first >= end:
            return text
        here = slice(first - start, end - start)
        live = int.from_bytes(text[first - addr : end - addr], "little")
        mask = int.from_bytes(page.mask[here], "little")
        old = int.from_bytes(page.old[here], "little")
        undone = (live & ~mask | old).to_bytes(end - first, "little")
        return text[: first - addr] + undone + text[end - addr :]


def rel32(place: int, target: int) -> bytes:
    """Return the operand at place that makes a jump or call reach target."""
    return (target - place - 4).to_bytes(4, "little", signed=True)


def jmp(addr: int, target: int) -> bytes:
    """jmp rel32 that stands at addr.  Kernel: synthesize_reljump()"""
    return b"\xe9" + rel32(addr + 1, target)


def call(addr: int, target: int) -> bytes:
    """call rel32 that stands at addr.  Kernel: synthesize_relcall()"""
    return b"\xe8" + rel32(addr + 1, target)


def push_imm32(value: int) -> bytes:
    """push of a kernel address, which is a sign-extended 32-bit number."""
    return b"\x68" + (value & 0xFFFF_FFFF).to_bytes(4, "little")
