# SPDX-License-Identifier: GPL-2.0-or-later
"""Bytes for every writable file of a mount: an errno or success, never a bug.

tests/fuzz/corpus/ has writes that were answered EIO, hung, or were the mount's last.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import stat
from pathlib import Path

from tests.harness import WrongError

CORPUS = Path(__file__).parent / "corpus"
PATIENCE = 20  # s for one operation
BUGS = {*(errno.EIO, errno.ENOTCONN, errno.ECONNABORTED, errno.ETIMEDOUT, errno.ENOSYS)}
NOT_A_BUG = {"machine/syscall": {errno.ENOSYS}}  # the name is not known
FLAGS = (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_TRUNC)

WORDS = """
p p: r r: r5: r0: r-1: r99999: - -: -:* - e p:e r:e p:g/e p:kprobes/e :e p:1 p:a-b p:/
vfs_read vfs_read+0 vfs_read+5 vfs_read+4096 vfs_read-1 vfs_write ksys_read kfree
nosuch _stext _text schedule do_int3 kprobe:x x:y 0 0x0 -1 1 0xffffffff81000000
0xffffffffffffffff 0xffffffff81000005 18446744073709551616 %return %ax %di $stack
$stack0 $retval $comm $arg1 @vfs_read @0 +0(%di) +0(+0(%si)):string :u8 :x64 :ustring
a=%ax b=$retval:s32 \\1 \\"x" # ## ; , = : / . .. * ? ! ~ && || ( ) common_pid==1
y n Y N on off o t true false 2 10 01 +1 0x1 getpid getppid openat read write fork clone
exit execve mount reboot /proc/version /etc/passwd nosuchcall traceon stacktrace nop
function global local events kprobes kprobes:* *:* kprobes:e !kprobes:e
r10:c p:x/y -:a -:g/ mod:sym 010 99999999999999999999 x=%ax:u8[3] -100 buf "/etc" a:b
g:* !a oN <3>text enable %s%n ../..
""".split()
GLUE = (" ", "", "\n", "\t", "  ", "\r", "\0", ":", "/", "=", ",")
BOUNDARIES = (0, 1, 2, 31, 63, 64, 65, 127, 255, 256, 4095, 4096, 4097, 8191, 131073)


def random_bytes(rng: random.Random) -> bytes:
    """Return bytes to write: words of the interface, noise, or an edge of some size."""
    kind = rng.random()
    if kind < 0.6:
        words = [rng.choice(WORDS) + rng.choice(GLUE) for _ in range(rng.randint(1, 9))]
        data = "".join(words).encode()
    elif kind < 0.7:
        data = rng.randbytes(rng.choice((rng.randint(0, 40), 300, 4095, 5000)))
    elif kind < 0.75:
        unit = (rng.choice(WORDS) + rng.choice(GLUE)).encode()
        size = rng.choice(BOUNDARIES)
        data = (unit * (size // len(unit) + 1))[:size]
    else:
        data = rng.choice((b"0", b"1", b"y", b"n", b"p:e vfs_read", b"r:e vfs_read"))
    if data and rng.random() < 0.2:
        place = rng.randrange(len(data))
        data = data[:place] + rng.randbytes(1) + data[place + 1 :]
    return data + b"\n" if rng.random() < 0.5 else data


def files(top: str, wanted: int) -> list[str]:
    """Return files below top with these permissions, some of each directory."""
    found = []
    for directory, names, members in os.walk(top):
        del names[50:]
        for name in members[:50]:
            path = os.path.join(directory, name)
            try:
                mode = os.stat(path).st_mode
            except FileNotFoundError:
                continue  # an event that has gone
            if stat.S_ISREG(mode) and mode & wanted:
                found.append(path)
    return sorted(found)


def attempt(top: Path, name: str, data: bytes, flags: int, offset: int = 0) -> int:
    """Open, write, close; return the errno, 0 if all went well; WrongError: a bug."""
    try:
        fd = os.open(top / name, flags | os.O_NONBLOCK)
        try:
            if offset:
                os.lseek(fd, offset, os.SEEK_SET)
            os.write(fd, data)
        finally:
            os.close(fd)
    except OSError as error:
        number = error.errno or errno.EIO
        if number in BUGS - NOT_A_BUG.get(name, set()):
            raise WrongError(errno.errorcode[number]) from error
        return number
    return 0


def read_all(top: str) -> None:
    """Read every file to its end, blocking ones as far as they go."""
    for path in files(top, 0o444):
        signal.alarm(PATIENCE)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                for _ in range(1000):
                    if not os.read(fd, 65536):
                        break
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno in BUGS:
                raise WrongError(
                    f"{path}: {errno.errorcode[error.errno or 0]}"
                ) from error
        except WrongError as bug:
            raise WrongError(f"{bug} from a read of {path}") from None


def replay(top: Path) -> None:
    """Write the cases of the corpus, each of which once was a bug."""
    for path in sorted(CORPUS.glob("*.case")):
        name, _, data = path.read_bytes().partition(b"\n")
        signal.alarm(PATIENCE)
        if (top / name.decode()).exists():
            attempt(top, name.decode(), data, os.O_WRONLY)


def too_long(_number: int, _frame: object) -> None:
    raise WrongError(f"no answer in {PATIENCE} s")
