# SPDX-License-Identifier: GPL-2.0-or-later
"""The filter, and a report from its caller to the listener and back."""

import ctypes
import os
import select
import socket
import struct

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.mirror import seccomp
from tests.there import there

X86_64, I386 = seccomp.AUDIT_ARCH_X86_64, 0x40000003


def run_filter(code, nr, arch=X86_64, second=0):
    """Run the filter as the kernel does; return its value."""
    data = struct.pack("=iIQ6Q", nr, arch, 0, 0, second, *[0] * 4)
    at, word = 0, 0
    while True:
        op, true, false, k = struct.unpack_from("=HBBI", code, at * 8)
        at += 1
        if op == seccomp.RET_K:
            return k
        if op == seccomp.LD_W_ABS:
            word = struct.unpack_from("=I", data, k)[0]
        else:
            assert op == seccomp.JEQ_K
            at += true if word == k else false


@pytest.mark.parametrize("numbers", [[0], [1, 59, 231], range(0, 500, 2)])
def test_the_filter_reports_its_calls_and_no_other(numbers):
    code = seccomp.build_filter(numbers)
    reported = [
        nr
        for nr in range(600)
        if run_filter(code, nr) == seccomp.SECCOMP_RET_USER_NOTIF
    ]
    assert reported == sorted(numbers)
    others = {run_filter(code, nr) for nr in range(600) if nr not in set(numbers)}
    assert others == {seccomp.SECCOMP_RET_ALLOW}


def test_a_call_with_many_meanings_is_reported_for_some():
    code = seccomp.build_filter([1, 72, 90], {72: (0, 1030, 2)})
    reported = [
        value
        for value in range(1100)
        if run_filter(code, 72, second=value) == seccomp.SECCOMP_RET_USER_NOTIF
    ]
    assert reported == [0, 2, 1030]
    assert run_filter(code, 72, second=1 << 32) == seccomp.SECCOMP_RET_USER_NOTIF
    for number in (1, 90):
        assert run_filter(code, number, second=7) == seccomp.SECCOMP_RET_USER_NOTIF
    assert run_filter(code, 73) == seccomp.SECCOMP_RET_ALLOW


def test_programs_of_32_bits_are_let_through():
    code = seccomp.build_filter([0, 1])
    assert run_filter(code, 1, I386) == seccomp.SECCOMP_RET_ALLOW
    x32 = 1 | 0x40000000
    assert run_filter(code, x32) == seccomp.SECCOMP_RET_ALLOW


def test_more_calls_than_a_jump_can_span():
    with pytest.raises(ValueError, match="251"):
        seccomp.build_filter(range(251))


def filtered(numbers, body):
    """Fork a process that runs body() under the filter: its pid, the listener."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        try:
            listener = seccomp.install_listener(numbers)
            socket.send_fds(theirs, [b"l"], [listener])
            os._exit(body())
        except KernelError as error:
            theirs.send(bytes([error.errno]))
        finally:
            os._exit(99)
    theirs.close()
    with ours:
        message, fds, _, _ = socket.recv_fds(ours, 1, 1)
    if not fds:
        os.waitpid(pid, 0)
        pytest.skip(f"seccomp: {os.strerror(message[0]) if message else 'refused'}")
    return pid, fds[0]


def test_a_report_and_its_answer():
    me = os.getpid()
    pid, listener = filtered([nr.GETPPID], lambda: os.getppid() != me)
    seccomp.wake_up_synchronously(listener)
    note = there(seccomp.receive(listener))
    assert (note.pid, note.nr, len(note.args)) == (pid, nr.GETPPID, 6)
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    assert seccomp.let_go_on(listener, note.id)
    assert not seccomp.let_go_on(listener, note.id), "answered already"
    assert os.waitpid(pid, 0)[1] == 0
    hung_up = select.poll()
    hung_up.register(listener, 0)
    assert hung_up.poll(5000)[0][1] & select.POLLHUP
    os.close(listener)


def test_a_report_whose_caller_died():
    pid, listener = filtered([nr.GETPPID], os.getppid)
    note = there(seccomp.receive(listener))
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    assert not seccomp.let_go_on(listener, note.id)
    os.close(listener)


def test_an_answer_before_the_report_is_received():
    pid, listener = filtered([nr.GETPPID], lambda: os.getppid() and os.getppid() * 0)
    first = there(seccomp.receive(listener))
    seccomp.let_go_on(listener, first.id)
    waiting = select.poll()
    waiting.register(listener, select.POLLIN)
    waiting.poll(5000)
    # ids count up: the keeper relies on it
    assert not seccomp.let_go_on(listener, first.id + 1)
    second = there(seccomp.receive(listener))
    assert second.id == first.id + 1
    assert seccomp.let_go_on(listener, second.id)
    assert os.waitpid(pid, 0)[1] == 0
    os.close(listener)


@pytest.mark.parametrize(("value", "seen"), [(0, 0), (12, 12), (-22, 122), (-90, 190)])
def test_an_answer_in_place_of_the_call(value, seen):
    """The caller gets a value, or -1 with that errno."""

    def body():
        libc = ctypes.CDLL(None, use_errno=True)
        got = libc.syscall(nr.GETPPID)
        return got if got >= 0 else min(100 + ctypes.get_errno(), 200)

    pid, listener = filtered([nr.GETPPID], body)
    note = there(seccomp.receive(listener))
    assert seccomp.is_valid(listener, note.id)
    assert seccomp.answer(listener, note.id, value)
    assert not seccomp.answer(listener, note.id, value), "answered already"
    assert not seccomp.is_valid(listener, note.id)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == seen
    os.close(listener)


def test_a_report_is_valid_while_its_caller_waits():
    pid, listener = filtered([nr.GETPPID], os.getppid)
    note = there(seccomp.receive(listener))
    assert seccomp.is_valid(listener, note.id)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    assert not seccomp.is_valid(listener, note.id)
    assert not seccomp.answer(listener, note.id, 0)
    os.close(listener)
