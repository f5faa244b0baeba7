# SPDX-License-Identifier: GPL-2.0-or-later
"""``python -m bench``: run groups of measurements and print them."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from functools import partial

from bench import engine, mirror, modules, mount, qemu, watch
from bench.row import Row

GROUPS = {
    **mount.GROUPS,
    **engine.GROUPS,
    **modules.GROUPS,
    **mirror.GROUPS,
    **watch.GROUPS,
}


def show(row: Row) -> str:
    """A line of the table."""
    value = "-" if row.value is None else f"{row.value:.3f}"
    limit = ""
    if row.limit is not None:
        limit = f"at {'least' if row.more else 'most'} {row.limit:g}"
        limit += {True: "", False: "  MISSED", None: ""}[row.kept]
    return f"{row.name:28} {value:>10} {row.unit:3}  {limit:22} {row.note}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser("bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument(
        "--repeats", type=int, default=7, help="medians or least of so many"
    )
    parser.add_argument(
        "--against-qemu",
        action="store_true",
        help="measure hits in a real Linux 6.1 under QEMU too, by scripts/oracle",
    )
    parser.add_argument(
        "groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.groups) - set(GROUPS)
    if unknown:
        parser.error(f"no such group: {', '.join(sorted(unknown))}")
    groups = [GROUPS[name] for name in arguments.groups or GROUPS]
    rows = []
    try:
        if arguments.against_qemu:
            groups.append(partial(qemu.against, qemu.oracle()))
        for group in groups:
            for row in group(arguments.repeats):
                rows.append(row)
                if not arguments.json:
                    print(show(row), flush=True)
    except qemu.NotHereError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        machine = {"python": platform.python_version(), "machine": platform.machine()}
        print(json.dumps({**machine, "rows": [row._asdict() for row in rows]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
