# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes wrong on the host, and is for the user to mend."""


class SetupError(Exception):
    """What the user must mend first: one line that says cause and remedy."""

    def __init__(self, cause: str, mend: str = "") -> None:
        super().__init__(f"{cause}: {mend}" if mend else cause)
        self.cause = cause
        self.mend = mend  # "": the cause says it all
