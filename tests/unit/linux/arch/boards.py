# SPDX-License-Identifier: GPL-2.0-or-later
"""Boards of an architecture without a kernel, and what is tried on each alike."""

import contextlib
import json
import mmap

from kpfs.base import abi
from kpfs.linux.board.board import Board, SavedBoard
from kpfs.linux.store import image, processor
from kpfs.linux.store.processor import Processor

RAM, AT = 1 << 20, 0x8000
PAUSE = AT + 0x1000


@contextlib.contextmanager
def boards(arch):
    """Yield what makes a board, which is closed at the end."""
    with contextlib.ExitStack() as stack:

        def make(cpus=1):
            ram, region = mmap.mmap(-1, RAM), mmap.mmap(-1, abi.REGION_SIZE)
            board = Board(ram, region, arch=arch, cpus=cpus)
            stack.callback(board.close)
            return board

        yield make


def put(board, at, *words):
    """Write instructions, or what is given as bytes; return where they end."""
    for word in words:
        data = word if isinstance(word, bytes) else word.to_bytes(4, "little")
        board.ram[at : at + len(data)] = data
        at += len(data)
    return at


def go_on_elsewhere(arch, make, board):
    """Have the two processors of a board go on on another one; return their state."""
    saved = [processor.save(board, number) for number in range(2)]
    other = make(cpus=2)
    for number, row in enumerate(json.loads(json.dumps(saved))):
        assert processor.is_sound(arch, Processor(*row))
        processor.load(other, number, Processor(*row))
    assert [processor.save(other, number) for number in range(2)] == saved
    return saved


def find(board, address):
    """Return where an address is, or None, as the board and its image both say."""
    saved, words = processor.save(board, 0).saved(), image.board_fields(board)["words"]
    found = board.translate(address)
    assert SavedBoard(board.arch, board.ram, saved, words).translate(address) == found
    return None if found == abi.NEVER else found
