# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel's folder before it runs."""

import pytest

from kpfs.linux.errors import UnfitError
from kpfs.linux.running.saved_kernel import SavedKernel


def test_a_folder_without_a_kernel_is_told(tmp_path):
    with pytest.raises(UnfitError):
        SavedKernel(str(tmp_path))
