# SPDX-License-Identifier: GPL-2.0-or-later
"""The one libunicorn engine, through raw ctypes: run, registers, hooks, contexts.

The library of the unicorn wheel is called without importing the package, whose wrappers
cost 1.6 us a register and 35 ms of start-up.  Arguments are prebuilt ctypes objects and
argtypes stay unset.  All calls keep the GIL (PyDLL), the run too: giving it up and
taking it back in each hook doubled the cost of a breakpoint, and everybody else waits
for the lock under which the guest runs anyway.

Where the emulator differs from a CPU:
- It delivers nothing through the IDT: the INTR hook is the trap table, and for an
  interrupt we push the frame ourselves.
- It keeps the previous exception for ever, so that a second fault would be a double
  one: clear_exception() after each #PF, #GP, #DE.
- In an out hook RIP is that of the out and may not be written, and a stop takes effect
  at the end of the block only.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable
from time import monotonic

from kpfs.base import abi
from kpfs.base.errors import MemoryFault
from kpfs.base.typed import TYPE_CHECKING, NamedTuple
from kpfs.base.units import PAGE_SIZE
from kpfs.emulator.libunicorn import EmulatorError, Stopper, check, load, open_engine
from kpfs.emulator.regwindow import WINDOW_IP
from kpfs.emulator.x86_registers import ERROR_CODE_BEFORE, OLD_EXCEPTION
from kpfs.guest.emu.cpu_registers import (
    FRAME,
    REG_IP,
    REG_SP,
    CpuRegisters,
    Gone,
)
from kpfs.guest.emu.hypercalls import Hypercalls
from kpfs.guest.emu.idle_turn import IdleTurn
from kpfs.guest.emu.memory import Memory
from kpfs.guest.emu.run_length import RUN_BLOCKS, RunLength
from kpfs.guest.emu.watchdog import Watchdog

if TYPE_CHECKING:
    from kpfs.emulator.stops import Stops

_ARCH_X86, _MODE_64 = 4, 8
_HOOK_INTR, _HOOK_INSN, _HOOK_INSN_INVALID = 1, 2, 1 << 14
_HOOK_MEM_READ, _HOOK_MEM_WRITE = 1 << 10, 1 << 11
_MEM_WRITE = 17  # the accesses of memory hooks; else a read
_INS_OUT = 500
_PROT_ALL = 7
_CTL_WRITE = 1 << 30
_CTL_REMOVE_CACHE = 9 | 2 << 26 | _CTL_WRITE
_CTL_TB_FLUSH = 10 | _CTL_WRITE
_CTL_TLB_FLUSH = 11 | _CTL_WRITE
_FAULTS_KEPT = frozenset((0, 8, 10, 11, 12, 13, 14))

# Translated code that is dropped in pieces fills libunicorn's buffer until all of it
# is dropped.
MAX_DROPS = 8192

_U64 = ctypes.c_uint64
_Hook = Callable[..., object]


class CpuState(NamedTuple):
    """The result of state(): all that is needed to go back to it."""

    contexts: list[bytes]
    active: int
    hooked: list[tuple[int, int]]
    calls: tuple[
        Callable[[int], int | None],
        Callable[[int], None],
        Callable[[int], None],
        Callable[[bool, int, int], None],
        Callable[[], bool],
    ]


class Cpu:
    """One engine and a saved context for each virtual CPU.

    ``breakpoint`` gets the RIP after an int3 and returns where to go on; ``trap`` gets
    any other vector; ``entered`` the address behind a TRAP_ENTRY; ``hypercalls`` is
    indexed by port; ``accessed`` gets what hook_memory() asks for: whether it is a
    write, physical address, size.  All run in hit context; run() raises what was raised
    in one.  ``go_on``, in control context, says whether to take up a run that has ended
    without a stop().
    """

    def __init__(
        self,
        memory: Memory,
        nr_cpus: int,
        may_end: Callable[[int], bool] = lambda _ip: False,
    ) -> None:
        """may_end: tells whether a long run may end at an address."""
        self._memory = memory
        self._py: ctypes.PyDLL | Gone = load()[0]
        self._start = self._py.uc_emu_start
        self.breakpoint: Callable[[int], int | None] = self._no_handler
        self.trap: Callable[[int], None] = self._no_handler
        self.hypercalls: list[Callable[[int], object]] = [self._no_handler] * 256
        self.entered: Callable[[int], None] = self._no_handler
        self.accessed: Callable[[bool, int, int], None] = lambda *_: None
        self.go_on: Callable[[], bool] = lambda: False
        self.stands: Callable[[int], None] | None = None  # see follow_blocks()
        self.may_end = may_end
        self.ran_out = False  # the run has ended as it was long
        self.error: BaseException | None = None
        self.stops: Stops | None = None  # a debugger's
        self.stopped = False
        self.active = 0  # virtual CPU whose registers are loaded
        engine = open_engine(_ARCH_X86, _MODE_64)
        self._uc = ctypes.c_void_p(engine)
        self._stopper = Stopper(engine)
        self.watchdog = Watchdog(self._stopper.function, self._stopper.argument)
        self._keep: list[object] = []
        self._contexts: list[ctypes.c_void_p] = []  # one for each virtual CPU
        self._all_contexts: list[ctypes.c_void_p] = []
        self._drops = 0
        self._zero = _U64(0)
        self._memory_hooks: list[ctypes.c_void_p] = []
        self._hooked: list[tuple[int, int]] = []  # the ranges that they are for
        self._hooks_deleted = False
        self.length = RunLength(engine)
        self._registers = registers = CpuRegisters(engine)
        self.read_regs, self.write_regs = registers.read_all, registers.write_all
        self.read_reg, self.write_reg = registers.read, registers.write
        self.registers = registers.every
        self.fault_address = registers.fault_address
        self.set_fault_address = registers.set_fault_address
        self.poke_text = memory.write
        self._exception_offset = 0
        try:
            self._prepare(nr_cpus)
        except BaseException:
            self.close()
            raise

    def _prepare(self, nr_cpus: int) -> None:
        """Give the engine memory, registers and hooks."""
        memory = self._memory
        at = ctypes.c_void_p(memory.host_address())
        size = ctypes.c_size_t(memory.all_size)
        check(self._py.uc_mem_map_ptr(self._uc, _U64(0), size, _PROT_ALL, at))
        gdt = memory.alloc_low(PAGE_SIZE)
        self.length.count(memory.ram, gdt)
        self._registers.set_up(memory.ram, gdt, memory.cr3)
        self._add_hooks()
        self._contexts = [self._new_context() for _ in range(nr_cpus)]
        self._scratch = self._new_context()
        for number in range(nr_cpus):
            self.save(number)

    def close(self) -> None:
        """Free the engine; nothing may be called afterwards."""
        self.watchdog.close()
        self._stopper.end()  # its timer may have expired just before
        if self._uc:
            for context in self._all_contexts:
                self._py.uc_context_free(context)
            self.length.close()
            self._registers.close()
            self._py.uc_close(self._uc)
            self._uc = ctypes.c_void_p()
            self._py = Gone()

    # ---- set-up
    def _no_handler(self, value: int) -> None:
        raise EmulatorError(f"unexpected trap or hypercall ({value:#x})")

    @property
    def engine(self) -> int:
        """The address of libunicorn's engine."""
        return self._uc.value or 0

    @property
    def counts(self) -> bool:
        """Blocks are counted."""
        return self.length.counts

    @property
    def blocks(self) -> int:
        """The number of blocks that have begun, if ``counts``."""
        return self.length.begun

    def _new_context(self) -> ctypes.c_void_p:
        context = ctypes.c_void_p()
        check(self._py.uc_context_alloc(self._uc, ctypes.byref(context)))
        self._all_contexts.append(context)
        return context

    def _hook(
        self,
        kind: int,
        hook: object,
        first: int = 1,
        last: int = 0,
        argument: object = None,
    ) -> ctypes.c_void_p:
        """Have hook called for that kind of event; by default at any address.

        argument: its last one.
        """
        handle = ctypes.c_void_p()
        address = ctypes.cast(hook, ctypes.c_void_p)  # type: ignore[arg-type]
        to, where = ctypes.byref(handle), (_U64(first), _U64(last))
        add = self._py.uc_hook_add
        check(add(self._uc, to, kind, address, argument, *where, _INS_OUT))
        return handle

    def _add_hooks(self) -> None:
        word, half, make = ctypes.c_size_t, ctypes.c_uint32, ctypes.CFUNCTYPE
        # the last argument, a pointer for us, is left out: converting it takes time
        intr = make(None, word, half)(self._make_intr())
        out = make(None, word, half, ctypes.c_int, half)(self._make_out())
        invalid = make(ctypes.c_bool, word, word)(self._on_invalid)
        memory = make(None, word, ctypes.c_int, word, ctypes.c_int)(self._on_memory)
        self._hook(_HOOK_INTR, intr)
        self.fast = fast = Hypercalls(out, ctypes.addressof(self.length.counter))
        self._ended = memoryview(fast).cast("B").cast("Q")[abi.Hypercalls.ended // 8 :]
        self._hook(_HOOK_INSN, fast.hook, argument=ctypes.c_void_p(fast.address))
        self._hook(_HOOK_INSN_INVALID, invalid)
        self._memory_hook = memory
        self._keep += (intr, out, invalid)

    # ---- handlers
    def on_breakpoint(self, handler: Callable[[int], int | None]) -> None:
        self.breakpoint = handler

    def on_entry(self, handler: Callable[[int], None]) -> None:
        self.entered = handler

    def on_trap(
        self, handler: Callable[[int], None], go_on: Callable[[], bool] = lambda: False
    ) -> None:
        self.trap, self.go_on = handler, go_on

    def on_access(self, handler: Callable[[bool, int, int], None]) -> None:
        self.accessed = handler

    # ---- hooks, which no exception may leave
    def _fail(self, exc: BaseException) -> None:
        if self.error is None:
            self.error = exc
        self.stop()

    def _make_intr(self) -> Callable[[int, int], None]:
        """Make the trap dispatcher, whose breakpoint path is the hottest code of all.

        After an INTR hook the emulator looks for the code at RIP anyway, so that it
        may be written in its place, without the library's way out of the run.
        """
        window = self._registers.window
        if window is None:
            return self._make_slow_intr()

        def intr(_uc: int, vector: int) -> None:
            try:
                if vector == 3:
                    to = self.breakpoint(window[WINDOW_IP])
                    if to is not None:
                        window[WINDOW_IP] = to
                        return
                elif vector == abi.TRAP_ENTRY:
                    self.entered(window[WINDOW_IP])
                    return
                self._trapped(vector)
            except BaseException as exc:
                self._fail(exc)

        return intr

    def _make_slow_intr(self) -> Callable[[int, int], None]:
        """Make a trap dispatcher that reads and writes RIP by the library."""
        registers = self._registers

        def intr(_uc: int, vector: int) -> None:
            try:
                registers.load_ip()
                if vector == abi.TRAP_ENTRY:
                    self.entered(registers.ip.value)
                elif vector != 3 or (to := self.breakpoint(registers.ip.value)) is None:
                    self._trapped(vector)
                else:
                    registers.jump(to)
            except BaseException as exc:
                self._fail(exc)

        return intr

    def _make_out(self) -> Callable[[int, int, int, int], None]:
        handlers = self.hypercalls

        def out(_uc: int, port: int, _size: int, value: int) -> None:
            try:
                handlers[port](value)
            except (LookupError, MemoryFault, struct.error) as exc:
                # its arguments come from the guest, which may be broken
                self._fail(EmulatorError(f"bad hypercall {port:#x} ({exc!r})"))
            except BaseException as exc:
                self._fail(exc)

        return out

    def _on_invalid(self, _uc: int, _data: int) -> bool:
        try:
            self.trap(6)
        except BaseException as exc:
            self._fail(exc)
        return True

    def _on_memory(self, _uc: int, kind: int, addr: int, size: int) -> None:
        try:
            self.accessed(kind == _MEM_WRITE, addr, size)
        except BaseException as exc:
            self._fail(exc)

    def clear_exception(self, vector: int) -> int:
        """Forget the previous exception, as its delivery would; returns the error code.

        Context: hit, for vectors 0, 8 and 10 to 14.
        """
        if vector not in _FAULTS_KEPT:
            return 0
        self._py.uc_context_save(self._uc, self._scratch)
        address = self._scratch.value or 0
        at = self._exception_offset or self._find_exception_field(vector)
        code = ctypes.c_int32.from_address(address + at - ERROR_CODE_BEFORE).value
        ctypes.c_int32.from_address(address + at).value = -1
        self._py.uc_context_restore(self._uc, self._scratch)
        return code

    def _find_exception_field(self, vector: int) -> int:
        """Verify the field's place by what this first fault has put there."""
        size = self._py.uc_context_size(self._uc)
        before = ctypes.string_at(self._contexts[0].value or 0, size)
        after = ctypes.string_at(self._scratch.value or 0, size)
        none, now = struct.pack("<i", -1), struct.pack("<i", vector)

        def changed(at: int) -> bool:
            return before[at : at + 4] == none and after[at : at + 4] == now

        at = OLD_EXCEPTION
        if not (at + 4 <= size and changed(at)):
            found = [at for at in range(0, size - 4, 4) if changed(at)]
            if len(found) != 1:
                raise EmulatorError("this libunicorn is not known: use unicorn 2.1.4")
            at = found[0]
        self._exception_offset = at
        return at

    # ---- registers of the loaded CPU (either context)
    def idle_turn(self, **values: int) -> IdleTurn | None:
        """Return the turn of the loaded CPU, which idles; None: it has none.

        values: those of struct idle_turn that are not about the engine or the stack.
        """
        sp = self.read_reg(REG_SP)
        top = (sp & ~15) - FRAME.size
        memory = self._memory
        try:
            return IdleTurn(
                engine=self.engine,
                hypercalls=self.fast.address,
                frame=memory.host_address() + memory.translate(top, FRAME.size),
                sp=sp,
                top=top,
                blocks=RUN_BLOCKS,
                **values,
            )
        except (OSError, MemoryFault):
            return None

    def interrupt(self, entry: int) -> bool:
        """Interrupt the CPU; return False if IF is clear.  Context: control."""
        return self._registers.interrupt(self._memory, entry)

    # ---- virtual CPUs (control)
    def save(self, number: int) -> None:
        self._py.uc_context_save(self._uc, self._contexts[number])

    def switch(self, number: int) -> None:
        """Load another virtual CPU's registers."""
        if number != self.active:
            self._py.uc_context_save(self._uc, self._contexts[self.active])
            self._py.uc_context_restore(self._uc, self._contexts[number])
            self.active = number

    def state(self) -> CpuState:
        """Return the registers of all CPUs and the handlers, to go back to them."""
        self.save(self.active)
        size = self._py.uc_context_size(self._uc)
        return CpuState(
            [ctypes.string_at(context.value or 0, size) for context in self._contexts],
            self.active,
            list(self._hooked),
            (self.breakpoint, self.trap, self.entered, self.accessed, self.go_on),
        )

    def set_state(self, state: CpuState) -> None:
        """Restore the result of state(), and forget translations of addresses."""
        for context, saved in zip(self._contexts, state.contexts, strict=True):
            ctypes.memmove(context, saved, len(saved))
        self.active = state.active
        self._py.uc_context_restore(self._uc, self._contexts[self.active])
        self.breakpoint, self.trap, self.entered, self.accessed, self.go_on = (
            state.calls
        )
        if self._hooked != state.hooked:
            self.hook_memory(state.hooked)
        self.flush_tlb()

    def follow_blocks(self, stands: Callable[[int], None]) -> None:
        """Have stands(address) called wherever a block may be left before its end.

        That is behind the first byte of an instruction that traps, and at the end of a
        run where the CPU stands.
        """
        self.stands = stands

    def _trapped(self, vector: int) -> None:
        if self.stands is not None:
            self.stands(self.read_reg(REG_IP) + 1)
        self.trap(vector)

    # ---- running
    def stop(self) -> None:
        """Leave the run: at once in a trap, at the block's end in a hypercall."""
        self.stopped = True
        self.length.end_now()
        self._py.uc_emu_stop(self._uc)

    def ends(self, port: int) -> None:
        """Have a hypercall end the run; see ``ended``."""

        def end(value: int) -> None:
            self._ended[0], self._ended[1] = port, value
            self.stop()

        self.hypercalls[port] = end
        self.fast.ways[port] = abi.HYPERCALL_END

    @property
    def ended(self) -> int:
        """The hypercall that ended the last run, or 0."""
        return self._ended[0]

    @property
    def value(self) -> int:
        """The value of the hypercall that ended the last run."""
        return self._ended[1]

    def end_run(self) -> None:
        """Leave the run, to ask ``go_on``: at once in a trap or behind a memory access.

        Behind an access that is in the middle of its instruction; RIP stays there.
        """
        self._py.uc_emu_stop(self._uc)

    def run(self, count: int = 0) -> None:
        """Run the loaded CPU until something stops it, or exactly count instructions.

        A long run ends between two blocks of code, where blocks are counted.

        Raises what a hook raised.  Context: control.
        """
        if self.stops is None:
            self._run(count)
            return
        self.stops.on_begin()
        try:
            self._run(count)
        finally:
            self.stops.on_end()

    def _execute(self, limit: object) -> int:
        """Execute from ``_registers.ip`` on; return libunicorn's error."""
        err: int = self._start(
            self._uc, self._registers.ip, self._zero, self._zero, limit
        )
        if self.stands is not None:
            self.stands(self.read_reg(REG_IP))
        return err

    def _run(self, count: int) -> None:
        if monotonic() >= self.watchdog.rewind_at:
            self.watchdog.wind()
        if count:
            self.length.stop_anywhere(True)
            self.drop_all()
        self.stopped = self.ran_out = False
        self._ended[0] = 0
        self.length.look_in(RUN_BLOCKS)
        self._registers.load_ip()
        limit = ctypes.c_size_t(count) if count else self._zero
        self._run_on(self._execute(limit), limit, count)

    def may_begin(self) -> bool:
        """Return True if a run by an idle turn may begin, or go on.

        If the turn does not end well, end_begun() is to follow.  Context: control.
        """
        self.stopped = self.ran_out = False
        return not (
            self.stops is not None
            or self.stands is not None
            or self._hooks_deleted
            or monotonic() >= self.watchdog.rewind_at
        )

    def end_begun(self, turn: IdleTurn) -> None:
        """Do what run() does behind its beginning."""
        self._run_on(turn.err, self._zero, 0)

    def _run_on(self, err: int, limit: object, count: int) -> None:
        """Run the CPU on until something has stopped it.  err: of the run so far."""
        ended = self._ended
        looks = 0
        while not err and not self.stopped and not ended[0]:
            if self._ended_early():
                pass
            elif self.stops is None or not self._debugged(self.stops):
                if not self._runs_on(looks) and not self.go_on():
                    break
                looks += 1
            self._registers.load_ip()
            err = self._execute(limit)
        if count:
            self.length.stop_anywhere(bool(self._memory_hooks))
        if self._hooks_deleted:
            # the library has kept them to the end of a run, and made code for them
            self._hooks_deleted = False
            self.drop_all()
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        if err:
            raise EmulatorError(
                f"libunicorn: error {err} at {self.read_reg(REG_IP):#x}"
            )

    def _debugged(self, stops: Stops) -> bool:
        """Return True if the run only ended for a debugger, which has had its turn."""
        if not stops.stopped():
            return False
        if monotonic() >= self.watchdog.rewind_at:
            self.watchdog.wind()
        if self.read_reg(REG_IP) == stops.at:
            self.length.left[0] += self.counts  # the rest of a block is no other block
        return True

    def debug(self) -> Stops:
        """Return what makes this engine stop for a debugger."""
        if self.stops is None:
            from kpfs.emulator.stops import Stops

            # a debugger goes back in time: Python has the host's that was read before
            self.fast.ways[abi.HC_CLOCK] = abi.HYPERCALL_SERVE
            counter = ctypes.addressof(self.length.counter)
            self.stops = Stops(
                self.engine,
                counter,
                "x86_64",
                lambda: self.read_reg(REG_IP),
                lambda: self.counts and not self.length.anywhere,
            )
        return self.stops

    def _ended_early(self) -> bool:
        """Return True if the run ended for other threads alone, which may run now."""
        if not self.length.ended_early():
            return False
        self.check_mode()
        return not self.watchdog.is_due()

    def check_mode(self) -> None:
        """Raise EmulatorError if the CPU has left the mode that the kernel runs in."""
        self._registers.check_mode(self.active)

    def _runs_on(self, looks: int) -> bool:
        """Return True if the run only ended to look whether it has to.

        looks: how often it has done so before.
        """
        if not self.length.is_over() or self.watchdog.is_due():
            return False
        self.ran_out = self.may_end(self.read_reg(REG_IP))
        self.length.look_again(looks)
        return not self.ran_out

    # ---- memory hooks (control)
    def hook_memory(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Have ``accessed`` called before any access that begins within these ranges.

        A range is (first, last), in physical addresses.  While there are any, the
        library looks at all accesses, and code takes about 5 times as long; without,
        as long as before.
        """
        for handle in self._memory_hooks:
            check(self._py.uc_hook_del(self._uc, handle))
            self._hooks_deleted = True
        kind = _HOOK_MEM_READ | _HOOK_MEM_WRITE
        self._hooked = list(ranges)
        self._memory_hooks = [
            self._hook(kind, self._memory_hook, *one) for one in self._hooked
        ]
        self.length.stop_anywhere(bool(self._memory_hooks))
        self.drop_all()

    # ---- translated code (control, or a hook)
    def drop(self, addr: int, size: int) -> None:
        """Forget the translated code of a range, page by page."""
        end = addr + size
        while addr < end:
            stop = min(end, (addr | (PAGE_SIZE - 1)) + 1)
            self._py.uc_ctl(self._uc, _CTL_REMOVE_CACHE, _U64(addr), _U64(stop))
            addr = stop
        self._drops += 1
        if self._drops > MAX_DROPS:
            self.drop_all()

    def drop_all(self) -> None:
        self._drops = 0
        self._py.uc_ctl(self._uc, _CTL_TB_FLUSH)

    def flush_tlb(self) -> None:
        """Forget translations of addresses whose page-table entries have changed."""
        self._py.uc_ctl(self._uc, _CTL_TLB_FLUSH)
