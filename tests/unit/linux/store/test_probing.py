# SPDX-License-Identifier: GPL-2.0-or-later
"""Which modules are loaded for a name, and in which order."""

import pytest

from kpfs.linux.store.aliases import Aliases
from kpfs.linux.store.modprobe_conf import ModprobeConf
from kpfs.linux.store.probing import Found, Prober, Step

DEPENDS = {
    "fs": ["lib", "crypto"],
    "lib": ["base"],
    "crypto": ["base"],
    "base": [],
    "crc_generic": [],
    "crc_intel": [],
    "late": [],
    "lost": ["nothing"],
}
SOFTDEPS = {"lib": ["pre: crc missing", "pre: late"], "fs": ["post: late"]}


class Package:
    def __contains__(self, name):
        return name in DEPENDS

    def is_builtin(self, name):
        return name == "core"

    def depends(self, name):
        return DEPENDS[name]

    def softdeps(self, name):
        return SOFTDEPS.get(name, [])

    def aliases(self):
        return Aliases("crc crc_generic\ncrc crc_intel\nfs_* fs\n")

    def builtin_aliases(self):
        return Aliases("other_core core\n")


def prober(conf=""):
    return Prober(Package(), ModprobeConf(conf))


@pytest.mark.parametrize(
    ("word", "names", "by_alias"),
    [
        ("fs", ["fs"], False),
        ("core", ["core"], False),
        ("crc", ["crc_generic", "crc_intel"], True),
        ("fs-any", ["fs"], True),
        ("other-core", ["core"], True),
        ("none", [], False),
    ],
)
def test_lookup(word, names, by_alias):
    assert prober().lookup(word) == [Found(name, by_alias) for name in names]


def test_what_is_configured_comes_first():
    assert prober("alias fs base").lookup("fs") == [Found("base", True)]
    assert prober("install none /bin/true").lookup("none") == [Found("none", False)]


def test_each_comes_behind_what_it_needs():
    assert prober().needed("fs") == ["base", "lib", "crypto"]
    assert prober().needed("none") == []
    with pytest.raises(KeyError, match="nothing"):
        prober().steps("lost")


def test_softdeps_are_before_and_after():
    """Of several lines of a module, as modprobe, the first alone."""
    assert prober().steps("fs") == [
        Step("base", True),
        Step("crc_generic", False),
        Step("crc_intel", False),
        *(Step(name, True) for name in ("lib", "crypto", "fs")),
        Step("late", False),
    ]
    assert prober("softdep lib pre: late").steps("lib") == [
        *(Step("base", True), Step("late", False), Step("lib", True))
    ]


def test_a_circle_of_softdeps_ends():
    steps = prober("softdep base pre: late\nsoftdep late pre: base").steps("late")
    assert [step.name for step in steps] == ["base", "late"]


def test_alone_for_what_an_install_command_runs():
    assert [s.name for s in prober().steps("fs", ignore_command=True)][-1] == "fs"
