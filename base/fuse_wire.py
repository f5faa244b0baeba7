# SPDX-License-Identifier: GPL-2.0-or-later
"""The messages of /dev/fuse: numbers, layouts, and requests taken apart.

Two kernels speak it to kpfs: the Linux of the host, of which kpfs serves a mount, and a
Linux kernel in the emulator, to which kpfs serves the files of the host.  Both are
little-endian.

Document: fuse(4), Documentation/filesystems/fuse.rst
Kernel: include/uapi/linux/fuse.h
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from struct import Struct

from kpfs.base.typed import NamedTuple, TypeVar
from kpfs.base.units import NSEC

MAJOR, MINOR = 7, 31
ROOT = 1  # nodeid

Context = TypeVar("Context")
Arguments = TypeVar("Arguments")
Reply = TypeVar("Reply")
# name, inode, and type as in st_mode, shifted by 12
DirectoryEntry = tuple[bytes, int, int]


class Opcode(IntEnum):
    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    READLINK = 5
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    SETXATTR = 21
    GETXATTR = 22
    LISTXATTR = 23
    REMOVEXATTR = 24
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    IOCTL = 39
    POLL = 40
    BATCH_FORGET = 42
    READDIRPLUS = 44
    RENAME2 = 45


# flags of INIT
ASYNC_READ, ATOMIC_O_TRUNC, BIG_WRITES = 1, 1 << 3, 1 << 5
AUTO_INVAL_DATA, DO_READDIRPLUS, READDIRPLUS_AUTO = 1 << 12, 1 << 13, 1 << 14
NO_OPEN, PARALLEL_DIROPS, MAX_PAGES = 1 << 17, 1 << 18, 1 << 22
CACHE_SYMLINKS, NO_OPENDIR = 1 << 23, 1 << 24
GETATTR_FH = 1
# valid of SETATTR
FATTR_MODE, FATTR_UID, FATTR_GID, FATTR_SIZE, FATTR_ATIME, FATTR_MTIME = (
    1, 2, 4, 8, 16, 32,
)  # fmt: skip
FATTR_FH = 64
FOPEN_DIRECT_IO, FOPEN_NONSEEKABLE = 1, 4
FOPEN_NOFLUSH, FOPEN_PARALLEL_DIRECT_WRITES = 0x20, 0x40
READ_LOCKOWNER = 2
POLL_SCHEDULE_NOTIFY = 1
RENAME_NOREPLACE = 1
# codes of notifications
NOTIFY_POLL, NOTIFY_INVAL_INODE, NOTIFY_STORE = 1, 2, 4

HEADER = Struct("<IIQQIII4x")  # length, opcode, unique, nodeid, uid, gid, pid
ANSWER = Struct("<IiQ")  # length, -errno, unique
# "ino, size, blocks", three times in s, the same in ns, "mode, nlink, uid, gid, rdev,
# blksize, flags"
ATTR = Struct("<3Q3q10I")
ENTRY = Struct("<4Q2I")  # nodeid, generation, how long it and its attributes hold
ATTR_ANSWER = Struct("<QII")  # how long they hold
INIT_REQUEST = Struct("<4I")  # major, minor, max_readahead, flags
# major, minor, max_readahead, flags, max_background, congestion_threshold, max_write,
# time_gran, max_pages
INIT_ANSWER = Struct("<4I2H2IH34x")
GETATTR_REQUEST = Struct("<I4xQ")  # flags, fh
# valid, fh, size, lock_owner, three times in s, the same in ns, mode, uid, gid
SETATTR_REQUEST = Struct("<I4x3Q3q3II4x2I4x")
OPEN_REQUEST = Struct("<I4x")  # flags
OPEN_ANSWER = Struct("<QII")  # fh, flags
# fh, offset, size, read_flags; lock_owner, flags
READ_REQUEST = Struct("<QQII16x")
WRITE_REQUEST = READ_REQUEST  # with write_flags; then the data
OPEN_FILE_FLAGS = Struct("<32xI4x")  # flags of both, behind lock_owner
WRITE_ANSWER = Struct("<I4x")
FH = Struct("<Q")  # the first word of many requests
MKDIR_REQUEST = Struct("<2I")  # mode, umask; then the name
MKNOD_REQUEST = Struct("<3I4x")  # mode, rdev, umask; then the name
CREATE_REQUEST = Struct("<3I4x")  # flags, mode, umask, open_flags; then the name
RENAME2_REQUEST = Struct("<QI4x")  # nodeid of the new directory, flags; then both names
COUNT = Struct("<I4x")  # number of nodes (BATCH_FORGET), or of bytes (LISTXATTR)
FORGET_ONE = Struct("<QQ")  # nodeid, nlookup
STATFS_ANSWER = Struct("<5Q3I28x")  # five counts, bsize, namelen, frsize
IOCTL_REQUEST = Struct("<Q4xIQ8x")  # fh, cmd, arg
IOCTL_ANSWER = Struct("<iI2I")  # result, flags, in_iovs, out_iovs
POLL_REQUEST = Struct("<QQII")  # fh, kh, flags, events
POLL_ANSWER = Struct("<I4x")
DIRENT = Struct("<QQII")  # ino, offset of the next, length of the name, type; then name
INVAL_INODE = Struct("<Qqq")  # nodeid, offset, length
STORE = Struct("<QQI4x")  # nodeid, offset, size; then the data


# ---- requests, taken apart
class InitRequest(NamedTuple):
    major: int
    minor: int
    readahead: int
    flags: int


class SetattrRequest(NamedTuple):
    """The attributes to change; None: it stays.  Times are nanoseconds since 1970."""

    fh: int | None = None  # by the open file
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    size: int | None = None
    atime: int | None = None
    mtime: int | None = None

    @classmethod
    def parse(cls, body: bytes) -> SetattrRequest:
        valid, fh, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, uid, gid = (
            SETATTR_REQUEST.unpack_from(body)
        )
        return cls(
            fh if valid & FATTR_FH else None,
            mode if valid & FATTR_MODE else None,
            uid if valid & FATTR_UID else None,
            gid if valid & FATTR_GID else None,
            size if valid & FATTR_SIZE else None,
            atime * NSEC + atime_ns if valid & FATTR_ATIME else None,
            mtime * NSEC + mtime_ns if valid & FATTR_MTIME else None,
        )


class ReadRequest(NamedTuple):
    """READ, READDIR and READDIRPLUS."""

    fh: int
    offset: int
    size: int
    flags: int
    open_flags: int = 0  # flags of open(2) that it has now, by the host's numbers


class WriteRequest(NamedTuple):
    fh: int
    offset: int
    data: bytes
    open_flags: int  # see ReadRequest

    @classmethod
    def parse(cls, body: bytes) -> WriteRequest:
        fh, offset, size, _ = WRITE_REQUEST.unpack_from(body)
        data = body[WRITE_REQUEST.size : WRITE_REQUEST.size + size]
        return cls(fh, offset, data, *OPEN_FILE_FLAGS.unpack_from(body))


class MkdirRequest(NamedTuple):
    mode: int
    umask: int
    name: bytes


class MknodRequest(NamedTuple):
    mode: int
    device: int
    umask: int
    name: bytes


class CreateRequest(NamedTuple):
    flags: int
    mode: int
    umask: int
    name: bytes


class SymlinkRequest(NamedTuple):
    name: bytes
    target: bytes


class LinkRequest(NamedTuple):
    node: int
    name: bytes


class RenameRequest(NamedTuple):
    """RENAME and RENAME2."""

    parent: int
    name: bytes
    new_name: bytes
    flags: int = 0


class PollRequest(NamedTuple):
    fh: int
    handle: int  # by which Linux is told later
    flags: int
    events: int


class IoctlRequest(NamedTuple):
    fh: int
    command: int
    argument: int


def _parser(
    make: Callable[..., Arguments], layout: Struct, names: int = 0
) -> Callable[[bytes], Arguments]:
    """Return a function that parses a request of numbers, and of names behind them."""

    def parse(body: bytes) -> Arguments:
        strings = body[layout.size :].split(b"\0", names)[:names] if names else ()
        return make(*layout.unpack_from(body), *strings)

    return parse


parse_init = _parser(InitRequest, INIT_REQUEST)
parse_mkdir = _parser(MkdirRequest, MKDIR_REQUEST, 1)
parse_mknod = _parser(MknodRequest, MKNOD_REQUEST, 1)
parse_create = _parser(CreateRequest, CREATE_REQUEST, 1)
parse_symlink = _parser(SymlinkRequest, Struct(""), 2)
parse_link = _parser(LinkRequest, FH, 1)
parse_rename = _parser(RenameRequest, FH, 2)
parse_poll = _parser(PollRequest, POLL_REQUEST)
parse_ioctl = _parser(IoctlRequest, IOCTL_REQUEST)


def parse_read(body: bytes) -> ReadRequest:
    flags = OPEN_FILE_FLAGS.unpack_from(body)
    return ReadRequest(*READ_REQUEST.unpack_from(body), *flags)


def parse_rename2(body: bytes) -> RenameRequest:
    parent, flags = RENAME2_REQUEST.unpack_from(body)
    old, new = body[RENAME2_REQUEST.size :].split(b"\0")[:2]
    return RenameRequest(parent, old, new, flags)


def name(body: bytes) -> bytes:
    """Return the first name in a request."""
    return body.split(b"\0", 1)[0]


def number(body: bytes) -> int:
    """Return the first word of a request."""
    return int(FH.unpack_from(body)[0])


def open_flags(body: bytes) -> int:
    return int(OPEN_REQUEST.unpack_from(body)[0])


def getattr_file(body: bytes) -> int | None:
    """Return the open file whose attributes are asked for; None: those of the node."""
    flags, fh = GETATTR_REQUEST.unpack_from(body)
    return fh if flags & GETATTR_FH else None


def list_size(body: bytes) -> int:
    """Return the room for the names of LISTXATTR; 0: only their size is wanted."""
    size: int = COUNT.unpack_from(body)[0]
    return size


def nothing(_body: bytes) -> None:
    """Parse a request that has no arguments, or none that matter."""


def taking(
    parse: Callable[[bytes], Arguments], answer: Callable[[Context, Arguments], Reply]
) -> Callable[[Context, bytes], Reply]:
    """Return a function that answers a request from its body."""
    return lambda context, body: answer(context, parse(body))


def forgotten(opcode: int, node: int, body: bytes) -> list[tuple[int, int]]:
    """Parse FORGET or BATCH_FORGET: pairs of a nodeid and a number of lookups."""
    if opcode == Opcode.FORGET:
        return [(node, number(body))]
    (count,) = COUNT.unpack_from(body)
    ends = COUNT.size, COUNT.size + count * FORGET_ONE.size
    return list(FORGET_ONE.iter_unpack(body[slice(*ends)]))


# ---- answers
def notification(code: int, payload: bytes) -> bytes:
    """Return a message to Linux that it has not asked for."""
    return ANSWER.pack(ANSWER.size + len(payload), code, 0) + payload


def init_answer(
    asked: InitRequest, wanted: int, *, background: int, max_write: int, pages: int = 0
) -> bytes:
    """Return the answer to INIT, with those of the wanted flags that Linux offers."""
    return INIT_ANSWER.pack(
        *(MAJOR, min(asked.minor, MINOR)),
        *(min(asked.readahead, max_write), asked.flags & wanted),
        *(background, background * 3 // 4, max_write, 1, pages),
    )


def attributes(
    ino: int, size: int, blocks: int, atime: int, mtime: int, ctime: int, *rest: int
) -> bytes:
    """Return struct fuse_attr.

    Times are nanoseconds since 1970.  rest: mode, nlink, uid, gid, rdev, blksize.
    """
    seconds = atime // NSEC, mtime // NSEC, ctime // NSEC
    ns = atime % NSEC, mtime % NSEC, ctime % NSEC
    return ATTR.pack(ino, size, blocks, *seconds, *ns, *rest, 0)


def attributes_answer(attr: bytes, hold: int) -> bytes:
    """Return struct fuse_attr_out.  hold: seconds for which Linux keeps it."""
    return ATTR_ANSWER.pack(hold, 0, 0) + attr


def entry(node: int, attr: bytes, hold: int, attr_hold: int) -> bytes:
    """Return struct fuse_entry_out.  hold: seconds, of the name; attr_hold: of attr."""
    return ENTRY.pack(node, 0, hold, attr_hold, 0, 0) + attr


def no_entry(hold: int = 0) -> bytes:
    """Return the answer that there is no such name, which Linux keeps so long."""
    return entry(0, bytes(ATTR.size), hold, hold)


def dirents(
    entries: Sequence[DirectoryEntry],
    offset: int,
    size: int,
    ahead: Callable[[bytes], bytes] | None = None,
) -> bytes:
    """Return the entries from the offset-th on, as many as fit into size bytes.

    ahead: returns what READDIRPLUS has before each entry.
    """
    out, head = bytearray(), ENTRY.size + ATTR.size if ahead else 0
    for following in range(offset + 1, len(entries) + 1):
        called, ino, kind = entries[following - 1]
        row = DIRENT.pack(ino, following, len(called), kind) + called
        row += bytes(-len(called) % 8)
        if len(out) + head + len(row) > size:
            break
        if ahead:
            out += ahead(called)
        out += row
    return bytes(out)
