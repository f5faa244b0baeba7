# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.linux.running.chosen."""

import json
import os
import zipfile

import pytest

from kpfs.linux.errors import UnfitError
from kpfs.linux.running import chosen
from kpfs.linux.store import image, store
from tests.unit.linux.store.test_image import sound

SYSCTLS = "/proc/sys/kernel/kptr_restrict", "/proc/sys/net/core/bpf_jit_enable"


@pytest.fixture(autouse=True)
def kernels(tmp_path, monkeypatch):
    """Two kernels, of which one has an image with a parameter."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(chosen, "_has_file", lambda _f, _d, path: path in SYSCTLS)
    make("6.1")
    make("6.12.3+deb13")
    make("6.1+preempt=full", "usual preempt=full")
    make("6.1+mine", "usual")


def make(name, append=""):
    folder = os.path.join(store.place(), name)
    os.makedirs(folder)
    with open(f"{folder}/{image.META}", "w") as file:
        json.dump({**sound(), "append": append}, file)
    with open(f"{folder}/{image.SYMBOLS}", "w") as file:
        file.write("ffffffff81000000 d __param_str_time\n")
    with zipfile.ZipFile(f"{folder}/{image.MODULES}", "w") as archive:
        archive.writestr("kernel/fs/fuse/fuse.ko", b"")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("6.1", ("6.1", [])),
        ("6.1+a=1+nosmt", ("6.1", ["a=1", "nosmt"])),
        ("6.12.3+deb13", ("6.12.3+deb13", [])),
        ("6.12.3+deb13+a=1", ("6.12.3+deb13", ["a=1"])),
        ("6.6.1+", ("6.6.1+", [])),
        ("mine+rt", ("mine+rt", [])),
        ("6.6+nosmt", ("6.6", ["nosmt"])),
        ("mine+a=1", ("mine", ["a=1"])),
        ("6.12.43+deb13-amd64", ("6.12.43+deb13-amd64", [])),
        ("6.12.43+deb13-amd64+a+b=1", ("6.12.43+deb13-amd64", ["a", "b=1"])),
        ("fedora:43+nosmt", ("fedora:43", ["nosmt"])),
    ],
)
def test_the_parts_of_a_name(name, parts):
    assert chosen.parts(name) == parts


def test_the_kernel_tells_what_a_parameter_is():
    name = "6.1+quiet+kptr_restrict=2+cpus=2+net.core.bpf_jit_enable=0+preempt=none"
    found = chosen.kernel(name)
    assert found.image == "6.1+cpus=2+preempt=none+quiet"
    assert (found.cpus, found.append) == (2, ("preempt=none", "quiet"))
    assert found.sysctls == (("kptr_restrict", "2"), ("net.core.bpf_jit_enable", "0"))
    assert chosen.kernel("6.1+kptr_restrict").append == ("kptr_restrict",)
    assert chosen.folder("6.1+kptr_restrict=1") == store.folder("6.1")
    assert chosen.folder("6.1+preempt=full").endswith("/6.1+preempt=full")


@pytest.mark.parametrize("name", ["6.1+fuse.max_user_bgreq=1", "6.1+printk.time=1"])
def test_a_parameter_of_a_module_that_there_is(name):
    assert chosen.kernel(name).image == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("6.6+a=1", r"no kernel 6\.6"),
        ("6.1+a=1", r"no kernel 6\.1\+a=1: .* \(kpfs kernel make 6\.1\+a=1\)"),
        ("6.1+cpus=5", "cpus is 1 to 4, not '5'"),
        ("6.1+cpus", "cpus is 1 to 4, not ''"),
        ("6.1+fuze.x=1", r"fuze\.x is neither a boot parameter nor a sysctl"),
        ("6.1+a=/", "is no name for a kernel"),
    ],
)
def test_what_there_is_not(name, why):
    with pytest.raises(UnfitError, match=why):
        chosen.folder(name)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "an empty name"),
        ("6.1,", "an empty name"),
        ("6.1,6.12,6.1", r"6\.1 is named twice$"),
        ("6.1+a=1+b=2,6.1+b=2+a=1", r"named twice, also as 6\.1\+a=1\+b=2$"),
    ],
)
def test_lists_that_are_wrong(text, why):
    with pytest.raises(UnfitError, match=why):
        chosen.chosen(text)


def test_images_that_belong_to_a_kernel():
    """One whose name only looks so was not made with that word."""
    assert chosen.made_with("6.1") == ["6.1+preempt=full"]


def test_a_sysctl_that_is_refused():
    seen = []

    def attempt(ops):
        seen.extend(ops)
        return [3, -22, 0]

    with pytest.raises(UnfitError, match=r"/x does not take '1': Invalid argument$"):
        chosen.set_sysctls([("kernel.x", "1")], attempt)
    assert seen[0].args[1] == b"/proc/sys/kernel/x\0"
    assert seen[1].args[1] == b"1\n"
