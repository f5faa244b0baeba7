# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.engine.register: what is accepted, what is refused with which errno, and why.

This also tests kpfs.engine.arm: probes at ftrace sites.
"""

import errno
import random

import pytest

from kpfs.base.errors import KernelError
from kpfs.engine.arm import arm_all_kprobes, disarm_all_kprobes
from kpfs.engine.kprobe import (
    NO_ADDR,
    Kprobe,
    KprobeFlag,
    kprobe_disabled,
    kprobe_ftrace,
    kprobe_gone,
)
from kpfs.engine.register import (
    check_kprobe_address_safe,
    disable_kprobe,
    enable_kprobe,
    kprobe_on_func_entry,
    kprobes_module_callback,
    register_kprobe,
    show_entries,
    unregister_kprobe,
    unregister_kprobes,
)
from kpfs.engine.state import ModuleState
from tests.fake import (
    BAD,
    ENTRY_NOP,
    NOP,
    TEXT_BASE,
    TRAP,
    FakeMachine,
    new_state,
    slot_of,
)

VFS_READ = TEXT_BASE  # the first function


@pytest.fixture
def machine():
    machine = FakeMachine()
    machine.add_function("vfs_read")
    machine.add_function("odd", NOP * 8 + BAD + TRAP + NOP * 8)
    machine.add_function("nokprobe")
    machine.add_blacklist(machine.kallsyms.lookup_name("nokprobe")[0])
    machine.add_function("__pfx_vfs_write", NOP * 16)
    machine.add_function("vfs_write")
    machine.add_symbol("jiffies", 0xFFFFFFFF82000000, 8)
    return machine


def addr(machine, name):
    return machine.kallsyms.lookup_name(name)[0].addr


def refusal(st, p):
    """The errno's name and the reason."""
    with pytest.raises(KernelError) as e:
        register_kprobe(st, p)
    assert not list(show_entries(st))
    assert st.machine.patched() == []
    assert st.arch.slots.nr_used == 0
    assert not st.arch.handlers
    return errno.errorcode[e.value.errno], e.value.why


# ---- the probe point


@pytest.mark.parametrize(
    ("where", "function", "offset"),
    [
        ({"symbol_name": "vfs_read", "offset": 6}, "vfs_read", 6),
        ({"addr": VFS_READ, "offset": 6}, "vfs_read", 6),
        ({"symbol_name": "vfs_read", "offset": 32 + 3}, "odd", 3),
    ],
    ids=["symbol", "address", "in another function"],
)
def test_the_offset_is_added(st, machine, where, function, offset):
    register_kprobe(st, p := Kprobe(**where))
    assert p.addr == addr(machine, function) + offset
    assert machine.patched() == [p.addr]
    assert p.opcode == NOP


def test_entry_is_marked(st, machine):
    assert addr(machine, "odd") not in machine.text.ftrace_sites
    for p in (Kprobe(symbol_name="odd"), Kprobe(symbol_name="vfs_read", offset=32)):
        register_kprobe(st, p)
        assert p.flags == KprobeFlag.ON_FUNC_ENTRY
    register_kprobe(st, p := Kprobe(symbol_name="odd", offset=1))
    assert not p.flags
    kprobe_on_func_entry(st, NO_ADDR, "odd", 0)
    with pytest.raises(KernelError, match="EINVAL"):
        kprobe_on_func_entry(st, NO_ADDR, "odd", 1)


def test_only_the_flag_disabled_is_the_users(st, machine):
    p = Kprobe(symbol_name="odd", offset=1, flags=~KprobeFlag(0))
    register_kprobe(st, p)
    assert p.flags == KprobeFlag.DISABLED
    assert machine.patched() == []


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({}, ("EINVAL", "needs either a symbol or an address")),
        ({"addr": 0}, ("EINVAL", "needs either a symbol or an address")),
        (
            {"symbol_name": "vfs_read", "addr": VFS_READ},
            ("EINVAL", "needs either a symbol or an address"),
        ),
        ({"symbol_name": "vfs_raed"}, ("ENOENT", "no symbol vfs_raed")),
        ({"symbol_name": ""}, ("ENOENT", "no symbol ")),
        ({"addr": 0x1000}, ("ENOENT", "0x1000 is in no symbol")),
        (
            {"symbol_name": "vfs_read", "offset": 0x10000},
            ("ENOENT", "0xffffffff81010000 is in no symbol"),
        ),
        ({"symbol_name": "jiffies"}, ("EINVAL", "not kernel text")),
        ({"symbol_name": "nokprobe", "offset": 6}, ("EINVAL", "kprobe blacklist")),
        ({"symbol_name": "__pfx_vfs_write"}, ("EINVAL", "padding before")),
        ({"symbol_name": "odd", "offset": 8}, ("EILSEQ", "boundary")),
        ({"symbol_name": "odd", "offset": 9}, ("EINVAL", "int3")),
        ({"symbol_name": "vfs_read", "offset": 2}, ("EILSEQ", "boundary")),
    ],
)
def test_refusals(st, fields, answer):
    code, why = refusal(st, Kprobe(**fields))
    assert (code, answer[1] in why) == (answer[0], True)


def test_reserved_text(st, machine):
    start = addr(machine, "vfs_read") + 10
    machine.text.reserved.append((start, start + 5))
    for i in (10, 12, 14):
        code, why = refusal(st, Kprobe(symbol_name="vfs_read", offset=i))
        assert (code, why) == ("EINVAL", "text of a jump label or static call")
    register_kprobe(st, Kprobe(symbol_name="vfs_read", offset=9))
    register_kprobe(st, Kprobe(symbol_name="vfs_read", offset=15))


def test_bug_site(st, machine):
    machine.text.bugs.add(addr(machine, "vfs_read") + 9)
    assert refusal(st, Kprobe(symbol_name="vfs_read", offset=9)) == (
        "EINVAL",
        "the ud2 of a BUG or WARN",
    )


def test_own_code_of_kprobes(st, machine):
    register_kprobe(st, p := Kprobe(symbol_name="odd"))
    with pytest.raises(KernelError, match="EINVAL: in an instruction slot"):
        check_kprobe_address_safe(st, slot_of(p))


def test_registering_twice(st):
    register_kprobe(st, p := Kprobe(symbol_name="vfs_read", offset=6))
    with pytest.raises(KernelError, match="EINVAL"):  # symbol and address by now
        register_kprobe(st, p)
    p.symbol_name, p.offset = None, 0
    with pytest.raises(KernelError, match="EINVAL: is registered already"):
        register_kprobe(st, p)
    q = Kprobe(addr=p.addr)
    register_kprobe(st, q)
    with pytest.raises(KernelError, match="EINVAL: is registered already"):
        register_kprobe(st, p)
    assert [p for p, _ in show_entries(st)] == [q, p]


def test_address_stays_set_when_registering_fails_late(st, machine):
    p = Kprobe(symbol_name="odd", offset=8)
    refusal(st, p)
    assert p.addr == addr(machine, "odd") + 8
    assert refusal(st, p)[0] == "EINVAL"


@pytest.mark.parametrize("method", ["arch_prepare_kprobe", "arch_arm_kprobe"])
def test_failing_architecture_leaves_nothing(st, method):
    st.arch.fail[method] = errno.ENOMEM
    code, _ = refusal(st, Kprobe(symbol_name="odd", offset=1))
    assert code == "ENOMEM"
    assert not st.arch.sites


# ---- ftrace locations


def test_ftrace_location(st, machine):
    register_kprobe(st, p := Kprobe(symbol_name="vfs_read"))
    assert kprobe_ftrace(p)
    assert machine.read(p.addr, 5) == st.arch.ftrace.CALL
    assert st.arch.slots.nr_used == 0
    disable_kprobe(st, p)
    assert machine.read(p.addr, 5) == ENTRY_NOP


def test_ftrace_location_without_ftrace(machine):
    st = new_state(machine, kprobes_on_ftrace=False)
    register_kprobe(st, p := Kprobe(symbol_name="vfs_read"))
    assert not kprobe_ftrace(p)
    assert machine.patched() == [p.addr]


# ---- unregistering


def test_unregister_restores_everything(st, machine):
    ps = [Kprobe(symbol_name="vfs_read", offset=o) for o in (0, 6, 6, 7)]
    for p in ps:
        register_kprobe(st, p)
    unregister_kprobes(st, ps)
    assert machine.patched() == []
    assert not st.kprobe_table
    assert not st.arch.sites
    assert not st.arch.handlers
    assert st.arch.slots.nr_used == 0
    assert all(p.addr != 0 for p in ps)


def test_a_batch_is_synced_once_for_an_address(st, machine, monkeypatch):
    """One for each probe would take forever for ten thousand."""
    ps = [Kprobe(symbol_name="vfs_read", offset=6) for _ in range(100)]
    for p in ps:
        register_kprobe(st, p)
    synced, sync = [], st.arch.sync_site

    def sync_site(*args):
        synced.append(args)
        sync(*args)

    monkeypatch.setattr(st.arch, "sync_site", sync_site)
    unregister_kprobes(st, ps[:50])
    assert len(synced) <= 2
    assert [p for p, _ in show_entries(st)] == ps[:49:-1]
    unregister_kprobes(st, ps[50:])
    assert len(synced) <= 4
    assert machine.patched() == []
    assert not st.kprobe_table
    assert not st.registered


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_leaves_what_one_after_the_other_leaves(machine, seed):
    rng = random.Random(seed)
    places = [rng.choice((0, 6, 6, 7)) for _ in range(12)]
    off = [rng.random() < 0.3 for _ in places]
    post = [rng.random() < 0.3 for _ in places]
    order = rng.sample(range(12), rng.randrange(13))
    left = []
    for batch in (True, False):
        st = new_state(machine)
        ps = [
            Kprobe(symbol_name="vfs_read", offset=o, post_handler=print if q else None)
            for o, q in zip(places, post, strict=True)
        ]
        for p, disabled in zip(ps, off, strict=True):
            register_kprobe(st, p)
            if disabled:
                disable_kprobe(st, p)
        gone = [ps[i] for i in order]
        if batch:
            unregister_kprobes(st, gone)
        else:
            for p in gone:
                unregister_kprobe(st, p)
        left.append(
            (
                [(ps.index(p), p.flags, op.flags) for p, op in show_entries(st)],
                [(e.addr, bool(e.post_handler)) for e in st.table_entries()],
                machine.patched(),
            )
        )
        unregister_kprobes(st, ps)
        assert machine.patched() == []
    assert left[0] == left[1]


# ---- enabling and disabling


def test_switching_twice_changes_nothing(st, machine):
    register_kprobe(st, p := Kprobe(symbol_name="odd", offset=3))
    for _ in range(2):
        disable_kprobe(st, p)
        assert machine.patched() == []
    for _ in range(2):
        enable_kprobe(st, p)
        assert machine.patched() == [p.addr]
    assert [c for c, _ in st.arch.calls_made] == ["arm", "disarm", "arm"]


def test_failing_to_arm_keeps_it_disabled(st, machine):
    p = Kprobe(symbol_name="odd", offset=3, flags=KprobeFlag.DISABLED)
    register_kprobe(st, p)
    st.arch.fail["arch_arm_kprobe"] = errno.ENOMEM
    with pytest.raises(KernelError, match="ENOMEM"):
        enable_kprobe(st, p)
    assert kprobe_disabled(p)
    assert st.arch.sites[p.addr] == [(p, True)]


def test_failing_to_disarm_keeps_it_enabled(st, machine):
    register_kprobe(st, p := Kprobe(symbol_name="odd", offset=3))
    st.arch.fail["arch_disarm_kprobe"] = errno.EFAULT
    with pytest.raises(KernelError, match="EFAULT"):
        disable_kprobe(st, p)
    assert not kprobe_disabled(p)


# ---- modules


@pytest.fixture
def mod(machine):
    machine.add_function("init_module", module="dummy", init=True)
    machine.add_function("dummy_hello", module="dummy")
    machine.add_function("dummy_nokprobe", module="dummy")
    return [addr(machine, n) for n in ("init_module", "dummy_hello", "dummy_nokprobe")]


def test_init_text_goes_with_init(st, machine, mod):
    kprobes_module_callback(st, ModuleState.COMING, "dummy")
    ps = [Kprobe(addr=a + 6) for a in mod]
    for p in ps:
        register_kprobe(st, p)
    kprobes_module_callback(st, ModuleState.LIVE, "dummy")
    assert [kprobe_gone(p) for p in ps] == [True, False, False]
    with pytest.raises(KernelError, match="ENOENT: init text"):
        register_kprobe(st, Kprobe(addr=mod[0] + 7))
    assert st.arch.slots.nr_used == 2


def test_going_module(st, machine, mod):
    kprobes_module_callback(st, ModuleState.LIVE, "dummy")
    kernel = Kprobe(symbol_name="vfs_read", offset=6)
    ps = [Kprobe(addr=mod[1] + o) for o in (0, 6, 7, 7)]
    for p in [kernel, *ps]:
        register_kprobe(st, p)
    kprobes_module_callback(st, ModuleState.GOING, "dummy")
    assert [kprobe_gone(p) for p in [kernel, *ps]] == [False] + [True] * 4
    # breakpoints are left to be freed with the text; ftrace calls are taken out
    assert machine.read(mod[1], 5) == ENTRY_NOP
    assert st.arch.slots.nr_used == 1
    with pytest.raises(KernelError, match="ENOENT: module dummy is going away"):
        register_kprobe(st, Kprobe(addr=mod[1] + 8))

    machine.remove_symbols(mod)
    for p in ps:
        with pytest.raises(KernelError, match="EINVAL: its text is gone"):
            enable_kprobe(st, p)
        disable_kprobe(st, p)
    disarm_all_kprobes(st)
    arm_all_kprobes(st)
    assert [c for c in st.arch.calls_made if c[1] >= mod[0]][-1] == ("disarm", mod[1])
    unregister_kprobes(st, ps)
    assert [p for p, _ in show_entries(st)] == [kernel]
    assert set(st.arch.handlers) == {kernel.handler}


def test_new_probe_where_a_gone_one_stands(st, machine, mod):
    """The module is loaded again at the same address."""
    old = [Kprobe(addr=mod[1] + o) for o in (0, 6)]
    for p in old:
        register_kprobe(st, p)
    kprobes_module_callback(st, ModuleState.GOING, "dummy")
    code = machine.pristine[mod[1]]
    machine.write(mod[1], code)
    kprobes_module_callback(st, ModuleState.COMING, "dummy")
    new = [Kprobe(addr=mod[1] + o) for o in (0, 6)]
    for p in new:
        register_kprobe(st, p)
    assert machine.read(mod[1], 5) == st.arch.ftrace.CALL
    assert machine.read(mod[1] + 6, 1) == TRAP
    assert all(kprobe_gone(p) for p in old)
    assert not any(kprobe_gone(p) for p in new)
    assert st.arch.sites[mod[1] + 6] == [(new[1], False), (old[1], True)]
    unregister_kprobes(st, new + old)
    assert machine.patched() == []
    assert st.arch.slots.nr_used == 0
    assert not st.kprobe_table


def test_module_blacklist_comes_and_goes(st, machine, mod):
    machine.add_blacklist(machine.kallsyms.lookup_name("dummy_nokprobe")[0])
    kprobes_module_callback(st, ModuleState.COMING, "dummy")
    with pytest.raises(KernelError, match="blacklist"):
        check_kprobe_address_safe(st, mod[2])
    assert [e.name for e in st.kprobe_blacklist] == ["nokprobe", "dummy_nokprobe"]
    kprobes_module_callback(st, ModuleState.GOING, "dummy")
    assert [e.name for e in st.kprobe_blacklist] == ["nokprobe"]
