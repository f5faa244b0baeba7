# SPDX-License-Identifier: GPL-2.0-or-later
"""The length of a run, in blocks of code: where it may end, and how many have begun."""

from __future__ import annotations

import ctypes
from mmap import mmap

from kpfs.base import abi
from kpfs.emulator.libunicorn import (
    BlockCounter,
    check,
    count,
    forget,
    load,
    pause,
    resume,
)

# Blocks of code after which a run ends where it may. If it may not, it looks again
# after these numbers, and then the last one each time. The block at which it looks
# counts once more, so they are primes and 1: else it could find itself at the same
# place of a loop each time. A look takes as long as 120 blocks. It goes on for long, as
# a module's loop whose functions are probed stands in the module at one look of ten.
RUN_BLOCKS = 1 << 16
LOOK_BLOCKS = (4093 + 1,) * 128 + (65_521 + 1,)

# Ticks of the host's clock, some 20 ms, after which it ends for a moment: all threads
# of this process wait meanwhile.
RUN_TICKS = 40_000_000

_LOAD_HERE = b"\x48\x8b\x05\xf9\xff\xff\xff"  # mov -7(%rip), %rax
_U64 = ctypes.c_uint64


class RunLength:
    """Counts the blocks of an engine, and ends its runs by them.  Context: control."""

    def __init__(self, engine: int) -> None:
        self._engine = engine
        self.counter = BlockCounter()
        self.counter.keep()
        self.left = self._find_left()
        self.counts = False  # see count()
        self.anywhere = False
        self._end_by_time()

    def close(self) -> None:
        """Let nothing of the engine be used any more, which is about to be freed."""
        forget(self._engine, ctypes.addressof(self.counter))
        self.left = self._find_left()

    def count(self, ram: mmap, page: int) -> None:
        """Count the blocks that begin.  page: a physical page for code to try it."""
        start, uc, zero = load()[0].uc_emu_start, ctypes.c_void_p(self._engine), _U64(0)

        def execute(code: bytes) -> None:
            ram[page : page + len(code)] = code
            check(start(uc, _U64(page), _U64(page + len(code)), zero, zero))
            ram[page : page + len(code)] = bytes(len(code))

        at = ctypes.addressof(self.counter)
        self.counts = count(self._engine, at, execute, _LOAD_HERE)
        self.left = self._find_left()

    def _find_left(self) -> memoryview:
        """Return what is left of blocks, in [0]: see struct block_counter."""
        return memoryview(self.counter.remaining()).cast("B").cast("i")

    def _end_by_time(self) -> None:
        """Have runs end by the time that they take, too."""
        counter, (library, ours) = self.counter, load()
        stop = ctypes.cast(library.uc_emu_stop, ctypes.c_void_p)
        counter.engine, counter.emu_stop = self._engine, stop.value
        counter.run_ticks, counter.run_step = RUN_TICKS, abi.MAX_RUN_STEP
        counter.argument = ctypes.addressof(counter)
        if ours is not None:
            counter.at_look = ctypes.cast(ours.blocks_end_run, ctypes.c_void_p).value

    def look_in(self, blocks: int) -> None:
        """End the run after so many blocks, where they are counted."""
        counter, left = self.counter, self.left
        begun = counter.end - left[0]
        counter.run_end, counter.run_since = begun + blocks, 0
        first = min(blocks, counter.run_step)
        counter.look = begun + first
        counter.end, left[0] = begun + first - 1, first - 1

    def end_now(self) -> None:
        """End the run at the next block.  Context: hit, too."""
        if self.left[0]:
            self.look_in(1)

    def look_again(self, looks: int) -> None:
        """Go on to the next look.  looks: how many there have been."""
        self.look_in(LOOK_BLOCKS[min(looks, len(LOOK_BLOCKS) - 1)])

    def is_over(self) -> bool:
        """Return True if all blocks of the run have begun."""
        return self.begun >= self.counter.run_end

    def ended_early(self) -> bool:
        """Return True if the run ended for other threads alone, which may run now."""
        early, self.counter.early = self.counter.early, 0
        return bool(early)

    @property
    def begun(self) -> int:
        """The number of blocks that have begun, if ``counts``."""
        return self.counter.begun

    def stop_anywhere(self, anywhere: bool) -> None:
        """Have code translated from now on stop where a hook wants it, or faster."""
        if not self.counts or anywhere == self.anywhere:
            return
        self.anywhere = anywhere
        if anywhere:
            pause(self._engine)
        else:
            resume(self._engine, ctypes.addressof(self.counter))
