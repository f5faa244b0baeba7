# SPDX-License-Identifier: GPL-2.0-or-later
"""What modprobe.d says."""

from kpfs.linux.store.modprobe_conf import ModprobeConf, parameters, read_conf

TEXT = """\
# comment
alias my-disk virtio-blk
alias eth[0-9] e1000
options virtio-blk queue_depth=8 \\
  num_request_queues=2
options virtio_blk poll=1
blacklist pc-spkr
install fake /bin/true $CMDLINE_OPTS
remove fake /bin/false
softdep a pre: b post: c
softdep a pre: d
"""


def test_lines():
    conf = ModprobeConf(TEXT)
    assert conf.aliases("my_disk") == ["virtio_blk"]
    assert conf.aliases("eth3") == ["e1000"]
    assert conf.aliases("ethx") == []
    first, second = conf.options("virtio_blk")
    assert first.split() == ["queue_depth=8", "num_request_queues=2"]
    assert second == "poll=1"
    assert conf.is_blacklisted("pc_spkr")
    assert conf.command("install", "fake") == "/bin/true $CMDLINE_OPTS"
    assert conf.command("remove", "fake") == "/bin/false"
    assert conf.command("install", "other") == ""
    assert conf.softdeps("a") == ["pre: b post: c"]


def test_the_kernels_command_line():
    conf = ModprobeConf("", "quiet a-b.x=1 a_b.y modprobe.blacklist=p,q-r .z=1")
    assert conf.options("a_b") == ["x=1", "y"]
    assert conf.is_blacklisted("q_r")
    assert not conf.is_blacklisted("r")


def test_of_files_of_one_name_the_first_folder_counts(tmp_path):
    for folder, value in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.conf").write_text(f"options m x={value}\n")
    (tmp_path / "b" / "a.conf").write_text("options m first=1")
    (tmp_path / "b" / "readme").write_text("options m none=1")
    folders = [str(tmp_path / name) for name in ("a", "none", "b")]
    assert read_conf(folders).options("m") == ["first=1", "x=1"]
    assert read_conf([str(tmp_path / "b" / "x.conf")]).options("m") == ["x=2"]


def test_parameters():
    assert (
        parameters(["a=1", "b=two words", "c", 'd="x y"'])
        == 'a=1 b="two words" c d="x y"'
    )
