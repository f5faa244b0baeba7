# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors of the host that the user can mend."""


class SetupError(Exception):
    """One line that tells the user what is wrong, and what mends it."""

    def __init__(self, cause: str, mend: str = "") -> None:
        super().__init__(f"{cause}: {mend}" if mend else cause)
        self.cause = cause
        self.mend = mend  # "": the cause says how
