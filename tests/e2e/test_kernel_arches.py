# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels for other architectures: what all of them do alike, and what each has.

Tests kpfs.linux.arch.arm64, kpfs.linux.arch.riscv64, kpfs.linux.arch.s390x,
kpfs.linux.arch.ppc64, kpfs.linux.make.arm64, kpfs.linux.make.riscv64,
kpfs.linux.make.s390x, kpfs.linux.make.ppc64, kpfs.linux.arch.armhf,
kpfs.linux.make.armhf, kpfs.linux.arch.i386, kpfs.linux.make.i386,
kpfs.linux.arch.mips64, kpfs.linux.make.mips64.
"""

import errno
import hashlib
import json
import re
import shutil
from typing import Literal, NamedTuple

import pytest

import kpfs as library
from kpfs.linux.memory.tasks import TaskList
from tests import harness
from tests.programs import instructions, static_program

pytestmark = pytest.mark.fuse


class Row(NamedTuple):
    """The differences between architectures."""

    kernel: str
    machine: str  # as uname -m says it
    prefix: str  # begins names of functions of system calls
    breakpoint: str
    name: str  # the name of its programs
    elf_machine: int
    inside: int = 8  # the begin of an instruction in a function
    order: Literal["little", "big"] = "little"

    @property
    def compiler(self) -> str:
        """The begin of the names of its tools."""
        machine = self.machine.replace("ppc", "powerpc")
        own = {ARMHF: "arm-linux-gnueabihf-", MIPS64: "mips64el-linux-gnuabi64-"}
        return own.get(self, f"{machine}-linux-gnu-")


ARM64 = Row(harness.ARM64, "aarch64", "__arm64_sys_", "brk #4", "arm64", 183)
RISCV64 = Row(harness.RISCV64, "riscv64", "__riscv_sys_", "(c.)?ebreak", "riscv64", 243)
S390X = Row(
    *(harness.S390X, "s390x", "__s390x_sys_", r"\.insn 0x0002\w*", "s390x", 22),
    inside=6,
    order="big",
)
PPC64 = Row(
    *(harness.PPC64, "ppc64le", "sys_", "trap", "ppc64", 21),
    inside=28,
)
ARMHF = Row(harness.ARMHF, "armv7l", "sys_", r"\.inst 0xe7f001f8", "armhf", 40)
MIPS64 = Row(harness.MIPS64, "mips64", "sys_", "break", "mips64", 8)
I386 = Row(harness.I386, "i686", "__ia32_sys_", "int3", "i386", 3)
ROWS = [
    pytest.param(row, marks=harness.needed_by(row.kernel)) for row in (ARM64, RISCV64)
]
ALL, WITHOUT_TYPES = (
    [pytest.param(row, marks=harness.repeated_on(row.kernel)) for row in rows]
    for rows in ((ARM64, RISCV64, S390X, PPC64), (ARMHF, I386, MIPS64))
)
CHANGES = """
set -e
uname -m
cd /sys/kernel/tracing
echo do_mkdirat do_rmdir do_renameat2 vfs_open >set_ftrace_filter
echo function >current_tracer
mkdir $1/a
mv $1/a $1/b
rmdir $1/b
cat /etc/hostname >/dev/null
echo 0 >tracing_on
grep -E ' (mkdir|mv|rmdir|cat)-' trace
modprobe dummy
cat /proc/modules
modprobe -r dummy
"""
BOTH = """
cd /sys/kernel/tracing
echo do_sys_openat2 >set_ftrace_filter
echo function >current_tracer
for word in 1 2 3 4; do busybox cat /dev/null & done
wait
echo 0 >tracing_on
busybox grep -o ' \\[00.\\] ' trace | busybox sort -u
cd /sys/devices/system/cpu
for on in 0 1 0 1; do echo $on >cpu1/online; read -r those <online; echo $those; done
"""
RESTS = """
cd /sys/kernel/tracing/events/raw_syscalls
echo 'id == 137' >sys_exit/filter
echo 'id == 101 || id == 115' >sys_enter/filter
echo 1 >enable
for i in 1 2 3 4 5 6 7 8; do busybox true & done; wait
sleep .1 & sleep .1 & wait
echo 0 >enable
busybox grep -o 'NR [0-9]* [(=].*' ../../trace
"""
TRACE = """
cd /sys/kernel/tracing
echo 'p:e do_sys_openat2 file=+0($arg2):ustring flags=%x3' >kprobe_events
echo 'r:back do_sys_openat2 ret=$retval' >>kprobe_events
echo 'p:inside vfs_read+8' >>kprobe_events
echo 1 >events/kprobes/enable
cat /sys/kernel/debug/kprobes/list
cat /etc/hostname >/dev/null
echo 0 >events/kprobes/enable
grep -A1 hostname trace
grep -c inside: trace
"""
INSIDE = """
uname -m
cd /sys/kernel/tracing
echo 'p:e do_sys_openat2 file=+0($arg2):ustring' >kprobe_events
echo 1 >events/kprobes/e/enable
cat /etc/debian_version 2>/dev/null
echo 0 >events/kprobes/e/enable
busybox grep -c 'file="/etc/debian_version"' trace
cd "$OLDPWD"
echo $1
pwd
busybox ping -c 1 -W 1 127.0.0.1 >ping || cat ping
touch lost
uname -m >kept/file
exit 3
"""
WRITTEN_ANEW = "files", "mappings", "pages", "processes", "debugger"
each_kernel = pytest.mark.parametrize("row", ALL, ids=lambda row: row.name)
some_kernels = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


@pytest.mark.parametrize("row", [*ALL, *WITHOUT_TYPES], ids=lambda row: row.name)
def test_calls_are_made_by_their_meaning(kpfs, tmp_path, row):
    """mkdir(), rename() and rmdir() are not in its table of system calls."""
    made = tmp_path / "made"
    words = "--kernel", row.kernel, "--coverage", made, "--", "sh", "-c", CHANGES
    done = kpfs("run", *words, "sh", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == row.machine
    hits = re.findall(r" (mkdir|mv|rmdir|cat)-\d+ .*: (\w+) <-", done.stdout)
    assert {
        *(("mkdir", "do_mkdirat"), ("mv", "do_renameat2")),
        *(("rmdir", "do_rmdir"), ("cat", "vfs_open")),
    } <= set(hits)
    assert re.search(r"^dummy \d+ 0 - Live 0x", done.stdout, re.M)
    assert "FNDA:1,dummy_init_module" in made.read_text().splitlines()


@each_kernel
def test_a_mount_and_what_machine_has(kpfs, row):
    m, place = kpfs.mount("--kernel", row.kernel), f"{row.prefix}getppid"
    (m / "tracing" / "kprobe_events").write_text(f"p:e {place}+{row.inside}\n")
    (m / "tracing" / "events" / "kprobes" / "e" / "enable").write_text("1\n")
    (m / "machine" / "syscall").write_text("getppid\n")
    rows = (m / "machine" / "probes").read_text().splitlines()[1:]
    # ppc64's kernel has one of its own, for returns
    (found,) = [one for one in rows if "arch_rethook_trampoline" not in one]
    assert f"{place}+{row.inside:#x}" in found
    assert "kprobes/e" in found
    profile = (m / "tracing" / "kprobe_profile").read_text().split()
    assert profile == ["e", "1", "0"]
    top = kpfs("top", "--json", "--interval", "0.1", m)
    (shown,) = json.loads(top.stdout)
    assert (shown["place"], shown["owner"]) == (f"{place}+{row.inside:#x}", "kprobes/e")
    assert shown["hits"] >= 1
    text = (m / "machine" / "text" / place).read_text()
    wanted = f"{row.breakpoint} +# breakpoint, was: "
    assert len(re.findall(wanted, text)) == 1
    with (m / "machine" / "vmlinux").open("rb") as file:
        assert int.from_bytes(file.read(20)[18:], row.order) == row.elf_machine
    (m / "machine" / "reboot").write_text("1\n")
    assert (m / "tracing" / "kprobe_events").read_text() == ""


@pytest.mark.parametrize(
    ("kernel", "root"),
    harness.on_each(
        (
            (harness.ARM64_TWO_CPUS, harness.arm64_root),
            (harness.RISCV64_TWO_CPUS, harness.riscv64_root),
            (harness.S390X_TWO_CPUS, harness.s390x_root),
            (harness.PPC64_TWO_CPUS, harness.ppc64_root),
            (harness.ARMHF_TWO_CPUS, harness.armhf_root),
            (harness.I386_TWO_CPUS, harness.i386_root),
            (harness.MIPS64_TWO_CPUS, harness.mips64_root),
        )
    ),
)
def test_two_processors(kpfs, kernel, root):
    options = "--inside", "--kernel", kernel, "--root", root()
    done = kpfs("run", *options, "--", "/bin/sh", "-c", BOTH)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["[000]", "[001]", *("0", "0-1") * 2]


@pytest.mark.parametrize("row", [*ALL, *WITHOUT_TYPES], ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("rewrite", [f"{way} 59" for way in WRITTEN_ANEW]),
        ("stepped", ["right 236", "hits 236"]),
    ],
)
def test_code_that_is_written_anew(kpfs, tmp_path, row, name, lines):
    """Programs write code, and so does the kernel when it steps a uprobe's hit.

    They are static, too, and need no other root.
    """
    program = static_program(name, tmp_path, row.compiler)
    words = "--inside", "--kernel", row.kernel, "--", f"./{program.name}"
    done = kpfs("run", *words, cwd=tmp_path)
    assert done.stdout.splitlines() == lines


@pytest.mark.parametrize("row", WITHOUT_TYPES, ids=lambda row: row.name)
def test_numbers_of_tasks_that_are_preempted(kpfs, tmp_path, row):
    """Likewise one that is stepped through, where the kernel has single steps."""
    program = static_program("preempted", tmp_path, row.compiler)
    words = "--inside", "--kernel", row.kernel, "--", f"./{program.name}"
    done = kpfs("run", *words, cwd=tmp_path)
    stepped = "stepped none" if row in (ARMHF, MIPS64) else "stepped 1"
    assert done.stdout.splitlines() == ["preempted 1", "together 4", stepped]


@some_kernels
def test_the_agents_rests_are_not_seen(kpfs, tmp_path, row):
    """The agent rests in rt_sigtimedwait(2); the two sleeps are CMD's."""
    root = harness.arm64_root() if row is ARM64 else harness.riscv64_root()
    (tmp_path / "script").write_text(RESTS)
    words = "--quiet-guest", "--inside", "--kernel", row.kernel, "--root", root
    done = kpfs("run", *words, "--", "/bin/sh", "script", cwd=tmp_path)
    assert "=" not in done.stdout
    assert done.stdout.count("NR 1") == 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("target", "right"),
    [  # the SHA-256 of what QEMU 7.2 prints
        pytest.param(
            *(
                instructions.ARM64,
                "80173bf8e63ff31465bbdcd3ed18a76f69c734f10ecf896c2ffcc1ad5634342e",
            ),
            marks=pytest.mark.arm64_kernel,
        ),
        pytest.param(
            *(
                instructions.RISCV64,
                "5929d6dca490a45a8fbc0de14bfc77eedab65cb673acc6afa9dfcd0670284841",
            ),
            marks=pytest.mark.riscv64_kernel,
        ),
    ],
)
def test_programs_end_as_in_qemu(kpfs, tmp_path, target, right):
    """``scripts/campaign instructions`` tells which do not."""
    programs = instructions.build(target, tmp_path)
    found = instructions.inside(kpfs, target.kernel, programs, 7000, 300)
    assert hashlib.sha256(found.encode()).hexdigest() == right, found


MAY_RUN = "csrr t0, time", "c.addw s0, s0", "lui t0, 0x80008"


@pytest.mark.riscv64_kernel
def test_instructions_that_programs_may_use(kpfs, tmp_path):
    program = static_program("refused", tmp_path, "riscv64-linux-gnu-")
    words = "--inside", "--kernel", RISCV64.kernel, "--", f"./{program.name}"
    done = kpfs("run", *words, cwd=tmp_path)
    run = [line for line in done.stdout.splitlines() if line.endswith(" runs")]
    assert run == [f"{insn} runs" for insn in MAY_RUN], done.stdout
    assert done.stdout.count(" is refused") == 7


@pytest.mark.logs("kernel panic: sysrq", "it restarted its machine")
@pytest.mark.parametrize("row", [*ALL, *WITHOUT_TYPES], ids=lambda row: row.name)
def test_a_dead_kernel_goes_back(row):
    with library.Kernel(kernel=row.kernel, quiet=True) as kernel:
        before = kernel.snapshot()
        with pytest.raises(OSError, match="panic: sysrq triggered crash") as dead:
            kernel.write("/proc/sysrq-trigger", "c")
        assert dead.value.errno == errno.ESHUTDOWN
        assert "sysrq: Trigger a crash" in kernel.dmesg()
        for _ in range(2):  # one that has restarted its machine is dead, too
            kernel.restore(before)
            with pytest.raises(OSError, match="it restarted its machine") as dead:
                kernel.write("/proc/sysrq-trigger", "b")
            assert dead.value.errno == errno.ESHUTDOWN
        kernel.restore(before)
        assert row.machine in kernel.read("/proc/sys/kernel/arch")


@pytest.mark.kernel
@pytest.mark.arm64_kernel
@pytest.mark.riscv64_kernel
def test_a_command_in_kernels_of_all_architectures(kpfs, tmp_path):
    (tmp_path / "script").write_text("uname -m")
    kernels = harness.KERNEL, ARM64.kernel, RISCV64.kernel
    roots = (
        *("--root", f"{ARM64.kernel}={harness.arm64_root()}"),
        *("--root", f"{RISCV64.kernel}={harness.riscv64_root()}"),
    )
    words = "--kernels", ",".join(kernels), *roots, "--", "/bin/sh", "script"
    done = kpfs("matrix", *words, cwd=tmp_path)
    rows = [line.split() for line in done.stdout.splitlines()]
    machines = "x86_64", ARM64.machine, RISCV64.machine
    assert [(row[1], row[-1]) for row in rows] == [("0", name) for name in machines]


@pytest.mark.riscv64_kernel
def test_handlers_and_verdicts_of_riscv64():
    """Debian's kernel refuses probes at entries of functions that ftrace traces."""
    with library.Kernel(kernel=RISCV64.kernel, quiet=True) as kernel:
        seen = []

        def skip(regs):
            seen.append(regs.a7)
            regs.a0, regs.epc = 77, regs.ra
            return 1

        place, before = f"{RISCV64.prefix}getppid", kernel.snapshot()
        refused = kernel.explain(place)
        with pytest.raises(OSError, match=re.escape(place)) as raised:
            kernel.kprobe(place, skip)
        assert raised.value.errno == refused.errno
        assert "ftrace puts its calls there" in refused.why
        # nothing is on the stack yet
        kernel.kprobe(place, skip, offset=8)
        assert kernel.task(4242).syscall("getppid") == 77
        assert seen == [173]
        assert "record none" in str(kernel.explain(f"{place}+8"))
        kernel.restore(before)
        assert kernel.read("/sys/kernel/debug/kprobes/list") == ""


@pytest.mark.arm64_kernel
def test_a_commands_hits_with_arguments(kpfs):
    done = kpfs("run", "--kernel", ARM64.kernel, "--", "sh", "-c", TRACE)
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout
    listed = re.findall(r"^ffff[0-9a-f]{12}  (\w)  (\S+)", said, re.M)
    assert set(listed) == {
        ("k", "do_sys_openat2+0x0"),
        ("r", "do_sys_openat2+0x0"),
        ("k", "vfs_read+0x8"),
    }
    assert re.search(r' cat-\d+ +\[000\] .* file="/etc/hostname"', said)
    assert re.search(r"back: \(__arm64_sys_openat\+\S+ <- do_sys_openat2\)", said)
    assert int(said.splitlines()[-1]) > 0


@pytest.mark.arm64_kernel
def test_handlers_in_python():
    with library.Kernel(kernel=ARM64.kernel, quiet=True) as kernel:
        seen = []

        def skip(regs):
            seen.append(regs.x8)
            regs.x0, regs.pc = 77, regs.x30
            return 1

        entry = kernel.symbol("__arm64_sys_getppid")
        before = kernel.snapshot()
        probe = kernel.kprobe(entry, skip)
        assert kernel.task(4242).syscall("getppid") == 77
        probe.unregister()
        back = kernel.kretprobe(entry, lambda regs: seen.append(regs.x0))
        parent = kernel.task(4242).syscall("getppid")
        assert seen[1:] == [parent]
        inside = kernel.kprobe("vfs_read", lambda regs: seen.append(regs.pc), offset=8)
        kernel.read("/proc/version")
        assert kernel.symbol("vfs_read") + 8 == inside.address == seen[-1]
        assert back.nmissed == 0
        kernel.restore(before)
        assert kernel.read("/sys/kernel/debug/kprobes/list") == ""


@some_kernels
def test_programs_of_the_wrong_architecture(kpfs, tmp_path, row):
    assert f"\narch       {row.name}\n" in kpfs("kernel", "show", row.kernel).stdout
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    other = f"is a program for x86-64, and this kernel runs those for {row.name}"
    said = {
        "true": (126, rf"kpfs: \S*/true {other}\n"),
        "./script": (126, f"kpfs: /bin/sh {other}\n"),
        "none": (127, "kpfs: none: No such file or directory\n"),
    }
    if row is ARM64:
        shutil.copy(harness.arm64_root() / "bin" / "dash", tmp_path / "dash")
        loader = "/lib/ld-linux-aarch64.so.1"
        why = f"kpfs: ./dash needs {loader}, which is not there\n"
        said["./dash"] = 127, why
    for word, (status, why) in said.items():
        words = "--inside", "--kernel", row.kernel, "--", word
        done = kpfs("run", *words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (status, "")
        assert re.fullmatch(why, done.stderr)


@pytest.mark.arm64_kernel
def test_a_program_that_does_not_run_starts_no_helper(kpfs, tmp_path):
    """The kernel's own helper would start itself for its format, until 5 s are over."""
    program = static_program("shows", tmp_path, "aarch64-linux-gnu-")
    options = "--inside", "--kernel", ARM64.kernel
    words = f"./{program.name}", "/proc/sys/kernel/modprobe"
    assert kpfs("run", *options, "--", *words, cwd=tmp_path).stdout == "\n"
    root = "--root", harness.arm64_root()
    done = kpfs("run", *options, *root, "--", "cat", words[1])
    assert done.stdout == "/sbin/modprobe\n"


WITHOUT_BTF = "skip btf", "skip fentry", "skip fexit"


@pytest.mark.parametrize(
    ("row", "skipped"),
    [
        pytest.param(row, skipped, marks=harness.repeated_on(row.kernel))
        for row, skipped in (
            (ARM64, {"skip kprobe.multi"}),  # without fprobe, as this kernel was built
            (PPC64, {"skip fentry", "skip fexit"}),  # without trampolines
            (ARMHF, {"skip kprobe.multi", *WITHOUT_BTF}),
            (I386, {"skip kprobe.multi", *WITHOUT_BTF}),
            (MIPS64, {"skip kprobe.multi", "skip tracepoint", *WITHOUT_BTF}),
            (S390X, {"skip jit", "skip fentry", "skip fexit"}),  # without a compiler
        )
    ],
)
def test_bpf_programs_count_exactly(kpfs, tmp_path, row, skipped):
    program = static_program("bpf", tmp_path, row.compiler)
    words = "--inside", "--kernel", row.kernel, "--", f"./{program.name}"
    done = kpfs("run", *words, cwd=tmp_path, timeout=120)
    rows = done.stdout.splitlines()
    assert done.returncode == 0
    shown = {row.split(":")[0] for row in rows if row[:2] != "ok"}
    assert shown == {"jit on", "jit off", *skipped}


@pytest.mark.arm64_kernel
def test_why_a_probe_is_refused(kpfs):
    places = "vfs_read", "vfs_read+4", "vfs_read+2"
    done = kpfs("explain", "--kernel", ARM64.kernel, *places)
    verdicts = re.findall("^  (accepted|refused).*: (.*)$", done.stdout, re.M)
    assert verdicts == [
        (
            "accepted",
            "arm64 has no jump optimisation; this instruction is stepped elsewhere",
        ),
        (
            "refused",
            "ftrace puts its calls there, and this kernel has no probes on these",
        ),
        ("refused", "no instruction begins there"),
    ]
    assert done.returncode == 1
    with library.Kernel(kernel=ARM64.kernel, quiet=True) as kernel:
        assert kernel.explain("vfs_read+4").errno == errno.EINVAL


def assert_the_same_records(kernel, before, event):
    """Have two runs from one state record what is opened."""
    runs = []
    for _ in range(2):
        kernel.restore(before)
        kernel.write("tracing/kprobe_events", event)
        kernel.write("tracing/events/kprobes/e/enable", "1")
        kernel.read("/proc/version")
        kernel.write("tracing/events/kprobes/e/enable", "0")
        runs.append(list(kernel.trace()))
        assert "/proc/version" in [row.fields["file"] for row in runs[-1]]
        assert {row.fields["n"] for row in runs[-1]} == {-100}
    assert runs[0] == runs[1]


@pytest.mark.s390x_kernel
def test_a_big_endian_kernel():
    """Handlers, single steps, records, modules and determinism of s390x."""
    with library.Kernel(kernel=S390X.kernel, quiet=True) as kernel:
        told = kernel._session.kernel  # type: ignore[attr-defined]
        tasks = TaskList(told.memory, told.symbols, told.structures).rows()
        assert [task.cpu for task in tasks if task.cpu >= 0] == [0]
        seen, place, before = [], f"{S390X.prefix}getppid", kernel.snapshot()

        def skip(regs):
            seen.append(regs.r2 != 0)
            regs.r2, regs.pswa = 77, regs.r14
            return 1

        probe = kernel.kprobe(place, skip)
        assert kernel.task(4242).syscall("getppid") == 77
        probe.unregister()
        back = kernel.kretprobe(place, lambda regs: seen.append(regs.r2))
        stepped = kernel.kprobe(place, lambda regs: seen.append(regs.pswa), offset=6)
        parent = kernel.task(4242).syscall("getppid")
        # the breakpoint is behind it
        assert seen == [True, kernel.symbol(place) + 6 + 2, parent]
        for each in (back, stepped):
            each.unregister()
        assert "no instruction begins" in kernel.explain(f"{place}+2").why
        assert kernel.explain(f"{place}+6").accepted
        event = "p:e do_sys_openat2 file=+0($arg2):ustring how=$arg3 n=%r2:s32"
        assert_the_same_records(kernel, before, event)


@pytest.mark.s390x_kernel
def test_copies_of_calls_lead_nowhere():
    """The step over one comes before the fault of what is not there."""
    with library.Kernel(kernel=S390X.kernel, quiet=True) as kernel:
        memory = kernel._session.kernel.memory  # type: ignore[attr-defined]
        start = kernel.symbol("vfs_read")
        text = memory.read(start, 256)
        back = re.compile(rb"\xc0\xe5[\x80-\xff]...", re.DOTALL)  # brasl %r14
        calls = [found.start() for found in back.finditer(text)]
        seen: set[int] = set()
        for offset in calls:
            kernel.kprobe("vfs_read", lambda regs: seen.add(regs.pswa), offset=offset)
        assert "Linux" in kernel.read("/proc/version")
        assert start + min(calls) + 2 in seen


@pytest.mark.parametrize(
    ("row", "root"),
    [
        pytest.param(row, root, id=row.name, marks=harness.repeated_on(row.kernel))
        for row, root in (
            (ARM64, harness.arm64_root),
            (S390X, harness.s390x_root),
            (PPC64, harness.ppc64_root),
            (ARMHF, harness.armhf_root),
            (I386, harness.i386_root),
            (MIPS64, harness.mips64_root),
        )
    ],
)
def test_a_command_inside_has_the_files_of_a_root(kpfs, tmp_path, row, root):
    """FUSE speaks the kernel's byte order: what a program changes comes back."""
    (tmp_path / "kept").mkdir()
    # these kernels have no $arg2
    second = {ARMHF: "%r1", MIPS64: "%r5"}.get(row, "$arg2")
    script = INSIDE.replace("$arg2", second)
    (tmp_path / "script").write_text(script)
    words = "--inside", "--kernel", row.kernel, "--root", root(), "--rw", "kept"
    done = kpfs("run", *words, "--", "sh", "script", "an argument", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.splitlines() == [
        *(row.machine, "1", "an argument", str(tmp_path))
    ]
    assert (tmp_path / "kept" / "file").read_text() == f"{row.machine}\n"
    assert not (tmp_path / "lost").exists()


@pytest.mark.ppc64_kernel
def test_a_kernel_with_two_entries_of_functions():
    """Handlers, jumps in place of traps, records and determinism of ppc64el.

    The kernel enters a function behind what loads r2, and others before it.
    """
    with library.Kernel(kernel=PPC64.kernel, quiet=True) as kernel:
        seen, place, before = [], f"{PPC64.prefix}getppid", kernel.snapshot()

        def skip(regs):
            seen.append(regs.nip - kernel.symbol(place))
            regs.gpr3, regs.nip = 77, regs.link
            return 1

        probe = kernel.kprobe(place, skip)
        assert kernel.task(4242).syscall("getppid") == 77
        probe.unregister()
        back = kernel.kretprobe(place, lambda regs: seen.append(regs.gpr3))
        trap = kernel.kprobe(place, lambda regs: seen.append(0), offset=28)
        parent = kernel.task(4242).syscall("getppid")
        assert seen == [12, 0, parent]
        for each in (back, trap):
            each.unregister()
        assert "[OPTIMIZED]" in str(kernel.explain(f"{place}+36"))
        kernel.write("tracing/kprobe_events", f"p:e {place}+36")
        kernel.write("tracing/events/kprobes/e/enable", "1")
        listed = kernel.read("/sys/kernel/debug/kprobes/list")
        assert re.search(rf"{place}\+0x24 +\[OPTIMIZED\]", listed)
        kernel.task(4242).syscall("getppid")
        assert kernel.read("tracing/kprobe_profile").split() == ["e", "1", "0"]
        event = "p:e do_sys_openat2 file=+0($arg2):ustring n=%gpr3:s32"
        assert_the_same_records(kernel, before, event)


@pytest.mark.armhf_kernel
def test_a_kernel_of_32_bits(kpfs):
    """Events, handlers and determinism of armhf; Debian builds it without BTF."""
    with library.Kernel(kernel=ARMHF.kernel, quiet=True) as kernel:
        seen, place, before = [], f"{ARMHF.prefix}getppid", kernel.snapshot()

        def skip(regs):
            seen.append(regs.pc - kernel.symbol(place))
            regs.r0, regs.pc = 77, regs.lr
            return 1

        probe = kernel.kprobe(place, skip)
        assert kernel.task(4242).syscall("getppid") == 77
        probe.unregister()
        back = kernel.kretprobe(place, lambda regs: seen.append(regs.r0))
        parent = kernel.task(4242).syscall("getppid")
        assert seen == [0, parent]
        assert back.nmissed == 0
        runs = []
        for _ in range(2):
            kernel.restore(before)
            event = "p:e do_sys_openat2 file=+0(%r1):ustring n=%r0:s32"
            kernel.write("tracing/kprobe_events", event)
            kernel.write("tracing/events/kprobes/e/enable", "1")
            kernel.read("/proc/version")
            listed = kernel.read("/sys/kernel/debug/kprobes/list")
            assert re.search(r"do_sys_openat2\+0x0 +\[OPTIMIZED\]", listed)
            kernel.write("tracing/events/kprobes/e/enable", "0")
            runs.append(kernel.read("tracing/trace"))
            assert 'file="/proc/version" n=-100' in runs[-1]
        assert runs[0] == runs[1]
        (record,) = [each for each in kernel.trace() if each["file"] == "/proc/version"]
        assert (record.event, record["n"]) == ("e", -100)
        assert not kernel.explain(place).errno


@pytest.mark.i386_kernel
def test_a_kernel_for_older_processors():
    """Arguments, jumps, handlers and determinism of i386, likewise without BTF."""
    with library.Kernel(kernel=I386.kernel, quiet=True) as kernel:
        seen, place, before = [], "vfs_open", kernel.snapshot()
        probe = kernel.kprobe(place, lambda regs: seen.append(regs.ip))
        kernel.read("/proc/version")
        probe.unregister()
        assert seen == [kernel.symbol(place) + 1]  # behind int3, as on x86-64
        back = kernel.kretprobe(place, lambda regs: seen.append(regs.ax))
        kernel.read("/proc/version")
        back.unregister()
        assert seen[1:] == [0]
        assert kernel.task(4242).syscall("getpid") == 4242
        runs = []
        for _ in range(2):
            kernel.restore(before)
            event = "p:e do_sys_openat2 file=+0($arg2):ustring n=%ax:s32"
            kernel.write("tracing/kprobe_events", event)
            kernel.append("tracing/kprobe_events", "p:jump vfs_read+0xf")
            kernel.write("tracing/events/kprobes/enable", "1")
            kernel.read("/proc/version")
            listed = kernel.read("/sys/kernel/debug/kprobes/list")
            assert re.search(r"vfs_read\+0xf +\[OPTIMIZED\]", listed)
            assert re.search(r"do_sys_openat2\+0x0 +\[FTRACE\]", listed)
            kernel.write("tracing/events/kprobes/enable", "0")
            runs.append(kernel.read("tracing/trace"))
            assert 'file="/proc/version" n=-100' in runs[-1]
        assert runs[0] == runs[1]


@pytest.mark.armhf_kernel
def test_the_text_of_a_kernel_of_32_bits(kpfs):
    m, place = kpfs.mount("--kernel", ARMHF.kernel), f"{ARMHF.prefix}getppid"
    (m / "tracing" / "kprobe_events").write_text(f"p:e {place}+20\n")
    (m / "tracing" / "events" / "kprobes" / "e" / "enable").write_text("1\n")
    (m / "machine" / "syscall").write_text("getppid\n")
    assert (m / "tracing" / "kprobe_profile").read_text().split() == ["e", "1", "0"]
    _, row = (m / "machine" / "probes").read_text().splitlines()
    words = row.split()
    assert words[1:4] == ["k", f"{place}+0x14", "kprobes/e"]
    assert words[-2:] == ["1", "0"]
    (line,) = (m / "machine" / "lost").read_text().splitlines()
    assert line.startswith("not counted, as this kernel has no BTF: ")
    text = (m / "machine" / "text" / place).read_text()
    assert re.search(r" # (breakpoint|jump), was: mov r1, #1$", text, re.M), text
    with (m / "machine" / "vmlinux").open("rb") as file:
        assert file.read(20)[4::14] == bytes((1, ARMHF.elf_machine))
    (m / "machine" / "reboot").write_text("1\n")
    assert (m / "tracing" / "kprobe_events").read_text() == ""


@pytest.mark.armhf_kernel
def test_lists_of_a_kernel_without_symbols_of_data(kpfs):
    """Calls that nobody sees are left out; symbols of modules come and go."""
    script = """
before=$(grep syscalls $KPFS/machine/stats)
cat /etc/passwd >/dev/null
test "$before" = "$(grep syscalls $KPFS/machine/stats)"
echo $?
for change in "" -r; do
    modprobe $change dummy
    grep -c 'dummy_xmit.*\\[dummy]' /proc/kallsyms
    grep -c 'dummy_xmit.*\\[dummy]' /sys/kernel/tracing/available_filter_functions
done
exit 0
"""
    done = kpfs("run", "--kernel", ARMHF.kernel, "--", "sh", "-c", script)
    assert (done.stdout, done.stderr) == ("0\n1\n1\n0\n0\n", "")


@pytest.mark.mips64_kernel
def test_a_kernel_with_numbers_of_its_own(kpfs):
    """Arguments, handlers, refusals and determinism of mips64el, without BTF."""
    with library.Kernel(kernel=MIPS64.kernel, quiet=True) as kernel:
        seen, place, before = [], f"{MIPS64.prefix}getppid", kernel.snapshot()

        def skip(regs):
            seen.append(regs.c0_epc - kernel.symbol(place))
            regs.r2, regs.c0_epc = 77, regs.r31
            return 1

        probe = kernel.kprobe(place, skip)
        assert kernel.task(4242).syscall("getppid") == 77
        probe.unregister()
        back = kernel.kretprobe(place, lambda regs: seen.append(regs.r2))
        inside = kernel.kprobe(place, lambda regs: seen.append(8), offset=8)
        parent = kernel.task(4242).syscall("getppid")
        assert seen == [0, 8, parent]
        assert (back.nmissed, inside.nmissed) == (0, 0)
        runs = []
        for _ in range(2):
            kernel.restore(before)
            event = "p:e do_sys_openat2 file=+0(%r5):ustring n=%r4:s32"
            kernel.write("tracing/kprobe_events", event)
            kernel.append("tracing/kprobe_events", "r:back do_sys_openat2 $retval:s32")
            kernel.write("tracing/events/kprobes/enable", "1")
            kernel.read("/proc/version")
            with pytest.raises(OSError, match="/sys/none") as missing:
                kernel.read("/sys/none")
            assert missing.value.errno == errno.ENOENT
            kernel.write("tracing/events/kprobes/enable", "0")
            runs.append(kernel.read("tracing/trace"))
            assert 'file="/proc/version" n=-100' in runs[-1]
            assert re.search(r"back: \(\S+ <- do_sys_openat2\) arg1=\d+\n", runs[-1])
        assert runs[0] == runs[1]
        with pytest.raises(OSError, match="arch_prepare_kretprobe"):
            kernel.kprobe("arch_prepare_kretprobe", skip)
    done = kpfs("explain", "--kernel", MIPS64.kernel, f"{place}+8")
    assert done.returncode == 0
    assert "no jump optimisation; this instruction is" in done.stdout


@pytest.mark.s390x_kernel
@pytest.mark.parametrize(
    "words",
    [["search", "--runs", "1"], ["run", "--inside", "--check", "memory"]],
    ids=lambda words: words[0],
)
def test_checks_want_an_architecture_that_they_know(kpfs, words):
    root = "--root", harness.s390x_root()
    done = kpfs(*words, "--kernel", S390X.kernel, *root, "--", "/bin/true")
    assert (done.returncode, done.stderr) == (
        2,
        "kpfs: searches and checks do not know instructions of s390x:"
        " take a kernel for arm64 or x86\n",
    )
