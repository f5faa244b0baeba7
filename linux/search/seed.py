# SPDX-License-Identifier: GPL-2.0-or-later
"""Seeds: what one needs to see a run of a search again.

A seed is a small file of JSON. It has the plan of the run, and digests of everything
that the run depends on. So a replay elsewhere says what has changed in place of showing
another run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from resource import RLIMIT_NOFILE
from typing import Any, NamedTuple

from kpfs.base import aside, places
from kpfs.base.aside import replacing
from kpfs.base.errors import SetupError
from kpfs.linux.inside.inherited import Inherited
from kpfs.linux.inside.request import RunRequest
from kpfs.linux.search.plan import RunPlan
from kpfs.linux.search.searched import Begin

_KPFS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_ROOM = 64 << 10  # bytes that a seed may take
_SHORTEST = 4  # digits of a name
_DIGITS = 16  # length of digests of files and variables
_LARGE = 64 << 20  # bytes; a larger file is known by size and time of change
# variables that differ from shell to shell, and that no command means
_PASSING = frozenset(
    "_ OLDPWD SHLVL COLUMNS LINES WINDOWID TERM_SESSION_ID SSH_CLIENT SSH_CONNECTION "
    "SSH_TTY SSH_AUTH_SOCK DISPLAY XAUTHORITY DBUS_SESSION_BUS_ADDRESS INVOCATION_ID "
    "JOURNAL_STREAM PYTEST_CURRENT_TEST PYTEST_VERSION PYTEST_XDIST_WORKER "
    "PYTEST_XDIST_TESTRUNUID STY TMUX TMUX_PANE".split()
)
# begin those of CI systems, which differ from job to job
_OF_JOBS = (
    *("GITHUB_", "RUNNER_", "ACTIONS_", "CI_", "GITLAB_", "BUILDKITE_", "JENKINS_"),
    *("CIRCLE_", "DRONE_", "TRAVIS_", "BITBUCKET_"),
)


_HOSTNAME, _INHERITED = "kpfs", Inherited(limits=((RLIMIT_NOFILE, 1024, 4096),))
# an oops ends a run where the kernel panics, which is the same block in each run
_SYSCTLS = (("kernel.panic_on_oops", "1"),)


class Seed(NamedTuple):
    """A run, and what it depends on."""

    plan: RunPlan
    digest: str  # sums up the run
    begins: Begin
    kernel: str  # its name
    image: str  # digest of the kernel's image
    kpfs: str  # digest of its sources
    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]  # digests of the values
    files: Mapping[str, str]  # digests of what was read
    of: tuple[str, ...] = ()  # text that is searched
    told: Sequence[str] = ()  # findings, for people

    def text(self) -> str:
        """Return the seed as it is kept."""
        row = self._asdict() | {"plan": self.plan.packed(), "begins": self.begins.name}
        return json.dumps(row, sort_keys=True, indent=1) + "\n"

    @property
    def whole_name(self) -> str:
        row = self._replace(told=()).text()
        return "s" + hashlib.sha256(row.encode()).hexdigest()

    @classmethod
    def parsed(cls, text: str) -> Seed:
        """Return the seed that text() gave.  KeyError, TypeError, ValueError."""
        row: dict[str, Any] = json.loads(text)
        row["plan"] = RunPlan.unpacked(row["plan"])
        row["begins"] = Begin[row["begins"]]
        for name in ("argv", "of", "told"):
            row[name] = tuple(row[name])
        return cls(**row)


# ---- what a run depends on
def searched(request: RunRequest) -> RunRequest:
    """Return a request for a run that depends on nothing but its words and files."""
    kept = {*request.environment} - _PASSING
    kept = {name for name in kept if not name.startswith(_OF_JOBS)}
    return request._replace(
        environment={name: request.environment[name] for name in sorted(kept)},
        hostname=_HOSTNAME,
        apart=True,
        terminal=None,
        inherited=_INHERITED,
        sysctls=_SYSCTLS,
    )


def replayed(request: RunRequest, seed: Seed) -> RunRequest:
    """Return the request of a seed's run, given what would run now."""
    again = searched(request)
    variables = again.environment
    kept = {name: variables[name] for name in seed.environment if name in variables}
    return again._replace(environment=kept)


def without_run(kernel: str, image: str, request: RunRequest) -> Seed:
    """Return a seed with everything that is known before a run.

    kernel, image: its name, and the digest of its image.
    """
    variables = request.environment.items()
    return Seed(
        plan=RunPlan(),
        digest="",
        begins=Begin.LOAD,
        kernel=kernel,
        image=image,
        kpfs=sources(),
        argv=request.argv,
        cwd=request.cwd,
        environment={name: _digest(os.fsencode(value)) for name, value in variables},
        files={},
    )


@cache
def sources() -> str:
    """Return the digest of this version of kpfs, of all that a run goes through."""
    digest = hashlib.sha256()
    for top in ("base", "emulator", "linux"):
        root = os.path.join(_KPFS, top)
        for folder, folders, names in os.walk(root, followlinks=True):
            folders[:] = sorted(set(folders) - {"__pycache__"})
            for name in sorted(names):
                if name.endswith((".py", ".so", ".tsv")) or name == "agent":
                    path = os.path.join(folder, name)
                    digest.update(os.path.relpath(path, root).encode())
                    with open(path, "rb") as file:
                        digest.update(hashlib.sha256(file.read()).digest())
    return digest.hexdigest()[:_DIGITS]


def changed_since(paths: Iterable[str], moment: float) -> list[str]:
    """Return those files and directories that were changed since then, in seconds."""
    changed = []
    for path in paths:
        with contextlib.suppress(OSError):
            st = os.stat(path)
            is_read = stat.S_ISREG(st.st_mode) or path.endswith("/")
            if is_read and st.st_mtime > moment:
                changed.append(path)
    return changed


def digests_of_files(paths: Iterable[str]) -> dict[str, str]:
    """Return digests of the files, and of the directories' names, that there are."""
    found = {}
    for path in paths:
        with contextlib.suppress(OSError):
            is_listed = path.endswith("/")
            found[path] = _list_digest(path) if is_listed else _file_digest(path)
    return found


def _list_digest(path: str) -> str:
    return _digest("\0".join(sorted(os.listdir(path))).encode(errors="surrogateescape"))


def _file_digest(path: str) -> str:
    st = os.stat(path)
    if st.st_size > _LARGE:
        return f"{st.st_size}/{st.st_mtime_ns}"
    with open(path, "rb") as file:
        return _digest(file.read())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


def changes(seed: Seed, now: Seed) -> list[str]:
    """Return what is not as it was when a seed was found, a line each.

    now: of this process, whose plan, digest and files do not matter.
    """
    told = []
    if seed.kernel != now.kernel:
        told.append(f"it is of the kernel {seed.kernel}")
    elif seed.image != now.image:
        told.append(f"the kernel {seed.kernel} was made anew, and is another one")
    if seed.kpfs != now.kpfs:
        told.append("it is of another version of kpfs")
    if seed.argv != now.argv:
        told.append(f"its command is {' '.join(seed.argv)}")
    if seed.cwd != now.cwd:
        told.append(f"it ran in {seed.cwd}")
    told += [
        f"the variable {name} has another value"
        if name in now.environment
        else f"the variable {name} is missing"
        for name, digest in seed.environment.items()
        if now.environment.get(name) != digest
    ]
    files = digests_of_files(seed.files)
    told += [
        f"{path} has changed" if path in files else f"{path} is missing"
        for path, digest in seed.files.items()
        if files.get(path) != digest and not path.endswith("/")
    ]
    return told


def changed_directories(seed: Seed) -> list[str]:
    """Return those that have other names in them now, which may make another run."""
    listed = {path: digest for path, digest in seed.files.items() if path[-1:] == "/"}
    now = digests_of_files(listed)
    return [path for path, digest in listed.items() if now.get(path) != digest]


# ---- where they are kept
def _folder() -> str:
    above = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(above, "kpfs", "seeds")


def check_room() -> None:
    """Raise OSError if no seed could be kept now."""
    places.make(_folder(), 0o700)
    aside.check_room(os.path.join(_folder(), "new"), _ROOM)


def keep(seed: Seed) -> str:
    """Write a seed where find() looks; return its name.  OSError."""
    folder, whole = _folder(), seed.whole_name
    places.make(folder, 0o700)
    for length in range(1 + _SHORTEST, len(whole)):
        path = os.path.join(folder, f"{whole[:length]}.json")
        if not os.path.exists(path) or _is_kept(path, whole):
            with replacing(path, 0o600) as file:
                file.write(seed.text().encode())
            return whole[:length]
    raise AssertionError


def _is_kept(path: str, whole: str) -> bool:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        with open(path) as file:
            return Seed.parsed(file.read()).whole_name == whole
    return False


def find(name: str) -> Seed:
    """Return the seed of a name, or of a file.  SetupError."""
    path = name if "/" in name else os.path.join(_folder(), f"{name}.json")
    try:
        with open(path) as file:
            return Seed.parsed(file.read())
    except FileNotFoundError:
        where = "file" if "/" in name else f"seed in {_folder()}"
        raise SetupError(f"--seed {name}: there is no such {where}") from None
    except OSError as error:
        raise SetupError(f"--seed {name}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise SetupError(f"--seed {name}: {path} is not a seed") from None
