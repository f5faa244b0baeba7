# SPDX-License-Identifier: GPL-2.0-or-later
"""guest/image/*.calls, which scripts/call-graph makes: what runs is what they say.

This also tests kpfs.guest.loader.call_graph.
"""

import os
import re

import pytest

from kpfs.guest.images import CALLS_SUFFIX, IMAGE_DIR, KERNEL_IMAGE
from kpfs.guest.loader.call_graph import CallGraph
from tests.integration.files.test_ftrace import ME, Files
from tests.integration.mirror.test_replay import AT_FDCWD, Mirrored, string

pytestmark = pytest.mark.guest

TRACED = re.compile(rf".*-{os.getpid()} +\[\d+\] .*: (\S+) <-")


@pytest.fixture
def graph(kernel):
    return kernel.guest.call_graph


def address(kernel, name):
    return kernel.guest.kallsyms.lookup_name(name)[0].addr


def calls(tmp_path):
    """Number and arguments of system calls of many kinds."""
    file, other, folder = (string(bytes(tmp_path / n)) for n in ("f", "g", "d"))
    passwd, none = string(b"/etc/passwd"), string(b"/none/at/all")
    (tmp_path / "f").write_text("x")
    out = string(bytes(4096))
    fd = os.open("/etc/passwd", os.O_RDONLY)
    directory = os.open("/etc", os.O_RDONLY)
    return [
        (0, fd, out, 10),
        (1, 1, out, 10),
        (2, passwd, os.O_RDONLY),
        (2, file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
        (3, fd),
        (4, passwd, out),
        (6, none, out),
        (8, fd, 0, os.SEEK_CUR),
        (17, fd, out, 10, 0),
        (21, passwd, os.R_OK),
        (22, out),
        (32, fd),
        (33, fd, 60),
        (39,),
        (59, string(b"/bin/true"), 0, 0),
        (63, out),
        (72, fd, 0, 10),
        (74, fd),
        (77, fd, 0),
        (79, out, 4096),
        (80, string(bytes(tmp_path))),
        (82, file, other),
        (83, folder, 0o755),
        (84, folder),
        (86, file, other),
        (87, file),
        (88, string(b"x"), other),
        (89, string(b"/proc/self/exe"), out, 100),
        (90, file, 0o600),
        (92, file, 0, 0),
        (110,),
        (137, passwd, out),
        (217, directory, out, 4096),
        (257, AT_FDCWD, none, os.O_RDONLY),
        (262, AT_FDCWD, passwd, out, 0),
        (280, AT_FDCWD, passwd, 0, 0),
        (292, fd, 60, os.O_CLOEXEC),
        (332, AT_FDCWD, passwd, 0, 0xFFF, out),
        (439, AT_FDCWD, passwd, os.R_OK, 0),
    ]


def test_no_call_comes_to_a_function_that_it_cannot_reach(kernel, graph, tmp_path):
    files, mirrored = Files(kernel), Mirrored(kernel)
    files.write("/tracing/current_tracer", "function")
    wrong, listed = [], set()
    for nr, *args in calls(tmp_path):
        clear = os.O_WRONLY | os.O_TRUNC
        files.vfs.release(files.vfs.open(ME, "/tracing/trace", clear))
        files.write("/tracing/tracing_on", "1")
        mirrored(nr, *args)
        files.write("/tracing/tracing_on", "0")
        lines = files.read("/tracing/trace").splitlines()
        names = {found[1] for line in lines if (found := TRACED.match(line))}
        assert names, nr
        for name in names:
            reaching = graph.reaching(address(kernel, name))
            if reaching is not None:
                listed.add(name)
                if nr not in reaching:
                    wrong.append((nr, name))
    assert wrong == []
    assert len(listed) > 100
    mirrored.replayer.host.close()


@pytest.mark.parametrize(
    ("name", "reaching"),
    [
        ("vfs_mkdir", {83, 258}),
        ("vfs_read", {0, 17}),
        ("do_sys_openat2", {2, 85, 257, 437}),
        ("bprm_execve", {59, 322}),
        ("do_dup2", {33, 292}),
        # for all calls
        ("do_syscall_64", None),
        ("schedule", None),
        # also by those of processes that make none
        ("kernel_clone", None),
        ("do_exit", None),
        ("filp_close", None),
        # by a pointer
        ("simple_rename", None),
        ("dput", None),
        # by an interrupt
        ("update_process_times", None),
    ],
)
def test_what_reaches_a_function(kernel, graph, name, reaching):
    addr = address(kernel, name)
    assert graph.reaching(addr) == reaching
    assert graph.reaching(addr + 7) == reaching


def test_the_functions_lie_in_order_and_apart():
    end = 0
    with open(os.path.join(IMAGE_DIR, KERNEL_IMAGE + CALLS_SUFFIX)) as file:
        for line in file:
            start, size = int(line.split()[0], 16), int(line.split()[1])
            assert start >= end
            end = start + size
    assert end


def test_between_functions_nothing_is_known():
    graph = CallGraph("1000 10 a 1,2\n1020 8 b 3\n")
    found = [graph.reaching(addr) for addr in (0xFFF, 0x1000, 0x1009, 0x100A, 0x1020)]
    assert found == [None, {1, 2}, {1, 2}, None, {3}]
