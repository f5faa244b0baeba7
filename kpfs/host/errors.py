# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes wrong on the host, and is for the user to mend."""


class SetupError(Exception):
    """What the user must mend first: one line that says cause and remedy."""
