# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks the signatures of archives, by gpgv (GnuPG) or sqv (Sequoia)."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from typing import NamedTuple

from kpfs.linux.distribution import fetch
from kpfs.linux.distribution.offer import INSECURE
from kpfs.linux.errors import UnfitError

_BEGIN = b"-----BEGIN PGP SIGNED MESSAGE-----"
_SIGNATURE = b"\n-----BEGIN PGP SIGNATURE-----"
_VALID = re.compile(r"^\[GNUPG:\] VALIDSIG .* ([0-9A-F]{40})$", re.M)
_FINGERPRINT = re.compile(r"^([0-9A-F]{40})$", re.M)


class Keys(NamedTuple):
    """The keys of those who sign an archive."""

    files: tuple[str, ...]  # where hosts may have them; what root put there is trusted
    url: str  # where they are to be had, "" if nowhere
    fingerprints: frozenset[str]  # of those in url that are trusted


def checked(text: bytes, keys: Keys, what: str) -> bytes:
    """Return the text of a message that carries its signature (OpenPGP, cleartext).

    what: the name of the message in errors.  Raises UnfitError unless a key has signed
    it, or if neither program is there.
    """
    message, signature = split(text, what)
    for path in keys.files:
        if os.path.isfile(path):
            signers = _signers(message, signature, path, what)
            break
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(_read_keys(keys, what))
            file.flush()
            signers = _signers(message, signature, file.name, what)
        signers &= keys.fingerprints
    if not signers:
        raise UnfitError(f"{what}: no known key has signed it ({INSECURE} goes on)")
    return message


def _read_keys(keys: Keys, what: str) -> bytes:
    """Return the keys of an archive that no file of this host has."""
    if keys.url:
        with contextlib.suppress(fetch.MissingError):
            return fetch.read(keys.url)
    places = " or ".join(filter(None, (*keys.files, keys.url)))
    raise UnfitError(f"{what}: keys are missing: {places} ({INSECURE} goes on)")


def split(text: bytes, what: str) -> tuple[bytes, bytes]:
    """Return the text of a message and its signature apart.  Raises UnfitError."""
    head, _, rest = text.partition(b"\n\n")
    message, found, signature = rest.partition(_SIGNATURE)
    if not head.startswith(_BEGIN) or not found:
        raise UnfitError(f"{what}: it has no signature ({INSECURE} goes on)")
    lines = (line.removeprefix(b"- ").rstrip() for line in message.split(b"\n"))
    return b"\n".join(lines), (found + signature).lstrip()


def _signers(message: bytes, signature: bytes, keys: str, what: str) -> set[str]:
    """Return the fingerprints of those keys that have signed a message."""
    with tempfile.TemporaryDirectory(prefix="kpfs-signature-") as folder:
        paths = [os.path.join(folder, name) for name in ("signature", "message")]
        for path, data in zip(paths, (signature, message), strict=True):
            with open(path, "wb") as file:
                file.write(data)
        if shutil.which("gpgv"):
            command, pattern = ["gpgv", "--status-fd", "1"], _VALID
        elif shutil.which("sqv"):
            command, pattern = ["sqv"], _FINGERPRINT
        else:
            raise UnfitError(
                f"{what}: neither gpgv nor sqv is there to check its signature: "
                f"install one of them, or take it as it is by {INSECURE}"
            )
        command += ["--keyring", keys, *paths]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
    if "BADSIG" in done.stdout:
        return set()
    return set(pattern.findall(done.stdout))
