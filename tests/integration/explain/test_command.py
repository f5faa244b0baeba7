# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs explain, asked about functions of the guest and of Linux kernels.

Tests kpfs.explain.advice.
"""

import csv
import json
import re
from pathlib import Path

import pytest

from kpfs import cli
from kpfs.base.errors import SetupError
from kpfs.explain import command
from kpfs.explain.advice import MANY
from kpfs.linux.running.saved_kernel import SavedKernel
from kpfs.linux.store import store
from kpfs.linux.store.modules import ModuleArchive
from tests import harness

REPORTS = Path(__file__).with_name("reports.tsv")


def run(capsys, *argv):
    """(status, stdout, stderr) of kpfs explain."""
    status = command.main(cli.parse(["explain", *map(str, argv)]))
    return status, *capsys.readouterr()


@pytest.mark.guest
def test_points_of_our_own_guest(capsys):
    status, out, _ = run(capsys, "kfree", "kfree+1", "kfree+5")
    first, second, third = re.split(r"^(?=kfree)", out, flags=re.M)[1:]
    assert "accepted, [FTRACE]" in first
    assert "0f 1f 44 00 00" in first
    assert "refused, EILSEQ" in second
    assert "kfree+0x5 at 0xffffffff8" in third
    assert "accepted" in third
    assert status == command.EXIT_REFUSED


@pytest.mark.guest
@pytest.mark.parametrize(("option", "lines"), [([], 2), (["--all"], 1)])
@pytest.mark.parametrize("point", ["init_task", "init_task+4"])
def test_data_is_not_listed_as_instructions(capsys, option, lines, point):
    status, out, err = run(capsys, *option, point)
    assert out.endswith("refused, EINVAL: init_task is data, not a function\n")
    assert (status, out.count("\n"), err) == (1, lines, "")


SHARED = [  # a name of two functions
    pytest.param((), "init_once", marks=pytest.mark.guest),
    pytest.param(
        ("--kernel", harness.KERNEL), "load_elf_phdrs", marks=pytest.mark.kernel
    ),
]


@pytest.mark.parametrize("option", [[], ["--all"]])
@pytest.mark.parametrize(("kernel", "name"), SHARED)
def test_a_name_of_several_functions(capsys, kernel, option, name):
    """kprobe_events refuses it; the addresses can be given in its place."""
    status, out, _ = run(capsys, *kernel, *option, name)
    first, *lines = out.splitlines()
    assert first == f"{name}: refused, EADDRNOTAVAIL: 2 symbols have this name"
    assert status == command.EXIT_REFUSED
    if option:
        assert [line.split(":")[0] for line in lines if line[0] != " "] == [name, name]
        return
    by = re.findall(r"^  by (\S+): (accepted, .*)$", out, re.M)
    assert len(by) == len(lines) == 2
    status, out, _ = run(capsys, *kernel, *(place for place, _ in by))
    assert re.findall(rf"^0x\w+: {name}(?:\+0x4)? at 0x\w+\n  (.*)", out, re.M) == [
        words for _, words in by
    ]
    assert status == 0


@pytest.mark.kernel
def test_points_of_a_real_kernels_modules(capsys, tmp_path):
    """Modules of the package are loaded by name, others from files."""
    words = "--kernel", harness.KERNEL, "--all", "xfs:xfs_file_open"
    status, out, _ = run(capsys, *words)
    assert status == 0
    assert re.match(r"xfs_file_open: \d+ bytes at 0xffffffffc", out)
    assert re.search(r"^  FTRACE +\+0x0 ", out, re.M)
    assert "<generic_file_open>" in out
    archive = harness.kernels() / "kpfs/kernels" / harness.KERNEL / "modules"
    with ModuleArchive(str(archive)) as m:
        (tmp_path / "mine.ko").write_bytes(m.read("crc7"))
    mine = "--insmod", tmp_path / "mine.ko", "crc7_be"
    status, out, _ = run(capsys, "--kernel", harness.KERNEL, *mine)
    assert status == command.EXIT_REFUSED
    assert out.startswith("crc7_be: crc7_be at 0xffffffffc")
    assert "its function has no ftrace site" in out


@pytest.mark.kernel
def test_modules_that_cannot_be_loaded(capsys, tmp_path):
    (tmp_path / "text.ko").write_text("text")
    for words, said in (
        (("none:point",), "none: no module 'none'"),
        (("--insmod", "/none.ko", "point"), "/none.ko: No such file"),
        (("--insmod", tmp_path / "text.ko", "point"), "text.ko: "),
    ):
        with pytest.raises(SetupError, match=said):
            run(capsys, "--kernel", harness.KERNEL, *words)
    with pytest.raises(SetupError, match="--insmod wants a kernel"):
        run(capsys, "--insmod", "crc7", "point")


@pytest.mark.kernel
@pytest.mark.two_cpus
def test_a_table_over_kernels(capsys):
    """A successor, an inlined and a split function are found by comparing kernels."""
    kernels = harness.KERNEL, harness.TWO_CPUS
    points = "vfs_read", "tcp_drop", "blk_account_io_start", "finish_task_switch"
    status, out, _ = run(capsys, "--kernels", ",".join(kernels), "--json", *points)
    assert status == command.EXIT_REFUSED
    told = {
        kernel: dict(zip(points, fates, strict=True))
        for kernel, fates in json.loads(out).items()
    }
    for fates in told.values():
        assert (fates["vfs_read"]["tag"], fates["vfs_read"]["errno"]) == ("FTRACE", "")
        assert fates["vfs_read"]["ways"]["fentry/fexit"] == ""
        assert "skb:kfree_skb" in fates["tcp_drop"]["hints"][0]
        (hint,) = fates["finish_task_switch"]["hints"]
        assert "this kernel has finish_task_switch.isra.0" in hint
    assert told[harness.TWO_CPUS]["blk_account_io_start"]["errno"] == "EINVAL"
    (hint,) = told[harness.KERNEL]["blk_account_io_start"]["hints"]
    assert re.match(r"inlined in blk_\w+, .* which call it in 6\.12-cloud-2", hint)
    status, out, _ = run(capsys, "--kernels", ",".join(kernels), "vfs_read")
    assert status == 0
    assert re.search(r"^vfs_read  FTRACE", out, re.M)


@pytest.mark.kernel
@pytest.mark.two_cpus
def test_public_reports_are_answered(capsys):
    """The rows name reports on github.com, asked again on the kernels of the tests."""
    with REPORTS.open(newline="") as lines:
        rows = [row for row in csv.reader(lines, delimiter="\t") if row[0][0] != "#"]
    points = list(dict.fromkeys(point for _, _, point, _ in rows))
    kernels = {"6.1": harness.KERNEL, "6.12": harness.TWO_CPUS}
    words = "--kernels", ",".join(kernels.values()), "--json", *points
    told = json.loads(run(capsys, *words)[1])
    for report, kernel, point, sentence in rows:
        fate = told[kernels[kernel]][points.index(point)]
        said = [fate["why"], *fate["hints"], *fate["by"].values()]
        assert any(re.search(sentence, each) for each in said), (report, said)


@pytest.mark.kernel
def test_modules_that_a_kernel_lacks_are_cells(capsys):
    points = "none:point", "none:other", "xfs:xfs_file_open", "xfs:none"
    words = "--kernels", harness.KERNEL, "--json", *points
    (fates,) = json.loads(run(capsys, *words)[1]).values()
    errors = [fate["errno"] for fate in fates]
    assert errors == ["ENOENT", "ENOENT", "", "ENOENT"]
    hints = [fate["hints"] for fate in fates]
    assert hints == [["no module 'none'"], ["no module 'none'"], [], []]


@pytest.mark.kernel
def test_many_points_are_what_each_is_alone(capsys):
    """Many names are found in another way than a few."""
    kernel = SavedKernel(store.folder(harness.KERNEL))
    many = list(dict.fromkeys(kernel.symbols.functions()))[:: 1 + 60000 // MANY // 2]
    assert len(many) > MANY
    kernel.close()
    words = "--kernels", harness.KERNEL, "--json"
    (together,) = json.loads(run(capsys, *words, *many)[1]).values()
    for number in range(0, len(many), 9):
        (alone,) = json.loads(run(capsys, *words, many[number])[1]).values()
        assert alone == [together[number]]


@pytest.mark.kernel
def test_a_probe_behind_a_landing_pad(capsys):
    """The address of kp.addr is told where registration moves it."""
    words = "--kernel", harness.TWO_CPUS
    _, moved, _ = run(capsys, *words, "vfs_read")
    (addr,) = re.findall(r"^  kp\.addr becomes (0x\w+), behind", moved, re.M)
    _, there, _ = run(capsys, *words, "vfs_read+4", addr)
    assert there.count("accepted") == 2
    assert "kp.addr" not in there
    assert "post_handler" in moved


@pytest.mark.parametrize("name", ["a b", "a\nb", "a\x1b[1m", "\u200b"])
@pytest.mark.parametrize("option", [(), ("--kernels", harness.KERNEL)])
@pytest.mark.guest
@pytest.mark.kernel
def test_a_name_with_other_characters(capsys, option, name):
    with pytest.raises(SetupError, match=r"is not SYMBOL\[\+OFFSET\]") as refused:
        run(capsys, *option, name)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kernels", "", "f"], "it is empty"),
        (["--kernels", "a,,b", "f"], "an empty name is among them"),
        (["--kernels", "a,a", "f"], "a is named twice"),
        (["--kernels", "a", "--kernel", "b", "f"], "do not go together"),
        (["--kernels", "a", "--all", "f"], "one --kernel"),
        (["--json", "f"], "--json wants kernels"),
        (["--kernels", "no-such-kernel", "f"], "no-such-kernel"),
    ],
)
def test_wrong_use_of_kernels(capsys, words, said):
    with pytest.raises(SetupError, match=said):
        run(capsys, *words)
