# SPDX-License-Identifier: GPL-2.0-or-later
"""Evaluate conditions of breakpoints where the kernel stands, without asking gdb.

gdb compiles them to a small stack machine. What it cannot say, such as a call of a
function, it evaluates itself.

Document: "Debugging with GDB", appendix F.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Literal

MAX_STEPS = 10_000  # steps of one evaluation
MAX_STACK = 256
_MASK = (1 << 64) - 1
_SIGN = 1 << 63
_EXT, _IF_GOTO, _GOTO, _REG, _END, _DUP, _POP = 0x16, 0x20, 0x21, 0x26, 0x27, 0x28, 0x29
_ZERO_EXT, _SWAP, _PICK, _ROT, _LOG_NOT, _BIT_NOT = 0x2A, 0x2B, 0x32, 0x33, 0x0E, 0x12
_REFERENCES = {0x17: 1, 0x18: 2, 0x19: 4, 0x1A: 8}  # sizes of what is read
_CONSTANTS = {0x22: 1, 0x23: 2, 0x24: 4, 0x25: 8}

Operation = Callable[[int, int], int]


def _signed(value: int) -> int:
    return value - (1 << 64) if value & _SIGN else value


def _on_signed(operation: Operation) -> Operation:
    return lambda a, b: int(operation(_signed(a), _signed(b)))


def _divided(a: int, b: int) -> int:
    """Return a quotient that is rounded towards zero."""
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def _remainder(a: int, b: int) -> int:
    return a - b * _divided(a, b)


def _shifted(a: int, b: int) -> int:
    return a << b if b < 64 else 0


_OPERATIONS: dict[int, Operation] = {
    0x02: operator.add,
    0x03: operator.sub,
    0x04: operator.mul,
    0x05: _on_signed(_divided),
    0x06: operator.floordiv,
    0x07: _on_signed(_remainder),
    0x08: operator.mod,
    0x09: _shifted,
    0x0A: lambda a, b: _signed(a) >> min(b, 63),
    0x0B: lambda a, b: a >> min(b, 64),
    0x0F: operator.and_,
    0x10: operator.or_,
    0x11: operator.xor,
    0x13: operator.eq,
    0x14: _on_signed(operator.lt),
    0x15: operator.lt,
}


def evaluate(
    code: bytes,
    register: Callable[[int], int],
    read: Callable[[int, int], bytes],
    order: Literal["little", "big"] = "little",
) -> int:
    """Return the value of an expression, as an unsigned word.

    register: returns one by its number in the target description.  read: returns bytes
    of memory; MemoryFault.  ValueError, LookupError, ZeroDivisionError: it has none.
    """
    stack: list[int] = []
    at = 0
    for _ in range(MAX_STEPS):
        opcode = code[at]
        at += 1
        if opcode == _END:
            return stack.pop()
        if opcode in _OPERATIONS:
            b, a = stack.pop(), stack.pop()
            stack.append(int(_OPERATIONS[opcode](a, b)) & _MASK)
        elif opcode in _CONSTANTS:
            stack.append(_operand(code, at, _CONSTANTS[opcode]))
            at += _CONSTANTS[opcode]
        elif opcode in _REFERENCES:
            raw = read(stack.pop(), _REFERENCES[opcode])
            stack.append(int.from_bytes(raw, order))
        elif opcode == _REG:
            stack.append(register(_operand(code, at, 2)) & _MASK)
            at += 2
        elif opcode in (_IF_GOTO, _GOTO):
            jumps = opcode == _GOTO or stack.pop()
            at = _operand(code, at, 2) if jumps else at + 2
        elif opcode in (_EXT, _ZERO_EXT, _PICK):
            _extend_or_pick(opcode, code[at], stack)
            at += 1
        else:
            _change(opcode, stack)
        if len(stack) > MAX_STACK:
            raise ValueError("the stack is too deep")
    raise ValueError("it does not end")


def _operand(code: bytes, at: int, size: int) -> int:
    if at + size > len(code):
        raise ValueError("it is cut")
    return int.from_bytes(code[at : at + size], "big")


def _extend_or_pick(opcode: int, number: int, stack: list[int]) -> None:
    if opcode == _PICK:
        stack.append(stack[-1 - number])
        return
    low = stack.pop() & ((1 << number) - 1)
    if opcode == _EXT and number and low >> (number - 1):
        low -= 1 << number
    stack.append(low & _MASK)


def _change(opcode: int, stack: list[int]) -> None:
    """Do an operation on the stack that has no operand in the code."""
    if opcode == _LOG_NOT:
        stack.append(int(not stack.pop()))
    elif opcode == _BIT_NOT:
        stack.append(~stack.pop() & _MASK)
    elif opcode == _DUP:
        stack.append(stack[-1])
    elif opcode == _POP:
        stack.pop()
    elif opcode == _SWAP:
        stack[-2:] = [stack[-1], stack[-2]]
    elif opcode == _ROT:
        stack[-3:] = [stack[-1], stack[-3], stack[-2]]
    else:
        raise ValueError(f"opcode {opcode:#x}")
