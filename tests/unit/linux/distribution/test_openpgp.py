# SPDX-License-Identifier: GPL-2.0-or-later

import random
from pathlib import Path

import pytest

from kpfs.linux.distribution import openpgp
from kpfs.linux.distribution.openpgp import EXPIRED, REVOKED

DATA = Path(__file__).parents[3] / "data" / "signatures"
KEYRING = (DATA / "keyring.gpg").read_bytes()
IN_2020, LATER = 1_593_000_000, 1_700_000_000  # s since 1970
GONE = {
    "02CCD9FC4AFDE43360979778E1505B22FE329EDC": EXPIRED,
    "5245D014FE62B6DD403B19B71078B6E99BD7F5C3": REVOKED,
    "A06CDB42939F5A37A7A0583569A2823416546535": REVOKED,
    "75AA535DEA923DF1FF2CE7884E0002F20F585A5F": EXPIRED,
    "9C8D3BFFA5B779CE79D90CDD4F094F29B720D5F7": REVOKED,
}


def test_keys_and_subkeys_that_are_gone_are_dropped():
    kept, dropped = openpgp.usable(KEYRING, LATER)
    assert dropped == GONE
    assert openpgp.usable(kept, LATER) == (kept, {})


def test_an_expired_key_had_its_time():
    _, dropped = openpgp.usable(KEYRING, IN_2020)
    assert dropped == {key: why for key, why in GONE.items() if why == REVOKED}


def test_a_subkey_goes_with_its_key():
    groups = list(openpgp._keys(KEYRING))
    revoked = groups[2]
    subkey = next(group for group in groups if group[0].tag == openpgp._SUBKEY)
    keyring = b"".join(packet.whole for packet in (*revoked, *subkey))
    kept, dropped = openpgp.usable(keyring, LATER)
    assert kept == b""
    assert list(dropped.values()) == [REVOKED, REVOKED]


def test_a_signature_names_its_keys():
    assert openpgp.issuers(signature("several")) == {
        "1B7B022D51AF1AAA", "E1505B22FE329EDC", "1078B6E99BD7F5C3"
    }  # fmt: skip


def signature(name):
    text = (DATA / f"{name}.asc").read_bytes()
    return text[text.index(b"-----BEGIN PGP SIGNATURE") :]


def test_damaged_keys_and_signatures():
    """A keyring is read, or a ValueError says that it cannot be."""
    rng = random.Random(1)
    for _ in range(2000):
        data = bytearray(KEYRING)
        for _ in range(rng.randint(1, 5)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        del data[rng.choice((len(data), rng.randrange(len(data)))) :]
        armored = bytearray(signature("several"))
        armored[rng.randrange(len(armored))] = rng.choice(b"A+/=\n \xff")
        for read in (
            lambda d=data: openpgp.usable(d, LATER),
            lambda a=armored: openpgp.issuers(a),
        ):
            try:
                read()
            except ValueError:
                continue


@pytest.mark.parametrize(
    "data", [b"\x00", b"\x99", b"\x99\xff\xff", b"\xc6\xe1", b"\xc6\xff", b"\x9b"]
)
def test_packets_that_are_none(data):
    with pytest.raises(ValueError, match="packet"):
        openpgp.usable(data, LATER)
