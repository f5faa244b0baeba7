# SPDX-License-Identifier: GPL-2.0-or-later
"""A command that stands where runs begin, in a process that makes runs for another.

It reads a job from its input, and then a plan for each run, one a line in JSON. For
each plan it writes what Runs.tell() tells, with its size before it. The job names all
that a run depends on, so that a machine which would make other runs says so.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from typing import NamedTuple

from kpfs.base.errors import SetupError
from kpfs.config import KernelChoice
from kpfs.hunt.runs import InRun, Runs
from kpfs.hunt.task import SearchTask, seed_of, told_of_kernel
from kpfs.inside import warm
from kpfs.linux.inside import mounted
from kpfs.linux.inside.request import RunRequest
from kpfs.linux.running import chosen
from kpfs.linux.search.plan import RunPlan
from kpfs.linux.search.searched import SearchedCommand
from kpfs.linux.search.seed import Seed, changes
from kpfs.linux.store import store

SIZE = struct.Struct("<q")  # before each answer; below 0 if that says why there is none


class SearchJob(NamedTuple):
    """A command, and all that its runs depend on."""

    task: SearchTask
    request: RunRequest
    seed: Seed  # with plan and digest of the run without any change

    def text(self) -> str:
        """Return the job as a line of JSON."""
        parts = self.task._asdict(), self.request.packed(), self.seed.text()
        return json.dumps(parts)

    @classmethod
    def parsed(cls, text: bytes) -> SearchJob:
        """Return the job that text() gave."""
        task, request, seed = json.loads(text)
        task |= {"argv": tuple(task["argv"]), "of": tuple(task["of"])}
        return cls(SearchTask(**task), RunRequest.unpacked(request), Seed.parsed(seed))


class _IsOverError(BaseException):
    """No more runs are wanted."""


def serve(job: SearchJob) -> None:
    """Make runs as long as plans come.  Raises SetupError."""
    task, request, seed = job
    choice = KernelChoice(chosen.kernel(task.kernel).image, quiet=True)
    warm.check_host(choice)
    if told := changes(seed, seed_of(task, request)):
        raise SetupError("; ".join(told))
    with told_of_kernel():
        folder = store.folder(choice.kernel)
        kernel = mounted.start(folder, quiet=True, root=task.root)

    def begun() -> None:
        try:
            first = runs.one(seed.plan)
            if first.outcome.digest != seed.digest:
                raise SetupError("CMD does not do the same here")
            while line := sys.stdin.buffer.readline():
                _write(runs.one(RunPlan.unpacked(json.loads(line))).told)
        except InRun:
            return
        raise _IsOverError

    parts = begun, seed.begins, task.of, seed.plan.checks
    runs = Runs(command := SearchedCommand(kernel, *parts))
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    with told_of_kernel():
        command.begin(request, [null] * 3)
        outcome = command.end()
    if runs.in_run:
        runs.tell(outcome)
        os._exit(0)
    raise SetupError("CMD does not come to where runs begin")


def _write(told: bytes, sign: int = 1) -> None:
    sys.stdout.buffer.write(SIZE.pack(sign * len(told)) + told)
    sys.stdout.buffer.flush()


def main() -> None:
    try:
        serve(SearchJob.parsed(sys.stdin.buffer.readline()))
    except _IsOverError:
        pass
    except SetupError as error:
        _write(str(error).encode(), -1)


if __name__ == "__main__":
    main()
