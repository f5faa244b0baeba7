# SPDX-License-Identifier: GPL-2.0-or-later
"""The file of a kernel, of whatever architecture it is."""

from __future__ import annotations

from kpfs.linux.package import arm64_image, bzimage

KernelFile = bzimage.BzImage | arm64_image.Arm64Image


def parse(data: bytes) -> KernelFile:
    """Return the parts.  Raises UnfitError if it is none or cannot be unpacked."""
    image = arm64_image.unpacked(data)
    if arm64_image.is_image(image):
        return arm64_image.parse(image)
    return bzimage.parse(data)
