# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of x86-64 by numbers that s390x and ppc64 share: i386's first, mostly.

Kernel: syscall.tbl of arch/s390 and arch/powerpc
"""

from __future__ import annotations

from kpfs.base import syscall_numbers as nr

FIRST_CALLS = {
    nr.EXIT: 1, nr.READ: 3, nr.WRITE: 4, nr.OPEN: 5, nr.CLOSE: 6, nr.CREAT: 8,
    nr.LINK: 9, nr.UNLINK: 10, nr.EXECVE: 11, nr.CHDIR: 12, nr.CHMOD: 15, nr.LSEEK: 19,
    nr.GETPID: 20, nr.MOUNT: 21, nr.ACCESS: 33, nr.SYNC: 36, nr.KILL: 37, nr.RENAME: 38,
    nr.MKDIR: 39, nr.RMDIR: 40, nr.DUP: 41, nr.PIPE: 42, nr.TIMES: 43, nr.IOCTL: 54,
    nr.FCNTL: 55, nr.SETPGID: 57, nr.UMASK: 60, nr.CHROOT: 61, nr.DUP2: 63,
    nr.GETPPID: 64, nr.GETPGRP: 65, nr.SETSID: 66, nr.SETHOSTNAME: 74, nr.GETRUSAGE: 77,
    nr.GETTIMEOFDAY: 78, nr.SYMLINK: 83, nr.READLINK: 85, nr.MMAP: 90, nr.MUNMAP: 91,
    nr.TRUNCATE: 92, nr.FTRUNCATE: 93, nr.FCHMOD: 94, nr.GETPRIORITY: 96,
    nr.SETPRIORITY: 97, nr.STATFS: 99, nr.FSTATFS: 100, nr.SYSLOG: 103,
    nr.GETITIMER: 105, nr.STAT: 106, nr.LSTAT: 107, nr.FSTAT: 108, nr.WAIT4: 114,
    nr.SYSINFO: 116, nr.FSYNC: 118, nr.UNAME: 122, nr.INIT_MODULE: 128,
    nr.DELETE_MODULE: 129, nr.GETPGID: 132, nr.FCHDIR: 133, nr.GETDENTS: 141,
    nr.SELECT: 142, nr.FLOCK: 143, nr.READV: 145, nr.WRITEV: 146, nr.GETSID: 147,
    nr.FDATASYNC: 148, nr.SCHED_GETPARAM: 155, nr.SCHED_GETSCHEDULER: 157,
    nr.SCHED_SETSCHEDULER: 156,
    nr.SCHED_YIELD: 158, nr.SCHED_GET_PRIORITY_MAX: 159, nr.SCHED_GET_PRIORITY_MIN: 160,
    nr.SCHED_RR_GET_INTERVAL: 161, nr.NANOSLEEP: 162, nr.FSCONFIG: 431, nr.FSPICK: 433,
    nr.PIDFD_OPEN: 434, nr.CLONE3: 435, nr.CLOSE_RANGE: 436, nr.OPENAT2: 437,
    nr.PIDFD_GETFD: 438, nr.FACCESSAT2: 439,
}  # fmt: skip
