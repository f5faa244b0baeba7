# SPDX-License-Identifier: GPL-2.0-or-later
"""Short ways to say that something is there, is a directory, or is refused.

Most of them tell mypy what a test knows and the types do not.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from kpfs.backends.guest.vfs import Vfs
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from kpfs.engine.kprobe import Kprobe
from kpfs.fs.node import Dir, File, walk

T = TypeVar("T")


def there(thing: T | None) -> T:
    """Return a thing that is not None."""
    assert thing is not None
    return thing


def stand_in(fake: object) -> Any:
    """Return a fake that stands for a class, where the product asks for no protocol."""
    return fake


def code(function: Callable[..., object], *args: Any, **more: Any) -> str:
    """Make a call that must be refused; return the name of the errno."""
    with pytest.raises(KernelError) as info:
        function(*args, **more)
    return errno.errorcode[info.value.errno]


def dir_at(root: Dir, path: str) -> Dir:
    node = walk(root, path)
    assert isinstance(node, Dir)
    return node


def file_at(root: Dir, path: str) -> File:
    node = walk(root, path)
    assert isinstance(node, File)
    return node


def write(vfs: Vfs, caller: Caller, path: str, data: bytes) -> int:
    """Open a file, write once, close."""
    opened = vfs.open(caller, path, os.O_WRONLY)
    try:
        return vfs.write(caller, opened, data, 0)
    finally:
        vfs.release(opened)


def shown(root: Dir, path: str) -> str:
    """Return the text that a file shows."""
    text = file_at(root, path).show()
    assert isinstance(text, str)
    return text


def call_pre(p: Kprobe, regs: Any = None) -> int | None:
    """Call a probe's pre_handler, a Python function, as a hit would."""
    assert callable(p.pre_handler)
    return p.pre_handler(p, regs)


def call_post(p: Kprobe, regs: Any = None) -> None:
    """Call a probe's post_handler, a Python function, as a hit would."""
    assert callable(p.post_handler)
    p.post_handler(p, regs, 0)
