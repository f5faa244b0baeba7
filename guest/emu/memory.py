# SPDX-License-Identifier: GPL-2.0-or-later
"""Physical memory, page tables, and the area that modules and the engine live in.

Physical layout, all of it one private mapping that is touched lazily:

    0x1000     page tables, GDT, words shared with the guest (LOW_SIZE in all)
    16 MiB     the kernel image, then the guest's page allocator up to ram_size
    ram_size   the module area, mapped linearly at MODULE_BASE
    above      the user slots, mapped linearly at USER_BASE
    above      the kernel stacks, each mapped in the upper half of its STACK_STRIDE
    at last    the ring areas, mapped at NEAR_BASE and VMALLOC_BASE as they are used:
               many more addresses than there is memory, of which none costs anything
               until it is written
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import struct
from array import array
from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence

from kpfs.base import abi, mapping
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.ktypes import MASK64
from kpfs.base.units import LARGE_PAGE, PAGE_SIZE
from kpfs.engine import machine

PAGE_MASK = PAGE_SIZE - 1
KERNEL_MAP = 0xFFFF_FFFF_8000_0000  # the image's virtual minus its physical address
LOW_SIZE = 0x10_0000
RAM_SIZE = 64 << 20
AREA_SIZE = 64 << 20
AREA_END = abi.MODULE_BASE + AREA_SIZE
USER_MAP_SIZE = abi.USER_SLOTS * abi.USER_SIZE
USER_END = abi.USER_BASE + USER_MAP_SIZE
# between the kernel's image and the modules, in 32-bit reach
NEAR_BASE = 0xFFFF_FFFF_9000_0000
NEAR_SIZE = abi.MODULE_BASE - NEAR_BASE
VMALLOC_BASE = 0xFFFF_C900_4000_0000  # above the stacks
# Addresses for both ring areas: the first that the host grants, with so many to spare
RING_SIZES = (
    (NEAR_SIZE, 64 << 30),
    (NEAR_SIZE, 16 << 30),
    (NEAR_SIZE, 4 << 30),
    (256 << 20, 1 << 30),
    (32 << 20, 32 << 20),
)
SPARE = 2 << 30  # libunicorn's translated code alone takes 1 GiB
TLB_SIZE = 256  # pages that libunicorn's TLB has at first
MAP_NORESERVE = 0x4000  # mmap.MAP_NORESERVE of newer Pythons
STACK_END = abi.STACK_BASE + abi.STACKS * abi.STACK_STRIDE
_STACK_MASK = abi.STACK_STRIDE - 1
_STACK_LOW = abi.STACK_STRIDE - abi.STACK_SIZE  # the unmapped bytes below each

PTE_PRESENT = 1
PTE_WRITE = 2
PTE_USER = 4
PTE_USED = 0x60  # accessed, dirty: so the emulator need not set them
PTE_LARGE = 0x80
PTE_NX = 1 << 63
_PTE_ADDR = 0x000F_FFFF_FFFF_F000
KERNEL_TEXT = 0
KERNEL_RO = PTE_NX
KERNEL_DATA = PTE_WRITE | PTE_NX
USER_DATA = PTE_WRITE | PTE_USER | PTE_NX

_U64 = struct.Struct("<Q")


class Memory(machine.Memory):
    """All of the guest's memory as Python sees it: control and hit context alike."""

    def __init__(self, ram_size: int = RAM_SIZE) -> None:
        self.ram_size = ram_size
        self._area_at = ram_size
        self._user_at = ram_size + AREA_SIZE
        self._stacks_at = self._user_at + USER_MAP_SIZE
        self.size = self._stacks_at + abi.STACKS * abi.STACK_SIZE
        near_at = -(-self.size // LARGE_PAGE) * LARGE_PAGE
        self.ram, near_size = _reserve(near_at)
        self.all_size = len(self.ram)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            self.ram.madvise(mmap.MADV_NOHUGEPAGE)  # a huge page per touch: 2 MiB RSS
        self._view = mapping.known(memoryview(self.ram))
        self._image_start, self._image_end = abi.MODULE_BASE, KERNEL_MAP
        self.image_pages_end = LOW_SIZE  # physical end of the kernel image
        self._low = PAGE_SIZE
        self.cr3 = self.alloc_low(PAGE_SIZE)
        self.area = PageArea(self)
        far_at = near_at + near_size
        self.near = RingArea(self, NEAR_BASE, near_at, near_size, apart=True)
        self.far = RingArea(self, VMALLOC_BASE, far_at, self.all_size - far_at)
        self.map_range(abi.DIRECT_MAP, 0, self._stacks_at, KERNEL_DATA)
        self.map_range(abi.USER_BASE, self._user_at, USER_MAP_SIZE, USER_DATA)
        self._map_stacks()

    def host_address(self) -> int:
        """Return where the physical memory lies in this process."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self.ram))

    def close(self, *, in_use: bool = False) -> None:
        """Unmap all of it; any use is a ValueError from now on, or shows zeros."""
        if in_use:
            mapping.empty(self.ram)
        else:
            mapping.unmap(self.ram)

    # ---- set-up (control)
    def alloc_low(self, size: int) -> int:
        """Allocate zeroed pages below LOW_SIZE; returns their physical address."""
        addr = self._low
        self._low += (size + PAGE_MASK) & ~PAGE_MASK
        if self._low > LOW_SIZE:
            raise KernelError(errno.ENOMEM, "page tables do not fit")
        return addr

    def _entry(self, table: int, index: int) -> int:
        """Return the table that an entry of a higher one points to, made if missing."""
        at = table + index * 8
        entry: int = _U64.unpack_from(self.ram, at)[0]
        if not entry:
            entry = self.alloc_low(PAGE_SIZE) | PTE_PRESENT | PTE_WRITE | PTE_USER
            entry |= PTE_USED
            _U64.pack_into(self.ram, at, entry)
        return entry & _PTE_ADDR

    def _directory(self, virt: int) -> int:
        """Return the page directory that covers a virtual address."""
        table = self._entry(self.cr3, virt >> 39 & 511)
        return self._entry(table, virt >> 30 & 511)

    def map_range(self, virt: int, phys: int, size: int, flags: int) -> None:
        """Map pages linearly, by large ones where both addresses allow it."""
        flags |= PTE_PRESENT | PTE_USED
        end = virt + size
        alike = not (virt ^ phys) & (LARGE_PAGE - 1)
        while virt < end:
            index, left = virt >> 21 & 511, end - virt
            if alike and not virt & (LARGE_PAGE - 1) and left >= LARGE_PAGE:
                count = min(left // LARGE_PAGE, 512 - index)
                done = count * LARGE_PAGE
                first = phys | flags | PTE_LARGE
                entries = range(first, first + done, LARGE_PAGE)
                self._fill(self._directory(virt), index, entries)
            else:
                done = min(left, LARGE_PAGE - virt % LARGE_PAGE)
                self.set_pages(virt, phys, done, flags)
            virt += done
            phys += done

    def set_pages(self, virt: int, phys: int, size: int, flags: int) -> None:
        """Map 4 KiB pages; flags without PTE_PRESENT unmap.  Drops no translation."""
        first = phys | flags if flags & PTE_PRESENT else 0
        while size > 0:
            index = virt >> 12 & 511
            done = min(size, (512 - index) * PAGE_SIZE)
            table = self._entry(self._directory(virt), virt >> 21 & 511)
            entries = range(first, first + done, PAGE_SIZE)
            self._fill(table, index, entries if first else (0,) * len(entries))
            virt += done
            size -= done
            first += done if first else 0

    def _fill(self, table: int, index: int, entries: Sequence[int]) -> None:
        """Set entries of a table that follow each other."""
        at = table + index * 8
        struct.pack_into(f"<{len(entries)}Q", self.ram, at, *entries)

    def _map_stacks(self) -> None:
        """Map the kernel stacks, and leave out what is below each.

        One page table has those of LARGE_PAGE bytes.  It is filled with the first page
        of each stack, the second of each, and so on.
        """
        words, apart = self._view.cast("Q"), abi.STACK_STRIDE // PAGE_SIZE
        flags, at = KERNEL_DATA | PTE_PRESENT | PTE_USED, self._stacks_at
        size = LARGE_PAGE // abi.STACK_STRIDE * abi.STACK_SIZE
        for virt in range(abi.STACK_BASE, STACK_END, LARGE_PAGE):
            table = self._entry(self._directory(virt), virt >> 21 & 511) // 8
            for index in range(_STACK_LOW // PAGE_SIZE, apart):
                first = (at | flags) + index * PAGE_SIZE - _STACK_LOW
                pages = array("Q", range(first, first + size, abi.STACK_SIZE))
                words[table + index : table + 512 : apart] = pages
            at += size

    def load_image(self, virt: int, data: bytes, memsz: int, flags: int) -> None:
        """Place one segment of the kernel at virt - KERNEL_MAP and map it."""
        phys = virt - KERNEL_MAP
        end = (phys + memsz + PAGE_MASK) & ~PAGE_MASK
        if phys < LOW_SIZE or end > self.ram_size:
            raise KernelError(errno.ENOEXEC, f"segment at {virt:#x} is out of reach")
        self.ram[phys : phys + len(data)] = data
        start = phys & ~PAGE_MASK
        self.map_range(KERNEL_MAP + start, start, end - start, flags)
        self._image_start = min(self._image_start, KERNEL_MAP + start)
        self._image_end = max(self._image_end, KERNEL_MAP + end)
        self.image_pages_end = self._image_end - KERNEL_MAP

    # ---- all of it (control)
    def used_ranges(self) -> list[tuple[int, int]]:
        """Return the ranges of RAM that may have been written to, in order.

        Without the addresses for rings that are in no ring.
        """
        rings = [*self.near.blocks(), *self.far.blocks()]
        return [(0, self.size), *sorted(rings)]

    def mappings(self) -> Iterator[tuple[int, int, int]]:
        """Yield virtual and physical address and size of each mapping but the rings.

        Modules come and go in an area that is mapped as a whole here.
        """
        image = self._image_end - self._image_start
        yield self._image_start, self._image_start - KERNEL_MAP, image
        yield abi.MODULE_BASE, self._area_at, AREA_SIZE
        yield abi.DIRECT_MAP, 0, self._stacks_at
        yield abi.USER_BASE, self._user_at, USER_MAP_SIZE
        for number in range(abi.STACKS):
            virt = abi.STACK_BASE + number * abi.STACK_STRIDE + _STACK_LOW
            phys = self._stacks_at + number * abi.STACK_SIZE
            yield virt, phys, abi.STACK_SIZE

    def code_address(self, phys: int) -> int:
        """Return the virtual address of a page that may have code; 0 if it has none."""
        if LOW_SIZE <= phys < self.image_pages_end:
            return KERNEL_MAP + phys
        addr = phys - self._area_at + abi.MODULE_BASE
        if abi.MODULE_BASE <= addr < AREA_END and self.area.mapped(addr, PAGE_SIZE):
            return addr
        return 0

    # ---- access (either context)
    def translate(self, addr: int, size: int) -> int:
        """Return the offset in ram of a block mapped in one piece, else MemoryFault."""
        end = addr + size
        if addr >= abi.MODULE_BASE:
            if end <= AREA_END and self.area.mapped(addr, size):
                return addr - abi.MODULE_BASE + self._area_at
        elif addr >= KERNEL_MAP:
            if self._image_start <= addr and end <= self._image_end:
                return addr - KERNEL_MAP
            if self.near.mapped(addr, size):
                return self.near.phys(addr)
        elif addr >= VMALLOC_BASE:
            if self.far.mapped(addr, size):
                return self.far.phys(addr)
        elif addr >= abi.STACK_BASE:
            return self._in_stack(addr, size)
        elif addr >= abi.DIRECT_MAP:
            if end <= abi.DIRECT_MAP + self._stacks_at:
                return addr - abi.DIRECT_MAP
        elif abi.USER_BASE <= addr and end <= USER_END:
            return addr - abi.USER_BASE + self._user_at
        raise MemoryFault(addr)

    def _in_stack(self, addr: int, size: int) -> int:
        """Do what translate() does, for a kernel stack."""
        at = addr - abi.STACK_BASE
        over = (at & _STACK_MASK) - _STACK_LOW
        if over < 0 or over + size > abi.STACK_SIZE or addr + size > STACK_END:
            raise MemoryFault(addr)
        return self._stacks_at + at // abi.STACK_STRIDE * abi.STACK_SIZE + over

    def read(self, addr: int, size: int) -> bytes:
        at = self.translate(addr, size)
        return self.ram[at : at + size]

    def write(self, addr: int, data: bytes) -> None:
        at = self.translate(addr, len(data))
        self.ram[at : at + len(data)] = data

    def read_u32(self, addr: int) -> int:
        return int.from_bytes(self.read(addr, 4), "little")

    def read_u64(self, addr: int) -> int:
        value: int = _U64.unpack_from(self.ram, self.translate(addr, 8))[0]
        return value

    def write_u64(self, addr: int, value: int) -> None:
        _U64.pack_into(self.ram, self.translate(addr, 8), value & MASK64)

    def view(self, addr: int, size: int) -> memoryview:
        """Return writable bytes, which are valid as long as the memory is."""
        at = self.translate(addr, size)
        return mapping.known(self._view[at : at + size])

    def forget(self, phys: int, size: int) -> None:
        """Make whole pages zero again, and give their memory back to the host."""
        self.ram.madvise(mmap.MADV_DONTNEED, phys, size)

    def area_phys(self, addr: int) -> int:
        """Return the physical address of a module-area address, mapped or not."""
        return addr - abi.MODULE_BASE + self._area_at


class PageArea:
    """Allocator of whole pages at MODULE_BASE: modules, runtime image, slots, rings."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._present = bytearray(AREA_SIZE // PAGE_SIZE)  # 1: mapped
        self._free = [(0, AREA_SIZE // PAGE_SIZE)]  # (first page, pages), by address
        self._sizes: dict[int, int] = {}  # address to pages

    def mapped(self, addr: int, size: int) -> bool:
        """Return True if every page of a block inside the area is allocated."""
        first = (addr - abi.MODULE_BASE) >> 12
        last = (addr - abi.MODULE_BASE + size - 1) >> 12
        if last <= first + 1:
            return bool(self._present[first] and self._present[last])
        return self._present.find(0, first, last + 1) < 0

    def alloc(self, size: int, flags: int) -> int:
        """Return zeroed pages in one piece; ENOMEM if none. Context: control."""
        pages = max((size + PAGE_MASK) >> 12, 1)
        run = next((r for r in self._free if r[1] >= pages), None)
        if run is None:
            raise KernelError(errno.ENOMEM, "the module area is full")
        self._free.remove(run)
        first, count = run
        if count > pages:
            insort(self._free, (first + pages, count - pages))
        addr = abi.MODULE_BASE + first * PAGE_SIZE
        self._set(addr, pages, flags | PTE_PRESENT | PTE_USED)
        self._sizes[addr] = pages
        return addr

    def protect(self, addr: int, size: int, flags: int) -> None:
        """Change the flags of allocated pages; the caller flushes translations."""
        pages = (size + PAGE_MASK) >> 12
        self._set(addr, pages, flags | PTE_PRESENT | PTE_USED)

    def free(self, addr: int) -> None:
        """Free what alloc() gave; the caller flushes.  Context: control."""
        pages = self._sizes.pop(addr)
        self._set(addr, pages, 0)
        self._memory.forget(self._memory.area_phys(addr), pages * PAGE_SIZE)
        self._free = _give_back(self._free, (addr - abi.MODULE_BASE) >> 12, pages)

    def _set(self, addr: int, pages: int, flags: int) -> None:
        memory = self._memory
        memory.set_pages(addr, memory.area_phys(addr), pages * PAGE_SIZE, flags)
        first = (addr - abi.MODULE_BASE) >> 12
        self._present[first : first + pages] = bytes([flags & PTE_PRESENT]) * pages


class RingArea:
    """Allocates pages for rings, mapped in large ones if needed.  Context: control."""

    def __init__(
        self, memory: Memory, base: int, phys: int, size: int, *, apart: bool = False
    ) -> None:
        """apart: no block begins where the emulator's TLB has the engine's records.

        Of pages whose numbers have the same low bits it remembers one, so that each hit
        would have to look up both.
        """
        self._memory = memory
        self._base = base
        self._phys = phys
        self._apart = apart
        self._free = [(0, size // PAGE_SIZE)]  # (first page, pages), by address
        self._sizes: dict[int, int] = {}  # address to bytes
        self._starts: list[int] = []  # the same addresses, sorted
        self._mapped: set[int] = set()  # numbers of large pages

    def phys(self, addr: int) -> int:
        return addr - self._base + self._phys

    def mapped(self, addr: int, size: int) -> bool:
        """Return True if all of it lies in one block."""
        i = bisect_right(self._starts, addr) - 1
        if i < 0:
            return False
        start = self._starts[i]
        return addr + size <= start + self._sizes[start]

    def alloc(self, size: int) -> int:
        """Return zeroed pages in one piece; ENOMEM if area or host lacks room."""
        if size > _available():
            raise KernelError(errno.ENOMEM, f"{size >> 20} MB are not there")
        pages = (size + PAGE_MASK) >> 12
        for run in self._free:
            first = self._begin(run[0])
            left = sum(run) - first - pages
            if left >= 0:
                break
        else:
            raise KernelError(errno.ENOMEM, "no addresses are left")
        self._map(first, pages)
        self._free.remove(run)
        for piece in ((run[0], first - run[0]), (first + pages, left)):
            if piece[1]:
                insort(self._free, piece)
        addr = self._base + first * PAGE_SIZE
        self._sizes[addr] = pages * PAGE_SIZE
        insort(self._starts, addr)
        return addr

    def _begin(self, first: int) -> int:
        """Return the first page from there on where a block may begin."""
        return first + (TLB_SIZE // 2 - first) % TLB_SIZE if self._apart else first

    def _map(self, first: int, pages: int) -> None:
        """Map the large pages that these are in; they stay mapped."""
        start = first * PAGE_SIZE // LARGE_PAGE
        end = -(-(first + pages) * PAGE_SIZE // LARGE_PAGE)
        for number in range(start, end):
            if number not in self._mapped:
                at = self._base + number * LARGE_PAGE
                self._memory.map_range(at, self.phys(at), LARGE_PAGE, KERNEL_DATA)
                self._mapped.add(number)

    def free(self, addr: int) -> None:
        """Give back what alloc() gave."""
        size = self._sizes.pop(addr)
        del self._starts[bisect_right(self._starts, addr) - 1]
        self._memory.forget(self.phys(addr), size)
        first = (addr - self._base) // PAGE_SIZE
        self._free = _give_back(self._free, first, size // PAGE_SIZE)

    def has(self, addr: int) -> bool:
        """Return True if a block of it begins there."""
        return addr in self._sizes

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each block in physical memory."""
        for addr, size in self._sizes.items():
            yield self.phys(addr), self.phys(addr) + size


def _give_back(
    free: list[tuple[int, int]], first: int, pages: int
) -> list[tuple[int, int]]:
    """Return the free runs with one more, those that touch one another joined."""
    i = bisect_right(free, (first, pages))
    before, behind = free[:i], free[i:]
    if before and sum(before[-1]) == first:
        first, joined = before.pop()
        pages += joined
    if behind and first + pages == behind[0][0]:
        pages += behind.pop(0)[1]
    return [*before, (first, pages), *behind]


def _reserve(size: int) -> tuple[mmap.mmap, int]:
    """Addresses for memory of that size, and for rings behind it.

    Returns them, and how many of the latter are for the near area.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    for near, far in RING_SIZES[:-1]:
        try:
            mmap.mmap(-1, size + near + far + SPARE, flags).close()
            return mmap.mmap(-1, size + near + far, flags), near
        except OSError:  # no overcommitment, or a limit on addresses
            continue
    near, far = RING_SIZES[-1]
    return mapping.make(size + near + far, flags), near


def _available() -> int:
    """Return the bytes of memory that the host has left.  Kernel: si_mem_available()"""
    try:
        with open("/proc/meminfo", "rb") as file:
            text = file.read()
        return int(text.partition(b"MemAvailable:")[2].split(None, 1)[0]) << 10
    except (OSError, ValueError, IndexError):
        return 1 << 62
