# SPDX-License-Identifier: GPL-2.0-or-later
"""machine/probes: what stands behind each probe.

This also tests kpfs.backends.guest.machine_info.
"""

from kpfs.base import abi
from kpfs.engine.state import get_kprobe
from tests.there import there

DEFINITIONS = (
    "p:entry vfs_read\np:jump vfs_read+5\nr:back vfs_write\np:off vfs_open+5\n"
)
# no row but the first begins with a word that is no address
HEAD = "address type place owner state boostable slot detour hits nmissed"


def rows(box):
    head, *lines = box.read("/machine/probes").splitlines()
    assert " ".join(head.split()) == HEAD
    named = HEAD.split()
    found = [dict(zip(named, line.split(), strict=True)) for line in lines]
    return {row["place"]: row for row in found}


def test_each_kind(box):
    assert rows(box) == {}
    box.write("/tracing/kprobe_events", DEFINITIONS)
    for name in ("entry", "jump", "back"):
        box.write(f"/tracing/events/kprobes/{name}/enable", "1\n")
    box.insmod("kprobe_example", "symbol=ksys_read", "offset=5")
    box.settle(12)
    box.read("/kallsyms")
    found = rows(box)
    list_ = [line.split() for line in box.read("/kprobes/list").splitlines()]
    assert [(r["address"], r["type"], r["place"]) for r in found.values()] == [
        tuple(words[:3]) for words in list_
    ]
    entry, jump = found["vfs_read+0x0"], found["vfs_read+0x5"]
    assert {entry[c] for c in ("boostable", "slot", "detour")} == {"-"}
    assert (entry["owner"], jump["owner"]) == ("kprobes/entry", "kprobes/jump")
    assert int(entry["hits"]) >= int(jump["hits"]) - 1 > 0
    assert jump["boostable"] == "1"
    text = box.read("/machine/text/vfs_read")
    assert f"jmp 0x{jump['detour']}" in text
    module = found["ksys_read+0x5"]
    # its post_handler has the copy stepped, though it could be boosted
    assert (module["owner"], module["boostable"]) == ("kprobe_example", "0")
    assert found["vfs_open+0x5"]["hits"] == "0"
    assert found["vfs_write+0x0"]["type"] == "r"


def test_states_of_the_paper(box):
    box.write("/tracing/kprobe_events", "p:a vfs_read+5\np:b vfs_write+5\n")
    addr = box.address("vfs_read") + 5, box.address("vfs_write") + 5
    a, b = (there(there(get_kprobe(box.kernel.state, at)).site) for at in addr)
    cpu = box.kernel.state.arch.runtime.cpus[1]
    for status, name in (
        (abi.KP_HIT_ACTIVE, "HIT_ACTIVE"),
        (abi.KP_HIT_SS, "HIT_SS"),
        (abi.KP_HIT_SSDONE, "HIT_SSDONE"),
    ):
        cpu.current_kprobe, cpu.status = a, status
        found = rows(box)
        states = found["vfs_read+0x5"]["state"], found["vfs_write+0x5"]["state"]
        assert states == (f"-,{name}", "-,-")
    # b is hit in the handler of a
    cpu.prev_kprobe, cpu.prev_status = a, abi.KP_HIT_ACTIVE
    cpu.current_kprobe, cpu.status = b, abi.KP_REENTER
    found = rows(box)
    states = found["vfs_read+0x5"]["state"], found["vfs_write+0x5"]["state"]
    assert states == ("-,HIT_ACTIVE", "-,REENTER")
    cpu.current_kprobe = cpu.status = 0
