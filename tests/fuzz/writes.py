#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Random writes through a mount: ``python -m tests.fuzz.writes DIR [N [SEED]]``.

Exits 1 with the write that made a file answer EIO, hang for 5 s or the mount die.
"""

import errno
import os
import random
import sys
import threading
import time

from tests.fuzz.inputs import bent, noise

FATAL = {errno.EIO, errno.ENOTCONN, errno.ECONNABORTED, errno.ENOSYS}
FLAGS = (os.O_WRONLY, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND, os.O_RDWR)
PATIENCE = 5  # s
NOT_ENOSYS = "machine/syscall"  # where it is the answer to an unknown name


def writable(top: str) -> list[str]:
    found = []
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if os.stat(path).st_mode & 0o222:
                found.append(path)
    return sorted(found)


def attempt(path: str, flags: int, data: bytes) -> int:
    """The errno of opening, writing or closing, 0 if all went well."""
    try:
        fd = os.open(path, flags | os.O_NONBLOCK)
        try:
            os.write(fd, data)
            if flags & os.O_RDWR:
                os.pread(fd, 64, 0)
        finally:
            os.close(fd)
    except OSError as e:
        return e.errno or errno.EIO
    return 0


def watch(current: list[object]) -> None:
    """End the process, whatever it is in, when a write takes PATIENCE."""
    last: list[object] = []
    while True:
        time.sleep(PATIENCE)
        if current and current == last:
            print(f"write {current} does not come back", flush=True)
            os._exit(1)
        last = list(current)


def main() -> int:
    top = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    rng = random.Random(seed)
    current: list[object] = []
    threading.Thread(target=watch, args=(current,), daemon=True).start()
    tally: dict[str, int] = {}
    begin = time.monotonic()
    files: list[str] = []
    for i in range(count):
        if i % 500 == 0:
            files = writable(top)
        path, flags = rng.choice(files), rng.choice(FLAGS)
        data = bent(rng) if rng.random() < 0.8 else noise(rng)
        current[:] = i, path, flags, data
        code = attempt(path, flags, data)
        allowed = code == errno.ENOSYS and path.endswith(NOT_ENOSYS)
        if code in FATAL and not allowed:
            name = errno.errorcode[code]
            print(f"write {i} (seed {seed}): {name} from {path} {flags:#o} {data!r}")
            return 1
        word = errno.errorcode.get(code, "ok") if code else "ok"
        tally[word] = tally.get(word, 0) + 1
    seconds = time.monotonic() - begin
    words = ", ".join(f"{n} {word}" for word, n in sorted(tally.items()))
    print(f"{count} writes in {seconds:.1f} s: {words}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
