# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs web`` and ``kpfs run --web``: a page in the browser that shows a kernel."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kpfs.base.errors import SetupError, told_to_user
from kpfs.base.signals import fork
from kpfs.commands.arguments import flag
from kpfs.commands.mount_choice import find_tree
from kpfs.host import process
from kpfs.session.paths import MountedPath

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from kpfs.inside.files import InsideFile
    from kpfs.session.paths import KernelPath

LOOPBACK = "127.0.0.1"
PACKAGES = ("starlette", "uvicorn")


def add_arguments(parser: ArgumentParser) -> None:
    flag(parser, "--open", "open the page in your browser")
    parser.add_argument("dir", metavar="DIR", nargs="?", default="")


def main(arguments: Namespace) -> int:
    """Serve the page of a mount until SIGINT or SIGTERM comes.  Raises SetupError."""
    tree = find_tree(arguments.dir, "web")
    listener, address = _listening("web")
    print(address, flush=True)
    if arguments.open:
        open_in_browser(address)
    _serve(listener, address, MountedPath(tree))
    return 0


def open_in_browser(address: str) -> None:
    """Open the page, in a process that does not keep anybody waiting."""
    words = [sys.executable, "-m", "webbrowser", address]
    subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True)


def _listening(command: str) -> tuple[socket.socket, str]:
    """Return a socket for the page, and its address.  Raises SetupError."""
    for package in PACKAGES:  # they are loaded while the kernel starts
        if find_spec(package) is None:
            why = f"{command}: the package {package} is missing"
            raise SetupError(why, "pip install 'kpfs[web]'")
    with told_to_user():
        listener = socket.create_server((LOOPBACK, 0))
    port, secret = listener.getsockname()[1], secrets.token_urlsafe(24)
    return listener, f"http://{LOOPBACK}:{port}/{secret}/"


def _serve(listener: socket.socket, address: str, tree: KernelPath) -> None:
    from kpfs.web.kernel import WatchedKernel
    from kpfs.web.server import serve

    serve(listener, address, WatchedKernel(tree))


class WebPage:
    """The page of a command's kernel: a Watcher of kpfs run, a FilesWatcher inside."""

    def __init__(self, *, opens: bool) -> None:
        """Listen, before anything is started: a browser waits.  Raises SetupError."""
        self._listener, self._address = _listening("run --web")
        self._pid = 0
        if opens:
            open_in_browser(self._address)

    def begin(self, _tree: str) -> None:
        pass  # it serves already

    def prepare(self, tree: str | InsideFile) -> None:
        """Serve in a process of our own, which sees the kernel's files as we do."""
        parent, kept = os.getpid(), [self._listener.fileno()]
        if not isinstance(tree, str):
            kept.append(tree.fileno())
        self._pid = fork()
        if not self._pid:
            try:
                process.die_with_parent(parent)
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                signal.set_wakeup_fd(-1)
                ends = [*sorted(kept), os.sysconf("SC_OPEN_MAX")]
                for fd, end in zip([2, *ends], ends, strict=False):
                    os.closerange(fd + 1, end)  # others wait for the end of the rest
                files = MountedPath(tree) if isinstance(tree, str) else tree
                _serve(self._listener, self._address, files)
            finally:
                os._exit(0)
        self._listener.close()
        print(f"kpfs: {self._address}", file=sys.stderr, flush=True)

    def end(self, _tree: str = "") -> None:
        os.kill(self._pid, signal.SIGTERM)
        os.waitpid(self._pid, 0)
