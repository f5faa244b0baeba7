# SPDX-License-Identifier: GPL-2.0-or-later
"""The server of gdb over a kernel that is made by hand, which threads of tests run."""

import contextlib
import os
import socket
import threading

import pytest

from kpfs.base.errors import KernelError, SetupError
from kpfs.base.lock import Waiter
from kpfs.emulator.stops import Stop, StopReason
from kpfs.gdb import server as gdb_server
from kpfs.gdb.files import VMLINUX
from kpfs.gdb.packets import encode
from kpfs.gdb.server import GdbAddress, Server
from kpfs.gdb.sockets import is_taken
from tests import harness
from tests.there import there
from tests.unit.gdb.fakes import FakeDebugged, Gdb


@pytest.fixture
def debugged():
    return FakeDebugged()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "gdb")


@pytest.fixture
def server(debugged, path):
    server = Server(debugged, [GdbAddress(path)])
    server.start()
    server.open()
    yield server
    server.close()


@pytest.fixture
def gdb(server, path):
    client = Gdb(path)
    client.begin()
    yield client
    client.close()


def until(ready):
    harness.until(ready, "it does not come", 20)


def returns(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    return not thread.is_alive()


class Running:
    """A thread that runs the kernel, and stops where it is told to."""

    def __init__(self, debugged, work):
        self.over = threading.Event()
        self.error = None

        def run():
            try:
                with debugged.lock:
                    work()
            except KernelError as error:
                self.error = error
            self.over.set()

        threading.Thread(target=run, daemon=True).start()

    def ended(self):
        return self.over.wait(10)


def free(debugged):
    """Return True if the lock can be had."""
    if debugged.lock.take_within(0.001):
        debugged.lock.__exit__()
        return True
    return False


def test_others_see_whether_there_is_a_client(server, path):
    assert not is_taken(path)
    assert not is_taken(f"{path} of nobody")
    client = Gdb(path)
    client.begin()
    assert is_taken(path)
    client.close()
    until(lambda: not is_taken(path))


def test_the_kernel_stands_from_the_attach_to_the_end(debugged, gdb):
    assert gdb.ask(b"?") == b"T02thread:1;"
    assert not free(debugged)
    assert debugged.sees_all
    assert debugged.caught_up == 1
    assert gdb.ask(b"D") == b"OK"
    until(lambda: free(debugged))
    assert not debugged.sees_all
    assert gdb.receive() is None


@pytest.mark.parametrize("acknowledges", [True, False])
def test_gdb_that_loses_its_patience(debugged, server, path, monkeypatch, acknowledges):
    """A client that asks again for a reply while it is made gets one."""
    client = Gdb(path)
    if not acknowledges:
        client.begin()
    there_is = client.ask(b"?")

    def slow():
        client.socket.sendall(b"--")
        return b"\x7fELF"

    monkeypatch.setattr(debugged, "vmlinux", slow)
    replies = [client.ask(b"vFile:open:%s,0,0" % VMLINUX.hex().encode())]
    client.socket.sendall(b"+")
    replies += [client.ask(b"qC"), client.ask(b"?")]
    assert replies == [b"F3", b"QC1", there_is]
    client.close()


def test_a_thread_is_parked_at_a_breakpoint(debugged, gdb):
    gdb.ask(b"Z0,1010,1")
    gdb.send(b"c")
    until(lambda: free(debugged))
    stop = Stop(StopReason.PLACE, 0x1010)
    running = Running(debugged, lambda: debugged.stops.on_stop(stop))
    assert gdb.receive() == b"T05thread:1;"
    assert gdb.ask(b"p0") == b"0100000000000000"
    assert not running.over.is_set()
    gdb.send(b"c")
    assert running.ended()


def test_ctrl_c_stops_a_kernel_at_rest(debugged, gdb):
    gdb.send(b"c")
    until(lambda: free(debugged))
    gdb.socket.sendall(b"\x03")
    assert gdb.receive() == b"T02thread:1;"
    assert not free(debugged)


def test_ctrl_c_stops_a_kernel_that_never_rests(debugged, gdb):
    gdb.send(b"c")
    until(lambda: free(debugged))
    ends = threading.Event()

    def work():
        while not ends.wait(0.001):
            if debugged.between is not None:
                debugged.between()

    running = Running(debugged, work)
    until(debugged.lock.taken)
    gdb.socket.sendall(b"\x03")
    assert gdb.receive() == b"T02thread:1;"
    assert debugged.between is None
    gdb.send(b"c")
    ends.set()
    assert running.ended()


def test_the_kernel_goes_on_when_gdb_dies(debugged, gdb):
    gdb.ask(b"Z0,1010,1")
    gdb.ask(b"Z2,1000,8")
    gdb.send(b"c")
    until(lambda: free(debugged))
    stop = Stop(StopReason.PLACE, 0x1010)
    running = Running(debugged, lambda: debugged.stops.on_stop(stop))
    gdb.receive()
    gdb.close()
    assert running.ended()
    until(lambda: not debugged.stops.places and not debugged.stops.watches)
    until(lambda: free(debugged))


def test_the_kernel_goes_on_when_the_server_ends(debugged, server, gdb):
    gdb.send(b"c")
    until(lambda: free(debugged))
    stop = Stop(StopReason.PLACE, 0x1010)
    running = Running(debugged, lambda: debugged.stops.on_stop(stop))
    gdb.receive()
    server.close()
    assert running.ended()
    assert gdb.receive() is None
    # stops that come later concern nobody
    debugged.stops.on_stop(stop)


def test_a_second_gdb_is_refused(gdb, path):
    assert Gdb(path).receive() is None
    assert gdb.ask(b"?") == b"T02thread:1;"


def test_another_gdb_may_follow(gdb, path):
    gdb.close()

    def attaches():
        client = Gdb(path)
        try:
            return client.ask(b"?") is not None
        except OSError:
            return False

    until(attaches)


def test_who_waits_for_the_kernel_is_refused_if_it_may_be(debugged, gdb, monkeypatch):
    monkeypatch.setattr(gdb_server, "REFUSED_AFTER", 0.1)

    def wait(waiter):
        waiter.may_be_refused = True
        waiter.sleep()

    debugged.lock.wait = wait
    running = Running(debugged, lambda: None)
    assert running.ended()
    assert "EAGAIN" in str(running.error)
    # another one waits for as long as it takes
    debugged.lock.wait = Waiter.sleep
    running = Running(debugged, lambda: None)
    assert not running.over.wait(1)
    gdb.send(b"c")
    assert running.ended()
    assert running.error is None


def test_nobody_answers_until_the_mount_is_there(debugged, path):
    server = Server(debugged, [GdbAddress(path)])
    server.start()
    with pytest.raises(FileNotFoundError):
        Gdb(path)
    server.open()
    Gdb(path).begin()
    server.close()


def test_it_is_told_while_calls_have_to_wait(debugged, server, path):
    told: list[bool] = []
    server.open(on_stand=told.append)
    client = Gdb(path)
    client.begin()
    until(lambda: told and told[-1])
    client.send(b"c")
    until(lambda: told and not told[-1])
    client.close()


def test_the_first_call_waits_for_gdb(server, path):
    held = threading.Thread(target=server.open, args=(True,), daemon=True)
    held.start()
    client = Gdb(path)
    client.begin()
    assert held.is_alive()
    client.send(b"c")
    held.join(10)
    assert not held.is_alive()
    client.close()


def test_nothing_waits_for_a_server_that_is_over(server):
    server.close()
    assert returns(lambda: server.open(hold=True))


def test_nothing_parks_where_nobody_lets_go():
    parking = gdb_server._Parking()
    told, tell = parking._told, parking._tell
    parking.close()
    read, write = os.pipe()  # which get the numbers of those
    assert {read, write} == {told, tell}
    parking.wake()
    assert returns(lambda: parking.park(None))
    os.close(write)
    assert os.read(read, 1) == b""
    os.close(read)


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 5000,
        b"$" + b"x" * (1 << 20),
        b"$m0,4#00",
        b"$g#67$",
        encode(b"m1000," + b"f" * 4000),
        b"\x03" * 100,
    ],
)
def test_bad_input_ends_the_connection_at_most(debugged, gdb, path, data):
    try:
        gdb.socket.sendall(data)
        gdb.close()
    except OSError:
        pass
    until(lambda: free(debugged))
    client = Gdb(path)
    client.begin()
    assert client.ask(b"m1000,2") == b"0001"
    client.close()


def test_without_acknowledgements_damage_ends_the_connection(gdb):
    gdb.socket.sendall(b"$g#00")
    assert gdb.receive() is None


def test_with_acknowledgements_a_packet_is_asked_for_again(server, path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(path)
        client.settimeout(10)
        client.sendall(b"$m1000,2#00")
        assert client.recv(1) == b"-"
        client.sendall(encode(b"m1000,2"))
        answer = encode(b"0001")
        assert client.recv(100, socket.MSG_WAITALL * 0) in (b"+", b"+" + answer)
        client.sendall(b"-")
        until(lambda: answer in client.recv(100, socket.MSG_PEEK))


def test_packets_of_a_running_kernel_are_refused(debugged, gdb):
    gdb.send(b"c")
    until(lambda: free(debugged))
    assert gdb.ask(b"m1000,2") == b"E01"


def test_another_machine_gets_the_breakpoints(debugged, server, gdb):
    gdb.ask(b"Z0,1010,1")
    debugged.stops = type(debugged.stops)()
    debugged.replaced()
    assert debugged.stops.places == {0x1010}


# ---- addresses
def test_a_socket_is_for_its_user_alone(server, path, tmp_path):
    assert (tmp_path / "gdb").stat().st_mode & 0o777 == 0o600
    server.close()
    assert not (tmp_path / "gdb").exists()


def opened(address):
    listener = GdbAddress(address)
    listener.open()
    return listener


def test_a_dead_socket_is_replaced(path, tmp_path):
    opened(path).socket.close()
    assert (tmp_path / "gdb").exists()
    opened(path).close()
    assert not list(tmp_path.iterdir())


def test_a_socket_in_use_stays(server, path, tmp_path):
    with pytest.raises(SetupError, match="in use"):
        GdbAddress(path)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SetupError, match="in use"):
        GdbAddress(str(tmp_path / "file"))
    with pytest.raises(SetupError, match="path too long"):
        GdbAddress(str(tmp_path / ("x" * 108)))
    assert (tmp_path / "file").read_text() == "mine"


@pytest.fixture
def port(debugged):
    """A server at a port; yield its address."""
    server = Server(debugged, [GdbAddress("127.0.0.1:0")])
    server.start()
    server.open()
    yield server._listeners[0].socket.getsockname()
    server.close()


@pytest.mark.parametrize("user", [12345, 65534])
def test_another_user_is_not_let_in_by_a_port(debugged, port, user, monkeypatch):
    monkeypatch.setattr(gdb_server, "log", Quiet())
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    pid = os.fork()
    if pid == 0:
        os.setuid(user)
        gdb = Gdb(port)
        gdb.socket.sendall(encode(b"?"))
        os._exit(gdb.receive() is not None)
    assert os.waitpid(pid, 0)[1] == 0
    assert free(debugged)
    gdb = Gdb(port)
    assert gdb.ask(b"?") == b"T02thread:1;"
    gdb.close()


class Quiet:
    """Stands for a log."""

    def warning(self, *_):
        pass


def test_who_has_gone_already_is_not_let_in(monkeypatch):
    listener = opened("127.0.0.1:0")
    monkeypatch.setattr(gdb_server, "log", Quiet())
    client = socket.create_connection(listener.socket.getsockname())
    client.close()
    assert listener.accept() is None
    client = socket.create_connection(listener.socket.getsockname())
    accepted = listener.accept()
    assert accepted is not None
    accepted.close()
    client.close()
    listener.close()
    assert listener.accept() is None


def test_the_process_at_a_port_is_known():
    """Calls of that process must not wait for a kernel that it has stopped."""
    listener = opened("127.0.0.1:0")
    client = socket.create_connection(listener.socket.getsockname())
    accepted = there(listener.accept())
    assert gdb_server._peer(accepted) == os.getpid()
    for each in (accepted, client, listener):
        each.close()


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.1\r\n\r\n" + encode(b"c"), b"\n", b"+" * 9 + b"x", b"\0"]
)
def test_what_is_not_gdb_is_closed_and_stops_nothing(debugged, port, said):
    client = socket.create_connection(port)
    client.settimeout(20)
    client.sendall(said)
    with contextlib.suppress(ConnectionError):
        assert client.recv(1) == b""
    client.close()
    assert not debugged.sees_all
    assert free(debugged)


def test_who_says_nothing_stops_nothing_and_makes_room(debugged, server, path):
    silent = Gdb(path)
    second = Gdb(path)
    assert silent.receive() is None
    assert free(debugged)
    second.begin()
    assert not free(debugged)
    third = Gdb(path)
    assert third.receive() is None
    assert second.ask(b"?") == b"T02thread:1;"
    for client in (silent, second, third):
        client.close()


def test_a_kernel_that_waits_for_gdb_waits_for_nobody_else(debugged, server, path):
    waits = threading.Event()

    def hold():
        server.open(hold=True)
        waits.set()

    threading.Thread(target=hold, daemon=True).start()
    until(lambda: not server._held.is_set())
    other = Gdb(path)
    other.socket.sendall(b"GET /")
    with contextlib.suppress(ConnectionError):
        other.receive()
    other.close()
    assert not waits.is_set()
    gdb = Gdb(path)
    gdb.begin()
    gdb.send(b"c")
    assert waits.wait(20)
    gdb.close()


def test_a_port_is_of_this_machine_alone():
    listener = opened("127.0.0.1:0")
    host, port = listener.socket.getsockname()
    assert host == "127.0.0.1"
    with pytest.raises(SetupError, match="in use"):
        GdbAddress(f":{port}")
    listener.close()
    for bad in ("0.0.0.0:1234", "localhost:x", "127.0.0.1:99999", "/nowhere/at/all"):
        with pytest.raises(SetupError, match="--gdb-at"):
            GdbAddress(bad)
