# SPDX-License-Identifier: GPL-2.0-or-later
"""modprobe for a real kernel, over a package and a kernel that are made here."""

import errno
import zipfile

import pytest

from kpfs.guest_modprobe import ModprobeError, Target, modprobe
from kpfs.linux.store import depmod
from kpfs.linux.store.modules import TABLES, write_archive
from tests.harness import ROOT

SHIPPED = ROOT / "guest" / "image" / "modules"
FIRST, SECOND = "kprobe_example", "kretprobe_example"


class Kernel:
    """What is loaded: by name, with the number of its users."""

    def __init__(self):
        self.users, self.words, self.refused = {}, {}, {}
        self.files = {(SHIPPED / f"{n}.ko").read_bytes(): n for n in (FIRST, SECOND)}

    def loaded(self):
        return {n: [n, "1", str(u), "-"] for n, u in self.users.items()}

    def insert(self, data, words):
        name = self.files[data]
        if name in self.refused:
            raise OSError(self.refused[name], "")
        self.users[name], self.words[name] = 0, words

    def remove(self, name):
        del self.users[name]


@pytest.fixture
def kernel():
    return Kernel()


@pytest.fixture
def run(tmp_path, kernel, monkeypatch):
    """Runs it with modprobe.d of this text."""
    monkeypatch.delenv("MODPROBE_OPTIONS", raising=False)
    with zipfile.ZipFile(tmp_path / "modules", "w") as archive:
        for name in (FIRST, SECOND):
            archive.write(SHIPPED / f"{name}.ko", f"kernel/{name}.ko")
        archive.writestr("modules.builtin", "kernel/core.ko\n")
    aliases = f"alias both {FIRST}\nalias both {SECOND}\n"
    write_archive({depmod.ALIAS: aliases.encode()}, str(tmp_path / TABLES))
    conf = tmp_path / "test.conf"
    calls = kernel.loaded, kernel.insert, kernel.remove, errno.errorcode.__getitem__
    guest = Target("6.1-test", str(tmp_path / "modules"), "", *calls)

    def run(*arguments, conf_text=""):
        conf.write_text(conf_text)
        modprobe(["-C", str(conf), *arguments], guest)

    return run


def test_loads_with_parameters_once(run, kernel):
    conf = f"options {FIRST} symbol=vfs_read"
    run(FIRST, "x=1", "y=a b", conf_text=conf)
    assert kernel.words == {FIRST: 'symbol=vfs_read x=1 y="a b"'}
    run(FIRST, "x=2")
    assert kernel.words[FIRST].endswith('x=1 y="a b"')
    with pytest.raises(ModprobeError, match="already in kernel"):
        run("--first-time", FIRST)


def test_an_alias_means_all_but_what_is_blacklisted(run, kernel):
    run("both", conf_text=f"blacklist {FIRST}")
    assert list(kernel.users) == [SECOND]
    run(FIRST, conf_text=f"blacklist {FIRST}")
    assert FIRST in kernel.users
    kernel.users.clear()
    run("-b", FIRST, conf_text=f"blacklist {FIRST}")
    assert not kernel.users


def test_shows_and_says(run, kernel, capsys):
    run("-R", "both")
    run("-D", "core")
    run("-n", "-v", FIRST, "x=1")
    assert capsys.readouterr().out.splitlines() == [
        *(FIRST, SECOND, "builtin core"),
        f"insmod /lib/modules/6.1-test/kernel/{FIRST}.ko x=1",
    ]
    assert not kernel.users


def test_install_and_remove_commands(run, kernel, tmp_path):
    conf = f"""
install {FIRST} echo $MODPROBE_MODULE $CMDLINE_OPTS >{tmp_path}/said
remove {FIRST} echo removed >{tmp_path}/said
"""
    run(FIRST, "x=1", conf_text=conf)
    assert (tmp_path / "said").read_text() == f"{FIRST} x=1\n"
    assert not kernel.users
    run("-r", FIRST, conf_text=conf)
    assert (tmp_path / "said").read_text() == "removed\n"
    run("-i", FIRST, conf_text=conf)
    assert FIRST in kernel.users
    with pytest.raises(ModprobeError, match="retcode 3"):
        run(SECOND, conf_text=f"install {SECOND} exit 3")


def test_softdeps_may_fail_and_needs_may_not(run, kernel):
    kernel.refused = {SECOND: errno.EIO}
    run(FIRST, conf_text=f"softdep {FIRST} pre: {SECOND}")
    assert list(kernel.users) == [FIRST]
    with pytest.raises(ModprobeError, match=f"could not insert '{SECOND}': EIO"):
        run(SECOND)
    kernel.refused = {SECOND: errno.EEXIST}
    run(SECOND)


def test_removes_what_nobody_uses(run, kernel, capsys):
    kernel.users = {FIRST: 1, SECOND: 0}
    with pytest.raises(ModprobeError, match="is in use"):
        run("-r", FIRST)
    kernel.users[FIRST] = 0
    run("-r", "-v", FIRST, conf_text=f"softdep {FIRST} pre: {SECOND}")
    assert capsys.readouterr().out == f"rmmod {FIRST}\nrmmod {SECOND}\n"
    assert not kernel.users
    run("-r", FIRST)
    for words, said in (
        (("-r", "--first-time", FIRST), "not in kernel"),
        (("-r", "core"), "is builtin"),
        (("-r", "none"), "Module none not found"),
    ):
        with pytest.raises(ModprobeError, match=said):
            run(*words)


def test_what_is_wrong(run):
    for words, said in (
        ((), "missing parameters"),
        (("none",), "Module none not found in directory /lib/modules/6.1-test"),
        (("-a", "none", FIRST, "other"), "none not found.*\nmodprobe: .*other not"),
        (("-x", FIRST), "unrecognized arguments: -x"),
    ):
        with pytest.raises(ModprobeError, match=said):
            run(*words)
    with pytest.raises(ModprobeError) as caught:
        run("-q", "none")
    assert str(caught.value) == ""
