# SPDX-License-Identifier: GPL-2.0-or-later
"""The file of a kernel, of whatever architecture it is."""

from __future__ import annotations

from kpfs.linux.package import bzimage, image_file

KernelFile = bzimage.BzImage | image_file.KernelImage


def parse(data: bytes) -> KernelFile:
    """Return the parts.  Raises UnfitError if it is none or cannot be unpacked."""
    image = image_file.unpacked(data)
    arch = image_file.packed_arch(data) or image_file.arch_of(image)
    if arch is not None:
        return image_file.parse(image, arch, data)
    return bzimage.parse(data)
