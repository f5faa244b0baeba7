# SPDX-License-Identifier: GPL-2.0-or-later
"""How failures are told; tests/e2e/test_matrix.py has them happen."""

import errno
from collections import deque
from typing import Any
from unittest.mock import Mock

import pytest

from kpfs.base.errors import MemoryFault
from kpfs.linux.inside import failures
from kpfs.linux.inside.failed_call import (
    Enumerator,
    FailedCall,
    Opened,
    SymbolName,
    Written,
)
from kpfs.linux.inside.failures import Failures

LOG = """<6>[    1.000000] random: crng init done
<6>[    2.000000] python3[86]: segfault at 0 ip 1 sp 2 error 4 in libc.so.6[3+4]
"""
ERRORS = """[    3.100000] trace_kprobe: error: Bad probe name
  Command: p:1 vfs_read
             ^
[    3.200000] trace_kprobe: error: Invalid probed address or symbol
  Command: p:x vfs_reed
               ^
"""


END = 0x20  # the place to which bpf(2) returns
NAMES = {
    "bpf_cmd": {5: "BPF_PROG_LOAD", 18: "BPF_BTF_LOAD"},
    "bpf_prog_type": {2: "BPF_PROG_TYPE_KPROBE"},
    "perf_type_id": {0: "PERF_TYPE_HARDWARE", 1: "PERF_TYPE_MAX"},
}


@pytest.fixture
def one():
    """One whose kernel has no memory that can be read."""
    made: Any = object.__new__(Failures)
    made._running, made.calls = {}, deque(maxlen=failures._MAX_CALLS)
    made._refused = None
    made._advise = lambda point, _way: f"no symbol {point}" * ("reed" in point)
    made._of_files = Mock(places={}, rows=list)
    made._lockdown = Mock(places=[], reason=lambda call: call.locked)
    made._kernel = Mock(folder="/kernels/old")
    made.__dict__["_config"] = (
        "CONFIG_KPROBES=y\nCONFIG_DYNAMIC_FTRACE=y\nCONFIG_BPF_EVENTS=y\n"
    )
    made._symbols = Mock()
    made._symbols.lookup_name.side_effect = lambda name: [name] * (name == "vfs_read")
    return made


@pytest.fixture
def told(monkeypatch, one):
    def tell(*calls, log="", errors="", names=NAMES):
        before = "<6>[    0.500000] an error of before\n"
        monkeypatch.setattr(failures, "read_text", lambda *_: errors)
        one._logged = before
        one._btf = Mock(enumerators=lambda enum: names.get(enum, {}))
        for call in calls:
            one._note(call)
        return one.told(Mock(), before + log)

    return tell


def call(name, *words, log=(), error=errno.EINVAL):
    return FailedCall(name, words, log, error)


def test_nothing_is_known(told):
    assert told() == []


def test_the_verifiers_words_come_first(told):
    first = call("bpf", "A")
    load = call("bpf", "B", log=("R0 !read_ok",), error=errno.EACCES)
    probe = "trace_kprobe: error: Invalid probed address or symbol: p:x vfs_reed: "
    assert told(first, load, first, log=LOG, errors=ERRORS) == [
        "bpf(B) = EACCES: R0 !read_ok",
        f"{probe}no symbol vfs_reed",
        "python3[86]: segfault at 0 ip 1 sp 2 error 4 in libc.so.6[3+4]",
        "bpf(A) = EINVAL",
    ]


def test_functions_that_are_not_there(told):
    asked = call("perf_event_open", SymbolName("vfs_reed"), error=errno.ENOENT)
    assert told(asked) == ["perf_event_open('vfs_reed') = ENOENT: no symbol vfs_reed"]
    asked = call("perf_event_open", SymbolName("vfs_read"), error=errno.EBUSY)
    assert told(asked)[0] == "perf_event_open('vfs_read') = EBUSY"
    errors = ERRORS.replace("p:x vfs_reed", "p:x vfs_read")  # it must not be probed
    assert told(errors=errors)[0].endswith(": p:x vfs_read")


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("kprobe_events", "p vfs_reed", True),
        ("kprobe_events", "r16:x vfs_reed+0x10 a=%di", True),
        ("dynamic_events", "f vfs_reed%return", True),
        ("set_ftrace_filter", "vfs_reed", True),
        ("set_ftrace_filter", "vfs_reed*", False),
        ("kprobe_events", "-:vfs_reed", False),
        ("kprobe_events", "p vfs_read", False),
        ("uprobe_events", "p vfs_reed:0x10", False),  # a file of that name
        ("dynamic_events", "p:u vfs_reed/say:0x10", False),
    ],
)
def test_the_functions_that_a_text_names(one, told, file, text, says):
    one.__dict__["_config"] = ""
    (reason,) = told(call("write", Written(file, text)))
    assert reason.startswith(f"write({file}, {text!r}) = EINVAL")
    assert ("no symbol vfs_reed" in reason) == says


def test_what_tracefs_says_of_a_write(told):
    write = Written("kprobe_events", "p:x vfs_reed")
    why = "trace_kprobe: error: Bad probe name"
    last = "trace_kprobe: error: Invalid probed address or symbol"
    name = "write(kprobe_events, 'p:x vfs_reed') = EINVAL"
    asked = call("write", write, log=(why,))
    assert told(asked, errors=ERRORS) == [
        f"{name}: {why}",
        f"{last}: p:x vfs_reed: no symbol vfs_reed",
    ]
    again = asked._replace(log=(last,))
    assert told(again, errors=ERRORS)[0] == f"{name}: {last}: no symbol vfs_reed"


def test_files_that_could_not_be_opened(told):
    files = [Opened("trace", "O_RDONLY"), Opened("/sys/x", "O_WRONLY")]
    assert told(*[call("open", file) for file in files]) == [
        "open(/sys/x, O_WRONLY) = EINVAL",
        "perhaps: open(trace, O_RDONLY) = EINVAL",
    ]


def test_the_end_of_a_search_is_no_failure(told):
    search = Enumerator("bpf_cmd", 23)  # BPF_BTF_GET_NEXT_ID
    assert told(call("bpf", search, error=errno.ENOENT)) == []
    assert len(told(call("bpf", search, error=errno.EPERM))) == 1


def test_what_the_kernel_logs_of_something_else(told):
    lines = (
        "<4>[    2.0] NOTICE: Automounting of tracing to debugfs is deprecated\n"
        "<6>[    2.1] evm: overlay not supported\n"
    )
    assert told(log=lines) == []
    assert told(log="<1>[    2.2] BUG: unable to handle\n") == ["BUG: unable to handle"]


def test_what_co_re_did_not_find(told):
    log = "0: (85) call unknown#195896080", "invalid func unknown#195896080"
    (reason,) = told(call("bpf", "B", log=log))
    assert reason.endswith("is not in this kernel's BTF (CO-RE)")


def test_a_helper_that_is_not_there(told):
    log = "0: (85) call unknown#181", "invalid func unknown#181"
    (reason,) = told(call("bpf", "B", log=log))
    assert reason.endswith("unknown#181: a helper that this kernel does not have")


def test_lockdown_is_the_reason_and_not_what_the_verifier_says(told):
    said = "program of this type cannot use helper bpf_probe_read_kernel#113"
    load = call("bpf", "load", log=(said,))._replace(locked="it is locked down")
    assert told(load) == ["bpf(load) = EINVAL: it is locked down"]
    write = call("write", Written("kprobe_events", "p vfs_reed"))
    (reason,) = told(write._replace(locked="it is locked down"))[:1]
    assert reason.endswith("= EINVAL: it is locked down")


def test_what_libraries_try_may_be_no_reason(told):
    load, kind = Enumerator("bpf_cmd", 5), Enumerator("bpf_prog_type", 2)
    trials = call("bpf", Enumerator("bpf_cmd", 18)), call("bpf", load, kind)
    assert told(*trials, call("bpf", load, kind, "'x'")) == [
        "bpf(BPF_PROG_LOAD, BPF_PROG_TYPE_KPROBE, 'x') = EINVAL",
        "perhaps: bpf(BPF_PROG_LOAD, BPF_PROG_TYPE_KPROBE) = EINVAL",
        "perhaps: bpf(BPF_BTF_LOAD) = EINVAL",
    ]
    (reason,) = told(call("bpf", load, Enumerator("bpf_prog_type", 77)))[:1]
    assert reason.startswith("bpf(BPF_PROG_LOAD, prog type 77, which")


def test_a_program_that_is_loaded_again_for_the_log_is_told_once(told):
    load = call("bpf", "load")
    assert told(load, load._replace(log=("why",))) == ["bpf(load) = EINVAL: why"]


def test_the_report_behind_the_verifiers_words(one):
    words = b"1: (61) r0 = 0\nR1 invalid mem access\n"
    text = words + b"\nVerification failed: A\n\nAt:\n it\n\0"
    one._memory = one._program = Mock()
    one._memory.read.side_effect = lambda at, size: (bytes(0x1000) + text)[at:][:size]
    one._memory.word.return_value, one._u32 = 0x1000, lambda _: len(text)
    assert one._verifier_log(0) == ("1: (61) r0 = 0", "R1 invalid mem access")


def test_names_are_those_of_the_kernels_types(told):
    calls = [
        call("bpf", Enumerator("bpf_cmd", 5), "'x'"),
        call("bpf", Enumerator("bpf_cmd", 99), error=524),
        call("perf_event_open", Enumerator("perf_type_id", 0)),
        call("perf_event_open", Enumerator("perf_type_id", 6)),
    ]
    assert told(*calls)[::-1] == [
        "bpf(BPF_PROG_LOAD, 'x') = EINVAL",
        "bpf(cmd 99, which this kernel does not have) = 524",
        "perf_event_open(PERF_TYPE_HARDWARE) = EINVAL",
        "perf_event_open(PMU 6) = EINVAL",
    ]
    assert told(calls[0], names={})[0] == "bpf(type 5, 'x') = EINVAL"


@pytest.mark.parametrize(
    ("word", "lacks"),
    [
        (Written("events/a/b/trigger", "hist:keys=pid"), "HIST_TRIGGERS"),
        (Written("events/a/b/trigger", "!hist keys=pid"), "HIST_TRIGGERS"),
        (Written("events/a/b/trigger", "nosuch"), ""),
        (Written("dynamic_events", "s:x u64 a"), "SYNTH_EVENTS; new has"),
        (Written("dynamic_events", "f:x vfs_read"), "FPROBE_EVENTS"),
        (Written("dynamic_events", "q:x"), ""),
        (Written("current_tracer", "function_graph"), "FUNCTION_GRAPH_TRACER"),
        (Written("set_event", "hist"), ""),
        (Opened("synthetic_events", "O_RDONLY"), "SYNTH_EVENTS; new has"),
        (Opened("set_ftrace_filter", "O_RDONLY"), ""),
        (Opened("/sys/kernel/debug/kprobes/nosuch", "O_RDONLY"), ""),
        (Opened("/sys/devices/x/hist", "O_WRONLY"), ""),
        (Enumerator("bpf_prog_type", 2), ""),
        (Enumerator("bpf_prog_type", 29), "BPF_JIT"),
        (Enumerator("bpf_map_type", 7), "PERF_EVENTS"),
    ],
)
def test_options_that_a_kernel_lacks(monkeypatch, told, word, lacks):
    monkeypatch.setattr(
        failures, "store", Mock(names=lambda: ["newer", "new"], folder=str)
    )
    found = Mock(read_config=lambda _: "CONFIG_SYNTH_EVENTS=y\n")
    releases = {"new": Mock(release="6.1.0-1"), "newer": Mock(release="6.12.9-2")}
    found.read_meta = releases.__getitem__
    monkeypatch.setattr(failures, "image", found)
    names = {
        "bpf_map_type": {7: "BPF_MAP_TYPE_STACK_TRACE"},
        "bpf_prog_type": {2: "BPF_PROG_TYPE_KPROBE", 29: "BPF_PROG_TYPE_LSM"},
    }
    (reason,) = told(call("call", word), names=names)
    if lacks:
        assert reason.endswith(f"= EINVAL: old has no CONFIG_{lacks}")
    else:
        assert reason.endswith("= EINVAL")


@pytest.mark.parametrize(
    "said",
    [
        "unknown func bpf_override_return#58",
        "program of this type cannot use helper bpf_override_return#58",
    ],
)
def test_an_option_that_a_helper_needs(monkeypatch, told, said):
    monkeypatch.setattr(failures, "store", Mock(names=list))
    (reason,) = told(call("bpf", "load", log=("0: (85)", said)))
    assert reason.endswith(f"{said}: old has no CONFIG_BPF_KPROBE_OVERRIDE")


def test_a_call_made_again_and_again_pushes_no_other_out(told):
    load = call("bpf", "load", log=("why",))
    assert told(load, *[call("bpf", "again")] * 1000)[0] == "bpf(load) = EINVAL: why"
    assert len(told(*[call("bpf", str(i)) for i in range(1000)])) == failures._MAX_CALLS


@pytest.fixture
def make(one):
    """Return a function that has a bpf(2) begin and end."""
    begin, registers = 0x10, {"rsp": 0x4000, "rsi": 0x1000}
    board = one._board = Mock()
    one._memory = one._program = Mock()
    one._stops = Mock()
    one._memory.read.return_value = bytes(16)
    one._memory.number.return_value = 0
    one._begins, one._returns = {begin: one._bpf}, set()
    board.arch.stack_pointer, board.arch.arguments = "rsp", ["rdi", "rsi", "rdx"]
    board.arch.result = "rax"
    board.read_reg.side_effect = lambda name: registers.get(name, 0)

    def call(command, result, back=(END,)):
        registers.update(rdi=command, rax=result & (1 << 64) - 1)
        board.arch.return_address.side_effect = back
        one._asked(begin)
        one._asked(END)

    return call


def test_types_are_not_read_while_the_command_runs(one, make, monkeypatch):
    monkeypatch.setattr(failures, "read_btf", Mock(side_effect=AssertionError))
    make(10, -errno.EPERM, MemoryFault(0))  # as by a program that named a wrong address
    assert not one.calls
    make(10, -errno.EPERM)
    word = Enumerator("bpf_cmd", 10)
    assert list(one.calls) == [FailedCall("bpf", (word,), (), errno.EPERM)]


def test_other_system_calls_that_return_there_do_not_stop_the_kernel(one, make):
    def places():
        return [at for at, _ in one._stops.set.call_args.args[1]]

    make(10, 0)  # by a tail call: all system calls return where it does
    assert END in places()
    one._asked(END)
    assert END not in places()
    make(10, -errno.EPERM)
    assert [each.error for each in one.calls] == [errno.EPERM]


@pytest.mark.parametrize("charges", [True, False])
def test_the_limit_of_locked_memory(one, make, told, charges):
    one._symbols.lookup_name.side_effect = lambda _: ["bpf_map_charge_init"] * charges
    made, load = failures._MAP_CREATE, failures._PROG_LOAD
    later = FailedCall("bpf", ("later",), ("why",), errno.EBADF)
    make(made, -errno.EPERM)
    make(made, 3)  # the program has raised the limit
    assert "RLIMIT_MEMLOCK" not in told(later)[0]
    make(load, -errno.EPERM)
    assert ("RLIMIT_MEMLOCK" in told(later)[0]) == charges
