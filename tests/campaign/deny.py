# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a command whose system calls of one number fail: ``deny.py NUMBER ERRNO CMD...``.

Document: seccomp(2), PR_SET_SECCOMP.
"""

import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
AUDIT_ARCH_X86_64 = 0xC000003E
LD_W_ABS, JEQ_K, RET_K = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000


def main() -> None:
    number, error = int(sys.argv[1]), int(sys.argv[2])
    rows = [
        (LD_W_ABS, 0, 0, 4),
        (JEQ_K, 0, 3, AUDIT_ARCH_X86_64),
        (LD_W_ABS, 0, 0, 0),
        (JEQ_K, 0, 1, number),
        (RET_K, 0, 0, ERRNO | error),
        (RET_K, 0, 0, ALLOW),
    ]
    code = ctypes.create_string_buffer(
        b"".join(struct.pack("=HBBI", *row) for row in rows)
    )
    program = struct.pack("=HxxxxxxQ", len(rows), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    # root needs no PR_SET_NO_NEW_PRIVS, which would keep fusermount from working
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program) != 0:
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program) != 0:
            sys.exit("deny.py: no seccomp here")
    os.execvp(sys.argv[3], sys.argv[3:])


main()
