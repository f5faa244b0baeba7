# SPDX-License-Identifier: GPL-2.0-or-later
"""The recorder of one hit, without a kernel."""

import socket
import threading

import pytest

from kpfs.engine.arch.arches import TEXT_TOOLS
from kpfs.gdb.description import TARGETS, pack
from kpfs.gdb.packets import PacketReader, encode
from kpfs.linux.arch.arches import ARCHES
from kpfs.web.hit import INSTRUCTION, STACK_AND_LINK, HitClient

SP, PC = 0xC012_0040, 0xC034_5678
WORDS = [0xC012_3456 + 0x1_0000 * n for n in range(12)]


def answers(target, stack):
    """Return a function that answers as a kernel's server does."""
    values = {target.counter: PC, stack: SP}
    raw = target.model.struct(f"{len(WORDS)}L").pack(*WORDS)
    memory = bytes(0x200) + raw + bytes(0x200)

    def answer(packet):
        if packet == b"g":
            return "".join(pack(each, values, target) for each in target.registers)
        if packet[:1] != b"m":
            return "OK"
        at, size = (int(word, 16) for word in packet[1:].split(b","))
        start = at - SP + 0x200
        inside = 0 <= start < len(memory)
        return (memory[start : start + size] if inside else bytes(size)).hex()

    return answer


def serve(listener, answer):
    connection, _ = listener.accept()
    reader = PacketReader()
    with connection:
        while data := connection.recv(1 << 16):
            for packet in reader.feed(data):
                if isinstance(packet, bytes):
                    connection.sendall(encode(answer(packet).encode()))


@pytest.mark.parametrize("arch", TARGETS)
def test_registers_and_stack_have_the_kernels_size_and_byte_order(tmp_path, arch):
    assert TARGETS[arch].model == ARCHES[arch].model
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/gdb")
        listener.listen()
        answer = answers(TARGETS[arch], STACK_AND_LINK[arch][0])
        thread = threading.Thread(target=serve, args=(listener, answer))
        thread.start()
        client = HitClient(f"{tmp_path}/gdb", arch)
        for _ in range(2):  # not near the stack that was seen before, and near it
            now = client.moment()
            assert (now.pc, now.sp, [*now.stack]) == (PC, SP, WORDS)
        client.close()
        thread.join()


@pytest.mark.parametrize(
    ("arch", "code", "words"),
    [
        ("s390x", "c00400000003", "brcl 0, 0x1006"),
        ("s390x", "b9040092", "lgr %r9, %r2"),
        ("riscv64", "13050500", "mv a0, a0"),
        ("x86", "48b88877665544332211", "movabs rax, 0x1122334455667788"),
    ],
)
def test_an_instruction_is_read_whatever_the_width_of_its_bytes(arch, code, words):
    raw = bytes.fromhex(code)
    (row,) = TEXT_TOOLS[arch]().compared(raw, raw, 0x1000, lambda _: "")
    found = INSTRUCTION.match(row)
    assert found
    assert found[2] == raw.hex(" ")
    assert found[3].startswith(words)
