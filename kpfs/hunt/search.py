# SPDX-License-Identifier: GPL-2.0-or-later
"""Search one command in one kernel, and see a run of such a search again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kpfs.base.errors import SetupError
from kpfs.base.kinds import CHECKS, RACE, SCHEDULE
from kpfs.base.signals import held
from kpfs.config import KernelChoice
from kpfs.coverage.module_lines import ModuleLines
from kpfs.hunt.hunt import Hunt, SearchFinding, SearchLimits, Tried
from kpfs.hunt.runs import EndedRun, InRun, Runs
from kpfs.hunt.task import SearchTask, seed_of, told_of_kernel
from kpfs.inside import warm
from kpfs.inside.client import request_of
from kpfs.linux.inside import mounted
from kpfs.linux.running import chosen
from kpfs.linux.search import seed as seeds
from kpfs.linux.search.searched import NEVER_BEGAN, Begin, SearchedCommand
from kpfs.linux.search.seed import Seed
from kpfs.linux.store import image, store

if TYPE_CHECKING:
    from kpfs.hunt.cluster import Cluster
    from kpfs.hunt.standing import SearchJob
    from kpfs.linux.inside.mounted import PreparedKernel
    from kpfs.linux.search.plan import RunPlan
    from kpfs.linux.search.searched import RunOutcome


def check(task: SearchTask, kinds: frozenset[str]) -> None:
    """Raise SetupError for a kernel in which such a search would be in vain."""
    meta = image.read_meta(chosen.folder(task.kernel))
    if len(meta.processors) == 1 and kinds <= {RACE, SCHEDULE}:
        base, words = chosen.parts(task.kernel)
        other = "+".join((base, *words, f"{chosen.CPUS}=2"))
        raise SetupError(
            f"{task.kernel} has one processor, and nothing races there: say "
            f"--kernel {other} (--make makes it)"
        )


class _SearchedError(BaseException):
    """The search is over."""


class Search:
    """A search of one command.  Context: one thread of a process that may fork."""

    def __init__(
        self,
        task: SearchTask,
        limits: SearchLimits,
        tell: Callable[[SearchFinding, str, int], None],
        progress: Callable[[int, float], None] = lambda _runs, _share: None,
        cluster: Cluster | None = None,
    ) -> None:
        """tell: called with a finding, the name of its seed, and the runs so far.

        cluster: where runs are made, too.
        """
        self._cluster = cluster
        self._task, self._limits = task, limits
        self._told, self._progress = tell, progress
        request = seeds.searched(request_of(list(task.argv), []))
        sysctls = chosen.kernel(task.kernel).sysctls
        self._request = request._replace(sysctls=(*sysctls, *request.sysctls))
        self._seed = seed_of(task, self._request)
        self._hunt: Hunt | None = None
        self._runs: Runs | None = None
        self.seeds: dict[tuple[str, ...], str] = {}  # names, by the keys of findings
        self._told_of: dict[str, list[str]] = {}  # findings, by whole names of seeds

    def run(self) -> Tried:
        """Search.  Raises SetupError; SignalledError, and then tried() has the rest."""
        choice = KernelChoice(chosen.kernel(self._task.kernel).image, quiet=True)
        warm.check_host(choice)
        with told_of_seeds():
            seeds.check_room()
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            with told_of_kernel():
                kernel = mounted.start(
                    store.folder(choice.kernel), quiet=True, root=self._task.root
                )
            return self._search(kernel, null)
        finally:
            os.close(null)

    def _search(self, kernel: PreparedKernel, null: int) -> Tried:
        kinds = self._limits.kinds
        checks = [each for each in CHECKS if each in kinds]
        with told_of_kernel():
            command = self._command = SearchedCommand(
                kernel, self._begun, of=self._task.of, checks=checks
            )
        if kinds <= command.left_out.keys():
            raise SetupError("; ".join(command.left_out.values()))
        runs = self._runs = self._new_runs(command)
        lines = ModuleLines(command.files.by_name)
        parts = self._tell, self._progress, command.left_out
        self._hunt = Hunt(runs, self._limits, lines, *parts)
        outcome = None
        try:
            with told_of_kernel():
                command.begin(self._request, [null] * 3)
                outcome = command.end()
        except _SearchedError:
            return self._hunt.tried()
        finally:
            if not runs.in_run:
                runs.stop()
        if runs.in_run:
            runs.tell(outcome)
            os._exit(0)
        if outcome.why:
            raise SetupError(outcome.why.splitlines()[0])
        last = outcome.output.strip().splitlines()[-1:]
        said = f"; it said: {last[0]}" if last else ""
        raise SetupError(NEVER_BEGAN.format(status=outcome.status) + said)

    def _new_runs(self, command: SearchedCommand) -> Runs:
        jobs = self._limits.jobs
        if self._cluster is None:
            return Runs(command, jobs)
        from kpfs.hunt.cluster import ClusterRuns

        return ClusterRuns(command, jobs, self._cluster, self._job)

    def _job(self, base: EndedRun) -> SearchJob:
        """Return what another machine needs to make runs."""
        from kpfs.hunt.standing import SearchJob

        seed = self._seed_of_run(base.plan, base.outcome)
        return SearchJob(self._task, self._request, seed)

    def _begun(self) -> None:
        """Search from where the command stands; return in the process of a run."""
        assert self._hunt is not None
        command = self._command
        try:
            marked = self._hunt.begin().marked
            if marked and command.begun is not Begin.MARK:
                command.go_on_to(Begin.MARK)
                return
            self._hunt.run()
        except InRun:
            return
        raise _SearchedError

    def tried(self) -> Tried | None:
        """Return what was done so far; None: nothing was."""
        if self._runs is not None:
            self._runs.stop()
        return self._hunt.tried() if self._hunt and self._hunt.count else None

    def _seed_of_run(self, plan: RunPlan, outcome: RunOutcome) -> Seed:
        assert self._command.begun is not None
        return self._seed._replace(
            plan=plan,
            digest=outcome.digest,
            begins=self._command.begun,
            files=seeds.digests_of_files(outcome.reads),
        )

    def _tell(self, finding: SearchFinding, runs: int) -> None:
        seed = self._seed_of_run(finding.plan, finding.outcome)
        told = self._told_of.setdefault(seed.whole_name, [])  # one run may show several
        told.append("\n    ".join((finding.title, *finding.lines)))
        seed = seed._replace(told=tuple(told))
        name = ""
        with held():  # a signal would leave half of a seed, or of what is told
            try:
                with told_of_seeds():
                    self.seeds[finding.key] = name = seeds.keep(seed)
            finally:  # what was found is told in any case
                self._told(finding, name, runs)


@contextlib.contextmanager
def told_of_seeds() -> Iterator[None]:
    """Make an error of a seed's file one line."""
    try:
        yield
    except OSError as error:
        raise SetupError(f"a seed cannot be kept: {error.strerror}") from None
