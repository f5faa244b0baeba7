# SPDX-License-Identifier: GPL-2.0-or-later
"""The frame of a FUSE server for a kernel's requests: it decodes them and
packs replies.

A subclass says what its nodes are, and answers further requests about them.
"""

from __future__ import annotations

import errno
import os
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Generic, NamedTuple, Protocol, TypeVar

from kpfs.base import fuse_wire as wire
from kpfs.base.data_model import LITTLE_64, DataModel
from kpfs.base.fuse_wire import DirectoryEntry, Opcode, ReadRequest, taking
from kpfs.linux.arch.arch import LinuxArch
from kpfs.linux.inside import fuse_order

N = TypeVar("N")  # a node of the tree, for which the protocol has a number
Answers = Mapping[int, Callable[[N, bytes], bytes]]
PAGES = 32  # 4 KiB each, that one request transfers at most
MAX_IO = PAGES << 12
MAX_READS = 1 << 14  # ranges that are noted
LISTED = -1
BACKGROUND = 16  # requests for which nobody waits, at once
# flags of INIT, of which the kernel offers some
WANTED = (
    wire.ASYNC_READ | wire.BIG_WRITES | wire.AUTO_INVAL_DATA | wire.DO_READDIRPLUS
    | wire.READDIRPLUS_AUTO | wire.NO_OPEN | wire.PARALLEL_DIROPS | wire.MAX_PAGES
    | wire.CACHE_SYMLINKS | wire.NO_OPENDIR
)  # fmt: skip


class ReadRange(NamedTuple):
    """The part of a file that was read."""

    path: str
    offset: int
    size: int  # LISTED: the file is a directory of the package


class ReplyMemory(Protocol):
    """The memory that a reply is written to."""

    def put(self, at: int, data: bytes) -> None: ...

    def views(self, at: int, size: int) -> list[memoryview]:
        """Return size bytes of memory from an offset on, in pieces."""


class FuseFiles(ABC, Generic[N]):
    """Answers FUSE requests. Context: one thread."""

    wanted = WANTED  # flags of FUSE
    # the kernel's: see serve()
    model: DataModel = LITTLE_64
    errors: Mapping[int, int] = MappingProxyType({})
    exclusive = os.O_EXCL

    def __init__(self, nodes: dict[int, N], answers: Answers[N]) -> None:
        """answers: of further requests, by opcode.

        An OSError of any function that answers becomes the reply's errno.
        """
        self._nodes = nodes
        self.reads: list[ReadRange] | None = None  # noted if it is a list
        self.paths: set[str] | None = (
            None  # that were read, directories with a slash, likewise
        )
        # nodes whose contents the kernel must forget before it gets the present reply
        self.stale: set[int] = set()
        self._answers: Answers[N] = {
            Opcode.LOOKUP: taking(wire.name, self._lookup),
            Opcode.GETATTR: taking(wire.nothing, self._getattr),
            Opcode.STATFS: taking(wire.nothing, self._statfs),
            Opcode.READDIR: taking(wire.parse_read, self._readdir),
            Opcode.READDIRPLUS: taking(wire.parse_read, self._readdirplus),
            **answers,
        }

    def serve(self, arch: LinuxArch) -> None:
        """Answer a kernel of an architecture from now on."""
        self.model, self.errors = arch.model, arch.errors
        self.exclusive = arch.open_flags(os.O_EXCL)

    def _note_read(self, path: str, offset: int, size: int) -> None:
        if self.paths is not None:
            self.paths.add(path)
        if self.reads is not None and len(self.reads) < MAX_READS:
            self.reads.append(ReadRange(path, offset, size))

    @abstractmethod
    def _lookup(self, node: N, name: bytes) -> bytes: ...

    @abstractmethod
    def _getattr(self, node: N, _asked: None) -> bytes: ...

    @abstractmethod
    def _statfs(self, node: N, _asked: None) -> bytes: ...

    @abstractmethod
    def _list(self, node: N, offset: int) -> list[DirectoryEntry]:
        """Return all entries of a directory, to be read from number offset on."""

    @abstractmethod
    def _read(self, node: N, asked: ReadRequest, reply: ReplyMemory) -> int:
        """Write contents behind a reply's head; return their length; OSError."""

    @abstractmethod
    def _forget(self, number: int, lookups: int) -> None:
        """Drop that many lookups of a node, which the kernel has given back."""

    def answer(self, request: bytes, reply: ReplyMemory) -> int:
        """Write the reply to a request; return its size, or 0 if there is no reply.

        What no kernel would ask is EINVAL.  Raises OSError if the memory is not there.
        """
        if len(request) < wire.HEADER.size:
            return 0
        if self.model != LITTLE_64:
            request = fuse_order.request(request, self.model)
        _, opcode, unique, number, *_ = wire.HEADER.unpack_from(request)
        body = request[wire.HEADER.size :]
        head = wire.ANSWER.size
        try:
            if opcode == Opcode.READ:
                asked = wire.parse_read(body)
                asked = asked._replace(size=min(asked.size, MAX_IO))
                size = self._read(self._nodes[number], asked, reply)
            else:
                data = self._answer(opcode, number, body)
                if data is None:
                    return 0
                if self.model != LITTLE_64:
                    data = fuse_order.reply(opcode, data, self.model)
                size = len(data)
                reply.put(head, data)
            error = 0
        except OSError as failed:
            size, error = 0, -(failed.errno or errno.EIO)
        except KeyError:  # no such node
            size, error = 0, -errno.ESTALE
        except (ValueError, TypeError, OverflowError, struct.error):
            size, error = 0, -errno.EINVAL
        error = -self.errors.get(-error, -error)
        answer = wire.ANSWER.pack(head + size, error, unique)
        reply.put(0, fuse_order.head(answer, self.model))
        return head + size

    def _answer(self, opcode: int, number: int, body: bytes) -> bytes | None:
        """Return the body of a reply, or None if the request gets no reply."""
        if opcode == Opcode.INIT:
            limits = {"background": BACKGROUND, "max_write": MAX_IO, "pages": PAGES}
            return wire.init_answer(wire.parse_init(body), self.wanted, **limits)
        if opcode in (Opcode.FORGET, Opcode.BATCH_FORGET):
            for node, lookups in wire.forgotten(opcode, number, body):
                self._forget(node, lookups)
            return None
        if opcode == Opcode.INTERRUPT:
            return None
        make = self._answers.get(opcode)
        if make is None:
            raise OSError(errno.ENOSYS, "not served")
        return make(self._nodes[number], body)

    def _readdir(self, node: N, asked: ReadRequest) -> bytes:
        rows = self._list(node, asked.offset)
        return wire.dirents(rows, asked.offset, min(asked.size, MAX_IO))

    def _readdirplus(self, node: N, asked: ReadRequest) -> bytes:
        def entry_of(name: bytes) -> bytes:
            if name in (b".", b".."):
                return wire.no_entry()
            try:
                return self._lookup(node, name)
            except OSError:
                return wire.no_entry()

        rows = self._list(node, asked.offset)
        return wire.dirents(rows, asked.offset, min(asked.size, MAX_IO), entry_of)


def check_name(name: bytes) -> None:
    """Raise EINVAL for what no entry of a directory can be called."""
    if name in (b"", b".", b"..") or b"/" in name:
        raise OSError(errno.EINVAL, "no name")


def attributes(st: os.stat_result, uid: int, gid: int) -> bytes:
    """Return struct fuse_attr for what lstat() said, with that owner."""
    return wire.attributes(
        *(st.st_ino, st.st_size, st.st_blocks),
        *(st.st_atime_ns, st.st_mtime_ns, st.st_ctime_ns),
        *(st.st_mode, st.st_nlink, uid, gid, st.st_rdev & 0xFFFFFFFF, st.st_blksize),
    )


# of a file system that has no room, and takes none
EMPTY_STATFS = os.statvfs_result((4096, 4096, 0, 0, 0, 0, 0, 0, 0, 255))


def statfs_answer(st: os.statvfs_result) -> bytes:
    return wire.STATFS_ANSWER.pack(
        *(st.f_blocks, st.f_bfree, st.f_bavail, st.f_files, st.f_ffree),
        *(st.f_bsize, st.f_namemax, st.f_frsize),
    )
