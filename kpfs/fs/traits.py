# SPDX-License-Identifier: GPL-2.0-or-later
"""Small interfaces that files implement: what else is true of such a file."""


class Constant:
    """A file that always has the same bytes, and their size: it can be mapped."""


class Sleeping:
    """A file to which a write may take as long as the kernel's code likes."""


class Posthumous:
    """A file that can be opened and read when the kernel is dead."""


class Reviving(Posthumous):
    """A file whose open and write are no system calls of the kernel."""


class Vital:
    """A file that is served without the kernel if that oopses on the way to it."""


class AfterExits:
    """A file that is opened when the files of processes that ended are closed."""
