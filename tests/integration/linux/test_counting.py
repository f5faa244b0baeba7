# SPDX-License-Identifier: GPL-2.0-or-later
"""Blocks counted by libunicorn, and by a hook: a board stops at the same ones."""

import ctypes
import json
import mmap
import os
import subprocess
import sys

import pytest

from kpfs.base import abi
from kpfs.emulator import libunicorn, x86_registers
from kpfs.linux.arch.arches import ARCHES
from kpfs.linux.board.board import Board

AT, WORD, PAUSE = 0x8000, 0x20000, 0x30000
RAX, RCX, RIP, RSP = (
    x86_registers.GENERAL[name] for name in ("rax", "rcx", "rip", "rsp")
)
INC = bytes.fromhex("48ff04 25") + WORD.to_bytes(4, "little")  # incq WORD
# rcx times: add to a word, and read the clock
LOOP = INC + bytes.fromhex("0f31 48ffc9")  # rdtsc; dec %rcx
LOOP += bytes([0x75, 0x100 - len(LOOP) - 2])
LOOP += b"\xe9" + (PAUSE - AT - len(LOOP) - 5).to_bytes(4, "little")
DROP, DROP_ALL, FORGET_ADDRESSES = 9 | 2 << 26 | 1 << 30, 10 | 1 << 30, 11 | 1 << 30
DECREMENT = b"\xff\x4d\xfc\x79"  # decl -4(%rbp); jns
# in a process where something else has loaded libunicorn first
SECOND = """
import ctypes, json, os, sys
from kpfs.emulator.libunicorn import find_library
ctypes.CDLL(find_library())
from tests.integration.linux import test_counting, test_stops
"""
NO_COPY = """
def memfd_create(name):
    raise OSError
os.memfd_create = memfd_create
"""
HISTORY = "print(json.dumps(test_counting.history()))"


def make(arch=ARCHES["x86"], ram=1 << 20):
    region = mmap.mmap(-1, abi.REGION_SIZE)
    return Board(mmap.mmap(-1, ram), region, arch=arch)


def go(board, rounds, code=LOOP):
    """Prepare a run of the loop."""
    board.ram[AT : AT + len(code)] = code
    board.set(pause=PAUSE)
    board.write_reg(RCX, rounds)
    board.write_reg(RIP, AT)


def history():
    """Run a board through stops of several kinds; return where each was."""
    board = make()
    seen: list[object] = [[board.counts, board.tracks]]
    go(board, 3000)
    board.set(turn_ticks=abi.NEVER, stop=abi.STOP_PAUSE, host_turn=1000)
    for calls in ([], [(AT, abi.NEVER)], []):
        board.set_calls(calls)
        why = board.run()
        names = "now", "asked_at", "host_turn"
        words = [board.get(getattr(abi.Board, name)) for name in names]
        seen.append(
            [why, board.blocks, *words, board.read_reg(RIP), board.read_reg(RAX)]
        )
    board.close()
    return seen


def translated():
    """Yield what stands in the buffers for translated code."""
    with open("/proc/self/maps") as maps:
        rows = [line.split() for line in maps]
    for place, rights, *_ in rows:
        first, end = [int(word, 16) for word in place.split("-")]
        if rights.startswith("rwx"):
            yield ctypes.string_at(first, min(end - first, 1 << 24))


@pytest.fixture
def board():
    made = make()
    yield made
    made.close()


def in_second(code):
    """Run code that prints JSON where something else has loaded libunicorn first."""
    words = [sys.executable, "-c", SECOND + code]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_libunicorn_that_was_loaded_before_is_no_hindrance():
    assert in_second(HISTORY) == history()


def test_the_same_stops_with_and_without_a_count():
    counts, *stops = history()
    hook, *others = in_second(NO_COPY + HISTORY)
    assert (counts, hook) == ([True, True], [False, False])
    assert stops == others
    assert [stop[0] for stop in stops] == [
        abi.STOP_TURN,
        abi.STOP_CALL,
        abi.STOP_PAUSE,
    ]


@pytest.mark.parametrize("arch", ARCHES.values(), ids=ARCHES)
def test_all_boards_count(arch):
    made = make(arch)
    assert made.counts
    assert made.tracks
    made.close()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="a call counts there")
def test_blocks_count_without_a_call(board):
    go(board, 3000)
    while board.run() != abi.STOP_PAUSE:
        pass
    code = b"".join(translated())
    xor = b"\x33\xf6"
    loads = b"\x48\xbf" + board.address.to_bytes(8, "little") + xor
    loads_low = b"\xbf" + (board.address & 0xFFFF_FFFF).to_bytes(4, "little") + xor
    assert code.count(DECREMENT) > 2
    assert not code.count(loads) + code.count(loads_low)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="it searches there")
def test_no_search_before_the_clock_is_read(board):
    library, ours = libunicorn.load()
    assert ours
    places = dict(libunicorn.originals(ours))
    search = places["cpu_restore_state_x86_64"]
    before = libunicorn.address(library, "cpu_restore_state_x86_64")
    word = ctypes.c_size_t
    kind = ctypes.CFUNCTYPE(ctypes.c_bool, word, word, ctypes.c_bool)
    searches: list[bool] = []

    def note(cpu, at, exits):
        searches.append(exits)  # not before the hook of an instruction
        return ctypes.cast(before, kind)(cpu, at, exits)

    noting = kind(note)
    search.value = ctypes.cast(noting, ctypes.c_void_p).value
    found = []
    for name in "", "helper_rdtsc_x86_64":
        helper = places.get(name, ctypes.c_void_p())
        kept, helper.value = helper.value, None
        go(board, 1)
        board.run()
        found.append(False in searches)
        helper.value = kept
    search.value = before.value
    assert found == [False, True]


@pytest.mark.parametrize("arch", ARCHES.values(), ids=ARCHES)
def test_the_table_hears_of_all_that_libunicorn_forgets(arch):
    made = make(arch)
    library, blocks = libunicorn.load()
    engine = ctypes.c_void_p(made.address)
    processor = ctypes.c_size_t.from_address(made.address + 0x1B8).value
    assert blocks
    assert libunicorn.finds(made.address)
    ages = [blocks.search_age(engine)]
    for kind in ("", "_all_cpus", "_all_cpus_synced"):
        for name, more in (("tlb_flush", ()), ("tlb_flush_page", (0x1000,))):
            flush = library[f"{name}{kind}_{arch.exported_as}"]
            flush(*map(ctypes.c_void_p, (processor, *more)))
            ages.append(blocks.search_age(engine))
    for control in (DROP_ALL, FORGET_ADDRESSES):
        library.uc_ctl(engine, control)
        ages.append(blocks.search_age(engine))
    made.close()
    assert sorted(set(ages)) == ages


def returned(board, value, at=AT + 0x100):
    """Put code there that sets rax, return to it, and return what rax is then."""
    code = b"\xb8" + value.to_bytes(4, "little")  # mov $value, %eax
    code += b"\xe9" + (PAUSE - at - 10).to_bytes(4, "little")
    board.ram[at : at + len(code)] = code
    board.ram[WORD : WORD + 8] = at.to_bytes(8, "little")
    board.write_reg(RSP, WORD)
    board.write_reg(RIP, AT)
    while board.run() != abi.STOP_PAUSE:
        pass
    return board.read_reg(RAX)


def test_a_block_in_the_table_is_that_of_the_code_there(board):
    library, _ = libunicorn.load()
    engine = ctypes.c_void_p(board.address)
    board.set(pause=PAUSE)
    board.ram[AT] = 0xC3  # ret
    for value in (1, 2, 3):
        assert [returned(board, value) for _ in range(2)] == [value, value]
        place = ctypes.c_uint64(AT + 0x100), ctypes.c_uint64(AT + 0x101)
        library.uc_ctl(engine, DROP, *place)
    library.uc_ctl(engine, DROP_ALL)
    assert returned(board, 4, AT + 0x200) == 4  # where that of 3 was in libunicorn
    assert returned(board, 5) == 5


def test_no_stop_repeats_an_access_to_memory(board):
    go(board, 20_000)
    board.set(turn_ticks=0)  # the host wants a turn whenever the board looks
    stops = 0
    while board.run() == abi.STOP_TURN:
        stops += 1
    assert stops > 50
    assert int.from_bytes(board.ram[WORD : WORD + 8], "little") == 20_000


def test_it_stops_at_any_number_of_calls_translated_before(board):
    """More than have a hook of their own."""
    jumps = 1152
    code = b"\xeb\x0e".ljust(16, b"\x90") * jumps + LOOP
    code = code[: len(code) - 4]
    code += (PAUSE - AT - len(code) - 4).to_bytes(4, "little")
    for _ in range(2):
        go(board, 1, code)
        assert board.run() == abi.STOP_PAUSE
    for number in range(0, jumps, 2):
        place = AT + 16 * number
        board.set_calls([(place, abi.NEVER)])
        go(board, 1, code)
        assert board.run() == abi.STOP_CALL
        assert board.get(abi.Board.asked_at) == board.read_reg(RIP) == place
        board.set(asked_at=0)
        board.set_calls([])
    go(board, 1, code)
    assert board.run() == abi.STOP_PAUSE


def test_an_engine_without_room_in_the_table_is_hooked():
    _, blocks = libunicorn.load()
    counter = libunicorn.BlockCounter()
    engines: list[int] = []
    assert blocks
    while blocks.blocks_count(
        ctypes.c_void_p(engine := (len(engines) + 1) << 3), ctypes.byref(counter), None
    ):
        engines.append(engine)
    made = make()
    for engine in engines:
        libunicorn.forget(engine, ctypes.addressof(counter))
    assert engines
    assert not made.counts
    go(made, 10)
    assert made.run() == abi.STOP_PAUSE
    made.close()
    again = make()
    assert again.counts
    again.close()
