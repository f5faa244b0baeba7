# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds struct task_struct in a kernel on trial.

Three tasks are made, of which each is the parent of the next.  Their names and numbers
are known, and of all others /proc tells states, flags and counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kpfs.base import abi
from kpfs.base.units import PAGE_SIZE
from kpfs.linux.memory.btf import StructLayout
from kpfs.linux.memory.structures import Tables
from kpfs.linux.memory.tasks import MAX_TASKS
from kpfs.linux.running.machine import AGENT
from kpfs.linux.running.trial import SeenCall, Trial, UnseenError

_BEGINS, _RESTS = "wake_up_new_task", "schedule"
_NAMES = "kpfs-one", "kpfs-two", "kpfs-three"
_STATES = {"S": 1, "D": 2, "I": 0x402}  # as of /proc/PID/stat
_STATE_BITS = 0x40F  # others tell of freezing
_AGENT = 1  # its number
_KTHREAD = 0x0020_0000  # a flag of a task
_SWITCHES = re.compile(r"^(?:non)?voluntary_ctxt_switches:\t(\d+)$", re.M)
_MAX_STACK = 1 << 15
_NEAR = 64  # bytes between the beginning of a signal_struct and its list of threads


class _Told(NamedTuple):
    """A task by the words of the kernel's files."""

    state: str
    flags: int
    cpu: int
    switches: list[int]  # by its own will, and not


class MadeTasks(NamedTuple):
    """The tasks that were made."""

    addrs: list[int]
    stacks: list[int]  # stack pointers of those that made them
    pids: list[int]
    # stack pointers where a turn may end, and the tasks so far
    turns: list[tuple[int, list[bytes]]]


def find_tasks(trial: Trial, tables: Tables) -> None:
    """Add struct task_struct and where init_task is.  Raises UnseenError."""
    memory, size = trial.memory, trial.object_size("task_struct")
    made = _make(trial, size)
    raws = [memory.read(task, size) for task in made.addrs]
    at = {"comm": raws[0].index(_NAMES[0].encode())}
    at["pid"] = trial.equal(raws, made.pids, 4)
    at["tasks"], tasks = _all_tasks(trial, made, at["pid"], size)
    init = tasks.pop(0)
    del tasks[_AGENT]
    told, sleepers = list[_Told](), list[bytes]()
    for pid, task in tasks.items():
        row, raw = _told(trial, pid), memory.read(task, size)
        has_run = row != _told(trial, pid)
        if row.state in _STATES and not has_run:
            told.append(row)
            sleepers.append(raw)
    at |= _of_files(trial, told, sleepers)
    # each but the first has begun on the stack of the one before
    at["stack"] = trial.offset(
        raws[:2], lambda n, word: _is_on(made.stacks[n + 1], word)
    )
    stacks = [trial.number(raw, at["stack"]) for raw in sleepers]
    # other words lead to the stack's end, or to the frame above
    pointers = trial.offsets(sleepers, lambda n, word: _is_on(word, stacks[n]))
    pointer = min(pointers, key=lambda at: (trial.number(sleepers[0], at), -at))
    for name, distance in trial.arch.switch_fields.items():
        at[name] = pointer + distance
    at["on_cpu"], size_of_one = find_on_cpu(trial, made, at["stack"], sleepers)
    bits = {"on_cpu": (0, 8)} if size_of_one == 1 else {}
    at["signal"], at["thread_node"], head = _threads(trial, made.addrs, raws)
    tables.layouts["task_struct"] = StructLayout(size, at, bits)
    threads = {"thread_head": head}
    tables.layouts["signal_struct"] = StructLayout(head + trial.long, threads, {})
    tables.data["init_task"] = init, size


def _make(trial: Trial, size: int) -> MadeTasks:
    made = MadeTasks([], [], [], [])

    def fork() -> None:
        slot = AGENT
        for name in _NAMES:
            slot, pid = trial.fork(slot, name)
            made.pids.append(pid)

    def look(function: str, call: SeenCall) -> None:
        if function == _BEGINS:
            made.addrs.append(call.arguments[0])
            made.stacks.append(call.stack)
        else:
            raws = [trial.memory.read(task, size) for task in made.addrs]
            made.turns.append((call.stack, raws))

    trial.calls((_BEGINS, _RESTS), fork, look)
    return made


def _all_tasks(
    trial: Trial, made: MadeTasks, pid: int, size: int
) -> tuple[int, dict[int, int]]:
    """Return where the list of tasks is in one, and all tasks by their numbers.

    A new task is the last of all, and its siblings are other tasks' children.
    """
    for at in range(0, size, trial.long):
        nodes = [task + at for task in made.addrs]
        if [*map(trial.memory.word, nodes[:2])] == nodes[1:]:
            listed = [nodes[0], *trial.memory.nodes(nodes[0], MAX_TASKS)]
            numbers = [trial.memory.number(node - at + pid, 4) for node in listed]
            if {0, *made.pids} <= {*numbers}:
                return at, {
                    number: node - at
                    for number, node in zip(numbers, listed, strict=True)
                }
    raise UnseenError


def _told(trial: Trial, pid: int) -> _Told:
    row = trial.text(f"/proc/{pid}/stat").rpartition(") ")[2].split()
    switches = _SWITCHES.findall(trial.text(f"/proc/{pid}/status"))
    return _Told(row[0], int(row[6]), int(row[36]), [*map(int, switches)])


def _of_files(
    trial: Trial, rows: Sequence[_Told], raws: Sequence[bytes]
) -> dict[str, int]:
    """Return the fields of which files tell, and the memory of programs."""

    def has_state(n: int, number: int) -> bool:
        return number & _STATE_BITS == _STATES[rows[n].state]

    def are_spaces(n: int, own: int, active: int) -> bool:
        return not own if rows[n].flags & _KTHREAD else 0 != own == active

    counts = trial.offset(raws, lambda n, *pair: [*pair] == rows[n].switches, count=2)
    found = {
        "flags": trial.equal(raws, [row.flags for row in rows], 4),
        "__state": trial.offset(raws, has_state, 4),
        "mm": trial.offset(raws, are_spaces, count=2),
        "nvcsw": counts,
        "nivcsw": counts + trial.long,
    }
    cpus = [row.cpu for row in rows]
    if any(cpus):  # else it need not be known
        found["cpu"] = trial.equal(raws, cpus, 4)
    return found


def find_on_cpu(
    trial: Trial, made: MadeTasks, stack: int, sleepers: Sequence[bytes]
) -> tuple[int, int]:
    """Return the field that is 1 while a task runs, and 0 while it could or sleeps.

    Returns its size, too: it is an int in older kernels, and a byte in newer ones.
    """
    stacks = [trial.memory.word(task + stack) for task in made.addrs]
    on_one = trial.board.get(abi.Board.nr_cpus) == 1  # others run on another one
    raws, runs = [*sleepers], [False for _ in sleepers]
    for pointer, seen in made.turns:
        # another stack may end where its own begins
        own = max((stack for stack in stacks if _is_on(pointer, stack)), default=0)
        for raw, stack_of_it in zip(seen, stacks, strict=False):
            if (is_running := stack_of_it == own) or on_one:
                raws.append(raw)
                runs.append(is_running)
    for size in (4, 1):
        for at in trial.offsets(raws, lambda n, number: number == runs[n], size):
            return at, size
    raise UnseenError


def _threads(
    trial: Trial, tasks: Sequence[int], raws: Sequence[bytes]
) -> tuple[int, int, int]:
    """Return the fields of a task's signals, its place in their list, and their head.

    A task without threads is alone in the list.
    """
    alone = trial.offsets(raws, lambda _n, after, before: after == before, count=2)
    for node in alone:
        heads = [trial.number(raw, node) for raw in raws]
        begins = [task + node for task in tasks]
        if heads == begins or [*map(trial.there, heads)] != begins:
            continue
        for at in range(0, len(raws[0]), trial.long):
            places = {
                head - trial.number(raw, at)
                for head, raw in zip(heads, raws, strict=True)
            }
            if len(places) == 1 and 0 < (head := places.pop()) < _NEAR:
                return at, node, head
    raise UnseenError


def _is_on(addr: int, stack: int) -> bool:
    """Return True if an address lies on a task's stack."""
    return not stack % PAGE_SIZE and stack < addr < stack + _MAX_STACK
