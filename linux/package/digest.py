# SPDX-License-Identifier: GPL-2.0-or-later
"""Digests that an index or a manifest names, which may be anything until checked."""

import re

_DIGITS = {"sha256": 64, "sha512": 128}


def checked_digest(algorithm: str | None, text: str) -> str:
    """Return the digest in lower case. Raises ValueError if it cannot be one."""
    digits = _DIGITS.get(algorithm or "")
    if digits is None:
        raise ValueError("no digest by SHA-256 or SHA-512")
    if not re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", text):
        raise ValueError(f"a digest is not {digits} hexadecimal digits")
    return text.lower()
