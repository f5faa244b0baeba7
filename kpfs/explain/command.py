# SPDX-License-Identifier: GPL-2.0-or-later
"""The command ``kpfs explain``: is a probe accepted and optimised, and if not, why.

It asks a guest kernel booted for the purpose, with --kernel a Linux kernel that was
made, or with --image the dump of one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kpfs.base.errors import KernelError, SetupError, of_file, told_to_user
from kpfs.base.shown import raw
from kpfs.engine.arch.arches import JUDGES
from kpfs.explain.explainer import Explainer
from kpfs.explain.image import DumpedImage
from kpfs.explain.verdicts import errno_name, judging_state
from kpfs.host.progress import waiting_for

if TYPE_CHECKING:
    from argparse import Namespace

    from kpfs.linux.running.linux_kernel import LinuxKernel

EXIT_REFUSED = 1


def main(arguments: Namespace) -> int:
    """Print the fate of a probe at each point; return the exit status.

    The status is 0 if every point is accepted, 1 if one is refused or its bytes are
    unknown.  Raises SetupError.
    """
    if arguments.image and arguments.kernel:
        raise SetupError("--image and --kernel name two kernels: say one")
    points, functions = arguments.points, arguments.all
    if arguments.kernel:
        return _explain_kernel(arguments.kernel, points, arguments.insmod, functions)
    if arguments.insmod:
        raise SetupError("explain: --insmod wants a kernel: --kernel NAME")
    if arguments.image:
        return _explain_image(Path(arguments.image), points, functions)
    with ExitStack() as stack:
        with waiting_for("starting the kernel"):
            explainer = stack.enter_context(guest_explainer())
        return print_points(explainer, points, functions=functions)


def _explain_image(folder: Path, points: Sequence[str], functions: bool) -> int:
    try:
        with waiting_for("reading the image"):
            image = DumpedImage(folder)
    except (OSError, ValueError, KeyError) as err:
        why = of_file(err, err.filename) if isinstance(err, OSError) else err
        raise SetupError(f"explain: no image in {folder}: {why}") from None
    explainer = Explainer(judging_state(image, image.judge), image.judge)
    return print_points(explainer, points, functions=functions)


def _explain_kernel(
    name: str, points: Sequence[str], modules: Sequence[str], functions: bool
) -> int:
    """Judge points in a Linux kernel, started from its image.

    The modules of points like MODULE:SYMBOL are loaded, too.
    """
    from kpfs.emulator.libunicorn import EmulatorError
    from kpfs.linux.running.linux_kernel import LinuxKernel

    try:
        linux = LinuxKernel(name, quiet=True, callers=False)
    except EmulatorError as error:
        raise SetupError(str(error)) from None
    try:
        linux.start()
        named = (point.partition(":") for point in points)
        _load(linux, [*modules, *(module for module, colon, _ in named if colon)])
        return print_points(explainer_of(linux), points, functions=functions)
    finally:
        linux.stop()


def _load(linux: LinuxKernel, modules: Sequence[str]) -> None:
    """Load module files, and modules of the package that are not loaded yet."""
    from kpfs.linux.running import loading
    from kpfs.linux.store.modules import module_name

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
            raise SetupError(f"explain: {module}: {why}") from None


def explainer_of(linux: LinuxKernel) -> Explainer:
    """Return an explainer of a Linux kernel as if it had no probes.

    Context: the kernel's lock is not held.
    """
    from kpfs.explain.linux import UnprobedTables

    image = UnprobedTables.of(linux)
    state = judging_state(image, image.judge)
    state.module_states.update(image.module_states)
    return Explainer(state, image.judge, image.takes_shared_names)


@contextmanager
def guest_explainer() -> Iterator[Explainer]:
    """Start a guest kernel for this alone, and yield an explainer of it."""
    from kpfs.guest.machine import Guest

    guest = Guest(1, quiet=True)
    try:
        arch = JUDGES[guest.arch](guest)
        yield Explainer(judging_state(guest, arch), arch)
    finally:
        guest.close()


def wants_colours(stream: TextIO) -> bool:
    """Return True for a terminal, unless the user wants none: no-color.org."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


def print_points(
    explainer: Explainer, points: Sequence[str], *, functions: bool
) -> int:
    """Print what becomes of each point; return the exit status of main().

    Raises SetupError, before anything is printed, for a point that is none.
    """
    for point in points:
        explainer.check(point)
    status = 0
    coloured = wants_colours(sys.stdout)
    for point in points:
        if functions:
            number, words = explainer.explain_all(point, coloured=coloured)
        else:
            verdict, words = explainer.explain(point)
            number = verdict.errno
        print(words, file=raw(sys.stdout) if coloured and functions else sys.stdout)
        if number:
            status = EXIT_REFUSED
    return status
