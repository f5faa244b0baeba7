# SPDX-License-Identifier: GPL-2.0-or-later
"""Names and places of the files that are built of the guest's C."""

import os

SOURCES = os.path.dirname(os.path.realpath(__file__))  # with src and include
IMAGE_DIR = os.path.join(SOURCES, "image")
KERNEL_IMAGE = "vmlinux"
# names of its functions that are there with LEGACY_SYMBOLS alone, and without it alone
LEGACY, NOT_LEGACY = ("do_fork", "_do_fork", "sys_open"), ("kernel_clone",)
DEBUG_SUFFIX = ".debug"  # ends the name of an image's debug information
CALLS_SUFFIX = ".calls"  # ends the name of what says which calls reach a function
RUNTIME_IMAGE = "runtime.o"
RELEASE = "6.1.0-kpfs"  # the guest kernel's: UTS_RELEASE
