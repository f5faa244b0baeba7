# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m tests.verdicts DIR: what kpfs says of each function of a dumped kernel.

It prints a table in the form of DIR/verdicts.tsv, which a dump has from the kernel it
was taken of, for the offsets 0 to 40 of all functions.  Where the bytes that decide are
not known, a row has a question mark, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kpfs.explain.image import DumpedImage, read_functions
from kpfs.explain.verdicts import judging_state
from tests.verdicts.supplement import (
    OracleError,
    ask_oracle,
    needed_functions,
    supplement,
)
from tests.verdicts.table import COLUMNS, OFFSETS, table


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m tests.verdicts", description=__doc__, formatter_class=raw
    )
    parser.add_argument("image", metavar="DIR", type=Path)
    parser.add_argument(
        "--functions",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="more functions, in the form of DIR/functions.tsv",
    )
    parser.add_argument(
        "--oracle",
        metavar="RUN",
        type=Path,
        help="program that boots the kernel of DIR and is asked for functions that DIR "
        "lacks (default: DIR/../oracle/run, if there is one)",
    )
    parser.add_argument("--no-oracle", action="store_true", help="do not ask one")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    image = DumpedImage(args.image)
    for path in args.functions:
        image.add(read_functions(path))
    complete(image, args)
    unknown = 0
    print(*COLUMNS, sep="\t")
    for row in table(judging_state(image, image.judge), image):
        unknown += row[-1] == "?"
        print(*row, sep="\t")
    if unknown:
        print(f"{unknown} rows not known, marked ?", file=sys.stderr)
    return int(unknown > 0)


def complete(image: DumpedImage, args: argparse.Namespace) -> None:
    """Get the bytes that the table needs and the dump lacks, as far as possible."""
    reach = [fn.addr + offset for fn in image.functions for offset in OFFSETS]
    missing = supplement(image, needed_functions(image, reach))
    oracle = args.oracle or args.image.resolve().parent / "oracle" / "run"
    if not missing or args.no_oracle or not oracle.exists():
        return
    print(
        f"{len(missing)} functions that the verdicts depend on are not in "
        f"{args.image}; reading them from a kernel booted by {oracle}",
        file=sys.stderr,
    )
    try:
        ask_oracle(image, missing, oracle)
    except OracleError as err:
        print(f"{oracle}: {err}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
