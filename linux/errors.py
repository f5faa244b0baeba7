# SPDX-License-Identifier: GPL-2.0-or-later
"""What keeps a kernel from being a guest."""


class UnfitError(Exception):
    """It cannot be a guest: the text says why, for the user."""
