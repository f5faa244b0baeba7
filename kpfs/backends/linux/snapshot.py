# SPDX-License-Identifier: GPL-2.0-or-later
"""Snapshots of a Linux kernel in this process."""

from __future__ import annotations

from kpfs.backends.linux.access import LinuxAccess
from kpfs.linux.running.frozen import freeze, thaw


class LinuxSnapshot:
    """Implements kpfs.api.snapshot.Snapshot.  Context: the kernel's lock is held."""

    def __init__(self, session: LinuxAccess) -> None:
        self.session = session
        self._frozen = freeze(session.kernel)
        self._next_pid, self._buffers = session.next_pid, dict(session.buffers)
        self._probes, self._functions = dict(session.probes), session.functions.held()

    def restore(self) -> None:
        """Put the kernel back into that state."""
        thaw(self.session.kernel, self._frozen)
        self.session.forget_explainer()
        self.session.next_pid = self._next_pid
        self.session.buffers = dict(self._buffers)
        self.session.functions.restore(self._functions)
        self.session.probes.clear()
        self.session.probes.update(self._probes)
