# SPDX-License-Identifier: GPL-2.0-or-later
"""Fetches files by HTTP, and checks them.

A proxy is taken from the environment (https_proxy, no_proxy), as by all of urllib.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import IO, Any, TypeVar

from kpfs.base import places
from kpfs.linux.distribution.offer import RemoteFile
from kpfs.linux.errors import UnfitError

TIMEOUT = 30  # s without an answer
AT_ONCE = 8  # requests
MAX_INDEX = 256 << 20  # bytes
_PIECE = 1 << 18  # bytes
_NOT_FOUND, _GONE, _RANGE = 404, 410, 416
UNTRUSTED = (
    "its certificate is not trusted, as behind a company's proxy: have root put that "
    "of the authority below /usr/local/share/ca-certificates and run "
    "update-ca-certificates, or name its file in SSL_CERT_FILE"
)
T = TypeVar("T")
U = TypeVar("U")


class MissingError(UnfitError):
    """A server has no file of this name."""


def each(function: Callable[[T], U], things: list[T]) -> list[U]:
    """Call a function that waits for servers for several things at once."""
    _context()  # each thread would make one of its own
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(function, things))


def read(url: str, limit: int = MAX_INDEX) -> bytes:
    """Return the content of a short file.  Raises UnfitError, MissingError.

    Nothing but its server may vouch for it, so nobody leads from https to elsewhere.
    """
    return _read(url, limit, _CertifiedRedirects)


def _read(url: str, limit: int, *handlers: type[urllib.request.BaseHandler]) -> bytes:
    try:
        with _open(url, *handlers) as answer:
            data: bytes = answer.read(limit + 1)
    except (OSError, HTTPException) as error:
        raise _told(url, error) from None
    if len(data) > limit:
        raise UnfitError(f"{url}: more than {limit >> 20} MiB")
    return data


def read_checked(file: RemoteFile) -> bytes:
    """Return the content of a short file that is known.  Raises UnfitError."""
    data = _read(file.url, min(file.size, MAX_INDEX))
    if hashlib.new(file.algorithm, data).hexdigest() != file.digest:
        raise UnfitError(f"{file.url}: not the file that the archive's index tells of")
    return data


def is_there(file: RemoteFile) -> bool:
    """Return False if the server says that it has no such file."""
    try:
        with _open(file.url, method="HEAD"):
            return True
    except (OSError, HTTPException) as error:
        return not isinstance(_told(file.url, error), MissingError)


def save(
    file: RemoteFile, folder: str, progress: Callable[[int], object] = lambda _: None
) -> str:
    """Fetch a file into a folder and return its path.

    What an earlier try got is gone on from; it lies below the cache.
    progress: called with the bytes that are there.
    Raises UnfitError, also if the file is not as expected.
    """
    path = os.path.join(places.private_cache(), f"{file.digest}.part")
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        with os.fdopen(os.open(path, flags, 0o644), "ab+") as part:
            fcntl.flock(part, fcntl.LOCK_EX)  # another process may want it, too
            if not _is_file(part, path):
                continue
            try:
                _go_on(file, part, progress)
            except (OSError, HTTPException) as error:
                raise _told(file.url, error) from None
            target = os.path.join(folder, file.name)
            shutil.move(path, target)
            return target


def _is_file(file: IO[bytes], path: str) -> bool:
    """Return True unless somebody has put the open file elsewhere."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _go_on(
    file: RemoteFile, part: IO[bytes], progress: Callable[[int], object]
) -> None:
    """Fetch what is missing of a file, and check all of it."""
    have = part.seek(0, os.SEEK_END)
    if have < file.size:
        with _open(file.url, begin=have) as answer:
            if have and answer.status != 206:  # it knows no ranges
                part.truncate(have := 0)
            while have < file.size and (piece := answer.read(_PIECE)):
                part.write(piece)
                have += len(piece)
                progress(have)
    part.seek(0)
    digest = hashlib.new(file.algorithm)
    while piece := part.read(_PIECE):
        digest.update(piece)
    if have < file.size:
        raise UnfitError(f"{file.url}: the server ended too early; try again")
    if digest.hexdigest() != file.digest:
        part.truncate(0)
        raise UnfitError(f"{file.url}: not the file that the archive's index tells of")


class _CertifiedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirection from https to a server without a certificate."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any,
        newurl: str,
    ) -> urllib.request.Request | None:  # fmt: skip
        if req.type == "https" and not newurl.startswith("https:"):
            raise HTTPException(f"it leads to {newurl}, without https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@functools.cache
def _context() -> ssl.SSLContext:
    """Return what connections are checked by; it takes 30 ms to read certificates."""
    return ssl.create_default_context()


def _open(
    url: str,
    *handlers: type[urllib.request.BaseHandler],
    begin: int = 0,
    method: str = "GET",
) -> Any:
    """Ask a server. Raises OSError, HTTPException, UnfitError."""
    headers = {"User-Agent": "kpfs"} | ({"Range": f"bytes={begin}-"} if begin else {})
    secure = urllib.request.HTTPSHandler(context=_context())
    opener = urllib.request.build_opener(secure, *handlers)
    try:
        request = urllib.request.Request(url, headers=headers, method=method)
        return opener.open(request, timeout=TIMEOUT)
    except (ValueError, OverflowError):  # InvalidURL is no subclass of these
        raise UnfitError(f"{url}: no URL of a server") from None


def _told(url: str, error: Exception) -> UnfitError:
    """Return an error that tells the user what a server or this host did."""
    if isinstance(error, urllib.error.HTTPError):
        if error.code in (_NOT_FOUND, _GONE):
            return MissingError(f"{url}: no such file")
        return UnfitError(f"{url}: {error.code} {error.reason}")
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return UnfitError(f"{url}: {UNTRUSTED}")
    if isinstance(reason, TimeoutError):
        return UnfitError(f"{url}: no answer for {TIMEOUT} s")
    why = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return UnfitError(f"{url}: {why}")
