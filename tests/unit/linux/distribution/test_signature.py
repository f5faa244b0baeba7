# SPDX-License-Identifier: GPL-2.0-or-later

import base64
import os
import shutil
from pathlib import Path

import pytest

from kpfs.linux.distribution import signature
from kpfs.linux.distribution.signature import Keys
from kpfs.linux.errors import UnfitError

DATA = Path(__file__).parents[3] / "data" / "signatures"
FINGERPRINT = "05F3FF2390015B87B19E34F69F50C1D430A90BD4"
KEY = """
mDMEawaNXxYJKwYBBAHaRw8BAQdA+qsu78keRk0metbkVLI5h/RGM59It+0WlN1xQHIOM7u0JGFyY2hp
dmUgb2YgdGVzdHMgPHRlc3RzQGV4YW1wbGUub3JnPoiQBBMWCAA4FiEEBfP/I5ABW4exnjT2n1DB1DCp
C9QFAmsGjV8CGwMFCwkIBwIGFQoJCAsCBBYCAwECHgECF4AACgkQn1DB1DCpC9Tc5QD8Dlujewa3C4Yf
XWPK/YrH8PMy+XPBoq1SgsSDmS3rDTkA/2GQ/yP1e5ek4Ci3hf9KIvGhywwCQa+3la6zyAU6vTkK
"""
MESSAGE = b"""\
-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA256

Suite: tests
- - a line
last
-----BEGIN PGP SIGNATURE-----

iHUEARYIAB0WIQQF8/8jkAFbh7GeNPafUMHUMKkL1AUCawaNXwAKCRCfUMHUMKkL
1CcnAQD6rSSIF72oUHtK71Dpz7svrCFyCC2cZFcli7OLh/HUOgD/Zrp7F6JQ8/mH
riraO5LBLQhcEg6EK00w9WU/hXupLQY=
=EEwW
-----END PGP SIGNATURE-----
"""
TEXT = b"Suite: tests\n- a line\nlast"


@pytest.fixture(params=["gpgv", "sqv"])
def program(request, tmp_path, monkeypatch):
    """Have this program and no other."""
    path = shutil.which(request.param)
    if path is None:
        pytest.skip(f"{request.param} is not installed")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / request.param).symlink_to(path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@pytest.fixture
def keyring(tmp_path):
    path = tmp_path / "keyring.gpg"
    path.write_bytes(base64.b64decode(KEY))
    return str(path)


@pytest.mark.usefixtures("program")
def test_a_signed_message(keyring):
    keys = Keys(("/none", keyring), "", frozenset())
    assert signature.checked(MESSAGE, keys, "it") == TEXT


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(
    "message",
    [
        MESSAGE.replace(b"last", b"lost"),
        MESSAGE.replace(b"last", b"last\nmore"),
        MESSAGE.replace(b"iHUE", b"iHUF"),
    ],
)
def test_a_message_that_was_changed(keyring, message):
    keys = Keys((keyring,), "", frozenset())
    with pytest.raises(UnfitError, match="it: no known key has signed it"):
        signature.checked(message, keys, "it")


@pytest.mark.usefixtures("program")
def test_keys_that_are_fetched_must_be_known(archive):
    archive.files["/keys"] = base64.b64decode(KEY)
    known = Keys(("/none",), f"{archive.url}/keys", frozenset({FINGERPRINT}))
    assert signature.checked(MESSAGE, known, "it") == TEXT
    other = known._replace(fingerprints=frozenset({FINGERPRINT[::-1]}))
    with pytest.raises(UnfitError, match="no known key has signed it"):
        signature.checked(MESSAGE, other, "it")


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("name", ["good", "sub", "several"])
def test_one_key_that_is_in_use_suffices(name):
    keys = Keys((str(DATA / "keyring.gpg"),), "", frozenset())
    message = (DATA / f"{name}.asc").read_bytes()
    assert signature.checked(message, keys, "it") == TEXT


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("expired", "02CC.*: its key has expired"),  # the signature is older
        ("hard", "5245.*: its key was revoked"),
        ("soft", "A06C.*: its key was revoked"),  # likewise, and just superseded
        ("subexpired", "75AA.*: its key has expired"),
        ("subrevoked", "9C8D.*: its key was revoked"),
        ("neither", "02CC.*: its key has expired; 5245.*: its key was revoked"),
        ("sigexpired", "[eE]xpired"),
        ("sha1", "SHA-?1 is "),
    ],
)
def test_a_key_that_is_not_in_use_any_more(name, why):
    """The archive of tests/data/signatures: keys of 2020, and what they signed then."""
    keys = Keys((str(DATA / "keyring.gpg"),), "", frozenset())
    message = (DATA / f"{name}.asc").read_bytes()
    with pytest.raises(UnfitError, match=f"it: no known key has signed it; .*{why}"):
        signature.checked(message, keys, "it")


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("keyring", [b"", b"x" * 100, b"\x99\xff\xff", b"\xc6\xff"])
def test_keys_that_are_none(tmp_path, keyring):
    (tmp_path / "keyring.gpg").write_bytes(keyring)
    keys = Keys((str(tmp_path / "keyring.gpg"),), "", frozenset())
    with pytest.raises(UnfitError, match=r"no known key has signed it|damaged"):
        signature.checked((DATA / "good.asc").read_bytes(), keys, "it")


def test_a_message_without_a_signature(keyring):
    keys = Keys((keyring,), "", frozenset())
    for message in (TEXT, MESSAGE.partition(b"-----BEGIN PGP SIGNATURE")[0]):
        with pytest.raises(UnfitError, match="it has no signature"):
            signature.checked(message, keys, "it")


def test_nobody_can_check(keyring, monkeypatch):
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(UnfitError, match=r"neither gpgv nor sqv is there .*--insecure"):
        signature.checked(MESSAGE, Keys((keyring,), "", frozenset()), "it")


def test_no_keys(archive):
    url = f"{archive.url}/none"
    # the archive itself is there, so this is no MissingError of fetch.py
    with pytest.raises(UnfitError, match=f"keys are missing: /a or {url}") as caught:
        signature.checked(MESSAGE, Keys(("/a",), url, frozenset()), "it")
    assert type(caught.value) is UnfitError
    with pytest.raises(UnfitError, match="keys are missing: /a or /b"):
        signature.checked(MESSAGE, Keys(("/a", "/b"), "", frozenset()), "it")
