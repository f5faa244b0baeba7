# SPDX-License-Identifier: GPL-2.0-or-later
"""Write lines into the files of tracefs that parse something.

A line that is refused must leave all as it was, but for error_log, and for a filter,
which then says what was wrong with it (as in Linux).  Only errnos may come out.
"""

from __future__ import annotations

import errno
import os
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.backends.guest.tree import build
from kpfs.backends.guest.vfs import Vfs
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from kpfs.engine.arch.x86.core import X86
from tests.harness import WrongError
from tests.there import shown

TRACING = "/tracing"
APPEND = os.O_WRONLY | os.O_APPEND
EVENTS_MAX = 24
OURS = ("kprobes", "g", "synthetic")  # groups of events that lines make
# Words, the good ones first: they are taken more often
PLACES = """vfs_read vfs_read+5 vfs_write vfs_write+5 ksys_read kfree do_sys_openat2
 vfs_read%return __x64_sys_getppid nomod:sym | nosuch vfs_read+1 vfs_read+0xffffffff
 do_int3 0xffffffff81000000 0 5 _sdata vfs_write+5%return name_show kfree+5""".split()
PLAIN = """%di %ax $stack $stack0 @vfs_read @0xffffffff81000000 \\1 \\-5 %ip
 | %zz $stack2049 $retval $comm $arg1 $arg9 @_sdata @nosuch @0 \\0x \\"text"
 \\99999999999999999999""".split()
TYPES = """u8 u16 u32 u64 s8 s16 s32 s64 x8 x16 x32 x64 symbol b4@2/8
 | string ustring symstr b1@63/64 b9@0/8 u8[3] u8[64] u8[65] string[2]
 x32[0] b2@1/16[2] char u16[""".split()
NAMES = "a b e e1 probe test g/e g/a | kprobes/a h-1/x 1a a-b".split()
FIELDS = (
    "common_pid common_type CPU __probe_ip | common_flags comm a b arg1 nosuch".split()
)
OPERATORS = "== != < <= > >= & | ~ = === && ||".split()
VALUES = """0 1 -1 0x10 010 | 99999999999 18446744073709551616 "cat" "c*" 'x' cat
 "unclosed 123abc""".split()
TRIGGERS = """traceon traceoff snapshot stacktrace enable_event:kprobes:a
 disable_event:kprobes:b | enable_event:nosuch:x enable_event:kprobes nosuch
 hist:keys=a""".split()
WORDS = """kprobes:a kprobes: kprobes:* *:a a b e g:e !kprobes:a !a sched:sched_switch
 | ! : :: *:* nosuch !nosuch:x sched: syscalls:sys_enter_read""".split()
FUNCTIONS = """vfs_read vfs_* *read vfs_*read !vfs_read !vfs_* kfree | ? * nosuch
 a*:mod:nomod *:mod:* vfs_read:traceoff vfs_read:traceon:3 vfs_[rw]* :mod:x""".split()
FIELD_TYPES = """u64 s32 char[16] char[] long[] gfp_t bool char[0x8] long unsigned
 | nosuch char[257] char[x] u64[2] unsigned int char[ char[4]x""".split()
FIELD_NAMES = "v a b comm v[4] x_1 | v-w 9v [3] ;".split()
ODD = "\0 \x01 \x7f \xff \x80 \t \r \v # ; : / * % $ @ + - ( ) [ ] { } \\ \" ' = , ~ !"
BENDING = 0.3  # share of the lines


def pick(rng: random.Random, words: list[str]) -> str:
    """Return one of the words, most often one of those before the bar."""
    good = words.index("|")
    return rng.choice(words[:good] if rng.random() < 0.8 else words[good + 1 :])


def _fetch(rng: random.Random, depth: int = 0) -> str:
    if depth < 4 and rng.random() < 0.4:
        offset = rng.choice(
            ("+0", "-8", "+u0", "+0x10", "-u4", "+99999999999", "+", "++1")
        )
        return f"{offset}({_fetch(rng, depth + 1)})"
    return pick(rng, PLAIN)


def probe(rng: random.Random) -> str:
    """Return a line for kprobe_events."""
    if rng.random() < 0.2:
        name = rng.choice((pick(rng, NAMES), "g/", "", "nosuch"))
        return f"-:{name}" + rng.choice(("", "", f" {pick(rng, PLACES)}"))
    head = rng.choice(("p", "p", "p", "p", "r", "r", "r5", "r0", "r4097", "p5", "x"))
    if rng.random() < 0.8:
        head += f":{pick(rng, NAMES)}"
    arguments = []
    for _ in range(
        rng.choice((0, 0, 1, 1, 2, 3, 140) if rng.random() < 0.1 else (0, 1, 2))
    ):
        name = pick(
            rng, ["", "", "a=", "b=", "|", "a-=", "common_pid=", "x" * 40 + "="]
        )
        kind = f":{pick(rng, TYPES)}" if rng.random() < 0.5 else ""
        arguments.append(name + _fetch(rng) + kind)
    return " ".join([head, pick(rng, PLACES), *arguments])


def synthetic(rng: random.Random) -> str:
    """Return a line for synthetic_events."""
    name = pick(rng, NAMES)
    if rng.random() < 0.2:
        return f"!{name}"
    fields = [
        f"{pick(rng, FIELD_TYPES)} {pick(rng, FIELD_NAMES)}"
        for _ in range(rng.choice((1, 1, 2, 3, 70) if rng.random() < 0.1 else (1, 2)))
    ]
    return f"{name} {rng.choice(('; ', ';', ' ')).join(fields)}"


def dynamic(rng: random.Random) -> str:
    """Return a line for dynamic_events."""
    if rng.random() < 0.5:
        return probe(rng)
    line = synthetic(rng)
    if line.startswith("!"):
        return f"-:{rng.choice(('', 'synthetic/'))}{line[1:]}"
    return f"{rng.choice(('s:', 's:', 's:synthetic/', 's:g/', 's', ''))}{line}"


def condition(rng: random.Random, depth: int = 0) -> str:
    """Return a line for a filter."""
    if depth < 3 and rng.random() < 0.4:
        left, right = condition(rng, depth + 1), condition(rng, depth + 1)
        text = f"{left} {rng.choice(('&&', '||'))} {right}"
        return rng.choice((text, f"({text})", f"!({text})"))
    if rng.random() < 0.05:
        return "0"
    return f"{pick(rng, FIELDS)} {pick(rng, OPERATORS)} {pick(rng, VALUES)}"


def trigger(rng: random.Random) -> str:
    text = rng.choice(("", "", "", "!")) + pick(rng, TRIGGERS)
    text += rng.choice(("", "", ":1", ":0", ":-1", ":x", ":", ":99999999999999999999"))
    if rng.random() < 0.3:
        text += f" if {condition(rng)}"
    return text


def event_word(rng: random.Random) -> str:
    return " ".join(pick(rng, WORDS) for _ in range(rng.choice((1, 1, 2))))


def function_word(rng: random.Random) -> str:
    return " ".join(pick(rng, FUNCTIONS) for _ in range(rng.choice((1, 1, 2))))


def bent(rng: random.Random, line: str) -> str:
    """Return the line with something in it changed."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(line) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            line = line[:at] + rng.choice(ODD.split(" ")) + line[at:]
        elif kind == 1:
            line = line[:at] + line[at + 1 :]
        elif kind == 2:
            line = line[:at] + chr(rng.randrange(256)) + line[at + 1 :]
        elif kind == 3:
            line = line[:at]
        else:
            line = line[:at] + line[at : at + 20] * rng.choice((2, 10, 300)) + line[at:]
    return line


KINDS: Mapping[str, Callable[[random.Random], str]] = {
    "kprobe_events": probe,
    "synthetic_events": synthetic,
    "dynamic_events": dynamic,
    "filter": condition,
    "trigger": trigger,
    "set_event": event_word,
    "set_ftrace_filter": function_word,
}


class Lines:
    """Writes random lines. A subclass says where to, and checks their effect."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.kinds = list(KINDS)  # kinds of lines
        self.tally: dict[str, int] = {}

    def events(self) -> list[tuple[str, str]]:
        """(group, name) of all that may be written to."""
        raise NotImplementedError

    def write(self, path: str, data: bytes) -> int | None:
        """Write; return the errno of a refusal. WrongError: it changed something."""
        raise NotImplementedError

    def target(self, kind: str) -> str:
        """Return the file for a line of that kind; "" if there is none now."""
        if kind not in ("filter", "trigger"):
            return f"{TRACING}/{kind}"
        groups = OURS if self.rng.random() < 0.8 else ("sched",)
        events = [event for event in self.events() if event[0] in groups]
        if not events:
            return ""
        group, name = self.rng.choice(events)
        return f"{TRACING}/events/{group}/{name}/{kind}"

    def one(self) -> None:
        rng = self.rng
        kind = rng.choice(self.kinds)
        path = self.target(kind)
        line = KINDS[kind](rng)
        if not path:
            return
        if rng.random() < BENDING:
            line = bent(rng, line)
        data = line.encode("latin-1") + rng.choice((b"\n", b"\n", b""))
        try:
            number = self.write(path, data)
        except Exception as error:
            error.add_note(f"{data!r} into {path}") if hasattr(
                error, "add_note"
            ) else None
            raise
        word = errno.errorcode[number] if number else "ok"
        self.tally[f"{kind} {word}"] = self.tally.get(f"{kind} {word}", 0) + 1


class Fuzzer(Lines):
    """One kernel, written to through its files, though without a mount."""

    def __init__(self, kernel: GuestKernel, seed: int) -> None:
        super().__init__(seed)
        self.kernel = kernel
        self.vfs = Vfs(kernel, build(kernel))
        self.me = Caller(os.getpid(), 0, 0)

    def snapshot(self) -> dict[str, Any]:
        """Return all state that a line could change."""
        trace, arch = self.kernel.trace, self.kernel.state.arch
        assert isinstance(arch, X86)
        files = {
            f"{file.event.group}:{file.event.name}": (
                file.filter_text(),
                # a hit counts down, and may flip what is on softly
                re.sub(r"count=\d+", "count", trace.triggers.text(file)),
                (file.enabled, file.sm_ref, file.triggers != 0),
                file.event.refcnt,
            )
            for array in trace.arrays()
            for file in array.array_events.files()
            if file.filter or file.triggers or file.enabled or file.sm_ref
        }
        return {
            "events": trace.dyn_events.show(),
            "names": [(e.group, e.name, e.id) for e in trace.events],
            "files": files,
            "probes": shown(self.vfs.root, "/kprobes/list"),
            "filter": trace.function.filter,
            "handlers": len(arch.handlers),
        }

    def write(self, path: str, data: bytes) -> int | None:
        """Write to an open file until all is taken; the errno of what was refused.

        Raises WrongError if that changed anything.
        """
        opened = self.vfs.open(self.me, path, APPEND)
        try:
            while data:
                before = self.snapshot()
                chosen = set(getattr(opened.handle, "chosen", ()))
                try:
                    taken = self.vfs.write(self.me, opened, data, 0)
                except KernelError as error:
                    self.compare(path, error.errno, before)
                    if chosen != set(getattr(opened.handle, "chosen", ())):
                        raise WrongError("the functions that were chosen") from error
                    return error.errno
                if not 0 < taken <= len(data):
                    raise WrongError(f"{taken} bytes taken of {len(data)}")
                data = data[taken:]
        finally:
            self.vfs.release(opened)
        return None

    def compare(self, path: str, number: int, before: dict[str, Any]) -> None:
        after = self.snapshot()
        if path.endswith("filter") and "/events/" in path:
            # Linux: the filter goes, and its file says what was wrong
            group, name = path.split("/")[-3:-1]
            for snapshot in (before, after):
                snapshot["files"].pop(f"{group}:{name}", None)
        if path.endswith(("kprobe_events", "dynamic_events")) and number == errno.EBUSY:
            # Linux: of several events of a name those before the busy one have gone
            return
        for key, old in before.items():
            new = after[key]
            if old == new:
                continue
            if key == "files":
                keys = {k for k in (*old, *new) if old.get(k) != new.get(k)}
                old, new = [{k: d.get(k) for k in keys} for d in (old, new)]
            raise WrongError(f"{key}: {old!r:.1000} -> {new!r:.1000}")

    def events(self) -> list[tuple[str, str]]:
        return [(event.group, event.name) for event in self.kernel.trace.events]

    def clear(self) -> None:
        """Take away all that the lines have made."""
        trace = self.kernel.trace
        with self.kernel.lock:
            for array in trace.arrays():
                for file in array.array_events.files():
                    trace.triggers.clear(file)
                    file.set_filter(None)
            trace.array_events.set_event_clear()
            trace.dyn_events.release_all()
            trace.function.filter = set()
            trace.function.update()
            trace.ring.on = True

    def run(self, lines: int) -> dict[str, int]:
        for _ in range(lines):
            self.one()
            if len(self.kernel.trace.dyn_events.of()) > EVENTS_MAX:
                self.clear()
        self.clear()
        left = self.snapshot()
        if left["events"] or left["probes"] or left["handlers"] or left["files"]:
            raise WrongError(f"left behind: {left}")
        return self.tally
