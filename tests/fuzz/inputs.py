# SPDX-License-Identifier: GPL-2.0-or-later
"""What is thrown at writable files: noise, and what looks like input but is bent."""

import random

WORDS = [
    *(b"p", b"r", b"p:a", b"r:g/b", b"r10:c", b"p:x/y", b"-:a", b"-:g/", b"-", b"!"),
    *(b"vfs_read", b"vfs_write", b"ksys_read+5", b"vfs_read+1", b"nosuch", b"mod:sym"),
    *(b"0xffffffff81000000", b"0", b"1", b"-1", b"010", b"99999999999999999999"),
    *(b"$retval", b"$stack0", b"$comm", b"%di", b"+0(%di):string", b"x=%ax:u8[3]"),
    *(b"getppid", b"openat", b"read", b"write", b"close", b"-100", b"buf", b'"/etc"'),
    *(b"a:b", b"g:*", b"!a", b"nop", b"function", b"on", b"oN", b"y", b"#", b"<3>text"),
    *(b"enable", b"\xff\xfe", b"\0", b"a" * 70, b"x" * 4096, b"%s%n", b"../.."),
]
SEPARATORS = [b" ", b" ", b" ", b"\n", b"\t", b"", b":", b"/", b"+", b"\n\n", b"\r"]


def bent(rng: random.Random) -> bytes:
    """A few words that mean something somewhere, and sometimes a flipped byte."""
    data = bytearray()
    for _ in range(rng.randrange(1, 8)):
        data += rng.choice(WORDS) + rng.choice(SEPARATORS)
    if rng.random() < 0.3:
        data += b"\n"
    if data and rng.random() < 0.2:
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def noise(rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice((1, 2, 3, 10, 63, 64, 65, 300, 4095, 4096, 5000)))
