# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules built as on Linux, by make, and those of the documents' old examples.

The examples in tests/modules/age* use what those of the kernel's kprobes documentation
of that year use.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kpfs.commands.run import MODULES
from kpfs.guest.images import RELEASE
from tests.harness import ROOT, run
from tests.modbox import SOURCES

pytestmark = [pytest.mark.fuse, pytest.mark.guest]
needs_make = pytest.mark.skipif(not shutil.which("make"), reason="there is no make")

# Builds, and tries each module: a shell is forked, and an open() fails.
TRY = """
cd {folder}
make > made || exit
for module in *.ko; do
    insmod ./$module && ( : ) && cat /no/such 2>/dev/null
    rmmod $module
done
cat /var/log/messages
"""
WORD, LONG = r"0x[0-9a-f]+", r"[0-9a-f]{16}"
SAID = {
    "age2006": [
        rf"jprobe at {LONG}, its entry {LONG}",
        rf"jprobe: clone_flags={WORD}, stack_size={WORD}, regs=0x{LONG}, of call \d+",
        "jprobe is gone",
        "kprobe is there",
        rf"before: addr=0x{LONG}, eip={LONG}, eflags={WORD}",
        "Call Trace:",
        r" do_fork\+0x1/0x[0-9a-f]+",
        rf"after: addr=0x{LONG}, eflags={WORD}",
        "kprobe is gone",
        rf"return probe at {LONG}",
        "sys_open gives -2",
        "return probe is gone",
        "0 calls of sys_open missed",
    ],
    "age2010": [
        rf"jprobe at {LONG}, its entry {LONG}",
        rf"jprobe: clone_flags = {WORD}, stack_size = {WORD}, regs = 0x{LONG}",
        rf"jprobe at {LONG} is gone",
        rf"kprobe at {LONG}",
        rf"before: addr = 0x{LONG}, ip = {LONG}, flags = {WORD}",
        rf"after: addr = 0x{LONG}, flags = {WORD}",
        rf"kprobe at {LONG} is gone",
        rf"return probe at do_fork: {LONG}",
        r"do_fork gave [1-9]\d* and took \d+ ns",
        rf"return probe at {LONG} is gone",
        "0 calls of do_fork missed",
    ],
}


@needs_make
@pytest.mark.parametrize("age", SAID)
def test_old_examples_run_untouched(kpfs, age):
    folder = kpfs.scratch / age
    shutil.copytree(SOURCES / age, folder)
    script = TRY.format(folder=folder)
    done = kpfs("run", "--config", "LEGACY_SYMBOLS=y", "--", "sh", "-c", script)
    assert (done.returncode, done.stderr) == (0, "")
    line = re.compile(r"\w{3} [ \d]\d \d\d:\d\d:\d\d kpfs kernel: (.*)")
    heads = [line.fullmatch(text) for text in done.stdout.splitlines()]
    said = iter([m[1] for m in heads if m])
    assert all(heads)
    for pattern in SAID[age]:
        assert any(re.fullmatch(pattern, text) for text in said), pattern


def test_without_the_configuration_the_old_names_are_not_there(kpfs):
    files = "/proc/kallsyms /sys/kernel/tracing/available_filter_functions"
    search = f"grep -hoE '(^| )(_?do_fork|sys_open|kernel_clone)$' {files}"
    script = f"{search}; ls /var/log/messages"
    assert kpfs.sh(script).stdout.split() == ["kernel_clone"] * 2
    old = kpfs("run", "--config", "LEGACY_SYMBOLS=y", "--", "sh", "-c", script)
    *names, log = sorted(old.stdout.split(), key=lambda name: name.startswith("/"))
    assert sorted(names) == sorted(["_do_fork", "do_fork", "sys_open"] * 2)
    assert log == "/var/log/messages"


def test_system_calls_run_the_old_names(kpfs):
    mount = kpfs.mount("--quiet-guest", "--config", "LEGACY_SYMBOLS=y")
    events = mount / "tracing/kprobe_events"
    names = ("do_fork", "sys_open", "do_sys_openat2")
    events.write_text("".join(f"p:{name} {name} first=%di\n" for name in names))
    (mount / "tracing/events/kprobes/enable").write_text("1")
    (mount / "machine/syscall").write_text("open /etc/hostname 0\nfork\nfork\n")
    (mount / "tracing/events/kprobes/enable").write_text("0")
    trace = (mount / "tracing/trace").read_text()
    assert trace.count(" do_fork: (do_fork+0x0/") >= 2
    assert " sys_open: (sys_open+0x0/" in trace
    assert trace.count(" do_sys_openat2: ") >= trace.count(" sys_open: ")


MAKEFILE = """
obj-m := two.o
two-y := first.o
two-objs += second.o
obj-$(CONFIG_KPROBES) += below/
obj-$(CONFIG_NO_SUCH_THING) += nowhere.o
ccflags-y := -DOF_ALL=1 -I$(src)/include
CFLAGS_second.o := -DOF_SECOND=2
"""
FIRST = """
#include <linux/module.h>
#include "three.h"
int second(int x);
static int __init go(void)
{
	pr_info("%s: %d\\n", KBUILD_MODNAME, second(OF_ALL) + THREE);
	return 0;
}
static void __exit end(void) {}
module_init(go);
module_exit(end);
MODULE_LICENSE("GPL");
"""
BELOW = '#include <linux/module.h>\nMODULE_LICENSE("GPL");\n'


@pytest.fixture
def tree(kpfs):
    """An out-of-tree module of two files, and another one in a directory below."""
    folder = kpfs.scratch / "tree"
    for path, text in {
        "Kbuild": MAKEFILE,
        "first.c": FIRST,
        "second.c": "int second(int x) { return x + OF_ALL + OF_SECOND; }\n",
        "include/three.h": "#define THREE 3\n",
        "below/Makefile": "obj-m := dash-ed.o\n",
        "below/dash-ed.c": BELOW,
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@needs_make
def test_the_build_directory_of_the_release(kpfs, tree):
    before = sorted(p.name for p in tree.rglob("*"))
    done = kpfs.sh(
        f"""
        cd {tree}
        quiet=--no-print-directory
        for release in {RELEASE} $(uname -r); do
            make $quiet -C {MODULES}/$release/build M=$PWD modules | sed "s,$PWD/,,"
            insmod two.ko && insmod below/dash-ed.ko && lsmod | cut -d ' ' -f 1
            rmmod two dash_ed
            make -s -C {MODULES}/$release/build M=$PWD clean >&2
        done
        dmesg -t | grep two:
        make -s -C {MODULES}/{RELEASE}/build M=$PWD kernelrelease
        """
    )
    built = [
        *("  CC [M]  second.o", "  CC [M]  first.o", "  LD [M]  two.ko"),
        *("  CC [M]  below/dash-ed.o", "  LD [M]  below/dash-ed.ko"),
        *("Module", "dash_ed", "two"),
    ]
    said = [line for line in done.stdout.splitlines() if "taints" not in line]
    assert said == [*built, *built, "two: 7", "two: 7", RELEASE]
    assert sorted(p.name for p in tree.rglob("*")) == before


@needs_make
def test_make_refuses_wrong_targets_and_sources(kpfs, tree):
    build = f"make -C {MODULES}/{RELEASE}/build"
    done = kpfs.sh(f"{build} modules; {build} M=/proc modules; {build} M={tree} frob")
    said = done.stderr
    assert "Say where the module is: make -C" in said
    assert "There is no Kbuild and no Makefile in /proc" in said
    assert "No rule to make target 'frob'" in said
    (tree / "first.c").write_text("wrong\n")
    done = kpfs.sh(f"{build} M={tree} modules")
    assert done.returncode == 2
    assert "first.c:1:1: error" in done.stderr
    assert not (tree / "two.ko").exists()


def test_nothing_is_left_on_the_host(kpfs):
    """The folders that are made in / for a command are seen by it alone."""
    kpfs("run", "--config", "LEGACY_SYMBOLS=y", "--", "true")
    assert not Path(MODULES, RELEASE).exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--api", "3.0", "m.c"), "no API 3.0; there are 6.1 and 2.6"),
        (("--api",), "--api wants a word behind it"),
        (("-c", "m", "a.c", "b.c"), "-c is for one file"),
        (("--frob", "m.c"), "what is --frob?"),
    ],
)
def test_wrong_words_for_build_module(tmp_path, words, said):
    tool = ROOT / "scripts/build-module"
    done = subprocess.run(
        [tool, *words], cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"build-module: {said}\n"


def test_old_names_need_the_old_api(tmp_path):
    (tmp_path / "m.c").write_text(
        "#include <linux/config.h>\n#include <linux/kprobes.h>\n"
        "#include <asm/uaccess.h>\n#include <asm/semaphore.h>\n"
        "#include <asm/atomic.h>\n"
        "unsigned long f(struct pt_regs *r)\n"
        "{ return r->eip + r->rip + r->ip + r->esp + r->xcs + r->orig_eax; }\n"
    )
    build = [str(ROOT / "scripts/build-module"), "m.c"]
    new = subprocess.run(build, cwd=tmp_path, capture_output=True, check=False)
    assert new.returncode != 0
    old = subprocess.run([*build, "--api", "2.6"], cwd=tmp_path, check=False)
    assert old.returncode == 0


@needs_make
def test_modules_see_how_the_kernel_is_configured(kpfs):
    """Code and Makefile of a module, of a kernel that is configured otherwise."""
    folder = kpfs.scratch / "configured"
    folder.mkdir()
    makefile = "obj-m := $(if $(CONFIG_PREEMPT),usual.o,other.o)\n"
    (folder / "Makefile").write_text(makefile)
    text = """#include <linux/module.h>
        #if IS_ENABLED(CONFIG_PREEMPT) != {} || CONFIG_HZ != 250
        #error not as config.gz says
        #endif
        MODULE_LICENSE("GPL");\n"""
    (folder / "usual.c").write_text(text.format(1))
    (folder / "other.c").write_text(text.format(0))
    script = f"make -s -C /lib/modules/$(uname -r)/build M={folder} && ls {folder}/*.ko"
    for option, made in (("y", "usual.ko"), ("n", "other.ko")):
        done = kpfs("run", "--config", f"PREEMPT={option}", "--", "sh", "-c", script)
        assert (done.stderr, done.stdout) == ("", f"{folder}/{made}\n")
        (folder / made).unlink()


@needs_make
@pytest.mark.parametrize("place", ["checkout", "a b"])
def test_a_checkout_may_lie_anywhere(tmp_path, place):
    """make splits words at blanks, also those of a path."""
    checkout = tmp_path / place
    for name in ("kpfs/kbuild", "kpfs/bin", "scripts", "guest/include"):
        shutil.copytree(ROOT / name, checkout / name, symlinks=True)
    (checkout / "kpfs/guest").symlink_to("../guest")
    module = tmp_path / "module"
    (module / "sub").mkdir(parents=True)
    (module / "Kbuild").write_text("obj-m := one.o sub/\nccflags-y := -DX=1\n")
    (module / "sub/Kbuild").write_text("obj-m := two.o\n")
    for name in ("one", "sub/two"):
        (module / f"{name}.c").write_text(
            '#include <linux/module.h>\nMODULE_LICENSE("GPL");\n'
        )
    words = "make", "-s", "-C", f"{checkout}/kpfs/kbuild"
    done = run(*words, f"M={module}")
    assert (done.returncode, done.stderr) == (0, "")
    assert (module / "one.ko").exists()
    assert (module / "sub/two.ko").exists()
    assert run(*words, f"M={module}", "clean").returncode == 0
    assert not (module / "one.ko").exists()
    refused = run(*words, f"M={tmp_path}/a module")
    assert "make takes no path with a blank" in refused.stderr
