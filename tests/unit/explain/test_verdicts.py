# SPDX-License-Identifier: GPL-2.0-or-later
"""The form of a verdict; tests/verdicts has those of each function of a dump."""

import errno

from kpfs.explain import verdicts


def test_names_of_errnos():
    assert verdicts.errno_name(errno.EOPNOTSUPP) == "EOPNOTSUPP"
    assert verdicts.errno_name(errno.EILSEQ) == "EILSEQ"
