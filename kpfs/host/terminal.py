# SPDX-License-Identifier: GPL-2.0-or-later
"""The terminal of a command that is run for somebody, as su(1) and sudo(8) treat it.

A shell makes a process group of its own and takes the terminal.
When it stops, the shell that has started us must learn that, but it waits only for us.
"""

from __future__ import annotations

import contextlib
import os
import signal

# sent by the terminal to all of a group, to us as well as to the command
STOPPING = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class Job:
    """A command, and the terminal that it shares with us.

    To be made before it runs.  Signals in STOPPING and SIGCONT are blocked.
    """

    def __init__(self) -> None:
        self._terminal = -1
        with contextlib.suppress(OSError):  # there is no terminal
            self._terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
        self._ours = os.getpgrp()
        self._had_terminal = self._foreground() == self._ours
        self._taken_by = 0  # the group that had the terminal when the command stopped

    def _foreground(self) -> int:
        """The group that has the terminal, 0: there is none."""
        with contextlib.suppress(OSError):
            return os.tcgetpgrp(self._terminal)
        return 0

    def is_of_our_group(self, pid: int) -> bool:
        """Whether the command gets what the terminal sends to us."""
        with contextlib.suppress(OSError):
            return os.getpgid(pid) == self._ours
        return False

    def stopped(self, pid: int, number: int) -> None:
        """Stop ourselves like the command, until somebody continues us."""
        foreground = self._foreground()
        group = os.getpgid(pid)
        if number not in STOPPING and foreground not in (group, self._ours):
            return  # whoever stopped it knows that, and will continue it
        self._taken_by = foreground if foreground == group else 0
        if self._nobody_waits():
            self.resume(pid)
            return
        os.kill(os.getpid(), signal.SIGSTOP)

    def _nobody_waits(self) -> bool:
        """Whether no shell could continue us, as in ``xterm -e kpfs``."""
        try:
            return os.getsid(os.getppid()) != os.getsid(0)
        except OSError:
            return True

    def resume(self, pid: int) -> None:
        """Continue the command now that we are, with the terminal if we have it."""
        group = os.getpgid(pid)
        if self._taken_by == group != self._ours:
            if self._foreground() == self._ours:
                with contextlib.suppress(OSError):
                    os.tcsetpgrp(self._terminal, group)
            os.killpg(group, signal.SIGCONT)
        else:
            os.kill(pid, signal.SIGCONT)

    def ended(self, pid: int) -> None:
        """Take the terminal back from a command that was killed while it had it."""
        if self._had_terminal and self._foreground() == pid:
            with contextlib.suppress(OSError):
                os.tcsetpgrp(self._terminal, self._ours)
        if self._terminal >= 0:
            os.close(self._terminal)
