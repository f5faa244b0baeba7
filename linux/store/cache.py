# SPDX-License-Identifier: GPL-2.0-or-later
"""Keeps kernels that were made in a folder of exported ones, as the cache of a CI.

Their names end with a digest of what they are made of.  So the names in the folder tell
whether there is something new in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re

from kpfs.linux.arch.arches import PACKAGED, split_name
from kpfs.linux.distribution.offer import Offer
from kpfs.linux.errors import UnfitError
from kpfs.linux.store import archive, image
from kpfs.linux.store.image import Meta

_DIGITS = 16


class CachedKernel:
    """The place of one kernel in a folder, which need not be there."""

    def __init__(self, folder: str, name: str, offer: Offer, *how: object) -> None:
        """how: everything else by which images of this offer differ."""
        arch = PACKAGED[split_name(offer.name)[1]]
        version = image.VERSION, arch.cpu_model, image.agent_digest(arch)
        told = json.dumps([*version, *(file.digest for file in offer.files), *how])
        digest = hashlib.sha256(told.encode()).hexdigest()[:_DIGITS]
        self._folder, self._name = folder, name
        self.path = os.path.join(folder, f"{name}-{digest}{archive.SUFFIX}")

    def load(self) -> Meta | None:
        """Import the kernel.  Return None if it is not there.

        One that is not fit is removed.  Raises OSError.
        """
        if os.path.isfile(self.path):
            try:
                return archive.import_file(self.path, self._name)
            except UnfitError:
                with contextlib.suppress(PermissionError):  # another user's
                    os.unlink(self.path)
        return None

    def keep(self) -> None:
        """Export the kernel in place of those that had its name.

        Raises UnfitError, OSError.
        """
        os.makedirs(self._folder, exist_ok=True)
        archive.export(self._name, self.path)
        name, suffix = re.escape(self._name), re.escape(archive.SUFFIX)
        own = re.compile(rf"{name}-[0-9a-f]{{{_DIGITS}}}{suffix}")
        for found in os.listdir(self._folder):
            if own.fullmatch(found) and found != os.path.basename(self.path):
                with contextlib.suppress(PermissionError):  # another user's
                    os.unlink(os.path.join(self._folder, found))
