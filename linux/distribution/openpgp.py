# SPDX-License-Identifier: GPL-2.0-or-later
"""Drops from a keyring the keys that have expired or were revoked.

sqv takes a signature of such a key if it says that it was made before. But whoever got
hold of an old key dates signatures as they like. gpgv knows such keys by itself.

Self-signatures are believed without a check: what is asked is whether a trusted keyring
still wants a key to be used. Spec: RFC 4880, sections 4.2, 5.2.3, 5.5.2 and 12.2.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import NamedTuple

REVOKED, EXPIRED = "REVKEYSIG", "EXPKEYSIG"  # as gpgv has it
_SIGNATURE, _KEY, _SUBKEY = 2, 6, 14  # tags of packets
_OF_KEY, _OF_SUBKEY = {0x10, 0x11, 0x12, 0x13, 0x1F}, {0x18}  # types of signatures
_REVOKING = {0x20, 0x28}
_CREATED, _EXPIRES, _ISSUER, _ISSUER_FINGERPRINT = 2, 9, 16, 33  # subpackets


class _Packet(NamedTuple):
    tag: int
    body: bytes
    whole: bytes


class _Signature(NamedTuple):
    kind: int
    created: int
    expires: int  # s after the key was made; 0: never
    issuers: frozenset[str]  # the last 16 digits of fingerprints


def usable(keyring: bytes, now: float) -> tuple[bytes, dict[str, str]]:
    """Return a keyring without the keys that are not to be used any more, and why.

    now: s since 1970. The second value has reasons by fingerprints, REVOKED or EXPIRED.
    Raises ValueError if the keyring is damaged.
    """
    kept: list[bytes] = []
    dropped: dict[str, str] = {}
    primary = ""
    for group in _keys(keyring):
        fingerprint, created = _identity(group[0].body)
        if group[0].tag == _KEY:
            primary = fingerprint
        why = dropped.get(primary) or _wrong(group, primary[-16:], created, now)
        if why:
            dropped[fingerprint] = why
        else:
            kept += [packet.whole for packet in group]
    return b"".join(kept), dropped


def issuers(armored: bytes) -> frozenset[str]:
    """Return the last 16 digits of the fingerprints that signatures name.

    Raises ValueError.
    """
    _, _, rest = armored.partition(b"\n\n")
    lines, _, _ = rest.partition(b"\n=")  # a checksum, and the end
    data = base64.b64decode(b"".join(lines.split()), validate=True)
    found = [_signature(packet.body) for packet in _packets(data)]
    return frozenset().union(*(each.issuers for each in found if each))


def _wrong(group: list[_Packet], primary: str, created: int, now: float) -> str:
    """Return why a key is not to be used any more, or ""."""
    binding = _OF_KEY if group[0].tag == _KEY else _OF_SUBKEY
    newest = None
    for packet in group:
        found = _signature(packet.body) if packet.tag == _SIGNATURE else None
        if found is None or primary not in found.issuers:
            continue
        if found.kind in _REVOKING:
            return REVOKED
        if found.kind in binding and (
            newest is None or found.created >= newest.created
        ):
            newest = found
    if newest and newest.expires and created + newest.expires <= now:
        return EXPIRED
    return ""


def _keys(data: bytes) -> Iterator[list[_Packet]]:
    """Yield each key or subkey with the packets that belong to it."""
    group: list[_Packet] = []
    for packet in _packets(data):
        if packet.tag in (_KEY, _SUBKEY) and group:
            yield group
            group = []
        if packet.tag == _KEY or group or packet.tag == _SUBKEY:
            group.append(packet)
    if group:
        yield group


def _packets(data: bytes) -> Iterator[_Packet]:
    at = 0
    while at < len(data):
        begin, first = at, data[at]
        at += 1
        if not first & 0x80:
            raise ValueError("no packet")
        if first & 0x40:
            tag = first & 0x3F
            length, at = _length(data, at)
        else:
            tag, size = first >> 2 & 0xF, 1 << (first & 3)
            if size > 4:
                raise ValueError("a packet without a length")
            length, at = int.from_bytes(data[at : at + size], "big"), at + size
        if at + length > len(data):
            raise ValueError("a packet is cut")
        yield _Packet(tag, data[at : at + length], data[begin : at + length])
        at += length


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Return the length that stands somewhere, and where what follows begins."""
    first = data[at] if at < len(data) else 0
    if first < 192:
        return first, at + 1
    if first == 255:
        return int.from_bytes(data[at + 1 : at + 5], "big"), at + 5
    if first >= 224:
        raise ValueError("a packet in parts")
    return (first - 192 << 8) + int.from_bytes(data[at + 1 : at + 2], "big") + 192, (
        at + 2
    )


def _identity(key: bytes) -> tuple[str, int]:
    """Return the fingerprint of a key, and when it was made."""
    whole = b"\x99" + len(key).to_bytes(2, "big", signed=False) + key
    fingerprint = hashlib.sha1(whole, usedforsecurity=False).hexdigest().upper()
    return fingerprint, int.from_bytes(key[1:5], "big")


def _signature(body: bytes) -> _Signature | None:
    """Read a signature of version 4, or return None."""
    if len(body) < 8 or body[0] != 4:
        return None
    end = 6 + int.from_bytes(body[4:6], "big")
    hashed = body[6:end]
    unhashed = body[end + 2 : end + 2 + int.from_bytes(body[end : end + 2], "big")]
    created = expires = 0
    issuers = set()
    for area in (hashed, unhashed):
        for kind, value in _subpackets(area):
            if kind == _ISSUER:
                issuers.add(value.hex().upper())
            elif kind == _ISSUER_FINGERPRINT:
                issuers.add(value.hex().upper()[-16:])
            elif kind == _CREATED and area is hashed:
                created = int.from_bytes(value, "big")
            elif kind == _EXPIRES and area is hashed:
                expires = int.from_bytes(value, "big")
    return _Signature(body[1], created, expires, frozenset(issuers))


def _subpackets(area: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(area):
        first = area[at]
        if first < 192:
            length, at = first, at + 1
        elif first < 255:
            low = area[at + 1] if at + 1 < len(area) else 0
            length, at = (first - 192 << 8) + low + 192, at + 2
        else:
            length, at = int.from_bytes(area[at + 1 : at + 5], "big"), at + 5
        if length < 1 or at + length > len(area):
            raise ValueError("a subpacket is cut")
        yield area[at] & 0x7F, area[at + 1 : at + length]
        at += length
