# SPDX-License-Identifier: GPL-2.0-or-later

import pytest

from kpfs.linux.errors import UnfitError
from kpfs.linux.package import config


def test_a_kernel_without_kprobes_is_refused():
    with pytest.raises(UnfitError, match=r"built without .*KPROBES"):
        config.check_config("CONFIG_FTRACE=y\n")
    config.check_config("")  # nothing is known of it


def test_what_matters_of_a_configuration():
    found = config.options(
        "CONFIG_KPROBES=y\n# CONFIG_FPROBE is not set\nCONFIG_HZ=250\n"
    )
    assert (found["KPROBES"], found["FPROBE"], found["HZ"]) == ("y", "n", "250")


def test_what_a_kernel_lacks():
    found = config.lacking("CONFIG_BPF_SYSCALL=y\nCONFIG_FUSE_FS=m\n")
    assert found["OVERLAY_FS"] == "--inside"
    assert not {"BPF_SYSCALL", "FUSE_FS", "HZ", "PREEMPT"} & set(found)
