# SPDX-License-Identifier: GPL-2.0-or-later
"""The command ``kpfs explain``: is a probe accepted and optimised, and if not, why.

It asks a guest kernel booted for the purpose, with --kernel a Linux kernel that was
made, or with --image the dump of one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kpfs.base.errors import SetupError, of_file
from kpfs.base.shown import raw
from kpfs.engine.arch.arches import JUDGES
from kpfs.explain.explainer import Explainer, modules_of
from kpfs.explain.image import DumpedImage
from kpfs.explain.verdicts import judging_state
from kpfs.host.progress import waiting_for

if TYPE_CHECKING:
    from argparse import Namespace


EXIT_REFUSED = 1
KERNELS = "kernel", "kernels", "image"  # options that say which is asked


def main(arguments: Namespace) -> int:
    """Print the fate of a probe at each point; return the exit status.

    The status is 0 if every point is accepted, 1 if one is refused or its bytes are
    unknown.  Raises SetupError.
    """
    points, functions = arguments.points, arguments.all
    named = [name for name in KERNELS if getattr(arguments, name) is not None]
    if len(named) > 1:
        options = " and ".join(f"--{name}" for name in named)
        raise SetupError(f"explain: {options} do not go together: say one")
    if arguments.kernels is not None:
        if functions or arguments.insmod:
            raise SetupError(
                "explain: --kernels has a row for each point: one --kernel"
            )
        return _explain_in(arguments.kernels, points, arguments.json)
    if arguments.json:
        raise SetupError("explain: --json wants kernels: --kernels NAME,...")
    if arguments.kernel:
        from kpfs.explain.kernels import linux_explainer

        modules = [*arguments.insmod, *modules_of(points)]
        with linux_explainer(arguments.kernel, modules) as explainer:
            return print_points(explainer, points, functions=functions)
    if arguments.insmod:
        raise SetupError("explain: --insmod wants a kernel: --kernel NAME")
    if arguments.image:
        return _explain_image(Path(arguments.image), points, functions)
    with ExitStack() as stack:
        with waiting_for("starting the kernel"):
            explainer = stack.enter_context(guest_explainer())
        return print_points(explainer, points, functions=functions)


def _explain_in(kernels: str, points: Sequence[str], as_json: bool) -> int:
    """Print what becomes of points in several kernels; return the exit status."""
    from kpfs.explain.table import fates_in, table
    from kpfs.linux.running.chosen import chosen

    names = chosen(kernels)
    columns = fates_in(names, points)
    print(json.dumps(columns, indent=1) if as_json else table(columns))
    fates = [fate for column in columns.values() for fate in column]
    return EXIT_REFUSED if any(fate["errno"] for fate in fates) else 0


def _explain_image(folder: Path, points: Sequence[str], functions: bool) -> int:
    try:
        with waiting_for("reading the image"):
            image = DumpedImage(folder)
    except (OSError, ValueError, KeyError) as err:
        why = of_file(err, err.filename) if isinstance(err, OSError) else err
        raise SetupError(f"explain: no image in {folder}: {why}") from None
    explainer = Explainer(judging_state(image, image.judge), image.judge)
    return print_points(explainer, points, functions=functions)


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
    explainer.check(points)
    status = 0
    coloured = wants_colours(sys.stdout)
    for point in points:
        if functions:
            number, words = explainer.explain_all(point, coloured=coloured)
        else:
            with waiting_for("looking at the kernel's functions"):
                verdict, words = explainer.explain(point)
            number = verdict.errno
        print(words, file=raw(sys.stdout) if coloured and functions else sys.stdout)
        if number:
            status = EXIT_REFUSED
    return status
