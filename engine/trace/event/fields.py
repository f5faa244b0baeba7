# SPDX-License-Identifier: GPL-2.0-or-later
"""The fields that records are made of, and those that all records have."""

from kpfs.base.ktypes import EventField as Field

__all__ = ["COMMON_FIELDS", "DYNAMIC", "RELATIVE", "Field", "string_at"]

# What types of fields begin with whose bytes are elsewhere in the record.  The field
# has their length, and where they are: in the record, or from the field's own end on.
RELATIVE = "__rel_loc "
DYNAMIC = ("__data_loc ", RELATIVE)

COMMON_FIELDS = (
    Field("unsigned short", "common_type", 0, 2, False),
    Field("unsigned char", "common_flags", 2, 1, False),
    Field("unsigned char", "common_preempt_count", 3, 1, False),
    Field("int", "common_pid", 4, 4, True),
)


def string_at(pages: memoryview, start: int) -> str:
    """Return the string at start, up to its NUL or else to the end of pages."""
    return bytes(pages[start:]).partition(b"\0")[0].decode("latin-1")
