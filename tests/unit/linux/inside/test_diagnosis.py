# SPDX-License-Identifier: GPL-2.0-or-later
"""Messages about a command that the kernel could not run."""

import pytest

from kpfs.linux.inside.diagnosis import out_of_memory

LINE = (
    "<3>[   12.3] Out of memory: Killed process 84 (to ol) total-vm:{virtual}kB, "
    "anon-rss:{resident}kB, file-rss:4kB, shmem-rss:0kB, UID:0\n"
)


@pytest.mark.parametrize(
    ("virtual", "resident", "wanted"),
    [(600_000, 400_000, 768), (1_000_000, 400_000, 1280), (400_000, 400_000, 768)],
)
def test_the_memory_that_would_do(virtual, resident, wanted):
    log = "first\n" + LINE.format(virtual=virtual, resident=resident) + "last\n"
    assert out_of_memory(log, 512) == (
        "512 MiB are too little for to ol: make the kernel again with "
        f"--memory {wanted}"
    )


def test_more_than_there_can_be():
    log = LINE.format(virtual=8 << 20, resident=1000)
    assert "more than a guest can have" in out_of_memory(log, 512)


def test_nobody_was_killed():
    assert out_of_memory("something else\n", 512) == ""
