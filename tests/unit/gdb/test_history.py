# SPDX-License-Identifier: GPL-2.0-or-later
"""Going back in the past of the guest kernel, and on again."""

import os
import signal
from contextlib import closing

import pytest

from kpfs.backends.guest.box import Box
from kpfs.emulator.stops import Stop, StopReason
from kpfs.gdb.history import History
from tests import harness


@pytest.fixture(autouse=True)
def rich(monkeypatch):
    """Let checkpoints take any time."""
    monkeypatch.setattr("kpfs.gdb.history.BURST", 1000.0)


class Guide:
    """A debugger's part: registers, and a checksum of what the kernel is."""

    def __init__(self, box):
        self.box = box

    def prepare(self, state):
        stops = self.box.kernel.guest.cpus.debug()
        for address in state.get("places", ()):
            stops.insert(address)
        for number, (first, last) in enumerate(state.get("watched", ()), 1):
            stops.watch(number, first, last, reads=False, writes=True)
        stops.stepping = state.get("stepping", False)

    def passes(self, stop):
        return False

    def answer(self, question):
        guest = self.box.kernel.guest
        if question == "registers":
            return guest.cpus.read_regs()
        return eval(question, {"guest": guest, "os": os})


class Session:
    """A kernel with a history, which is debugged where it stops."""

    def __init__(self, script, places=("vfs_read",)):
        self.box = Box()
        self.guest = self.box.kernel.guest
        self.stops = self.guest.cpus.debug()
        self.history = History(self.stops, Guide(self.box), self.guest.clock)
        self.has_written = False
        self.script = script(self)
        self.stops.on_stop = self._stopped
        for place in places:
            self.stops.insert(self.box.address(place))

    def _stopped(self, stop):
        try:
            self.stops.stepping = self.script.send(stop)
        except StopIteration:
            self.stops.clear()
        written, self.has_written = self.has_written, False
        self.history.go_on(stop.moment, has_written=written)

    def run(self, *paths):
        next(self.script)
        for path in paths or ("/tracing/kprobe_events",):
            self.box.read(path)
        assert not self.stops.places, "the script did not come to its end"

    def close(self):
        self.history.close()
        self.box.close()

    def registers(self):
        return self.guest.cpus.read_regs()

    def write(self):
        """Change memory that the kernel does not use, as a debugger may."""
        self.guest.memory.write(self.unused, b"\1")
        self.has_written = True

    @property
    def unused(self):
        """Return an address below the stack."""
        return self.registers()[19] - 1024


def debug(script, *paths, **options):
    with closing(Session(script, **options)) as session:
        session.run(*paths)


def test_steps_back_and_on_again():
    def script(session):
        stop: Stop = yield
        trail = []
        for _ in range(8):
            trail.append((stop.moment, session.registers()))
            stop = yield True
        history, present = session.history, stop.moment
        visit = None
        for moment, registers in reversed(trail[1:]):
            arrival = history.back(visit, present, {}, step=True)
            visit = arrival.visit
            assert (visit.moment, visit.ask("registers")) == (moment, registers)
        for moment, registers in trail[2:]:
            arrival = history.forwards(visit, present, {"stepping": True})
            visit = arrival.visit
            assert (visit.moment, visit.ask("registers")) == (moment, registers)
        assert history.forwards(visit, present, {"stepping": True}) == (None, None)

    debug(script)


def test_back_to_the_last_breakpoint_of_an_earlier_run():
    def script(session):
        places = [session.box.address("vfs_read")]
        seen = []
        for _ in range(4):
            stop = yield False
            seen.append((stop.moment, session.registers()))
        history, present = session.history, stop.moment
        visit = None
        for moment, registers in reversed(seen[:-1]):
            arrival = history.back(visit, present, {"places": places}, step=False)
            visit = arrival.visit
            assert arrival.stop.why is StopReason.PLACE
            assert (visit.moment, visit.ask("registers")) == (moment, registers)
        arrival = history.back(visit, present, {"places": places}, step=False)
        assert arrival.stop is None
        visit = arrival.visit
        for moment, registers in seen[:-1]:
            arrival = history.forwards(visit, present, {"places": places})
            visit = arrival.visit
            assert (visit.moment, visit.ask("registers")) == (moment, registers)
        arrival = history.forwards(visit, present, {"places": places})
        assert arrival == (None, None)

    debug(script, "/kprobes/list", "/tracing/kprobe_events", "/kprobes/enabled")


def test_back_to_where_memory_was_written():
    def script(session):
        stop = yield
        guest = session.guest
        sp = guest.memory.translate(session.registers()[19] - 8, 8)
        for _ in range(30):
            stop = yield True
        state = {"watched": [(sp, sp + 7)]}
        arrival = session.history.back(None, stop.moment, state, step=False)
        assert arrival.stop.why is StopReason.ACCESS
        before = arrival.visit.ask(f"guest.memory.ram[{sp}:{sp + 8}]")
        arrival = session.history.forwards(
            arrival.visit, stop.moment, {"stepping": True}
        )
        after = arrival.visit.ask(f"guest.memory.ram[{sp}:{sp + 8}]")
        assert before != after
        arrival.visit.close()

    debug(script)


def test_a_visit_touches_nothing_outside():
    def script(session):
        stop = yield
        stop = yield True
        arrival = session.history.back(None, stop.moment, {}, step=True)
        own = arrival.visit.ask("os.getpid()")
        assert own != os.getpid()
        targets = arrival.visit.ask(
            "sorted(os.path.basename(os.readlink(f'/proc/self/fd/{fd}')).split(':')[0]"
            " for fd in os.listdir('/proc/self/fd') if int(fd) < 200"
            " and os.path.exists(f'/proc/self/fd/{fd}'))"
        )
        assert set(targets) <= {"null", "socket", "fd"}
        assert targets.count("socket") <= 1
        arrival.visit.close()

    debug(script)


def test_without_checkpoints_nothing_is_known(monkeypatch):
    monkeypatch.setattr("kpfs.gdb.history.BURST", 0)

    def script(session):
        stop = yield
        assert session.history.depth == 0
        assert session.history.back(None, stop.moment, {}, step=True) is None

    debug(script)


@pytest.mark.parametrize("long", [0, 1 << 30], ids=["a_section_each", "one_section"])
@pytest.mark.parametrize("budget", [1000, -1000], ids=["checkpoint", "none"])
def test_what_the_debugger_writes_is_never_lost(monkeypatch, long, budget):
    """A visit would repeat the run without it."""
    monkeypatch.setattr("kpfs.gdb.history.LONG", long)

    def script(session):
        stop = yield
        for _ in range(4):
            stop = yield True
        session.history._of_stops._left = budget
        before, unused = stop.moment, session.unused
        session.write()
        stop = yield True
        arrival = session.history.back(None, stop.moment, {}, step=True)
        assert (arrival is None) == (budget < 0)
        if arrival is None:
            return
        ram = session.guest.memory.translate(unused, 1)
        assert arrival.visit.moment in (before, None)
        assert arrival.visit.ask(f"guest.memory.ram[{ram}]") == 1
        arrival.visit.close()

    debug(script)


def test_steps_in_one_section_are_gone_back(monkeypatch):
    monkeypatch.setattr("kpfs.gdb.history.LONG", 1 << 30)

    def script(session):
        stop = yield
        depth, moments = session.history.depth, []
        for _ in range(8):
            moments.append(stop.moment)
            stop = yield True
        assert session.history.depth == depth
        visit, present = None, stop.moment
        for moment in reversed(moments):
            arrival = session.history.back(visit, present, {}, step=True)
            visit = arrival.visit
            assert visit.moment == moment
        arrival.visit.close()

    debug(script)


def test_nothing_is_left_of_it():
    before = harness.children(os.getpid())  # a browser, perhaps
    with closing(Session(lambda _: iter([None]), places=())) as session:
        session.run("/kprobes/list")
        assert session.history.depth > 0
        assert harness.children(os.getpid()) != before
    assert harness.children(os.getpid()) == before


def test_back_through_a_hit_of_a_breakpoint():
    """Sections end where they were stopped, whatever else is met on the way there."""

    def script(session):
        stop = yield
        probe = stop.moment
        yield True  # into the handler
        session.stops.insert(slot)
        stop = yield False
        assert stop.address == slot
        places = {"places": [probe.address, slot]}
        arrival = session.history.back(None, stop.moment, places, step=False)
        assert arrival.visit.moment == probe
        arrival = session.history.forwards(arrival.visit, stop.moment, places)
        assert arrival == (None, None)

    with closing(Session(script, places=())) as session:
        box = session.box
        box.write("/sys/debug/kprobes-optimization", "0\n")
        box.write("/tracing/kprobe_events", "p:k/e vfs_read+7 count=%dx\n")
        box.write("/tracing/events/k/e/enable", "1\n")
        slot = int(box.read("/machine/probes").splitlines()[1].split()[6], 16)
        session.stops.insert(box.address("vfs_read") + 7)
        session.run()


def test_where_blocks_are_not_counted_nothing_is_known():
    """Blocks go uncounted while the kernel's own debug registers watch memory."""

    def script(session):
        stop = yield
        assert session.history.back(None, stop.moment, {}, step=True) is None

    with closing(Session(script)) as session:
        session.stops.counts = lambda: False
        session.run()


def test_others_may_wait_for_all_children():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with closing(Session(lambda _: iter([None]), places=())) as session:
            session.run("/kprobes/list", "/kprobes/enabled")
            assert session.history.depth > 0
    finally:
        signal.signal(signal.SIGCHLD, before)
