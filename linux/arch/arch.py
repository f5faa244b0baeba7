# SPDX-License-Identifier: GPL-2.0-or-later
"""The properties of an architecture that Python must know to run its Linux kernels.

Its C is in the folders of its name in linux/board and linux/agent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from kpfs.base import abi
from kpfs.base.data_model import LITTLE_64, DataModel
from kpfs.base.typed import Protocol
from kpfs.emulator.registers import RegisterFile

Args = tuple[Any, ...]
FieldAddress = Callable[[str], int]  # for a field of task_struct; KeyError: it has none
Fields = Mapping[str, int]  # offsets of fields in struct cpu or struct board, by name


class SavedRegisters(NamedTuple):
    """The registers of a processor, as an image keeps them."""

    values: dict[str, int]
    tables: dict[str, list[int]]  # by register that has several parts
    mode: int  # abi.MODE_*


class Engine(RegisterFile, Protocol):
    """The processor that a board stands at."""

    @property
    def address(self) -> int:
        """Address of the uc_engine."""

    def set_mode(self, mode: int) -> None:
        """Put the processor into the mode that it was saved in: abi.MODE_*."""

    def execute(self, code: bytes) -> None:
        """Run instructions that need no memory."""


class ReadWord(Protocol):
    """The kernel's memory, as returning from a function needs it."""

    def word(self, addr: int) -> int:
        """Return a word; raises MemoryFault."""


class Readable(Protocol):
    """The kernel's RAM."""

    def __getitem__(self, place: slice, /) -> bytes: ...


class LinuxArch(ABC):
    """An architecture."""

    name: ClassVar[str]  # names its folders, and stands in images
    model: ClassVar[DataModel] = LITTLE_64
    engine: ClassVar[tuple[int, int]]  # architecture and mode for libunicorn
    cpu_model: ClassVar[int | None]  # libunicorn's number, or its own choice
    exported_as: ClassVar[str]  # in names of functions that libunicorn exports
    engine_page: ClassVar[int] = 4096  # bytes of a page, for libunicorn
    load_here: ClassVar[bytes] = b""  # loads a word from where it stands
    arguments: ClassVar[Sequence[int]]  # registers with a function's first ones
    fourth_argument: ClassVar[int]  # likewise
    # functions with any number of arguments find them behind the return address
    passes_by_stack: ClassVar[bool] = False
    result: ClassVar[int]  # register with what a function returns
    stack_pointer: ClassVar[int]
    counter: ClassVar[int]  # register with the address of the next instruction
    link: ClassVar[int]  # register with what a function returns to, if there is one
    # register in which callers by pointer give a function its own address
    entry_register: ClassVar[int | None] = None
    syscall_arguments: ClassVar[Sequence[int]]  # offsets of a call's in struct pt_regs
    # Host functions have addresses in the kernel's memory: see stub().
    stub_size: ClassVar[int]
    stub_register: ClassVar[int]  # the register in which it leaves its address
    gate: ClassVar[bytes]  # one instruction
    cpu_fields: ClassVar[Fields]  # a processor's, in abi.Cpu.own
    board_fields: ClassVar[Fields]  # the whole board's, in abi.Board.devices
    # kept in images, in this order: words of the board, of each processor, arrays
    kept: ClassVar[Sequence[str]]
    kept_of_cpu: ClassVar[Sequence[str]]
    kept_arrays: ClassVar[Mapping[str, int]] = {}  # with their lengths
    translates: ClassVar[bool] = False  # native() changes some calls
    syscall_prefix: ClassVar[str]  # begins the names of functions of system calls
    errors: ClassVar[Mapping[int, int]] = {}  # its numbers of errors, by others'
    signals: ClassVar[Mapping[int, int]] = {}  # others' numbers of signals, by its own
    first_call: ClassVar[int] = 0  # the number of the first one in its table
    elf_machine: ClassVar[int]
    shown: ClassVar[Sequence[str]]  # registers, by the names of debuggers
    breakpoint_size: ClassVar[int]
    wanted: ClassVar[tuple[str, str]] = "", ""  # an option, and how kernels lack it
    pauses: ClassVar[Sequence[bytes]]  # instructions that loops have which wait
    ftrace_nop: ClassVar[bytes]  # a place where ftrace puts no call
    # where a jump to a tracepoint's calls has gone again, if not ftrace_nop as before
    jump_nop: ClassVar[bytes] = b""
    region_base: ClassVar[int] = abi.REGION_BASE  # the agent's address of the region
    region_phys: ClassVar[int] = abi.REGION_PHYS  # and its physical one
    # bytes of struct pt_regs, where kernels have no BTF to tell it
    regs_size: ClassVar[int] = 0
    regs_align: ClassVar[int] = 16  # bytes; to these it is extended on a stack
    # a bit behind the address of an instruction's copy tells if that may jump back
    boosts: ClassVar[bool] = False
    # the fields of task_struct that asleep() needs, by their distance from the one that
    # has the stack pointer
    switch_fields: ClassVar[Mapping[str, int]] = {"thread.sp": 0}
    max_ram: ClassVar[int] = abi.HOLE_BASE
    # where memory is mapped, if the kernel does not say it
    page_offset: ClassVar[int] = 0

    def cpu_field(self, name: str) -> int:
        """Return the offset of a field in struct cpu."""
        found = self.cpu_fields.get(name)
        return getattr(abi.Cpu, name) if found is None else found

    def board_field(self, name: str) -> int:
        """Return the offset of a field in struct board."""
        found = self.board_fields.get(name)
        return getattr(abi.Board, name) if found is None else found

    @staticmethod
    def native(number: int, args: Args) -> tuple[int, Args]:
        """Return the call that means the same as one of x86-64.

        All code here uses x86-64's numbers.
        """
        return number, args

    @staticmethod
    def open_flags(flags: int) -> int:
        """Return open()'s flags of x86-64 as this architecture has them."""
        return flags

    @abstractmethod
    def stub(self, at: int, gate: int) -> bytes:
        """Return code for an address, which loads this and jumps to a gate."""

    def called_with(self, engine: Engine, memory: ReadWord) -> int:
        """Return the first argument of the system call whose function begins now."""
        regs = engine.read_reg(self.arguments[0])
        return memory.word(regs + self.syscall_arguments[0])

    def return_address(self, engine: Engine, memory: ReadWord) -> int:
        """Return where a function that begins now returns to; raises MemoryFault."""
        return engine.read_reg(self.link)

    def return_now(self, engine: Engine, memory: ReadWord, value: int) -> None:
        """Return a value from a function that begins now; raises MemoryFault."""
        engine.write_reg(self.result, value)
        engine.write_reg(self.counter, engine.read_reg(self.link))

    def program_registers(self, stack_end: int, size: int, memory: ReadWord) -> int:
        """Return where a task's stack has the registers of its program in a call.

        size: bytes of struct pt_regs.  Raises MemoryFault.
        """
        return stack_end - self.regs_room(size)

    def regs_room(self, size: int) -> int:
        """Return how far before a stack's end a struct pt_regs of this size begins."""
        return size + -size % self.regs_align

    @staticmethod
    def lacks(instruction: int) -> str:
        """Return what instructions the processor lacks if this is one, else "".

        instruction: the first bytes of one that a command was stopped at.
        """
        return ""

    def limits(self, config: str) -> str:
        """Return what a kernel built so does on no machine; "" if that is nothing."""
        option, without = self.wanted
        return without if config and f"CONFIG_{option}=y\n" not in config else ""

    @abstractmethod
    def find_state(self, engine: Engine) -> int:
        """Return the address of a new processor's state; 0: it is not where we know."""

    @abstractmethod
    def features(self, engine: Engine) -> Mapping[int, int]:
        """Return words of the board that tell what a new engine's processor is."""

    @abstractmethod
    def save(self, engine: Engine) -> SavedRegisters: ...

    @abstractmethod
    def load(self, engine: Engine, saved: SavedRegisters) -> None: ...

    @abstractmethod
    def is_sound(self, saved: SavedRegisters) -> bool:
        """Return True if load() can take this; may raise TypeError and others."""

    # ---- for debuggers, which have names of their own for some registers
    @abstractmethod
    def debugged(self, engine: Engine, name: str) -> int:
        """Return one of shown; KeyError: it is none."""

    @abstractmethod
    def set_debugged(self, engine: Engine, name: str, value: int) -> None:
        """Write one of shown; KeyError: that cannot be written."""

    @abstractmethod
    def asleep(self, field: FieldAddress, memory: ReadWord) -> dict[str, int]:
        """Return those that a sleeping task has left; raises MemoryFault, KeyError."""

    def prepare(self, engine: Engine) -> None:
        """Put a new processor into a mode in which code can be tried."""
        return

    def in_kernel(self, engine: Engine) -> bool:
        """Return True if the kernel runs, no program."""
        return bool(engine.read_reg(self.counter) >> 63)

    def learn(self, engine: Engine, ram: Readable) -> Mapping[str, int]:
        """Return words of the board, by name, that a booted kernel's memory tells."""
        return {}

    @abstractmethod
    def place(self, saved: SavedRegisters, state: int) -> None:
        """Write at least what page tables are found by, as libunicorn has its state.

        state: the address in this process.
        """


def placed(start: int, structure: object, but: str = "") -> Fields:
    """Return the offsets of a structure's fields, which begins at start.

    but: the names of those that are left out.
    """
    found = vars(structure).items()
    without = {"SIZE", *but.split()}
    return {k: start + at for k, at in found if type(at) is int and k not in without}


def fits(number: object, bits: int) -> bool:
    """Return True for an int of at most so many bits that is not negative."""
    return type(number) is int and 0 <= number < 1 << bits
