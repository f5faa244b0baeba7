# SPDX-License-Identifier: GPL-2.0-or-later
"""Options that features need; tests/integration/linux/test_options.py asks kernels."""

import pytest

from kpfs.linux.package import options
from kpfs.linux.package.options import lacking_for


@pytest.mark.parametrize(
    ("config", "kind", "name", "lacks"),
    [
        ("CONFIG_X=y\n", options.DEFINITION, "s", "CONFIG_SYNTH_EVENTS"),
        ("CONFIG_SYNTH_EVENTS=y\n", options.DEFINITION, "s", ""),
        ("# CONFIG_FPROBE is not set\n", options.DEFINITION, "nosuch", ""),
        ("", options.DEFINITION, "s", ""),  # nothing is known
        ("CONFIG_BPF_EVENTS=y\n", options.HELPER, "override_return", "CONFIG_BPF_KPR"),
        ("CONFIG_X=y\n", options.HELPER, "get_current_pid_tgid", ""),  # all have it
    ],
)
def test_the_first_option_that_is_off(config, kind, name, lacks):
    assert lacking_for(config, kind, name).startswith(lacks)
    assert bool(lacking_for(config, kind, name)) == bool(lacks)
