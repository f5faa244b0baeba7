# SPDX-License-Identifier: GPL-2.0-or-later
"""Probe points of a Linux kernel, judged by kpfs and by the kernel itself."""

import os
import random
import re

from kpfs.base.errors import KernelError
from kpfs.engine.arch.mips64.checks.verdicts import Mips64Judge
from kpfs.engine.register import kprobe_addr
from kpfs.explain.linux import UnprobedTables
from kpfs.explain.verdicts import errno_name, judge, judging_state

BATCH = 50
EVENTS = "/sys/kernel/tracing/kprobe_events"
ENABLE = "/sys/kernel/tracing/events/kprobes/enable"
ENABLE_ONE = "/sys/kernel/tracing/events/kprobes/e{}/enable"
LINE = re.compile(r"([0-9a-f]+)  k  \S+ +(?:\S+ +)?((?:\[\w+\])*)\n")


def explain(linux):
    """The tables of a kernel that runs, and a State to judge with."""
    image = UnprobedTables.of(linux)
    return image, judging_state(image, image.judge)


def choose(symbols, names, image, number, seed):
    """Addresses, each in another function; one in five is within an instruction."""
    chance = random.Random(seed)
    names = sorted(dict.fromkeys(names))
    found: dict[int, int] = {}
    while len(found) < number:
        symbol = chance.choice(symbols.lookup_name(chance.choice(names)))
        if not symbol.size or not image.is_text(symbol.addr):
            continue
        if chance.random() < 0.2:
            addr = symbol.addr + chance.randrange(symbol.size)
            # the kernel of mips64 takes any, and its text is spoiled then
            addr -= addr % 4 * isinstance(image.judge, Mips64Judge)
        else:
            rows = image.judge.listing(symbol.addr, symbol.size, hex)
            addr = chance.choice([row[0] for row in rows])
        found[symbol.addr] = addr
    return list(found.values())


def expected(st, arch, addr):
    """Errno or tag by our verdict, and the reason."""
    try:
        at, _ = kprobe_addr(st, addr, None, 0)
        verdict = judge(st, arch, at)
    except KernelError as refused:
        return errno_name(refused.errno), refused.why
    why = verdict.why or (verdict.jump.why_not if verdict.jump else "")
    return (verdict.name if verdict.errno else verdict.tag), why


def asked(shell, addrs):
    """Probe all of these addresses; return the kernel's errno or tag by address.

    One at an ftrace site is listed as such at once; the others are enabled for it.
    """
    found, made = {}, {}
    for number, addr in enumerate(addrs):
        done = shell.write(EVENTS, f"p:kprobes/e{number} {addr:#x}", os.O_APPEND)
        if done:
            found[addr] = errno_name(-done)
        else:
            made[addr] = number
    if made:
        tags = listed(shell)
        others = [addr for addr in made if "FTRACE" not in tags(addr)]
        for value in "1", "0":
            for addr in others:
                shell.echo(ENABLE_ONE.format(made[addr]), value)
            if value == "1":
                tags = listed(shell)
                found |= {addr: tags(addr) for addr in made}
        shell.echo(EVENTS, "")
    return found


def listed(shell):
    """Return a function that tells the tag of a probe, also behind a landing pad."""
    rows = LINE.findall(shell.read("/sys/kernel/debug/kprobes/list"))
    tags = {int(at, 16): tag.replace("[DISABLED]", "") for at, tag in rows}

    def tag(addr):
        return tags.get(addr, tags.get(addr + 4, "[not listed]")).strip("[]") or "none"

    return tag


def entries(symbols, image):
    """The addresses at which functions begin that are in memory."""
    rows = (addr for addr, kind, _ in symbols.rows() if kind in "tTwW")
    return list(dict.fromkeys(addr for addr in rows if image.is_text(addr)))


def differences(shell, image, st, addrs, seen):
    """Yield place, the kernel's verdict, ours and our reason where the two differ.

    seen: counts how often each verdict was ours.
    """
    size = getattr(image.judge, "most_jumps", 0) or BATCH
    for start in range(0, len(addrs), size):
        for addr, real in asked(shell, addrs[start : start + size]).items():
            ours, why = expected(st, image.judge, addr)
            seen[ours] = seen.get(ours, 0) + 1
            if ours != real:
                yield image.kallsyms.name_of(addr), real, ours, why
