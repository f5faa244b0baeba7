# SPDX-License-Identifier: GPL-2.0-or-later
"""The contents of the wheel, and the command that pip installs from it.

All is built in a copy of the checkout and installed without a network, into a new
virtual environment that sees the packages of the one the tests run in.
"""

from __future__ import annotations

import glob
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from kpfs.cli import VERSION
from kpfs.share import shared
from tests import harness

pytestmark = pytest.mark.long

LIST = "cat /sys/kernel/debug/kprobes/list"
# Lists a probe of a module that is in the wheel, loaded by a program that is in it.
USES_DATA = "modprobe kprobe_example && lsmod && cut -c 17- $KPFS/kprobes/list"
USED = """\
Module                  Size  Used by
kprobe_example         12288  0
  k  do_sys_openat2+0x0    [FTRACE]
"""
# Builds a module by the program that is in the wheel, and by make.
BUILDS = """
cd {folder} && build-module m.c && insmod m.ko && rmmod m && rm m.ko
make -s -C /lib/modules/6.1.0-kpfs/build M=$PWD modules && insmod m.ko
lsmod | cut -d ' ' -f 1
"""
DATA = (
    "py.typed",
    "backends/guest/files/*.txt",
    "bin/*",
    "emulator/image/**",
    "explain/*.tsv",
    "gdb/*.gdb",
    "kbuild/*",
    "guest/image/**",
    "guest/include/**",
    "guest/src/**",
    "linux/image/**",
    "mirror/image/**",
    "linux/package/*.tsv",
    "linux/search/*.tsv",
    "manual/*.tsv",
    "manual/completion.*sh",
    "page/*.css",
    "web/page/*",
)
NEW_VENV = ("-m", "venv", "--without-pip")
PIP = ("-m", "pip", "--disable-pip-version-check")
NO_NETWORK = ("--no-index", "--quiet")


class Environment:
    """A new virtual environment.

    It has no pip, whose installation takes seconds: ours works for it.
    """

    def __init__(self, folder: Path) -> None:
        self.python = folder / "bin/python"
        if self.python.exists():
            return
        subprocess.run([sys.executable, *NEW_VENV, str(folder)], check=True)
        (packages,) = folder.glob("lib/python*/site-packages")
        ours = sysconfig.get_path("purelib")
        (packages / "dependencies.pth").write_text(f"{ours}\n")

    def run(self, *words: str | Path, cwd: str | Path = "/") -> str:
        """Return the output of a command, which must succeed without a complaint."""
        path = f"{self.python.parent}:/usr/bin:/bin"
        done = command(words, cwd=cwd, PATH=path)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def pip(self, *words: str | Path) -> None:
        """pip of the environment, without a network."""
        outside = Path(sys.prefix, "pip-of")  # where scripts/setup.sh had to borrow one
        pip = outside.read_text().strip() if outside.exists() else sys.executable
        self.run(pip, *PIP, "--python", self.python, words[0], *NO_NETWORK, *words[1:])


def command(
    words: Iterable[str | Path], cwd: str | Path = "/", **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run a command with little in its environment."""
    return harness.run(
        *map(str, words),
        env={"HOME": os.environ["HOME"], **settings},
        timeout=harness.TIMEOUT,
        cwd=cwd,
    )


def copy_source(folder):
    """Copy the checkout to where building may leave what it likes."""
    skipped = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info")
    shutil.copytree(harness.ROOT, folder, symlinks=True, ignore=skipped)
    return folder


def make_wheel(environment, source, target):
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", target)
    environment.pip("wheel", *options, source)
    (wheel,) = target.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def made():
    """A folder with the wheel, and an environment in which it is installed."""

    def make(folder):
        environment = Environment(folder / "venv")
        source = copy_source(folder / "kpfs")
        # pip looks whether the environment has what the wheel needs
        environment.pip("install", make_wheel(environment, source, folder))

    return harness.once("wheel", make)


@pytest.fixture
def wheel(made):
    return next(made.glob("*.whl"))


@pytest.fixture
def installed(made):
    return Environment(made / "venv")


def names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def package_files():
    """Return the files that the wheel must have of kpfs/, with those behind links."""
    root = harness.ROOT / "kpfs"
    found = [
        path
        for pattern in ("**/*.py", *DATA)
        for path in glob.glob(pattern, root_dir=root, recursive=True)
    ]
    return {f"kpfs/{path}" for path in found if (root / path).is_file()}


def test_it_brings_one_package(wheel):
    tops = {name.split("/")[0] for name in names(wheel)}
    assert tops == {
        "kpfs",
        *(f"kpfs-{VERSION}.{kind}" for kind in ("data", "dist-info")),
    }


def test_it_brings_man_pages_and_completions(installed, wheel):
    data = f"kpfs-{VERSION}.data/data/"
    assert {data + name for name in shared()} < names(wheel)
    prefix = installed.python.parents[1]
    for name, text in shared().items():
        assert (prefix / name).read_text() == text


def test_it_is_small(wheel):
    assert wheel.stat().st_size < 3_200_000


def test_it_has_all_modules_and_their_data_and_no_more(wheel):
    found = {name for name in names(wheel) if name.startswith("kpfs/")}
    assert found == package_files()
    assert "kpfs/engine/arch/x86/core.py" in found
    assert "kpfs/guest/image/vmlinux" in found
    assert "kpfs/guest/include/linux/kprobes.h" in found


@pytest.mark.fuse
def test_the_command(installed):
    assert installed.run("kpfs", "run", "--", *LIST.split()) == ""
    assert installed.run("kpfs", "run", "--", "sh", "-c", USES_DATA) == USED


@pytest.mark.fuse
@pytest.mark.skipif(not shutil.which("addr2line"), reason="no addr2line")
def test_the_sources_that_debug_information_names(installed):
    script = """
    at=$(grep ' T vfs_read$' /proc/kallsyms | cut -d ' ' -f 1)
    addr2line -e /lib/modules/$(uname -r)/build/vmlinux $at
    """
    path, _line = installed.run("kpfs", "run", "--", "sh", "-c", script).split(":")
    assert Path(path).is_relative_to(installed.python.parents[1].resolve())
    assert "ssize_t vfs_read(" in Path(path).read_text()
    if shutil.which("perf"):
        shown = installed.run("kpfs", "run", "--", "perf", "probe", "-L", "vfs_read")
        assert shown.startswith(f"<vfs_read@{path}:0>\n      0  ssize_t vfs_read(")


@pytest.mark.fuse
@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
def test_modules_are_built(installed, tmp_path):
    """Building needs nothing of the checkout."""
    (tmp_path / "m.c").write_text(
        "#include <linux/debugfs.h>\n#include <linux/kprobes.h>\n"
        'MODULE_LICENSE("GPL");\n'
    )
    (tmp_path / "Makefile").write_text("obj-m := m.o\n")
    script = BUILDS.format(folder=tmp_path)
    shown = installed.run("kpfs", "run", "--", "sh", "-c", script)
    assert shown.split() == ["Module", "m"]


def test_the_module_and_the_version(installed):
    assert installed.run("python", "-m", "kpfs", "--version") == f"kpfs {VERSION}\n"
    known = "from importlib.metadata import version; print(version('kpfs'))"
    assert installed.run("python", "-c", known) == f"{VERSION}\n"


def test_the_plugin_of_pytest(installed, tmp_path):
    """pytest itself finds it, and its fixture boots a kernel."""
    test = "def test_it(kpfs): assert kpfs.read('kprobes/enabled') == '1\\n'"
    (tmp_path / "test_one.py").write_text(test)
    assert "1 passed" in installed.run("python", "-m", "pytest", cwd=tmp_path)


def test_types_are_found_in_it(installed):
    """The file py.typed tells importers that the package has types."""
    text = "from kpfs.base.errors import KernelError\nn: int = KernelError(1, '').why"
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull]
    done = command([*mypy, "--python-executable", installed.python, "-c", text])
    wrong = 'expression has type "str", variable has type "int"'
    assert wrong in done.stdout, done.stdout


@pytest.mark.user
def test_the_command_as_an_ordinary_user(ordinary, wheel):
    """The user installs it beside the packages that scripts/kpfs has prepared."""
    script = f"""
    home=${{kpfs%/scripts/kpfs}}/.venv
    [ -d "$home" ] || home=$(echo "$HOME"/.cache/kpfs/venv-*)
    set -e
    cd "$(mktemp -d)"
    pip=$(cat "$home/pip-of" 2>/dev/null || echo "$home/bin/python")
    "$home/bin/python" {shlex.join(NEW_VENV)} venv
    echo "$home"/lib/python*/site-packages > dependencies.pth
    mv dependencies.pth venv/lib/python*/site-packages
    "$pip" {shlex.join(PIP)} --python venv/bin/python install {shlex.join(NO_NETWORK)} \
        {wheel}
    venv/bin/kpfs run -- {LIST}
    venv/bin/kpfs run -- sh -c {shlex.quote(USES_DATA)}
    """
    done = ordinary(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, USED, "")


def test_the_source_distribution(installed, wheel, tmp_path):
    """The sources of the images are in it, and it gives the same wheel."""
    build = "import setuptools.build_meta as b, sys; b.build_sdist(sys.argv[1])"
    source = copy_source(tmp_path / "kpfs")
    done = command([installed.python, "-c", build, tmp_path], cwd=source)
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    root = tmp_path / f"kpfs-{VERSION}"
    assert (root / "kpfs/engine/runtime/entry.S").is_file()
    assert (root / "kpfs/guest/src/kernel.ld").is_file()
    assert not [n for n in ("tests", "bench", ".venv") if (root / n).exists()]
    assert names(make_wheel(installed, root, tmp_path / "dist")) == names(wheel)


@pytest.mark.fuse
def test_an_editable_installation(tmp_path):
    """One that reads the modules where they stand, in the checkout."""
    environment = Environment(tmp_path / "venv")
    source = copy_source(tmp_path / "kpfs")
    environment.pip("install", "--no-build-isolation", "--editable", source)
    where = "import kpfs.engine.arm as m; print(m.__file__)"
    path = Path(environment.run("python", "-c", where).strip())
    assert path.resolve() == source / "engine/arm.py"
    assert environment.run("kpfs", "run", "--", "sh", "-c", USES_DATA) == USED
