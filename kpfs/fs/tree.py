# SPDX-License-Identifier: GPL-2.0-or-later
"""The protocol Tree: the files of an emulated kernel, as a mount serves them.

The guest kernel's tree is a table of file objects; that of a Linux kernel passes each
operation on to the kernel.  FUSE (kpfs.fs.fuse) serves either, and knows neither.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, MutableMapping

from kpfs.base.typed import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from kpfs.base.fuse_wire import SetattrRequest
    from kpfs.base.ktypes import Caller
    from kpfs.base.lock import FairLock


class Attributes(NamedTuple):
    """An entry's attributes, as stat() shows them.  Times are ns since 1970."""

    mode: int
    size: int
    atime: int
    mtime: int
    ctime: int
    nlink: int = 1
    uid: int | None = None  # None: the user that mounted
    gid: int | None = None
    blksize: int = 4096
    stays: bool = True  # the name is there as long as its directory
    # nothing but operations through the mount changes them, while nobody has it open
    steady: bool = True
    constant: bool = False  # always has the same bytes, and their size
    is_file: bool = False


class Entry(Protocol):
    """A name of the tree that the host's Linux has looked up."""

    @property
    def key(self) -> Hashable:
        """Return the key; entries with equal keys share an inode."""


class OpenFile(Protocol):
    """An open file of the tree."""

    @property
    def flags(self) -> int:
        """Return x86-64's flags of open(2), as fcntl(2) has changed them."""

    @property
    def nonseekable(self) -> bool:
        """Return True if it has no position that lseek() could set."""

    @property
    def constant(self) -> bool:
        """Return True if its bytes never change, so that they may be mapped."""

    @property
    def sleeps(self) -> bool:
        """Return True if a write may take as long as the kernel's code likes."""


class Listener(Protocol):
    """The listener to changes that did not come through the mount.

    Context: the kernel's lock is held.
    """

    def replaced(self) -> None:
        """Renew all entries: the tree has another kernel now."""

    def directories_changed(self) -> None:
        """Forget attributes of directories: they may have changed."""


class WriteCall(NamedTuple):
    """A write(2), pwrite64(2) or writev(2) that is made in the middle of a request.

    See kpfs.mirror.write.
    """

    name: str
    data: bytes
    sizes: list[int]  # bytes in each segment of a writev()
    pos: int  # position of a pwrite64()


# ioctl(2) of the mount for such a write without data, for the daemon's own threads
EMPTY_WRITE = ord("k") << 8
E = TypeVar("E", bound=Entry)
F = TypeVar("F", bound=OpenFile)
Wake = Callable[[], None]  # tells a poller that its file may be ready
# Makes a call in place of the write to an open file; returns the bytes taken.
# The first argument is the table that the kernel's open files are in.
InPlace = Callable[[Any, Any], int]
# By the number of the thread of this process whose write stands for another's.
Writers = MutableMapping[int, InPlace]


class Tree(Protocol[E, F]):
    """The protocol of a mounted tree.  All operations raise KernelError."""

    lock: FairLock  # the kernel's
    root: E  # the directory that is mounted

    def start(self, listener: Listener) -> None:
        """Let time pass in the kernel: operations come from now on."""

    def renew(self, entry: E) -> None:
        """Look an entry up anew, after Listener.replaced()."""

    # ---- names and attributes
    def look_up(self, folder: E, name: str) -> Hashable:
        """Return the key of the entry of that name, which may turn out missing."""

    def entry(self, folder: E, name: str, key: Hashable) -> E:
        """Make an entry that is not known yet."""

    def attributes(self, pid: int, entry: E) -> Attributes:
        """Return what a process of the host sees."""

    def seek_end(self, caller: Caller, entry: E, file: F) -> Attributes:
        """Return the attributes for lseek(SEEK_END), which goes to their size."""

    def set_attributes(
        self, caller: Caller, entry: E, file: F | None, asked: SetattrRequest
    ) -> Attributes:
        """Change what is asked for, and return what it is then."""

    def read_link(self, pid: int, entry: E) -> bytes: ...

    # ---- directories
    def entries(self, pid: int, folder: E) -> list[tuple[str, int]]:
        """Return names and modes of all that is in a directory."""

    def mkdir(self, caller: Caller, folder: E, name: str, mode: int) -> None: ...

    def rmdir(self, caller: Caller, folder: E, name: str) -> None: ...

    def mknod(
        self, caller: Caller, folder: E, name: str, mode: int, device: int
    ) -> None: ...

    def unlink(self, caller: Caller, folder: E, name: str) -> None: ...

    def symlink(self, caller: Caller, folder: E, name: str, target: bytes) -> None: ...

    def link(self, caller: Caller, folder: E, name: str, old: E) -> None: ...

    def rename(
        self, caller: Caller, folder: E, name: str, new_folder: E, new_name: str
    ) -> None: ...

    # ---- files
    def open(self, caller: Caller, entry: E, flags: int) -> F: ...

    def create(
        self, caller: Caller, folder: E, name: str, flags: int, mode: int
    ) -> F: ...

    def set_flags(self, caller: Caller, file: F, flags: int) -> None:
        """Set those of an open file's flags that fcntl(2) can: nr.SETFL_MASK."""

    def read(self, caller: Caller, file: F, size: int, offset: int) -> bytes: ...

    def write(self, caller: Caller, file: F, data: bytes, offset: int) -> int:
        """Return the number of bytes taken."""

    def splice_from(
        self, caller: Caller, file: F, size: int, offset: int, nonblock: bool
    ) -> bytes:
        """Read for a splice(2) into a pipe; EINVAL: the file cannot be spliced.

        nonblock: the splice has SPLICE_F_NONBLOCK.
        """

    def splice_into(self, caller: Caller, file: F, data: bytes, offset: int) -> int:
        """Write for a splice(2) out of a pipe; return the number of bytes taken."""

    def ioctl(self, caller: Caller, file: F, command: int, argument: int) -> int:
        """Make an ioctl(2) that has no data, and return its value; ENOTTY."""

    def write_in_place(self, make: InPlace, file: F) -> int:
        """Have a write made by make(), as a task that is not the caller's."""

    def poll(self, caller: Caller, file: F, events: int, wake: Wake | None) -> int:
        """Return those of the events that are there.

        If there are none, wake() is called under the lock when that may have changed.
        """

    def release(self, file: F) -> None:
        """Give an open file back."""
