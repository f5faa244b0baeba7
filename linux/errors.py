# SPDX-License-Identifier: GPL-2.0-or-later
"""The reason why a kernel cannot run in kpfs."""

from kpfs.base.errors import SetupError


class UnfitError(SetupError):
    """A kernel cannot be used. The text tells the user why."""
