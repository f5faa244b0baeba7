# SPDX-License-Identifier: GPL-2.0-or-later
"""Stops for a debugger: exact, and without a trace in what the machine does."""

import pytest

from kpfs.base import abi
from kpfs.emulator.stops import Moment, Stop, StopReason
from kpfs.linux.arch.arches import ARCHES
from tests.integration.linux.test_counting import (
    AT,
    LOOP,
    NO_COPY,
    RAX,
    RCX,
    RIP,
    WORD,
    go,
    in_second,
    make,
)

ROUNDS = 300
INC, RDTSC, DEC, JNZ = AT, AT + 8, AT + 10, AT + 13  # the instructions of LOOP


@pytest.fixture
def board():
    made = make()
    yield made
    made.close()


def run(board):
    """Run the loop to its end; return all that shows what was executed."""
    go(board, ROUNDS)
    board.set(turn_ticks=abi.NEVER, stop=abi.STOP_PAUSE)
    while board.run() == abi.STOP_TURN:
        pass
    words = [board.blocks, board.get(abi.Board.now)]
    word = int.from_bytes(board.ram[WORD : WORD + 8], "little")
    return [*words, word, board.read_reg(RAX), board.read_reg(RIP)]


def undisturbed():
    board = make()
    seen = run(board)
    board.close()
    return seen


def stopped_everywhere():
    """Run with a stop before each instruction of the loop."""
    board = make()
    seen = []
    stops = board.debug()
    stops.on_stop = lambda stop: seen.append(stop.address)
    for address in (INC, RDTSC, DEC, JNZ):
        stops.insert(address)
    result = run(board)
    board.close()
    return [seen, result]


def test_places_stop_each_time_and_change_nothing():
    seen, result = stopped_everywhere()
    assert seen == [INC, RDTSC, DEC, JNZ] * ROUNDS
    assert result == undisturbed()


def test_places_stop_too_where_libunicorn_does_not_count():
    stops = "print(json.dumps(test_stops.stopped_everywhere()))"
    seen, result = in_second(NO_COPY + stops)
    assert seen == [INC, RDTSC, DEC, JNZ] * ROUNDS
    assert result == undisturbed()


def test_a_removed_place_stops_no_more(board):
    seen = []
    stops = board.debug()

    def on_stop(stop):
        seen.append(stop.address)
        stops.remove(stop.address)
        if stop.address == INC:
            stops.insert(DEC)

    stops.on_stop = on_stop
    stops.insert(INC)
    assert run(board) == undisturbed()
    assert seen == [INC, DEC]
    with pytest.raises(KeyError):
        stops.remove(INC)


def test_steps_begin_and_end_anywhere(board):
    seen = []
    stops = board.debug()

    def on_stop(stop):
        seen.append((stop.why, board.read_reg(RCX), stop.address))
        stops.stepping = len(seen) % 7 != 0

    stops.on_stop = on_stop
    stops.insert(RDTSC)
    assert run(board) == undisturbed()
    steps = seen[:7]
    assert [address for _, _, address in steps] == [
        RDTSC, DEC, JNZ, INC, RDTSC, DEC, JNZ,
    ]  # fmt: skip
    assert steps[0][0] is StopReason.PLACE
    assert steps[1][0] is StopReason.STEP
    assert [address for _, _, address in seen[7:9]] == [RDTSC, DEC]


@pytest.mark.parametrize(("reads", "writes"), [(True, True), (False, True)])
def test_an_access_stops_behind_its_instruction(board, reads, writes):
    seen: list[Stop] = []
    stops = board.debug()
    stops.on_stop = seen.append
    stops.watch(3, WORD + 4, WORD + 7, reads=reads, writes=writes)
    assert run(board) == undisturbed()
    assert len(seen) == ROUNDS
    assert {stop.address for stop in seen} == {RDTSC}
    assert {(stop.why, stop.watch, stop.accessed) for stop in seen} == {
        (StopReason.ACCESS, 3, WORD)
    }


def test_a_neighbour_of_watched_memory_does_not_stop(board):
    seen: list[Stop] = []
    stops = board.debug()
    stops.on_stop = seen.append
    stops.watch(1, WORD + 8, WORD + 15, reads=True, writes=True)
    assert run(board) == undisturbed()
    assert not seen
    stops.unwatch(1)
    stops.watch(2, WORD, WORD, reads=False, writes=True)
    go(board, 2)
    assert board.run() == abi.STOP_PAUSE
    assert len(seen) == 2


def test_registers_can_be_changed_at_a_stop(board):
    stops = board.debug()

    def on_stop(stop):
        board.write_reg(RIP, AT + len(LOOP) - 5)  # the jump to the pause

    stops.on_stop = on_stop
    stops.insert(DEC)
    go(board, ROUNDS)
    assert board.run() == abi.STOP_PAUSE
    assert board.read_reg(RCX) == ROUNDS


def test_stops_and_calls_at_one_place(board):
    """The board stops for a call first; the call is asked for once."""
    calls, seen = 0, []
    stops = board.debug()
    stops.on_stop = lambda stop: seen.append(stop.address)
    stops.insert(AT)
    board.set_calls([(AT, abi.NEVER)])
    go(board, 3)
    while board.run() == abi.STOP_CALL:
        calls += 1
    assert (calls, seen) == (3, [AT] * 3)


@pytest.mark.parametrize("result", [0, 1, -22, -(1 << 31), 1 << 32, (1 << 31) - 1])
def test_calls_only_where_an_error_is_returned(board, result):
    board.set_calls([(AT, abi.FAILED)])
    go(board, 1)
    board.write_reg(board.arch.result, result & (1 << 64) - 1)
    stopped = board.run() == abi.STOP_CALL
    assert stopped == (result < 0)


def test_nothing_is_left_after_clear(board):
    seen: list[Stop] = []
    stops = board.debug()
    stops.on_stop = seen.append
    stops.insert(INC)
    stops.watch(1, WORD, WORD, reads=True, writes=True)
    stops.stepping = True
    stops.clear()
    assert run(board) == undisturbed()
    assert not seen


LOOPS = {
    "arm64": b"".join(
        word.to_bytes(4, "little")
        for word in (
            0xF9400001,  # ldr x1, [x0]
            0x91000421,  # add x1, x1, #1
            0xF9000001,  # str x1, [x0]
            0xF1000442,  # subs x2, x2, #1
            0x54FFFF81,  # b.ne .-16
        )
    ),
    "riscv64": b"".join(
        word.to_bytes(4, "little")
        for word in (
            0x00053583,  # ld a1, 0(a0)
            0x00158593,  # addi a1, a1, 1
            0x00B53023,  # sd a1, 0(a0)
            0xFFF60613,  # addi a2, a2, -1
            0xFE0618E3,  # bnez a2, .-16
        )
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_other_architectures_stop_within_blocks(name):
    arch = ARCHES[name]
    results = []
    for stop_at in ((), range(0, 20, 4)):
        board = make(arch)
        board.ram[AT : AT + 20] = LOOPS[name]
        board.set(pause=AT + 20)
        first, second, third = arch.arguments[:3]
        board.write_reg(first, WORD)
        board.write_reg(third, ROUNDS)
        board.write_reg(arch.counter, AT)
        seen: list[int] = []
        stops = board.debug()
        stops.on_stop = lambda stop, seen=seen: seen.append(stop.address)
        for offset in stop_at:
            stops.insert(AT + offset)
        board.set(turn_ticks=abi.NEVER, stop=abi.STOP_PAUSE)
        assert board.run() == abi.STOP_PAUSE
        word = int.from_bytes(board.ram[WORD : WORD + 8], "little")
        results.append([board.blocks, word, board.read_reg(second)])
        assert seen == [AT + offset for offset in stop_at] * ROUNDS
        board.close()
    assert results[0] == results[1]
    assert results[0][1] == ROUNDS


def test_a_run_is_repeated_up_to_any_moment():
    """Stop at a moment of another run, and know what came before it."""
    board = make()
    moments: list[Moment] = []
    stops = board.debug()
    stops.on_stop = lambda stop: moments.append(stop.moment)
    stops.stepping = True
    run(board)
    board.close()
    assert moments == sorted(moments)
    assert len(set(moments)) == len(moments) == 4 * ROUNDS + 1
    for number in (1, 2, 3, 4, 5, 4 * ROUNDS):
        board = make()
        seen: list[tuple[Stop, Moment | None]] = []
        stops = board.debug()
        stops.on_stop = lambda stop, stops=stops, seen=seen: seen.append(
            (stop, stops.before)
        )
        stops.trail = True
        stops.stop_at(moments[number])
        run(board)
        board.close()
        assert [(stop.why, stop.moment, before) for stop, before in seen] == [
            (StopReason.TARGET, moments[number], moments[number - 1])
        ]
