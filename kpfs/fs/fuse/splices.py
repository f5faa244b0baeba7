# SPDX-License-Identifier: GPL-2.0-or-later
"""Requests of FUSE that splice(2) and sendfile(2) make.

Linux has no request for a splice.  It reads or writes the file for it, and what a read
may answer differs: most files refuse to be spliced, and trace_pipe_raw gives only whole
pages.  How the host's Linux takes data out of a file of FUSE depends on the open file:

- With O_DIRECT, or before Linux 6.5, it reads the file as read(2) does.
- Otherwise it reads pages into the page cache, which all open files share and which
  keeps them.  The kernel's files have no such pages, so these reads are refused, and
  programs that can do without go on by read(2).

So a splice can be made if the open file has O_DIRECT.  Under ``kpfs run`` the
supervisor sets that flag before it lets a splice go on (kpfs.mirror.splice).  A request
of such a file comes from a splice if its caller is in that system call now, as /proc
shows.

Kernel: copy_splice_read(), filemap_splice_read(), iter_file_splice_write()
"""

from __future__ import annotations

import errno
import os

from kpfs.base import fuse_wire as wire
from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.base.typed import TYPE_CHECKING, NamedTuple
from kpfs.base.units import PAGE_SIZE
from kpfs.fs.tree import E, F, Tree
from kpfs.host.process import descriptor_flags, system_call

if TYPE_CHECKING:
    from kpfs.fs.fuse.loop import Request

# Linux asks for more, and would wait for that, only after an answer of this size.
LARGEST = 32 * 4096


class Splice(NamedTuple):
    """A splice(2) or sendfile(2) that a thread is in."""

    nonblock: bool = False  # it does not wait for the data


def splice_of(pid: int, open_flags: int) -> Splice | None:
    """Return the splice that has made a request; None: it was another call.

    open_flags: of the open file, by the host's numbers.
    """
    if not open_flags & os.O_DIRECT:
        return None
    number, args = system_call(pid)
    if number == nr.SPLICE:
        pipe, flags = args[2], args[5]
    elif number == nr.SENDFILE:
        pipe, flags = args[0], 0
    else:
        return None
    # Kernel: do_splice(), do_sendfile()
    if flags & nr.SPLICE_F_NONBLOCK:
        return Splice(nonblock=True)
    return Splice(bool(max(descriptor_flags(pid, pipe), 0) & os.O_NONBLOCK))


def read(tree: Tree[E, F], request: Request, file: F, asked: wire.ReadRequest) -> bytes:
    """Answer READ."""
    if not file.constant:
        splice = splice_of(request.pid, asked.open_flags)
        if splice is not None:
            size = asked.size if asked.size < LARGEST else LARGEST - PAGE_SIZE
            where = size, asked.offset
            return tree.splice_from(request.caller, file, *where, splice.nonblock)
        if not asked.flags & wire.READ_LOCKOWNER:
            raise KernelError(errno.EINVAL, "no splice by the page cache")
    return tree.read(request.caller, file, asked.size, asked.offset)


def write(tree: Tree[E, F], request: Request, file: F, asked: wire.WriteRequest) -> int:
    """Answer WRITE; return the number of bytes taken."""
    if splice_of(request.pid, asked.open_flags) is None:
        return tree.write(request.caller, file, asked.data, asked.offset)
    return tree.splice_into(request.caller, file, asked.data, asked.offset)
