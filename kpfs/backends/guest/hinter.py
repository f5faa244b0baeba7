# SPDX-License-Identifier: GPL-2.0-or-later
"""Says at once what the guest kernel lacks, when an operation on tracefs meets it.

A refused write gets an entry in error_log.  Under ``kpfs run`` a hint is kept for the
end, once for each thing.  Programs look for files that they can do without, so a hint
about a file that was only looked for matters only if the command fails.
"""

from __future__ import annotations

import errno
from functools import cached_property

from kpfs.backends.guest.files.array_file import ArrayFile
from kpfs.base.errors import KernelError
from kpfs.base.log import Log
from kpfs.base.typed import TYPE_CHECKING
from kpfs.host import hints

if TYPE_CHECKING:
    from kpfs.backends.guest.root.guest_kernel import GuestKernel
    from kpfs.fs.node import File
    from kpfs.manual.lacks import Hint, Lacks

log = Log(__name__)
TRACEFS = "/tracing/"  # on the mount


class Hinter:
    """The hints about one kernel."""

    def __init__(self, kernel: GuestKernel, fd: int = -1) -> None:
        """fd: where hints are kept, see kpfs.host.hints; -1: nowhere."""
        self._kernel = kernel
        self._fd = fd
        self._told: set[tuple[str, bool]] = set()

    @cached_property
    def _lacks(self) -> Lacks:
        from kpfs.manual.lacks import Lacks

        return Lacks(lambda: self._kernel.trace.events.groups())

    def looked_for(self, path: str, *, to_write: bool = False) -> None:
        """Note a path of the mount that is not there.  to_write: or would be made."""
        if path.startswith(TRACEFS):
            hint = self._lacks.looked_for(path.removeprefix(TRACEFS))
            self._tell(hint, if_failed=not to_write)

    def refused(self, error: KernelError, path: str, node: File, data: bytes) -> None:
        """Note a write that a file of the mount has refused."""
        if not path.startswith(TRACEFS) or error.errno not in (
            errno.EINVAL,
            errno.ENOENT,
        ):
            return
        path = path.removeprefix(TRACEFS)
        hint = self._lacks.refused(path, data)
        if hint is None:
            return
        self._tell(hint, if_failed=False)
        command = data.partition(b"\0")[0].decode("latin-1").strip()
        with self._kernel.lock:
            array = node.tr if isinstance(node, ArrayFile) else self._kernel.trace
            array.err_log.record(path.rpartition("/")[2], hint.text, command, 0)

    def _tell(self, hint: Hint | None, *, if_failed: bool) -> None:
        if hint is None or (hint.key, if_failed) in self._told:
            return
        self._told.add((hint.key, if_failed))
        log.info("%s", hint.text)
        if self._fd >= 0:
            hints.add(self._fd, hint.text, if_failed=if_failed)
