# SPDX-License-Identifier: GPL-2.0-or-later
"""gdb's expressions for targets, beside what Python makes of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpfs.base.errors import MemoryFault
from kpfs.gdb.agent import evaluate
from tests.unit.gdb.fakes import FakeDebugged

MASK = (1 << 64) - 1
WORDS = st.integers(0, MASK) | st.sampled_from((0, 1, MASK, 1 << 63, (1 << 63) - 1))


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def c64(value):
    return b"\x25" + value.to_bytes(8, "big")


def run(code, registers=(7, 8)):
    return evaluate(code, registers.__getitem__, FakeDebugged().read)


OPERATIONS = {
    0x02: lambda a, b: a + b,
    0x03: lambda a, b: a - b,
    0x04: lambda a, b: a * b,
    0x0F: lambda a, b: a & b,
    0x10: lambda a, b: a | b,
    0x11: lambda a, b: a ^ b,
    0x13: lambda a, b: a == b,
    0x14: lambda a, b: signed(a) < signed(b),
    0x15: lambda a, b: a < b,
}


@given(st.sampled_from(sorted(OPERATIONS)), WORDS, WORDS)
def test_operations(opcode, a, b):
    code = c64(a) + c64(b) + bytes((opcode, 0x27))
    assert run(code) == int(OPERATIONS[opcode](a, b)) & MASK


@given(WORDS, WORDS)
def test_division_is_that_of_c(a, b):
    if not b:
        with pytest.raises(ZeroDivisionError):
            run(c64(a) + c64(b) + b"\x05\x27")
        return
    quotient = signed(run(c64(a) + c64(b) + b"\x05\x27"))
    rest = signed(run(c64(a) + c64(b) + b"\x07\x27"))
    assert (quotient * signed(b) + rest) & MASK == a
    assert abs(rest) < abs(signed(b))
    assert run(c64(a) + c64(b) + b"\x06\x27") == a // b
    assert run(c64(a) + c64(b) + b"\x08\x27") == a % b


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("22ff1608" + "27", MASK),  # a byte with its sign
        ("22ff2a04" + "27", 15),
        ("26000127", 8),  # a register
        ("23100a17" + "27", 0x0A),  # memory
        ("231000" + "1a27", 0x0706050403020100),
        ("220e" + "2005" + "0027", None),
        ("2200200009" + "220127" + "00220227", 1),  # no jump
        ("2201200008" + "220127" + "220227", 2),
        ("210006" + "220127" + "220327", 3),
        ("22010e27", 0),
        ("22001227", MASK),
        ("2205282a0802" + "27", 10),
        ("220122022b0327", 1),
        ("22092201290027"[:10] + "27", 9),
        ("2207220822093202" + "27", 7),
        ("220722082209" + "3327", 8),
        ("22c02240" + "0927", 0),
        ("25ffffffffffffff00220a0a27", MASK),
        ("2280220a0b27", 0),
    ],
)
def test_the_rest(code, value):
    if value is None:
        with pytest.raises((ValueError, LookupError)):
            run(bytes.fromhex(code))
    else:
        assert run(bytes.fromhex(code)) == value


@pytest.mark.parametrize("code", ["", "22", "27", "02", "210000", "28", "ff27", "25ff"])
def test_bad_code_has_no_value(code):
    with pytest.raises((ValueError, LookupError)):
        run(bytes.fromhex(code))


def test_memory_that_is_missing():
    with pytest.raises(MemoryFault):
        run(b"\x22\x00\x1a\x27")


@given(st.binary(max_size=40))
def test_every_code_ends(code):
    try:
        assert 0 <= run(code) <= MASK
    except (ValueError, LookupError, ZeroDivisionError, MemoryFault):
        pass
