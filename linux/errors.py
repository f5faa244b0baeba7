# SPDX-License-Identifier: GPL-2.0-or-later
"""The reason why a kernel cannot run in kpfs."""

from __future__ import annotations

from kpfs.base.errors import SetupError
from kpfs.base.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class UnfitError(SetupError):
    """A kernel cannot be used. The text tells the user why."""


class UnknownNameError(UnfitError):
    """No kernel has a name."""

    near: Sequence[str] = ()  # names of kernels that there are
