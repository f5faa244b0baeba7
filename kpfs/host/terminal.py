# SPDX-License-Identifier: GPL-2.0-or-later
"""Shares the terminal with a command, as su(1) and sudo(8) do.

A shell makes a process group of its own and takes the terminal. When it stops, the
shell that has started us must learn that, but that one waits for us alone.
"""

from __future__ import annotations

import contextlib
import os
import signal

# the terminal sends them to a whole group: to us as well as to the command
STOPPING = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class Job:
    """A command, and the terminal that it shares with us.

    Context: made before the command runs. Signals in STOPPING and SIGCONT are blocked.
    """

    def __init__(self) -> None:
        self._terminal = -1
        with contextlib.suppress(OSError):  # there is no terminal
            self._terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
        self._ours = os.getpgrp()
        self._had_terminal = self._foreground() == self._ours
        self._taken_by = 0  # the group that had the terminal when the command stopped

    def _foreground(self) -> int:
        """Return the process group that has the terminal, 0 if there is none."""
        with contextlib.suppress(OSError):
            return os.tcgetpgrp(self._terminal)
        return 0

    def hangs_up_with_us(self, pid: int) -> bool:
        """Return True if the command, too, gets a SIGHUP that Linux has sent us.

        When a terminal is gone, the leader of its session alone gets one; when that
        ends, the group in the foreground does.
        """
        with contextlib.suppress(OSError):
            return os.getpgid(pid) == self._ours and os.getsid(0) != os.getpid()
        return False

    def stopped(self, pid: int, number: int) -> None:
        """Stop like the command, until somebody continues us."""
        foreground = self._foreground()
        group = os.getpgid(pid)
        if number not in STOPPING and foreground not in (group, self._ours):
            return  # somebody has stopped it on purpose, and will continue it
        self._taken_by = foreground if foreground == group else 0
        if self._nobody_waits():
            self.resume(pid)
            return
        os.kill(os.getpid(), signal.SIGSTOP)

    def _nobody_waits(self) -> bool:
        """Return True if no shell could continue us, as in ``xterm -e kpfs``."""
        try:
            return os.getsid(os.getppid()) != os.getsid(0)
        except OSError:
            return True

    def resume(self, pid: int) -> None:
        """Continue the command after us, with the terminal if we have it."""
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
