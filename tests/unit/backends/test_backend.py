# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of kinds of kernel."""

import importlib

import pytest

from kpfs.backends.backend import KINDS, Backend, maker
from kpfs.config import Settings


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_implements_the_protocol(kind):
    made = importlib.import_module(KINDS[kind]).Boot
    methods = {name for name, value in vars(Backend).items() if callable(value)}
    assert {"preload", "mirror", "stop"} <= methods
    assert all(callable(getattr(made, name)) for name in ("preload", "mirror", "stop"))


def test_the_settings_name_the_kind():
    assert maker(Settings()).__module__ == KINDS["guest"]
    assert maker(Settings(kernel="6.1")).__module__ == KINDS["linux"]
