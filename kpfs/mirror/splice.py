# SPDX-License-Identifier: GPL-2.0-or-later
"""Let a command's splice(2) and sendfile(2) reach the files of the mount.

Linux splices from a file of FUSE by the page cache, which the files refuse, unless the
open file has O_DIRECT (see kpfs.fs.fuse.splices).  So the supervisor sets that flag
right before the first such call goes on.  The call itself stays the caller's own: it
waits, is interrupted and moves positions as Linux does it.
"""

from __future__ import annotations

from kpfs.base import syscall_numbers as nr
from kpfs.base.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from kpfs.mirror.host import Host
    from kpfs.mirror.seccomp import Notification

# by call: which arguments are the descriptors that it takes data from and gives it to
SPLICES = {nr.SENDFILE: (1, 0), nr.SPLICE: (0, 2)}


def concerns_mount(host: Host, note: Notification) -> bool:
    """Return True if a splice is from or to a file of the mount."""
    return any(
        host.fd_in_tree(note.pid, note.args[number]) for number in SPLICES[note.nr]
    )


def prepare(host: Host, note: Notification) -> None:
    """Make a splice that is to go on reach those of its files that are the mount's."""
    for number in SPLICES[note.nr]:
        host.make_direct(note.pid, note.args[number])
