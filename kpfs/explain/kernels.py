# SPDX-License-Identifier: GPL-2.0-or-later
"""Explainers of the Linux kernels that were made by ``kpfs kernel``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from kpfs.base.errors import KernelError, SetupError, told_to_user
from kpfs.emulator.libunicorn import EmulatorError
from kpfs.explain.advice import Advice, Others
from kpfs.explain.explainer import Explainer
from kpfs.explain.linux import UnprobedTables
from kpfs.explain.verdicts import errno_name, judging_state
from kpfs.linux.errors import UnfitError
from kpfs.linux.memory.functions import FunctionIndex
from kpfs.linux.memory.lockdown import KPROBES, LockdownState
from kpfs.linux.running import loading
from kpfs.linux.running.chosen import folder
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.saved_kernel import SavedKernel
from kpfs.linux.store import store
from kpfs.linux.store.modules import module_name

Kernels = Mapping[str, SavedKernel]  # by their names


@contextmanager
def linux_explainer(
    name: str,
    modules: Sequence[str] = (),
    among: Kernels | None = None,
    lacking: dict[str, str] | None = None,
) -> Iterator[Explainer]:
    """Yield an explainer of a kernel that was made.

    The kernel is started from its image for modules alone: files, or names of those of
    its package. among: see others_of(). lacking: takes the modules that cannot be
    loaded, with why; None: such a one is an error.  Raises SetupError.
    """
    if not modules:
        saved = among[name] if among else SavedKernel(folder(name))
        yield _explainer(saved, UnprobedTables(saved), others_of(saved, name, among))
        return
    try:
        linux = LinuxKernel(name, quiet=True, callers=False)
    except EmulatorError as error:
        raise SetupError(str(error)) from None
    try:
        linux.start()
        _load(linux, modules, lacking)
        yield explainer_of(linux, others_of(linux.saved, name, among))
    finally:
        linux.stop()


def made_of_release(release: str) -> str:
    """Return the name of a kernel that was made and is of a release.  SetupError."""
    for name, meta in store.metas():
        if not isinstance(meta, UnfitError) and meta.release == release:
            return name
    raise SetupError(f"explain: no kernel that was made is Linux {release}")


def _load(
    linux: LinuxKernel, modules: Sequence[str], lacking: dict[str, str] | None
) -> None:
    """Load module files, and modules of the package that are not loaded yet."""
    for module in modules:
        is_file = "/" in module or module.endswith(".ko")
        try:
            with told_to_user(f"explain: {module}"), linux.lock:
                agent, loaded = linux.tasks.agent, [m.name for m in linux.modules()]
                if is_file:
                    loading.load(linux, agent, Path(module).read_bytes())
                elif module_name(module) not in loaded:
                    loading.load_named(linux, agent, module)
        except KernelError as refused:
            why = refused.why or errno_name(refused.errno)
            if lacking is None:
                raise SetupError(f"explain: {module}: {why}") from None
            lacking[module] = why


def explainer_of(linux: LinuxKernel, others: Others = tuple) -> Explainer:
    """Return an explainer of a kernel that runs, as if it had no probes.

    Context: the kernel's lock is not held.
    """
    return _explainer(linux.saved, UnprobedTables.of(linux), others)


def _explainer(saved: SavedKernel, tables: UnprobedTables, others: Others) -> Explainer:
    state = judging_state(tables, tables.judge)
    state.module_states.update(tables.module_states)
    explainer = Explainer(state, tables.judge, cache(tables.takes_shared_names))
    explainer.advice = Advice(saved, tables, others)
    lockdown = LockdownState(saved.memory, saved.structures)
    explainer.locked = lockdown.refusal_of(KPROBES)
    return explainer


def why_not(saved: SavedKernel, point: str, way: str) -> str:
    """Return why a way leads to no probe at a point, "" if it does.

    way: see Advice.ways().  Modules are not known.  Raises SetupError: it is no point.
    """
    name = Path(saved.folder).name
    fate = _explainer(saved, UnprobedTables(saved), others_of(saved, name)).fate(point)
    verdict = fate.verdict
    if verdict.errno and way not in fate.ways:
        return "; ".join([verdict.why, *fate.hints])
    return fate.ways.get(way, "")


def others_of(saved: SavedKernel, name: str, among: Kernels | None = None) -> Others:
    """Return what yields kernels to compare one with, if it has their architecture.

    among: those that may be; None: all that were made, whose index is there.
    """

    @cache
    def others() -> list[tuple[str, FunctionIndex]]:
        return [
            (other, kernel.functions)
            for other, kernel in (_indexed() if among is None else among).items()
            if other != name and kernel.arch is saved.arch
        ]

    return others


def _indexed() -> Kernels:
    found = {}
    for name in store.names():
        with suppress(UnfitError):
            kernel = SavedKernel(store.folder(name))
            if kernel.is_indexed:
                found[name] = kernel
    return found
