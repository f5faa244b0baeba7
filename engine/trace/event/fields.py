# SPDX-License-Identifier: GPL-2.0-or-later
"""Fields of records."""

from kpfs.engine.ktypes import EventField as Field

__all__ = ["COMMON_FIELDS", "Field", "string_at"]

COMMON_FIELDS = (
    Field("unsigned short", "common_type", 0, 2, False),
    Field("unsigned char", "common_flags", 2, 1, False),
    Field("unsigned char", "common_preempt_count", 3, 1, False),
    Field("int", "common_pid", 4, 4, True),
)


def string_at(pages: memoryview, start: int) -> str:
    """A string in the last record of pages that end with it; its NUL may lack."""
    return bytes(pages[start:]).partition(b"\0")[0].decode("latin-1")
