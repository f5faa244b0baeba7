# SPDX-License-Identifier: GPL-2.0-or-later
"""Open files whose addresses kernel.kptr_restrict hides: they read as zeroes.

With 0 all see them, with 1 root alone, with 2 nobody.

Kernel: kallsyms_show_value(), restricted_pointer()
"""

from __future__ import annotations

import re

from kpfs.backends.guest.files.guest_file import GuestFile
from kpfs.fs.seqfile import SeqHandle, ValueHandle

_ADDRESS = rb"(?m)^([0-9a-f]{16})|0x([0-9a-f]{16})"
_ZEROES = 16 * b"0"


def _seen(file: GuestFile, text: bytes, uid: int, value: int | None = None) -> bytes:
    """Return the text as a user may see it.  value: of the sysctl, None: as it is."""
    if value is None:
        value = file.kernel.guest.kptr_restrict
    if not value or (value == 1 and not uid):
        return text
    return re.sub(_ADDRESS, lambda found: found[0][:-16] + _ZEROES, text)


class AddressHandle(SeqHandle):
    """A reader of lines with addresses, by the sysctl at the time of the read."""

    file: GuestFile  # type: ignore[assignment]

    def make(self) -> bytes:
        return _seen(self.file, super().make(), self.uid)


class OpenedAddressHandle(SeqHandle):
    """A reader of lines with addresses, by the sysctl at the time of the open."""

    file: GuestFile  # type: ignore[assignment]

    def __init__(self, file: GuestFile, flags: int, pid: int) -> None:
        super().__init__(file, flags, pid)
        self._kptr_restrict = file.kernel.guest.kptr_restrict

    def make(self) -> bytes:
        return _seen(self.file, super().make(), self.uid, self._kptr_restrict)


class AddressValueHandle(ValueHandle):
    """A reader of an address, by the sysctl at the time of the read."""

    file: GuestFile

    def make(self) -> bytes:
        return _seen(self.file, super().make(), self.uid)
