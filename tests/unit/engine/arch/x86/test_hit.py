# SPDX-License-Identifier: GPL-2.0-or-later
"""Breakpoints: handlers, slots, single steps, nesting, faults.

This also tests kpfs.engine.arch.x86.ainsn, kpfs.engine.arch.x86.core,
kpfs.engine.arch.x86.jprobe, kpfs.engine.arch.x86.stub, kpfs.engine.arch.x86.trap
and kpfs.engine.runtime.runtime.
"""

import random

import pytest

from kpfs.engine.arch.x86.regs import regs_get_kernel_argument
from kpfs.engine.kprobe import Kprobe, KprobeFlag
from kpfs.engine.kretprobe import Kretprobe, register_kretprobe
from kpfs.engine.optimizer import set_kprobes_optimization
from kpfs.engine.register import disable_kprobe, enable_kprobe, unregister_kprobe
from kpfs.engine.runtime.records import KpEvent
from tests.unit.engine.arch.bare import NOP5

pytestmark = pytest.mark.guest

# mov rax,rdi; shl rax,2; add rax,rsi; ret
#  at 5        at 8       at 12        at 15
ALU = NOP5 + bytes.fromhex("4889f8 48c1e002 4801f0 c3")
BOOSTED, STEPPED = 5, 8
MODES = [BOOSTED, STEPPED]
# push rdi; call ALU (one function before); pop rdi; ret
CALLER = NOP5 + bytes.fromhex("57 e8f5feffff 5f c3")
CALL = 6


@pytest.mark.parametrize("offset", MODES)
def test_handler_sees_registers_and_the_result_is_right(box, offset):
    b = box({"alu": ALU})
    at = b.machine.addr("alu", offset)
    p = b.probe(
        "alu",
        offset,
        pre_handler=lambda p, regs: b.seen.append(
            (
                regs.ip,
                regs.di,
                regs.sp,
                regs_get_kernel_argument(regs, 1),
                regs.flags & 2,
            )
        ),
    )
    assert b.call("alu", 5, 7) == 27
    assert b.seen == [(at + 1, 5, b.machine.stack, 7, 2)]
    assert b.arch.hits(p) == 1
    assert b.cpu_state() == (0, 0)


@pytest.mark.parametrize("offset", MODES)
def test_post_handler_sees_the_instruction_done(box, offset):
    b = box({"alu": ALU})
    after = {BOOSTED: STEPPED, STEPPED: 12}[offset]
    b.probe(
        "alu",
        offset,
        pre_handler=lambda p, regs: b.seen.append(("pre", regs.ax)),
        post_handler=lambda p, regs, flags: b.seen.append(("post", regs.ax, regs.ip)),
    )
    assert b.call("alu", 5, 7) == 27
    before, done = {BOOSTED: (0, 5), STEPPED: (5, 20)}[offset]
    assert b.seen == [("pre", before), ("post", done, b.machine.addr("alu", after))]
    assert b.cpu_state() == (0, 0)


@pytest.mark.parametrize("offset", [0, *MODES])
@pytest.mark.parametrize("guest", [False, True])
def test_post_handler_changes_registers(box, offset, guest):
    """Python alone, and called by the runtime beside guest code."""
    b = box({"alu": ALU, "nothing": bytes.fromhex("31c0 c3")})

    def post(p, regs, flags):
        b.seen.append(flags)
        regs.si = 100

    pre = b.machine.addr("nothing") if guest else None
    b.probe("alu", offset, pre_handler=pre, post_handler=post)
    assert b.call("alu", 5, 7) == 120
    assert b.seen == [0]


def test_post_handler_that_comes_and_goes_changes_the_slot(box):
    b = box({"alu": ALU})
    p = b.probe("alu", BOOSTED, pre_handler=b.note("a"))
    slot = p.ainsn.slot
    assert b.machine.read(slot + 3, 1) == b"\xe9"
    q = b.probe("alu", BOOSTED, post_handler=b.note("post"))
    assert b.machine.read(slot + 3, 1) == b"\xcc"
    assert b.call("alu", 1, 1) == 5
    unregister_kprobe(b.state, q)
    assert b.machine.read(slot + 3, 1) == b"\xe9"
    assert b.call("alu", 1, 1) == 5
    assert [what for what, _ in b.seen] == ["a", "post", "a"]


@pytest.mark.parametrize("offset", [0, *MODES])
def test_changed_ip_without_a_1_is_ignored(box, offset):
    b = box({"alu": ALU})

    def handler(p, regs):
        regs.ip = 0x1234

    b.probe("alu", offset, pre_handler=handler)
    assert b.call("alu", 5, 7) == 27


@pytest.mark.logs("handler of the probe")
@pytest.mark.parametrize("offset", [0, *MODES])
def test_exception_in_a_handler_is_logged_and_the_rest_goes_on(box, offset):
    b = box({"alu": ALU})
    b.probe("alu", offset, pre_handler=b.note("old"))
    b.probe("alu", offset, pre_handler=lambda p, regs: 1 // 0)
    b.probe("alu", offset, pre_handler=b.note("new"))
    assert b.call("alu", 5, 7) == 27
    assert [what for what, _ in b.seen] == ["new", "old"]
    assert b.cpu_state() == (0, 0)


@pytest.mark.parametrize("offset", [0, *MODES])
@pytest.mark.parametrize("guest_post", [False, True])
def test_guest_handlers_beside_python_ones(box, offset, guest_post):
    # a guest pre_handler fn(handler, regs): counts in handler->data, returns 0
    #   inc qword [rdi+0x28]; xor eax,eax; ret
    b = box({"alu": ALU, "counter": bytes.fromhex("48ff4728 31c0 c3")})
    counter = b.machine.addr("counter")
    p = b.probe("alu", offset, pre_handler=counter, data=40)
    post = counter if guest_post else b.note("post")
    q = b.probe("alu", offset, pre_handler=b.note("pre"), post_handler=post, data=0)
    flags = 0x8D5 | 0x200
    b.machine.prepare(b.machine.addr("alu"), {14: 5, 13: 7, 18: flags})
    b.machine.cpu_.run()
    assert b.machine.read_reg(10) == 27
    at, after = b.machine.addr("alu", offset), {0: 5, BOOSTED: STEPPED, STEPPED: 12}
    expected = [("pre", at + 1)]
    if not guest_post:
        expected.append(("post", b.machine.addr("alu", after[offset])))
    assert b.seen == expected
    assert b.arch.handlers[p.handler].data == 41
    assert b.arch.handlers[q.handler].data == (1 if guest_post else 0)
    assert b.cpu_state() == (0, 0)
    assert b.machine.read(b.machine.data + 20, 4) == bytes(4)  # preempt count


@pytest.mark.parametrize("offset", [0, *MODES])
def test_preempt_count_and_interrupt_flag_in_guest_handlers(box, offset):
    # handler: mov eax,gs:[20]; mov [rdi+0x28],rax; pushf; pop rax; mov [rdi+0x30],rax;
    #          xor eax,eax; ret
    code = "658b042514000000 48894728 9c 58 48894730 31c0 c3"
    b = box({"alu": ALU, "look": bytes.fromhex(code)})
    p = b.probe("alu", offset, pre_handler=b.machine.addr("look"))
    assert b.call("alu", 5, 7) == 27
    record = b.arch.handlers[p.handler]
    assert record.data == (0x110000 if offset else 1)
    assert bool(record.kp & 0x200) == (offset == 0)


def nest(b, offset, **fields):
    """A probe on the caller whose guest handler calls alu, where inner is probed."""
    # handler: push rdi; mov edi,1; mov esi,1; call alu; pop rdi; xor eax,eax; ret
    return b.probe("caller", offset, pre_handler=b.machine.addr("nested"), **fields)


def nested_box(box):
    # alu at +0x100, caller at +0x200, nested at +0x300
    nested = bytes.fromhex("57 bf01000000 be01000000 e8f0fdffff 5f 31c0 c3")
    return box({"alu": ALU, "caller": CALLER, "nested": nested}, optprobes=False)


@pytest.mark.parametrize("inner", [0, *MODES, 15])
@pytest.mark.parametrize("guest_inner", [False, True])
def test_probe_hit_in_a_handler_is_missed_but_stepped(box, inner, guest_inner):
    b = nested_box(box)
    nest(b, 5)
    # a second, guest handler at the inner address: the runtime counts the misses
    p = b.probe("alu", inner, pre_handler=b.note("inner"))
    if guest_inner:
        b.probe("alu", inner, pre_handler=b.runtime.symbols["kp_event_handler"])
        event = b.runtime.make(KpEvent)
        b.state.kprobe_table[p.addr].list[0].data = event.addr
        b.arch.sync_site(b.state.kprobe_table[p.addr])
    assert b.call("caller", 5, 7) == 27
    assert [what for what, _ in b.seen] == ["inner"]  # by the caller itself
    assert b.arch.nmissed(p) == 1
    assert b.cpu_state() == (0, 0)


def test_states_of_the_control_block(box):
    """Before and after each trap: status, current_kprobe, what is saved of another."""
    b = nested_box(box)
    cpu, names = b.runtime.cpus[0], {0: "-"}

    def state():
        prev = (names[cpu.prev_kprobe], cpu.prev_status)
        return cpu.status, names[cpu.current_kprobe], *(prev if cpu.status == 4 else ())

    def note_state(p, regs, flags):
        b.seen.append(("post", *state()))

    outer = nest(b, 5, post_handler=note_state)
    inner = b.probe("alu", STEPPED, post_handler=note_state)
    names.update({outer.site: "outer", inner.site: "inner"})
    trap = b.machine.cpu_.breakpoint

    def watched(ip):
        before = state()
        to = trap(ip)
        b.seen.append((before, state()))
        return to

    b.machine.cpu_.breakpoint = watched
    idle, active, ss, reenter, ssdone = 0, 1, 2, 4, 8
    assert b.call("caller", 5, 7) == 27
    assert b.seen == [
        ((idle, "-"), (idle, "-")),  # the runtime goes on with it
        # within its handler
        ((active, "outer"), (reenter, "inner", "outer", active)),
        ((reenter, "inner", "outer", active), (active, "outer")),
        # the outer probe's own instruction is stepped, and the runtime goes on
        ((ss, "outer"), (ss, "outer")),
        ("post", ssdone, "outer"),
        # the caller calls alu, whose handlers are all Python
        ((idle, "-"), (ss, "inner")),
        ("post", ssdone, "inner"),
        ((ss, "inner"), (idle, "-")),
    ]


@pytest.mark.parametrize("inner", MODES)
@pytest.mark.parametrize("offset", [5, CALL])
def test_inner_post_handler_is_not_called_when_missed(box, inner, offset):
    b = nested_box(box)
    nest(b, offset, post_handler=b.note("outer"))
    p = b.probe("alu", inner, post_handler=b.note("inner"))
    assert b.call("caller", 5, 7) == 27
    assert sorted(what for what, _ in b.seen) == ["inner", "outer"]
    assert b.arch.nmissed(p) == 1
    assert b.cpu_state() == (0, 0)


# mov ax,di behind a REX that does not count; ret: 5 and 7 for the kernel
REX = NOP5 + bytes.fromhex("4866 89f8 90909090909090 c3")


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("offsets", [(5,), (7,), (5, 7), (7, 5)])
def test_a_prefix_behind_rex_is_an_instruction_of_its_own(box, offsets, optimized):
    b = box({"rex": REX})
    set_kprobes_optimization(b.state, optimized)
    for offset in offsets:
        b.probe("rex", offset, pre_handler=b.note(f"{offset}"))
    b.machine.run_later()
    assert b.call("rex", 0x12345) & 0xFFFF == 0x2345
    assert [what for what, _ in b.seen] == [f"{offset}" for offset in sorted(offsets)]
    assert b.cpu_state() == (0, 0)


# mov rax,[rdi]; ret   (5: boostable, unless it has an exception entry)
LOAD = NOP5 + bytes.fromhex("488b07 c3 b8f2ffffff c3")
FIXUP = 9


@pytest.mark.parametrize("kind", ["boosted", "post", "exception", "guest"])
def test_fault_of_the_instruction_is_the_probed_ones(box, kind):
    b = box({"load": LOAD})
    at = b.machine.addr("load", 5)
    if kind == "exception":
        b.machine.text.exceptions[at] = b.machine.addr("load", FIXUP)
    event = b.runtime.make(KpEvent)
    fields = {
        "boosted": {"pre_handler": b.note("pre")},
        "exception": {"pre_handler": b.note("pre")},
        "post": {"post_handler": b.note("post")},
        "guest": {
            "pre_handler": b.runtime.symbols["kp_event_handler"],
            "data": event.addr,
            "post_handler": b.note("post"),
        },
    }[kind]
    set_kprobes_optimization(b.state, False)  # in the kernel the table forbids a jump
    p = b.probe("load", 5, **fields)
    assert p.ainsn.boostable == (kind != "exception")
    # the table is consulted for the probed instruction, wherever it ran
    b.machine.text.exceptions[at] = b.machine.addr("load", FIXUP)
    assert b.call("load", 0) == 0xFFFFFFF2
    assert b.machine.faults == [(14, p.ainsn.slot, 0)]
    assert b.cpu_state() == (0, 0)
    b.machine.write_u64(b.machine.data + 0x900, 77)
    assert b.call("load", b.machine.data + 0x900) == 77


def test_fault_handlers_by_trap_number_until_one_says_1(box):
    b = box({"load": LOAD})
    at = b.machine.addr("load", 5)
    b.machine.write_u64(b.machine.data + 0x900, 78)

    def handler(p, regs, trapnr):
        b.seen.append((p is new, trapnr))
        assert regs.ip == at
        if p is new:
            return 0
        regs.di = b.machine.data + 0x900
        return 1

    old = b.probe("load", 5, fault_handler=handler)
    new = b.probe("load", 5, fault_handler=handler)
    assert b.call("load", 0) == 78
    assert b.call("load", 1 << 63) == 78
    assert b.seen == [(True, 14), (False, 14), (True, 13), (False, 13)]
    # nobody handles it: the exception table is next
    unregister_kprobe(b.state, old)
    b.seen.clear()
    b.machine.text.exceptions[at] = b.machine.addr("load", FIXUP)
    assert b.call("load", 0) == 0xFFFFFFF2
    assert b.seen == [(True, 14)]
    assert b.cpu_state() == (0, 0)


@pytest.mark.parametrize("where", ["pre", "post", "entry", "return", "guest"])
@pytest.mark.parametrize("offset", [0, *MODES])
def test_python_handler_that_looks_where_no_memory_is(box, where, offset):
    """A fault in a handler: its own fault_handler is told, no other one."""
    b = box({"alu": ALU, "nothing": bytes.fromhex("31c0 c3")})

    def bad(*_args):
        b.machine.read_u64(nowhere[0])

    nowhere = [0]

    def fault_handler(p, regs, trapnr):
        b.seen.append((p is probe, trapnr))
        regs.si = 100
        return 1

    b.probe("alu", offset, fault_handler=lambda p, regs, trapnr: 1 // 0)
    if where in ("entry", "return"):
        rp = Kretprobe(kp=Kprobe(symbol_name="alu", fault_handler=fault_handler))
        setattr(rp, {"entry": "entry_handler", "return": "handler"}[where], bad)
        register_kretprobe(b.state, rp)
        probe = rp.kp
    else:
        name = "post_handler" if where == "post" else "pre_handler"
        probe = b.probe("alu", offset, fault_handler=fault_handler, **{name: bad})
    if where == "guest":
        b.probe("alu", offset, pre_handler=b.machine.addr("nothing"))
    for place, trapnr in ((0x10, 14), (1 << 63, 13), (0xFFFFFFFFA0000000, 14)):
        nowhere[0] = place
        b.seen.clear()
        assert b.call("alu", 5, 7) == (27 if where == "return" else 120)
        assert b.seen == [(True, trapnr)]
    assert b.cpu_state() == (0, 0)


@pytest.mark.logs("handler of the probe")
def test_a_fault_handler_that_declines_or_fails_itself(box, caplog):
    b = box({"alu": ALU})

    def bad(p, regs):
        b.machine.read_u64(0x10)

    def fault_handler(p, regs, trapnr):
        b.seen.append(trapnr)
        return 1 // 0 if len(b.seen) > 1 else 0

    b.probe("alu", BOOSTED, pre_handler=bad, fault_handler=fault_handler)
    for _ in range(2):
        assert b.call("alu", 5, 7) == 27
    assert b.seen == [14, 14]
    assert [r.getMessage().split()[0] for r in caplog.records] == [
        *("handler", "fault_handler", "handler")
    ]


def test_guest_handler_that_faults_names_its_probe(box):
    # handler: mov rax,[0]; ret
    b = box({"alu": ALU, "bad": bytes.fromhex("488b042500000000 c3")})
    b.probe("alu", 0, pre_handler=b.note("other"))

    def fault_handler(p, regs, trapnr):
        b.seen.append(("fault", p.data))
        regs.ip += 8  # behind the load
        regs.ax = 0
        return 1

    b.probe(
        "alu", 0, pre_handler=b.machine.addr("bad"), data=5, fault_handler=fault_handler
    )
    assert b.call("alu", 5, 7) == 27
    assert b.seen == [("fault", 5), ("other", b.machine.addr("alu") + 1)]


@pytest.mark.parametrize("offset", [0, *MODES])
def test_break_handler(box, offset):
    """For a breakpoint in a handler: 1 ends the handler, 0 leaves it to others."""
    # trap: int3; xor eax,eax; ret
    b = box({"alu": ALU, "trap": bytes.fromhex("cc 31c0 c3")})
    answers = [1, 0, 0]

    def break_handler(p, regs):
        b.seen.append((p is probe, regs.ip - b.machine.addr("trap")))
        if answers[0]:
            regs.sp, regs.di, regs.si = b.machine.stack, 6, 8
            regs.ax = 6 if offset == STEPPED else 0
        return answers.pop(0)

    probe = b.probe(
        "alu", offset, pre_handler=b.machine.addr("trap"), break_handler=break_handler
    )
    assert b.call("alu", 5, 7) == 32
    assert b.seen == [(True, 1)]
    assert b.machine.faults == []
    for trap in (0, 1):
        b.machine.text.exceptions[b.machine.addr("trap", trap)] = b.machine.addr(
            "trap", 1
        )
    for _ in range(2):
        assert b.call("alu", 5, 7) == 27
    assert b.seen == [(True, 1)] * 3
    assert [vector for vector, _, _ in b.machine.faults] == [3, 3]
    assert b.cpu_state() == (0, 0)
    assert b.machine.read(b.machine.data + 20, 4) == bytes(4)  # preempt count


def test_breakpoint_just_removed_runs_the_instruction(box):
    b = box({"alu": ALU})
    p = b.probe("alu", BOOSTED, pre_handler=b.note("pre"))
    assert b.arch.path.kprobe_int3_handler(p.addr + 1) == p.ainsn.slot
    unregister_kprobe(b.state, p)
    assert b.arch.path.kprobe_int3_handler(p.addr + 1) == p.addr


def test_foreign_breakpoint_is_not_ours(box):
    b = box({"alu": ALU, "debug": b"\xcc\xc3"})
    assert b.arch.path.kprobe_int3_handler(b.machine.addr("debug", 1)) is None


def test_slots_and_records_are_used_again_after_a_quiescent_state(box):
    b = box({"alu": ALU})
    probes = [b.probe("alu", o, pre_handler=b.note(o)) for o in (0, *MODES)]
    for p in probes:
        unregister_kprobe(b.state, p)
    assert b.text("alu", 16) == ALU
    assert b.arch.insn_slots.nr_used == 2
    b.machine.run_later()
    assert b.arch.insn_slots.nr_used == b.arch.stubs.slots.nr_used == 0
    assert not b.arch.path.slots
    assert not b.arch.path.traps
    assert not b.arch.path.hits
    assert not b.arch.path.handlers
    again = [b.probe("alu", o, pre_handler=b.note(o)) for o in (0, *MODES)]
    assert len(again) == 3
    assert b.call("alu", 5, 7) == 27
    assert [what for what, _ in b.seen] == [0, *MODES]


def test_removed_twice_is_removed_once(box):
    b = box({"alu": ALU})
    p = b.probe("alu", BOOSTED, pre_handler=b.note("a"))
    ainsn = p.ainsn
    unregister_kprobe(b.state, p)
    b.machine.run_later()
    q = b.probe("alu", BOOSTED, pre_handler=b.note("b"))
    stale = Kprobe(addr=q.addr)
    stale.ainsn = ainsn
    b.arch.arch_remove_kprobe(stale)
    b.machine.run_later()
    assert b.call("alu", 1, 1) == 5
    assert [what for what, _ in b.seen] == ["b"]


def chain_of(b, p):
    """The kp_handlers of a site, as guest code walks them: (address, flags)."""
    found, at = [], p.ainsn.site.first
    while at:
        record = b.arch.handlers[at]
        found.append((at, record.flags))
        at = record.next
    return found


@pytest.mark.parametrize("offset", [0, BOOSTED])
@pytest.mark.parametrize("seed", range(5))
def test_the_chain_follows_the_list(box, offset, seed):
    """Guest code alone handles these probes, so that single records are changed."""
    rng = random.Random(seed)
    b = box({"alu": ALU})
    handler = b.runtime.symbols["kp_event_handler"]
    probes: list[tuple[Kprobe, KpEvent]] = []
    for step in range(120):
        doing = rng.random()
        if doing < 0.5 or not probes:
            p = b.probe("alu", offset, pre_handler=handler)
            event = b.runtime.make(KpEvent)
            p.data = event.addr
            probes.append((p, event))
            b.arch.sync_site(b.state.kprobe_table[p.addr], p)
        else:
            p, _ = rng.choice(probes)
            if doing < 0.7:
                disable_kprobe(b.state, p)
            elif doing < 0.85:
                enable_kprobe(b.state, p)
            else:
                unregister_kprobe(b.state, p)
                probes = [pair for pair in probes if pair[0] is not p]
        if not probes:
            continue
        entry = b.state.kprobe_table[probes[0][0].addr]
        want = [
            (kp.handler, int(bool(kp.flags & KprobeFlag.DISABLED)))
            for kp in (entry.list if entry.is_aggr else [entry])
        ]
        assert chain_of(b, entry) == want
        if step % 10 == 0:
            before = [event.nhit for _, event in probes]
            assert b.call("alu", 5, 7) == 27
            hits = [
                event.nhit - n for (_, event), n in zip(probes, before, strict=True)
            ]
            assert hits == [int(not p.flags & KprobeFlag.DISABLED) for p, _ in probes]


@pytest.mark.parametrize("offset", [0, *MODES])
@pytest.mark.parametrize("count", [1, 3, 9])
def test_guest_code_is_told_of_disabled_probes_when_one_is_enabled(box, offset, count):
    b = box({"alu": ALU})
    handler, events = b.runtime.symbols["kp_event_handler"], []
    for _ in range(count):
        events.append(b.runtime.make(KpEvent))
        off = {"data": events[-1].addr, "flags": KprobeFlag.DISABLED}
        p = b.probe("alu", offset, pre_handler=handler, **off)
        gone = b.probe("alu", offset, pre_handler=handler, **off)
        unregister_kprobe(b.state, gone)
        assert (p.handler, gone.handler) == (None, None)
    assert b.call("alu", 5, 7) == 27
    entry = b.state.kprobe_table[p.addr]
    assert (chain_of(b, entry), b.arch.nmissed(p)) == ([], 0)
    enable_kprobe(b.state, p)
    assert [flags for _, flags in chain_of(b, entry)] == [0] + [1] * (count - 1)
    assert b.call("alu", 5, 7) == 27
    assert [event.nhit for event in events] == [0] * (count - 1) + [1]
    disable_kprobe(b.state, p)
    assert len(chain_of(b, entry)) == count


@pytest.mark.parametrize("offset", [0, *MODES])
@pytest.mark.parametrize("seed", range(3))
def test_many_handlers_at_one_address(box, offset, seed):
    """Each that comes or goes is synced alone; all others are called as before."""
    b = box({"alu": ALU})
    rng = random.Random(seed)
    called: list[Kprobe] = []
    there: list[Kprobe] = []

    def handler(p, _regs):
        called.append(p)

    for _ in range(60):
        if there and rng.random() < 0.3:
            unregister_kprobe(b.state, there.pop(rng.randrange(len(there))))
        else:
            flags = KprobeFlag.DISABLED if rng.random() < 0.2 else KprobeFlag(0)
            there.append(b.probe("alu", offset, pre_handler=handler, flags=flags))
        called.clear()
        assert b.call("alu", 5, 7) == 27
        on = [p for p in there if not int(p.flags) & KprobeFlag.DISABLED]
        assert called == on[::-1]
