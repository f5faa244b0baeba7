# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables that a kernel finds in memory."""

import mmap
import struct

import pytest

from kpfs.linux.make import x86


def tables(ram, rsdp):
    """Return all tables that the root pointer leads to, by signature."""
    (xsdt,) = struct.unpack_from("<Q", ram, rsdp + 24)
    (size,) = struct.unpack_from("<I", ram, xsdt + 4)
    found = {}
    for at in range(xsdt + 36, xsdt + size, 8):
        (table,) = struct.unpack_from("<Q", ram, at)
        (length,) = struct.unpack_from("<I", ram, table + 4)
        found[ram[table : table + 4]] = ram[table : table + length]
    return found


@pytest.mark.parametrize("cpus", [1, 2, 4])
def test_each_processor_has_an_entry(cpus):
    ram = mmap.mmap(-1, 2 << 20)
    rsdp = x86._place_acpi(ram, cpus)
    assert ram[rsdp : rsdp + 8] == b"RSD PTR "
    found = tables(ram, rsdp)
    assert set(found) == {b"FACP", b"APIC"}
    for table in found.values():
        assert sum(table) & 255 == 0
    entries = found[b"APIC"][44:]
    assert len(entries) == 8 * cpus
    for number in range(cpus):
        entry = struct.unpack_from("<BBBBI", entries, 8 * number)
        assert entry == (0, 8, number, number, 1)
