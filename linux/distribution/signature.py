# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks the signatures of archives, by gpgv (GnuPG) or sqv (Sequoia)."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kpfs.linux.distribution import fetch, openpgp
from kpfs.linux.distribution.offer import INSECURE
from kpfs.linux.errors import UnfitError

_BEGIN = b"-----BEGIN PGP SIGNED MESSAGE-----"
_SIGNATURE = b"\n-----BEGIN PGP SIGNATURE-----"
# what gpgv says in place of GOODSIG of a signature that is right, but not good
_NOT_GOOD = {
    "REVKEYSIG": "its key was revoked",
    "EXPKEYSIG": "its key has expired",
    "EXPSIG": "the signature has expired",
}
_WEAK = {"1": "MD5", "2": "SHA-1", "3": "RIPEMD-160"}  # numbers of digests
_FINGERPRINT = re.compile(r"^([0-9A-F]{40})$", re.M)


class _Signers(NamedTuple):
    """The keys that have signed a message."""

    good: set[str]  # fingerprints of primary keys
    others: list[str]  # what is wrong with further signatures


class Keys(NamedTuple):
    """The keys of those who sign an archive."""

    files: tuple[str, ...]  # where hosts may have them; what root put there is trusted
    url: str  # where they are to be had, "" if nowhere
    fingerprints: frozenset[str]  # trusted ones of the keys in url


def checked(text: bytes, keys: Keys, what: str) -> bytes:
    """Return the text of a message that carries its signature (OpenPGP, cleartext).

    what: the name of the message in errors.  Raises UnfitError unless a key that is in
    use has signed it by a digest that is not weak, or if neither program is there.
    """
    message, signature = split(text, what)
    for path in keys.files:
        if os.path.isfile(path):
            found = _signers(message, signature, path, what)
            good = found.good
            break
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(_read_keys(keys, what))
            file.flush()
            found = _signers(message, signature, file.name, what)
        good = found.good & keys.fingerprints
    if not good:
        why = "".join(f"; {each}" for each in found.others)
        raise UnfitError(
            f"{what}: no known key has signed it{why} ({INSECURE} goes on)"
        )
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


def _signers(message: bytes, signature: bytes, keys: str, what: str) -> _Signers:
    """Return who has signed a message, by the keys in a file."""
    with tempfile.TemporaryDirectory(prefix="kpfs-signature-") as folder:
        paths = [os.path.join(folder, name) for name in ("signature", "message")]
        for path, data in zip(paths, (signature, message), strict=True):
            Path(path).write_bytes(data)
        if shutil.which("gpgv"):
            command = "gpgv", "--status-fd", "1", "--keyring", keys, *paths
            return _by_status(_outputs(command)[0])
        if shutil.which("sqv"):
            ring = os.path.join(folder, "keyring")
            try:
                data, dropped = openpgp.usable(Path(keys).read_bytes(), time.time())
                made_by = openpgp.issuers(signature)
            except ValueError as error:
                raise UnfitError(f"{what}, or its keys: damaged: {error}") from None
            Path(ring).write_bytes(data)
            command = "sqv", "-v", "--keyring", ring, *paths
            return _by_output(*_outputs(command), dropped, made_by)
    raise UnfitError(
        f"{what}: neither gpgv nor sqv is there to check its signature: "
        f"install one of them, or take it as it is by {INSECURE}"
    )


def _outputs(command: Sequence[str]) -> tuple[str, str]:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    return done.stdout.decode("utf-8", "replace"), done.stderr.decode(
        "utf-8", "replace"
    )


def _by_output(
    out: str, told: str, dropped: Mapping[str, str], made_by: frozenset[str]
) -> _Signers:
    """Return what sqv found.

    dropped: the keys that it did not get, with the reasons. made_by: ends of their
    fingerprints that the signatures name.
    """
    others = [
        f"{fingerprint}: {_NOT_GOOD[why]}"
        for fingerprint, why in dropped.items()
        if fingerprint[-16:] in made_by
    ]
    return _Signers(
        set(_FINGERPRINT.findall(out)), others or [f"sqv: {' '.join(told.split())}"]
    )


def _by_status(status: str) -> _Signers:
    """Return what gpgv found, by its status lines: its exit status says less.

    Format: doc/DETAILS of GnuPG
    """
    good, others = set(), []
    for block in status.split("[GNUPG:] NEWSIG")[1:]:
        lines = [line.split() for line in block.split("\n")]
        rows = {words[1]: words[2:] for words in lines if len(words) > 2}
        if "BADSIG" in rows:
            return _Signers(set(), [f"{rows['BADSIG'][0]}: the message was changed"])
        if "VALIDSIG" not in rows:
            continue  # made by an unknown key, say
        fields = rows["VALIDSIG"]
        wrong = [why for name, why in _NOT_GOOD.items() if name in rows]
        if (digest := fields[7]) in _WEAK:
            wrong.append(f"{_WEAK[digest]} is weak")
        if wrong:
            others.append(f"{fields[0]}: {', '.join(wrong)}")
        elif "GOODSIG" in rows:
            good.add(fields[-1])
    return _Signers(good, others)
