# SPDX-License-Identifier: GPL-2.0-or-later
"""The mount: requests of FUSE to nodes and system calls of the guest."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, MutableMapping

from kpfs.base.errors import KernelError
from kpfs.fs.booted import Booted
from kpfs.fs.fuse import proto, server
from kpfs.fs.fuse.inodes import Inode, Inodes
from kpfs.fs.fuse.loop import Answer, Request
from kpfs.fs.fuse.openflags import guest_flags
from kpfs.fs.fuse.server import FOREVER, OPEN_SIZE, Notify, Server
from kpfs.fs.node import Dir, DynDir, File, Node
from kpfs.fs.vfs import InPlace, OpenFile, Vfs
from kpfs.fs.write_call import EMPTY_WRITE
from kpfs.root.guest_kernel import GuestKernel

POLLIN, POLLOUT = 0x41, 0x104  # with RDNORM and WRNORM
NSEC = 1_000_000_000
CHANGES_OF_TREE = {
    proto.MKNOD: "mknod",
    proto.UNLINK: "unlink",
    proto.SYMLINK: "symlink",
    proto.LINK: "link",
    proto.RENAME: "rename",
    proto.CREATE: "create",
}


class Operations(Server):
    """Serves the requests of a mount, each by the method for its opcode."""

    def __init__(
        self,
        kernel: GuestKernel,
        root: Dir,
        notify: Notify,
        on_ready: Callable[[], None],
        writers: MutableMapping[int, InPlace] | None = None,
        *,
        lazy: bool = False,
    ) -> None:
        """writers: threads of ours that write for somebody else, and what they do.

        lazy: see Vfs.
        """
        super().__init__(notify, on_ready)
        self.kernel = kernel
        self.writers = {} if writers is None else writers
        self.inodes = Inodes(root)
        self.vfs = Vfs(kernel, root, lazy=lazy)
        self.files: dict[int, OpenFile] = {}
        self.opened: dict[int, Inode] = {}  # of files
        self.times = time.time_ns()
        self.pollers: list[tuple[OpenFile, int]] = []
        self.methods |= {
            proto.LOOKUP: self.lookup,
            proto.GETATTR: self.getattr,
            proto.SETATTR: self.setattr,
            proto.MKDIR: self.mkdir,
            proto.RMDIR: self.rmdir,
            **dict.fromkeys(CHANGES_OF_TREE, self.refuse),
            proto.OPEN: self.open,
            proto.READ: self.read,
            proto.WRITE: self.write,
            proto.IOCTL: self.ioctl,
            proto.POLL: self.poll,
        }

    # ---- life
    def follow(self, kernel: GuestKernel, root: Dir) -> None:
        """Serve another kernel from now on.  Called under their lock."""
        self.vfs = Vfs(kernel, root, lazy=self.vfs.lazy)
        self.inodes.replace(root)
        self.kernel = kernel
        self.notify_pollers()
        kernel.background.start(self.notify_pollers)

    def started(self) -> None:
        """Linux sends requests from now on."""
        self.kernel.background.start(self.notify_pollers)
        super().started()

    def end(self) -> None:
        """Called when the mount is about to be unmounted, by umount or a signal."""
        with self.kernel.lock:
            self.pollers.clear()

    # ---- names
    def lookup(self, request: Request) -> Answer:
        return self.entry(request.nodeid, request.body)

    def entry(self, parent: int, name: bytes) -> Answer:
        """The answer that makes an entry known to Linux; name ends with a 0."""
        inode = self.inodes.look_up(parent, name[:-1].decode("latin-1"))
        kept = self.may_keep(inode)
        hold = FOREVER if inode.fixed else 0, FOREVER if kept else 0
        head = proto.ENTRY.pack(inode.number, 0, *hold, 0, 0)
        size = inode.node.size if kept else OPEN_SIZE
        return Answer(
            payload=head + self.attributes(inode, size),
            undo=lambda: self.inodes.forget(inode.number, 1),
        )

    def forget_one(self, number: int, lookups: int) -> None:
        self.inodes.forget(number, lookups)

    # ---- attributes
    def getattr(self, request: Request) -> bytes:
        inode = self.inodes[request.nodeid]
        node = inode.node
        flags, fh = proto.GETATTR_REQUEST.unpack_from(request.body)
        if flags & proto.GETATTR_FH and not is_constant(
            node
        ):  # the only reason is SEEK_END
            with self.kernel.lock:
                self.files[fh].handle.seek_end()
            inode.shrunk = True
            return self.attributes_answer(inode, False, node.size)
        kept = self.may_keep(inode)
        if not kept:
            inode.check()
            self.forget_attributes(inode.number)
        return self.attributes_answer(inode, kept, node.size)

    def may_keep(self, inode: Inode) -> bool:
        """Whether Linux may keep the attributes, the size among them.

        Nobody but Linux itself changes any.  Those of an open file, with its two sizes,
        it asks for each time.
        """
        if isinstance(inode.node, Dir) or is_constant(inode.node):
            return True
        kept = self.keeping and inode.permanent and not inode.open_files
        inode.shrunk |= kept
        return kept

    def attributes_answer(self, inode: Inode, kept: bool, size: int) -> bytes:
        hold = proto.ATTR_ANSWER.pack(FOREVER if kept else 0, 0, 0)
        return hold + self.attributes(inode, size)

    def attributes(self, inode: Inode, size: int) -> bytes:
        node = inode.node
        atime, atime_ns = divmod(self.times if node.atime is None else node.atime, NSEC)
        mtime, mtime_ns = divmod(self.times if node.mtime is None else node.mtime, NSEC)
        return proto.ATTR.pack(
            *(inode.number, size, 0),
            *(atime, mtime, mtime, atime_ns, mtime_ns, mtime_ns),
            *(node.mode, 2 if isinstance(node, Dir) else 1),
            self.ids[0] if node.uid is None else node.uid,
            self.ids[1] if node.gid is None else node.gid,
            *(0, node.blksize, 0),
        )

    def setattr(self, request: Request) -> bytes:
        valid, fh, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, uid, gid = (
            proto.SETATTR_REQUEST.unpack_from(request.body)
        )
        inode = self.inodes[request.nodeid]
        by_file = valid & proto.FATTR_FH
        node: Node = self.files[fh].node if by_file else inode.check()
        if valid & proto.FATTR_MODE:
            node.chmod(mode)
        if valid & (proto.FATTR_UID | proto.FATTR_GID):
            node.chown(
                uid if valid & proto.FATTR_UID else -1,
                gid if valid & proto.FATTR_GID else -1,
            )
        if valid & proto.FATTR_SIZE:
            node.truncate(size)
        if valid & proto.FATTR_ATIME:
            node.atime = atime * NSEC + atime_ns
        if valid & proto.FATTR_MTIME:
            node.mtime = mtime * NSEC + mtime_ns
        kept = self.may_keep(inode)
        return self.attributes_answer(inode, kept, node.size if kept else OPEN_SIZE)

    # ---- directories
    def entries(self, request: Request) -> list[tuple[str, int]]:
        node = self.inodes[request.nodeid].directory()
        own = [(name, node.mode) for name in (".", "..")]
        return own + [(name, type_of(node, name)) for name in node.names()]

    def refuse(self, request: Request) -> None:
        """All that would change the tree, but for instances."""
        folder = self.inodes[request.nodeid].directory()
        raise folder.refuse(CHANGES_OF_TREE[request.opcode])

    def mkdir(self, request: Request) -> Answer:
        name = request.body[8:]
        with self.kernel.lock:
            folder = self.inodes[request.nodeid].directory()
            folder.mkdir(name[:-1].decode("latin-1"))
        return self.entry(request.nodeid, name)

    def rmdir(self, request: Request) -> bytes:
        with self.kernel.lock:
            folder = self.inodes[request.nodeid].directory()
            folder.rmdir(request.body[:-1].decode("latin-1"))
        return b""

    # ---- files
    def open(self, request: Request) -> Answer:
        flags = guest_flags(*proto.OPEN_REQUEST.unpack_from(request.body))
        vfs, inode = self.vfs, self.inodes[request.nodeid]
        node = inode.check()
        if not isinstance(node, File):
            raise KernelError(errno.EISDIR, inode.path)
        try:
            opened = vfs.open_node(request.caller, node, inode.path, flags)
        except KernelError as e:
            if e.errno == errno.ENOSYS:  # Linux would stop asking, and succeed
                raise AssertionError("the guest cannot open files") from e
            raise

        fh = next(self.handles)
        self.files[fh], self.opened[fh] = opened, inode
        inode.open_files.add(fh)
        if inode.shrunk or inode.truncated:
            inode.shrunk = False
            self.restore_size(inode.number)
        if not node.constant:  # as soon as Linux has the answer
            inode.truncated |= bool(flags & os.O_TRUNC)
        how = proto.FOPEN_DIRECT_IO
        if opened.nonseekable:
            how |= proto.FOPEN_NONSEEKABLE
        if node.sleeps:
            how |= proto.FOPEN_PARALLEL_DIRECT_WRITES
        return Answer(
            payload=proto.OPEN_ANSWER.pack(fh, how, 0), undo=lambda: self.close(fh)
        )

    def read(self, request: Request) -> bytes:
        fh, offset, size, how, *_ = proto.READ_REQUEST.unpack_from(request.body)
        # for the page cache: see OPEN_SIZE
        opened = self.files[fh]
        if not how & proto.READ_LOCKOWNER and not opened.node.constant:
            raise KernelError(errno.EINVAL, "no splice here")
        data = opened.vfs.read(request.caller, opened, size, offset)
        if len(data) > size:
            raise AssertionError(f"{len(data)} bytes for a read of {size}")
        return data

    def write(self, request: Request) -> bytes:
        fh, offset, size, *_ = proto.WRITE_REQUEST.unpack_from(request.body)
        opened = self.files[fh]
        in_place = self.writers.pop(request.pid, None) if self.writers else None
        if in_place is not None:
            taken = in_place(opened.vfs, opened)
        else:
            begin = proto.WRITE_REQUEST.size
            data = request.body[begin : begin + size]
            taken = opened.vfs.write(request.caller, opened, data, offset)
        return proto.WRITE_ANSWER.pack(taken)

    def ioctl(self, request: Request) -> bytes:
        """EMPTY_WRITE stands for a write that Linux would not pass on; no other."""
        fh, _, cmd, *_ = proto.IOCTL_REQUEST.unpack_from(request.body)
        in_place = None
        if cmd == EMPTY_WRITE:
            in_place = self.writers.pop(request.pid, None)
        if in_place is None:
            raise KernelError(errno.ENOTTY, "no such ioctl")
        opened = self.files[fh]
        return proto.IOCTL_ANSWER.pack(in_place(opened.vfs, opened), 0, 0, 0)

    def close(self, fh: int) -> None:
        opened = self.files.pop(fh)
        self.opened.pop(fh).open_files.discard(fh)
        if self.pollers:
            with self.kernel.lock:
                self.pollers = [p for p in self.pollers if p[0] is not opened]
        opened.vfs.release(opened)

    # ---- poll
    def poll(self, request: Request) -> bytes:
        """The events that are there; if a read would block, tells Linux later."""
        fh, handle, flags, _ = proto.POLL_REQUEST.unpack_from(request.body)
        opened = self.files[fh]
        with self.kernel.lock:
            ready = opened.vfs.poll(opened)
            if not ready and flags & proto.POLL_SCHEDULE_NOTIFY:
                self.pollers.append((opened, handle))
        return proto.POLL_ANSWER.pack(POLLIN | POLLOUT if ready else 0)

    def notify_pollers(self) -> None:
        """Wake those whose file can be read now.  Called under the kernel's lock."""
        waiting = []
        for opened, handle in self.pollers:
            if may_answer(opened):
                self.notify(proto.NOTIFY_POLL, proto.FH.pack(handle))
            else:
                waiting.append((opened, handle))
        self.pollers = waiting


def is_constant(node: Node) -> bool:
    return isinstance(node, File) and node.constant


def may_answer(opened: OpenFile) -> bool:
    """Whether who polls a file need not wait: it can be read, or never will be."""
    try:
        return opened.vfs.poll(opened)
    except KernelError:
        return True


def type_of(folder: Dir, name: str) -> int:
    """What readdir says of an entry: the type of a mode."""
    if isinstance(folder, DynDir) and name not in folder.children:
        return folder.type_of(name)
    return folder.children[name].mode


def mount(
    kernel: GuestKernel,
    root: Dir,
    mountpoint: str,
    on_ready: Callable[[], None] = lambda: None,
    *,
    fsname: str = "kpfs",
    allow_other: bool = False,
    writers: MutableMapping[int, InPlace] | None = None,
    booted: Booted | None = None,
    lazy: bool = False,
) -> None:
    """Mount root and serve it until it is unmounted or a signal ends it.

    writers, lazy: see Operations.  booted: who has the kernel, if it can be made anew.

    To be called in the main thread, with the default actions of SIGTERM, SIGINT and
    SIGHUP.  on_ready runs once the mount answers.  SetupError: it cannot be mounted.
    """

    def make(notify: Notify) -> Operations:
        operations = Operations(kernel, root, notify, on_ready, writers, lazy=lazy)
        if booted is not None:
            booted.follow(operations.follow)
        return operations

    server.mount(make, kernel.lock, mountpoint, fsname=fsname, allow_other=allow_other)
