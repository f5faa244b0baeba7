# SPDX-License-Identifier: GPL-2.0-or-later
"""Bytes of functions that a dump of a kernel lacks, from elsewhere.

A probe at an offset behind its function's end is judged by the function it lands in,
and a part such as f.cold by the whole one; a dump need not have the bytes of these.
They are looked for, in this order, in supplements/ beside this file, in the user's
cache, and in the same kernel running: the oracle, a program that boots it and runs a
shell script in it.  The first two are named by a digest of the kernel's symbols.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from kpfs.base.errors import MemoryFault
from kpfs.base.ktypes import Symbol
from kpfs.explain.image import DumpedFunction, DumpedImage, read_functions

ORACLE_PATIENCE = 50  # s, with the boot
_WITNESSES = 8  # functions of the dump that the running kernel must have as well
_COLUMNS = "symbol\taddr\tsize\thex\n"

# Prints the bytes of each `show SYMBOL ADDR SIZE`, read from the kernel's text.
_SCRIPT = r"""
set -- $(od -A n -t u8 -j 32 -N 8 /proc/kcore); at=$1
set -- $(od -A n -t u2 -j 56 -N 2 /proc/kcore); n=$1
while [ "$n" -gt 0 ]; do
    set -- $(od -A n -v -t x8 -j $((at + 8)) -N 16 /proc/kcore)
    case $2 in ffffffff8*) gap=$((0x$1 - 0x$2)) ;; esac
    at=$((at + 56)) n=$((n - 1))
done
show() {
    printf '%s\t%s\t%s\t' "$1" "$2" "$3"
    od -A n -v -t x1 -j $((gap + 0x$2)) -N "$3" /proc/kcore | tr -d ' \n'
    echo
}
"""


class OracleError(Exception):
    """The oracle gave no answer, or is another kernel."""


def digest(image: DumpedImage) -> str:
    """Tells its kernel from others, whichever functions the dump has."""
    table = gzip.decompress((image.folder / "symbols.tsv.gz").read_bytes())
    return hashlib.sha256(table).hexdigest()[:16]


def supplement(image: DumpedImage, missing: Mapping[int, Symbol]) -> dict[int, Symbol]:
    """Take in what files have of the missing functions; what is missing still."""
    still = dict(missing)
    for folder in (Path(__file__).with_name("supplements"), _cache_folder()):
        path = folder / f"{digest(image)}.tsv"
        if still and path.is_file():
            _take(image, still, read_functions(path))
    return still


def ask_oracle(
    image: DumpedImage, missing: Mapping[int, Symbol], oracle: Path
) -> dict[int, Symbol]:
    """Take in the missing functions from the running kernel, and keep them.

    Raises OracleError.
    """
    witnesses = image.functions[:: max(1, len(image.functions) // _WITNESSES)]
    wanted = [(w.symbol, w.addr, w.size) for w in witnesses]
    wanted += [(s.name, s.addr, s.size) for s in missing.values()]
    found = {fn.addr: fn for fn in _run(oracle, wanted)}
    for witness in witnesses:
        if witness.addr not in found or found[witness.addr].code != witness.code:
            raise OracleError(f"has not the bytes of {witness.symbol}: another kernel")
    still = dict(missing)
    _take(image, still, found.values())
    _keep(image, [found[addr] for addr in missing if addr not in still])
    return still


def needed_functions(image: DumpedImage, addrs: Iterable[int]) -> dict[int, Symbol]:
    """The functions without bytes that judging probes at addrs asks for.

    They are the function around each address and, for a part with a dot in its name,
    the whole one.
    """
    missing: dict[int, Symbol] = {}
    for addr in addrs:
        sym = image.symbol_at(addr)
        if sym is None:
            continue
        whole = image.lookup_name(sym.name.partition(".")[0])[:1]
        for needed in (sym, *whole):
            if image.is_text(needed.addr) and not _has_code(image, needed.addr):
                missing.setdefault(needed.addr, needed)
    return missing


def _has_code(image: DumpedImage, addr: int) -> bool:
    try:
        return bool(image.read(addr, 1))
    except MemoryFault:
        return False


def _take(
    image: DumpedImage, missing: dict[int, Symbol], found: Iterable[DumpedFunction]
) -> None:
    image.add(fn for fn in found if missing.pop(fn.addr, None))


def _run(oracle: Path, wanted: list[tuple[str, int, int]]) -> list[DumpedFunction]:
    lines = [f"show {shlex.quote(n)} {addr:x} {size}" for n, addr, size in wanted]
    with tempfile.TemporaryDirectory(prefix="kpfs-") as folder:
        case = Path(folder, "case.sh")
        case.write_text(_SCRIPT + "\n".join(lines) + "\n")
        out = Path(folder, "functions.tsv")
        out.write_text(_COLUMNS + _output([str(oracle), str(case)]))
        try:
            return read_functions(out)
        except (ValueError, TypeError):
            raise OracleError("its answer makes no sense") from None


def _output(command: list[str]) -> str:
    """Return the output of a command; OracleError if it fails or takes too long."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    except OSError as err:
        raise OracleError(str(err)) from None
    try:
        out, errors = process.communicate(timeout=ORACLE_PATIENCE)
    except BaseException as err:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        if isinstance(err, subprocess.TimeoutExpired):
            raise OracleError(f"no answer within {ORACLE_PATIENCE} s") from None
        raise
    if process.returncode:
        raise OracleError(errors.strip() or f"exit status {process.returncode}")
    return out


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "kpfs")


def _keep(image: DumpedImage, functions: Iterable[DumpedFunction]) -> None:
    """Add to the cache; that it cannot be written is no harm."""
    path = _cache_folder() / f"{digest(image)}.tsv"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        old = path.read_text() if path.is_file() else _COLUMNS
        rows = [
            f"{f.symbol}\t{f.addr:x}\t{f.size}\t{f.code.hex()}\n" for f in functions
        ]
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(old + "".join(rows))
        new.replace(path)
    except OSError:
        pass
