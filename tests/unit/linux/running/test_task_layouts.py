# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.linux.running.task_layouts: which of some tasks runs.

tests/integration/linux/test_layouts.py asks kernels.
"""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kpfs.base.data_model import LITTLE_64
from kpfs.linux.running.task_layouts import MadeTasks, find_on_cpu
from kpfs.linux.running.trial import Trial

STACK, ON_CPU, TASKS = 8, 28, [0x10000, 0x11000]
STACK_SIZE = 0x4000


class Kernel(Trial):
    """A processor, and where its tasks have their stacks."""

    def __init__(self, stacks):
        self.model, self.long = LITTLE_64, LITTLE_64.long
        self.board = cast(Any, SimpleNamespace(get=lambda _field: 1))
        words = {task + STACK: stack for task, stack in zip(TASKS, stacks, strict=True)}
        self.memory = cast(Any, SimpleNamespace(word=words.__getitem__))


def task(*, runs):
    return LITTLE_64.struct("3QIII4x").pack(1, 0, 0x78, 0xFF, runs, 7)


@pytest.mark.parametrize("apart", [STACK_SIZE, 16 * STACK_SIZE])
def test_stacks_may_lie_side_by_side(apart):
    stacks = [0x40000, 0x40000 + apart]
    turns = [
        (stacks[turn] + STACK_SIZE - 96, [task(runs=turn == n) for n in range(2)])
        for turn in (0, 1, 0)
    ]
    made = MadeTasks(TASKS, [], [], turns)
    assert find_on_cpu(Kernel(stacks), made, STACK, [task(runs=0)]) == (ON_CPU, 4)
