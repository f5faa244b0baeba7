# SPDX-License-Identifier: GPL-2.0-or-later
"""SIGKILL at any moment: nothing stays behind, and the next start is a clean one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.command import KPFS
from tests import harness
from tests.campaign import processes
from tests.campaign.hunt import Hunt, Part
from tests.harness import WrongError

SOON = 30.0  # s in which all ends that is to end, on a machine that others use too
START = 0.5  # s, about what a start takes; one in two kills is in it
WORK = 1.5  # s, about what a command takes
RUNNING = ("daemon", "runner", "keeper")
MOUNTED = ("daemon", "daemon", "runner", "guard")
NAMES = {"kpfs": "daemon", "kpfs-keeper": "keeper", "kpfs-guard": "guard"}
TWO = 0.2  # share of kills of two at once
CLIENTS = 3

# what a command does meanwhile: files of ours and of others, forks, execs
SCRIPT = """
i=0
while [ $i -lt 12 ]; do
  echo 'p:e vfs_read' >/sys/kernel/tracing/kprobe_events
  cat /sys/kernel/debug/kprobes/list >/dev/null; ls / >/dev/null
  ( : ); i=$((i+1))
done 2>/dev/null
echo done
"""
CLIENT = """
import os, sys
top = sys.argv[1]
try:
    while True:
        fd = os.open(f"{top}/tracing/kprobe_events", os.O_WRONLY | os.O_APPEND)
        os.write(fd, f"p:e{sys.argv[2]} vfs_read\\n".encode())
        os.close(fd)
        open(f"{top}/kprobes/list").read()
        open(f"{top}/tracing/trace").read()
except OSError:
    pass
"""


def comm(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def victims(runner: int) -> dict[str, int]:
    """Return the processes that run now, by their role."""
    found = {"runner": runner} if harness.state(runner) not in ("", "Z") else {}
    for pid in processes.below(os.getpid()):
        if role := NAMES.get(comm(pid)):
            found[role] = pid
    return found


class Kills:
    """Starts the command in a new folder and kills some of its processes."""

    def __init__(self, hunt: Hunt) -> None:
        self.hunt = hunt
        self.rng = hunt.rng
        self.mountpoint = hunt.scratch / "m"
        self.mountpoint.mkdir()
        self.log = hunt.scratch / "log"
        self.said: list[str] = []
        self.options = ["--log", str(self.log), *hunt.guest]

    def kill_some(self, runner: int, roles: tuple[str, ...]) -> None:
        chosen = self.rng.sample(roles, 2 if self.rng.random() < TWO else 1)
        for role in chosen:
            begin = START if self.rng.random() < 0.5 else WORK
            self.wait(self.rng.random() * begin)
            # one that is not there yet, or no more, is somebody else
            there = victims(runner)
            role = role if role in there else self.rng.choice([*there, ""])
            if role:
                self.said.append(f"SIGKILL to the {role}")
                with contextlib.suppress(ProcessLookupError):
                    os.kill(there[role], signal.SIGKILL)
                self.hunt.did(1, role)

    def wait(self, seconds: float) -> None:
        self.said.append(f"wait {seconds:.3f} s")
        time.sleep(seconds)

    def run(self) -> None:
        """Kill in the middle of ``kpfs run``, whose command must come to its end."""
        words = [str(KPFS), "run", *self.options, "--", "sh", "-c", SCRIPT]
        self.said = ["kpfs run"]
        child = subprocess.Popen(words, stdout=-1, stderr=-1, text=True)
        self.kill_some(child.pid, RUNNING)
        self.await_end(child, "kpfs run, or its command,")
        self.all_end()
        done = self.kpfs(
            "run", *self.options, "--", "cat", "/sys/kernel/debug/kprobes/list"
        )
        self.expect(done, "the next kpfs run")

    def mount(self) -> None:
        """Kill in the middle of ``kpfs mount``, and of what clients ask of it."""
        at = self.mountpoint
        self.said = ["kpfs mount"]
        child = subprocess.Popen(
            [KPFS, "mount", *self.options, at], stderr=-1, text=True
        )
        clients = []
        if self.rng.random() < 0.7:
            self.await_end(child, "kpfs mount")
            self.said.append(f"{CLIENTS} clients")
            words = [sys.executable, "-S", "-c", CLIENT, str(at)]
            clients = [subprocess.Popen([*words, str(i)]) for i in range(CLIENTS)]
        self.kill_some(child.pid, MOUNTED)
        self.await_end(child, "kpfs mount")
        self.again(clients)

    def await_end(self, child: subprocess.Popen[Any], what: str) -> None:
        try:
            child.communicate(timeout=SOON)
        except subprocess.TimeoutExpired:
            raise WrongError(f"{what} does not end") from None

    def again(self, clients: list[subprocess.Popen[bytes]]) -> None:
        """Mount again at the same place; the clients of the old mount must end."""
        until = time.monotonic() + SOON
        while "daemon" in victims(0) and not harness.is_mounted(self.mountpoint):
            if time.monotonic() > until:
                raise WrongError("the daemon neither mounts nor ends")
            time.sleep(0.01)
        if "daemon" in victims(0):  # it was another that was killed
            for client in clients:  # they would be in the way of umount
                client.kill()
            done = self.kpfs("umount", self.mountpoint)
            self.expect(done, "kpfs umount of the old mount")
        for client in clients:
            self.await_end(client, "a client")
        self.expect(
            self.kpfs("mount", *self.options, self.mountpoint), "the next mount"
        )
        if not (self.mountpoint / "kprobes/list").exists():
            raise WrongError("the next mount has no files")
        self.expect(self.kpfs("umount", self.mountpoint), "its kpfs umount")
        if harness.is_mounted(self.mountpoint):
            raise WrongError("a mount is left")
        self.all_end()

    def kpfs(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        try:
            return harness.run(KPFS, *words, timeout=3 * SOON)
        except subprocess.TimeoutExpired:
            raise WrongError(f"kpfs {words[0]} does not end") from None

    def expect(self, done: subprocess.CompletedProcess[str], what: str) -> None:
        if (done.returncode, done.stderr) != (0, ""):
            raise WrongError(f"{what}: status {done.returncode}, {done.stderr!r}")

    def all_end(self) -> None:
        """Raise WrongError unless all that was started has ended."""
        if left := processes.linger(SOON):
            raise WrongError(f"left behind: {processes.told(left)}")


def run(hunt: Hunt) -> None:
    kills = Kills(hunt)

    def one() -> str:
        hunt.rng.choice((kills.run, kills.mount))()
        return ""  # each kill counts

    hunt.each(one, lambda: "\n".join((*kills.said, "")), kills.log)


PART = Part("kills", 200, 1, run, kernels=True)
