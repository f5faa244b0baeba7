# SPDX-License-Identifier: GPL-2.0-or-later
"""Loggers that import logging when there is something to say.

That takes 5 ms, a twentieth of what it takes to boot a kernel.
"""

from __future__ import annotations

from collections.abc import Callable

from kpfs.base.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import ClassVar


def _do_nothing(*_words: object) -> None:
    pass


class Log:
    """The logger of that name, with its methods for each level."""

    # of the process: opens its log before the first message, if need be
    begin: ClassVar[Callable[[], None]] = _do_nothing
    debugs: ClassVar[bool] = True  # False: nobody wants what debug() says

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, level: str) -> Callable[..., None]:
        if level == "debug" and not Log.debugs:
            return _do_nothing
        Log.begin()
        import logging

        say: Callable[..., None] = getattr(logging.getLogger(self._name), level)
        return say
