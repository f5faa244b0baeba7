# SPDX-License-Identifier: GPL-2.0-or-later
"""The operations of FUSE over any Tree: numbers, open files, and what Linux may keep.

A KernelError becomes its errno; any other exception is a bug, logged and answered EIO.

Linux keeps names and attributes as long as nothing but operations through the mount can
change them, for then it asks much less.  The size of a file is the hard part.  stat()
shows 0, as on debugfs; but a sendfile() or splice(), with which cat of busybox begins,
takes a file of size 0 for empty.  So while a file is open Linux is told that it has
OPEN_SIZE bytes: it asks for the data, or for a page, which is refused, and the program
goes back to read() (see kpfs.fs.fuse.splices).
An inode therefore has two sizes, and ``Inode.shrunk`` and ``truncated`` note when Linux
may have that of stat() while the file is open.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable

from kpfs.base import fuse_wire as wire
from kpfs.base.errors import ENOTSUPP, ERESTART_RESTARTBLOCK, ERESTARTSYS, KernelError
from kpfs.base.fuse_wire import DirectoryEntry, Opcode, ReadRequest, taking
from kpfs.base.log import Log
from kpfs.base.typed import Generic
from kpfs.base.units import NAME_MAX
from kpfs.fs.fuse import splices
from kpfs.fs.fuse.inodes import Inode, Inodes
from kpfs.fs.fuse.loop import Answer, Request
from kpfs.fs.fuse.openflags import follow_flags, guest_flags
from kpfs.fs.seqfile import MAX_WRITE
from kpfs.fs.tree import EMPTY_WRITE, Attributes, E, F, Tree, Writers
from kpfs.host.process import HeapTrimmer

log = Log(__name__)

OLDEST = wire.MAJOR, 23  # Linux 3.15
STORE_INVALIDATES = 35  # minor, Linux 5.16: after NOTIFY_STORE Linux asks for the size
WANTED = wire.ATOMIC_O_TRUNC | wire.BIG_WRITES | wire.PARALLEL_DIROPS
MAX_BACKGROUND = 0xFFFF  # so that a release is never sent after what followed it
UNKNOWN_INO = 0xFFFFFFFF
BLOCK_SIZE = 4096
OPEN_SIZE = 1 << 20  # size of a file that is open
LONG = 1 << 20  # bytes of text that were read
FOREVER = 1 << 30  # s that Linux keeps an entry, or attributes
Notify = Callable[[int, bytes], object]
Method = Callable[[Request, bytes], "Answer | bytes | None"]


class Operations(Generic[E, F]):
    """The answers to the requests of one mount, each by the method for its opcode."""

    def __init__(
        self,
        tree: Tree[E, F],
        notify: Notify,
        on_ready: Callable[[], None],
        writers: Writers | None = None,
    ) -> None:
        """notify: tells Linux something, by code and contents."""
        self.tree = tree
        self.notify = notify
        self.on_ready = on_ready
        self.writers = {} if writers is None else writers
        self.inodes = Inodes(tree.root)
        self.handles = itertools.count(1)
        self.files: dict[int, F] = {}
        self.opened: dict[int, Inode[E]] = {}  # those of files
        self.dirs: dict[int, list[DirectoryEntry]] = {}
        self.asked: set[int] = set()  # directories whose attributes Linux keeps
        self.changes = 0  # how often those may have changed
        self.keeping = False  # Linux can keep attributes of files
        self.read_since = 0  # bytes that were read since the heap was looked at
        self.heap = HeapTrimmer()
        self.ids = os.getuid(), os.getgid()
        nothing, name, fh = wire.nothing, wire.name, wire.number
        self.methods: dict[int, Method] = {
            Opcode.INIT: taking(wire.parse_init, self.init),
            Opcode.DESTROY: taking(nothing, self.done),
            Opcode.STATFS: taking(nothing, self.statfs),
            Opcode.LISTXATTR: taking(wire.list_size, self.listxattr),
            Opcode.LOOKUP: taking(name, self.lookup),
            Opcode.FORGET: self.forget,
            Opcode.BATCH_FORGET: self.forget,
            Opcode.GETATTR: taking(wire.getattr_file, self.getattr),
            Opcode.SETATTR: taking(wire.SetattrRequest.parse, self.setattr),
            Opcode.READLINK: taking(nothing, self.readlink),
            Opcode.OPENDIR: taking(nothing, self.opendir),
            Opcode.READDIR: taking(wire.parse_read, self.readdir),
            Opcode.RELEASEDIR: taking(fh, self.releasedir),
            Opcode.MKDIR: taking(wire.parse_mkdir, self.mkdir),
            Opcode.RMDIR: taking(name, self.rmdir),
            Opcode.MKNOD: taking(wire.parse_mknod, self.mknod),
            Opcode.UNLINK: taking(name, self.unlink),
            Opcode.SYMLINK: taking(wire.parse_symlink, self.symlink),
            Opcode.LINK: taking(wire.parse_link, self.link),
            Opcode.RENAME: taking(wire.parse_rename, self.rename),
            Opcode.CREATE: taking(wire.parse_create, self.create),
            Opcode.OPEN: taking(wire.open_flags, self.open),
            Opcode.READ: taking(wire.parse_read, self.read),
            Opcode.WRITE: taking(wire.WriteRequest.parse, self.write),
            Opcode.IOCTL: taking(wire.parse_ioctl, self.ioctl),
            Opcode.POLL: taking(wire.parse_poll, self.poll),
            Opcode.FSYNC: taking(nothing, self.fsync),
            Opcode.RELEASE: taking(fh, self.release),
        }

    def serve(self, request: Request) -> Answer | None:
        """Return the answer to a request, None if there is to be none."""
        method = self.methods.get(request.opcode)
        if method is None:  # Linux then does without
            return Answer(errno.ENOSYS)
        try:
            made = method(request, request.body)
            return Answer(0, made) if isinstance(made, bytes) else made
        except KernelError as e:
            log.debug("%s: %s", Opcode(request.opcode).name.lower(), e)
            return Answer(host_errno(e))
        except BaseException:
            log.exception("bug in %s", Opcode(request.opcode).name.lower())
            return Answer(errno.EIO)

    # ---- life
    def init(self, request: Request, asked: wire.InitRequest) -> Answer:
        if (asked.major, asked.minor) < OLDEST:
            raise KernelError(
                errno.EPROTO, f"FUSE {asked.major}.{asked.minor} is too old"
            )
        self.keeping = asked.minor >= STORE_INVALIDATES
        payload = wire.init_answer(
            asked, WANTED, background=MAX_BACKGROUND, max_write=MAX_WRITE
        )
        return Answer(payload=payload, then=self.started)

    def started(self) -> None:
        """Start the tree: Linux sends requests from now on."""
        self.tree.start(self)
        self.on_ready()

    def done(self, request: Request, _nothing: None) -> bytes:
        return b""

    def statfs(self, request: Request, _nothing: None) -> bytes:
        return wire.STATFS_ANSWER.pack(
            *(0, 0, 0, 0, 0, BLOCK_SIZE, NAME_MAX, BLOCK_SIZE)
        )

    def listxattr(self, request: Request, size: int) -> bytes:
        """Return no names, as of tracefs, whose other calls are EOPNOTSUPP too."""
        return b"" if size else wire.COUNT.pack(0)

    # ---- what Linux is told without asking
    def replaced(self) -> None:
        """See Listener."""
        self.inodes.renew(self.tree.renew)

    def directories_changed(self) -> None:
        """See Listener."""
        self.changes += 1
        asked, self.asked = self.asked, set()
        for number in asked:
            self.forget_attributes(number)

    def forget_attributes(self, number: int) -> None:
        """Make Linux ask for the attributes of an inode again.

        While it is asking for them, it passes the answer on, but does not keep it.
        """
        self.notify(wire.NOTIFY_INVAL_INODE, wire.INVAL_INODE.pack(number, -1, 0))

    def restore_size(self, number: int) -> None:
        """Make Linux believe OPEN_SIZE again, by a byte in its last place.

        It then asks for the size when a program wants to know it.
        """
        what = wire.STORE.pack(number, OPEN_SIZE - 1, 1)
        self.notify(wire.NOTIFY_STORE, what + b"\0")

    # ---- names
    def at(self, request: Request) -> E:
        """Return the entry that a request is about."""
        return self.inodes[request.nodeid].entry

    def lookup(self, request: Request, name: bytes) -> Answer:
        return self.entry(request, name)[1]

    def entry(self, request: Request, name: bytes) -> tuple[Inode[E], Answer]:
        """Return an inode, and the answer that makes it known to Linux."""
        tree, changes, called = self.tree, self.changes, text(name)
        folder = self.at(request)
        key = tree.look_up(folder, called)
        known = self.inodes.known(key)
        entry = tree.entry(folder, called, key) if known is None else known.entry
        found = tree.attributes(request.pid, entry)
        inode = self.inodes.look_up(entry)
        kept = self.may_keep(inode, found, changes)
        payload = wire.entry(
            inode.number,
            self.shown(inode, found, kept),
            FOREVER if found.stays else 0,
            FOREVER if kept else 0,
        )
        return inode, Answer(payload=payload, undo=lambda: self.drop(inode.number, 1))

    def forget(self, request: Request, body: bytes) -> None:
        for number, lookups in wire.forgotten(request.opcode, request.nodeid, body):
            self.drop(number, lookups)

    def drop(self, number: int, lookups: int) -> None:
        """Note that Linux has dropped so many of its references to an inode."""
        if self.inodes.forget(number, lookups):
            self.asked.discard(number)

    # ---- attributes
    def may_keep(self, inode: Inode[E], found: Attributes, changes: int) -> bool:
        """Return True if Linux may keep the attributes, with the size of stat().

        changes: self.changes before they were looked at.  For an open file, which has
        two sizes, Linux asks each time.
        """
        if not found.steady or found.constant:
            return found.constant
        if not found.is_file:
            self.asked.add(inode.number)
            return self.changes == changes
        kept = self.keeping and not inode.open_files
        inode.shrunk |= kept
        return kept

    def shown(self, inode: Inode[E], found: Attributes, size_too: bool) -> bytes:
        """Return struct fuse_attr; size_too: with the size of stat()."""
        size = found.size if size_too or not found.is_file else OPEN_SIZE
        uid, gid = self.ids
        uid = uid if found.uid is None else found.uid
        gid = gid if found.gid is None else found.gid
        times = found.atime, found.mtime, found.ctime
        rest = found.mode, found.nlink, uid, gid, 0, found.blksize
        return wire.attributes(inode.number, size, 0, *times, *rest)

    def getattr(self, request: Request, fh: int | None) -> bytes:
        inode, changes = self.inodes[request.nodeid], self.changes
        file = None if fh is None else self.files[fh]
        if file is not None and not file.constant:  # lseek(SEEK_END) alone asks so
            found = self.tree.seek_end(request.caller, inode.entry, file)
            inode.shrunk, kept = True, False
        else:
            found = self.tree.attributes(request.pid, inode.entry)
            kept = self.may_keep(inode, found, changes)
            if found.is_file and not kept:
                self.forget_attributes(inode.number)
        attr = self.shown(inode, found, True)
        return wire.attributes_answer(attr, FOREVER if kept else 0)

    def setattr(self, request: Request, asked: wire.SetattrRequest) -> bytes:
        inode, changes = self.inodes[request.nodeid], self.changes
        file = None if asked.fh is None else self.files[asked.fh]
        found = self.tree.set_attributes(request.caller, inode.entry, file, asked)
        kept = self.may_keep(inode, found, changes)
        attr = self.shown(inode, found, kept)
        return wire.attributes_answer(attr, FOREVER if kept else 0)

    def readlink(self, request: Request, _nothing: None) -> bytes:
        return self.tree.read_link(request.pid, self.at(request))

    # ---- directories
    def opendir(self, request: Request, _nothing: None) -> Answer:
        fh = next(self.handles)
        self.dirs[fh] = []
        payload = wire.OPEN_ANSWER.pack(fh, 0, 0)
        return Answer(payload=payload, undo=lambda: self.dirs.pop(fh))

    def readdir(self, request: Request, asked: ReadRequest) -> bytes:
        """Return entries; they are those of the time when the reading began."""
        if not asked.offset:
            self.dirs[asked.fh] = [
                (name.encode("latin-1"), UNKNOWN_INO, mode >> 12)
                for name, mode in self.tree.entries(request.pid, self.at(request))
            ]
        return wire.dirents(self.dirs[asked.fh], asked.offset, asked.size)

    def releasedir(self, request: Request, fh: int) -> bytes:
        del self.dirs[fh]
        return b""

    def mkdir(self, request: Request, asked: wire.MkdirRequest) -> Answer:
        folder, name = self.at(request), text(asked.name)
        self.tree.mkdir(request.caller, folder, name, asked.mode)
        return self.lookup(request, asked.name)

    def rmdir(self, request: Request, name: bytes) -> bytes:
        self.tree.rmdir(request.caller, self.at(request), text(name))
        return b""

    def mknod(self, request: Request, asked: wire.MknodRequest) -> Answer:
        mode, device, _, name = asked
        folder = self.at(request)
        self.tree.mknod(request.caller, folder, text(name), mode, device)
        return self.lookup(request, name)

    def unlink(self, request: Request, name: bytes) -> bytes:
        self.tree.unlink(request.caller, self.at(request), text(name))
        return b""

    def symlink(self, request: Request, asked: wire.SymlinkRequest) -> Answer:
        folder, name = self.at(request), text(asked.name)
        self.tree.symlink(request.caller, folder, name, asked.target)
        return self.lookup(request, asked.name)

    def link(self, request: Request, asked: wire.LinkRequest) -> Answer:
        folder, old = self.at(request), self.inodes[asked.node].entry
        self.tree.link(request.caller, folder, text(asked.name), old)
        return self.lookup(request, asked.name)

    def rename(self, request: Request, asked: wire.RenameRequest) -> bytes:
        there = self.inodes[asked.parent].entry, text(asked.new_name)
        self.tree.rename(request.caller, self.at(request), text(asked.name), *there)
        return b""

    # ---- files
    def create(self, request: Request, asked: wire.CreateRequest) -> Answer:
        flags = guest_flags(asked.flags)
        where = self.at(request), text(asked.name)
        file = self.tree.create(request.caller, *where, flags, asked.mode & 0o7777)
        inode, entry = self.entry(request, asked.name)
        payload = self.note_open(inode, file, flags)

        def undo() -> None:
            self.close(wire.number(payload))
            self.drop(inode.number, 1)

        return Answer(payload=entry.payload + payload, undo=undo)

    def open(self, request: Request, flags: int) -> Answer:
        flags = guest_flags(flags)
        inode = self.inodes[request.nodeid]
        try:
            file = self.tree.open(request.caller, inode.entry, flags)
        except KernelError as e:
            if e.errno == errno.ENOSYS:  # Linux would stop asking, and succeed
                raise AssertionError("the kernel cannot open files") from e
            raise
        payload = self.note_open(inode, file, flags)
        fh = wire.number(payload)
        return Answer(payload=payload, undo=lambda: self.close(fh))

    def note_open(self, inode: Inode[E], file: F, flags: int) -> bytes:
        """Give an open file a number, and its inode OPEN_SIZE."""
        fh = next(self.handles)
        self.files[fh], self.opened[fh] = file, inode
        inode.open_files.add(fh)
        if inode.shrunk or inode.truncated:
            inode.shrunk = False
            self.restore_size(inode.number)
        if not file.constant:  # as soon as Linux has the answer
            inode.truncated |= bool(flags & os.O_TRUNC)
        # a close must not wait for a write by another process, which has the inode
        how = wire.FOPEN_DIRECT_IO | wire.FOPEN_NOFLUSH
        if file.nonseekable:
            how |= wire.FOPEN_NONSEEKABLE
        if file.sleeps:
            how |= wire.FOPEN_PARALLEL_DIRECT_WRITES
        return wire.OPEN_ANSWER.pack(fh, how, 0)

    def read(self, request: Request, asked: ReadRequest) -> bytes:
        file = self.files[asked.fh]
        follow_flags(self.tree, request, file, asked)
        data = splices.read(self.tree, request, file, asked)
        if len(data) > asked.size:
            raise AssertionError(f"{len(data)} bytes for a read of {asked.size}")
        self.read_since += len(data)
        return data

    def write(self, request: Request, asked: wire.WriteRequest) -> bytes:
        file = self.files[asked.fh]
        follow_flags(self.tree, request, file, asked)
        make = self.writers.pop(request.pid, None) if self.writers else None
        if make is not None:
            taken = self.tree.write_in_place(make, file)
        else:
            taken = splices.write(self.tree, request, file, asked)
        return wire.WRITE_ANSWER.pack(taken)

    def ioctl(self, request: Request, asked: wire.IoctlRequest) -> bytes:
        """Make an ioctl(2), or the write that EMPTY_WRITE stands for.

        Linux passes no empty write on.
        """
        fh, command, argument = asked
        make = self.writers.pop(request.pid, None) if command == EMPTY_WRITE else None
        if make is not None:
            value = self.tree.write_in_place(make, self.files[fh])
        else:
            value = self.tree.ioctl(request.caller, self.files[fh], command, argument)
        return wire.IOCTL_ANSWER.pack(value, 0, 0, 0)

    def poll(self, request: Request, asked: wire.PollRequest) -> bytes:
        """Answer which events are there; if none is, notify Linux later."""
        fh, handle, flags, events = asked

        def wake() -> None:
            self.notify(wire.NOTIFY_POLL, wire.FH.pack(handle))

        later = wake if flags & wire.POLL_SCHEDULE_NOTIFY else None
        found = self.tree.poll(request.caller, self.files[fh], events, later)
        return wire.POLL_ANSWER.pack(found)

    def fsync(self, request: Request, _nothing: None) -> None:
        raise KernelError(errno.EINVAL, "no fsync here")

    def release(self, request: Request, fh: int) -> bytes:
        self.close(fh)
        return b""

    def close(self, fh: int) -> None:
        """Give an open file back."""
        self.opened.pop(fh).open_files.discard(fh)
        self.tree.release(self.files.pop(fh))
        if self.read_since > LONG:  # long texts are made of many objects
            self.read_since = 0
            self.heap.look(self.files)
        else:
            self.heap.gone(fh)


def text(name: bytes) -> str:
    """Return a name as text: a character is a byte, as the kernel has it."""
    return name.decode("latin-1")


def host_errno(error: KernelError) -> int:
    """Return an errno that Linux takes: none of those that kernels use inside."""
    if 0 < error.errno < ERESTARTSYS:
        return error.errno
    if error.errno <= ERESTART_RESTARTBLOCK:
        return errno.EINTR
    # with EINTR programs would try again for ever
    return errno.EOPNOTSUPP if error.errno == ENOTSUPP else errno.EINVAL
