# SPDX-License-Identifier: GPL-2.0-or-later
"""Sizes, units and bounds that are the same for every kernel and everywhere in kpfs."""

NSEC = 1_000_000_000  # ns of a second
WORD = 8  # bytes of a register, and of a pointer
PAGE_SIZE, LARGE_PAGE = 4096, 2 << 20
PATH_MAX, NAME_MAX = 4096, 255  # bytes of a path with its 0, of a name without
UTS_LENGTH = 65  # bytes of a name in uname(2)'s structure
MAX_ERRNO = 4095
MAX_ARGS = 6  # most arguments of a system call
MODULE_MAX = 64 << 20  # bytes of a module's file
DEFAULT_CPUS, MAX_CPUS = 2, 16  # virtual CPUs of the guest kernel
