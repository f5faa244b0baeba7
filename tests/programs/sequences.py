# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes random sequences of what is done to probes, as shell scripts for any kernel.

A script runs GROUPS sequences side by side, as most of its time goes to waits for the
optimizer.  Each has a group of functions of the module tests/modules/sequence.c for
itself; the two switches of all probes are theirs together.  A step does something to
each group, waits until the optimizer has come to a probe that is made last, calls all
functions, and prints what there is to see.  So nothing of it depends on how fast a
kernel is:

- *fast* steps are of calls that do not wait.  First there is one for each group, then a
  few groups have several at once, each in a write of its own: the optimizer begins
  20 ms behind the first call.  If a kernel takes nearly as long, it says so, and the
  group is not compared until it begins anew: in each step one group does.
- *slow* steps are of one call for a group: Linux waits in them, and how much of the
  optimizer's work is done before the next call is a matter of time.
"""

from __future__ import annotations

import difflib
import itertools
import random
import re

GROUPS = 20  # as in the module
AT_ONCE = 3  # groups that have several calls at once
SETTLE = "settle"
LATE = re.compile("^q([0-9]+),0=1$", re.MULTILINE)
ANEW = re.compile("^z([0-9]+),0=0$", re.MULTILINE)
# lines about a group: words, counts and text, kprobes/list, and those about events
ABOUT = re.compile(r"(?:^[a-zA-Z]|^g|plain|odd|traced|\be)([0-9]+)(?:[, +_]|$)")
KPROBES, PROBES = 4, 6  # in a group of the module; the others are return probes
EVENTS = 3  # events of a group
# where instructions begin, in the order of functions in the module
PLACES = {
    "p": (0, 1, 2, 4, 7, 8, 9, 10, 11, 12, 15, 16, 17, 18, 19, 20, 21, 22),
    "o": (0, 1, 3, 7, 9, 11, 13, 15, 16, 17, 19, 21, 22),
    "t": (0, 5, 6, 7, 9, 12, 13, 15, 16, 17, 18, 19, 20, 21, 22),
}
SYMBOLS = {"p": "plain", "o": "odd", "t": "traced"}
DISABLED, NO_PRE, POST = 1, 2, 4  # how a probe is to be

LISTED = re.compile("[0-9a-f]{16}  [kr]  ")
CHANGED = re.compile("g[0-9]+( [pot][0-9]+:[0-9a-f]{2})+")
PLACE = re.compile(r"(plain|odd|traced)(\d+)\+0x([0-9a-f]+)")
PATCHES = ("cc", "e9", "e8")  # how they begin: int3, jmp, call

HEAD = """\
exec 2>&1
M=/sys/module/sequence/parameters
T=/sys/kernel/tracing
D=/sys/kernel/debug/kprobes
S=/proc/sys/debug/kprobes-optimization
insmod $KO
say() { echo "$@" >$M/do; cat $M/do; }
put() {
    if error=$({ echo "$1" >>$2; } 2>&1); then error=; fi
    echo $3 "$1" ${error##*: }
}
on() {
    enable=$T/events/seq/$1/enable
    if [ -e $enable ]; then put $2 $enable $1; else echo $1 none; fi
}
last() {
    echo $1 >$M/last
    until read -r jump <$M/last; [ $jump = $1 ]; do sleep 0.01; done
}
settle() {
    read -r all <$D/enabled
    read -r jumps <$S
    [ $all$jumps = 11 ] || return  # there are no jumps
    last 1
    last 0
    echo - >$M/last
}
end() {
    settle
    [ -z "$1" ] || say $1
    cat $M/counts $M/text $D/enabled $S $D/list
    sed 's/^/profile /' $T/kprobe_profile
}
"""
TAIL = """\
echo >$T/events/seq/enable 0
echo >$T/kprobe_events
echo 1 >$D/enabled
echo 1 >$S
rmmod sequence
"""


class Sequence:
    """Draws what happens to one group, from a little knowledge of its state."""

    def __init__(self, rng: random.Random, group: int) -> None:
        self.rng = rng
        self.group = group
        self.probes: set[int] = set()  # that are registered, or should be
        self.events: set[int] = set()
        # a few places, so that probes meet
        self.places = [
            ("o", rng.choice(PLACES["o"])),
            ("o", 0),
            ("t", 0),
            (rng.choice("pot"), rng.randrange(24)),
        ]
        for function in "pt":
            first = rng.randrange(len(PLACES[function]) - 3)
            near = PLACES[function][first : first + 3]
            self.places += ((function, offset) for offset in (near[0], *near))

    def place(self) -> tuple[str, int]:
        return self.rng.choice(self.places)

    def word(self, what: str, which: object, *more: object) -> str:
        return ",".join(map(str, (f"{what}{self.group}", which, *more)))

    def _prepare(self, i: int) -> str:
        function, offset = self.place()
        how = self.rng.choice((0, 0, 0, DISABLED, NO_PRE, POST, POST | DISABLED))
        if i >= KPROBES and self.rng.random() < 0.8:
            offset = 0
        if (function, offset) == ("t", 0) or i >= KPROBES:
            # Linux 6.1 calls what it has freed where one with a post_handler joins
            # one without at a place of ftrace, and both go
            how &= ~POST
        return self.word("p", i, function, offset, how)

    def _one_of(self, known: set[int], count: int) -> int:
        """Mostly one of those that are there, sometimes any."""
        if known and self.rng.random() < 0.9:
            return self.rng.choice(sorted(known))
        return self.rng.randrange(count)

    def add(self) -> list[str]:
        free = sorted(set(range(PROBES)) - self.probes) or range(PROBES)
        i = self.rng.choice(free)
        self.probes.add(i)
        return [self._prepare(i), self.word("r", i)]

    def add_several(self) -> list[str]:
        some = [self.rng.randrange(KPROBES) for _ in range(self.rng.randrange(1, 4))]
        self.probes.update(some)
        prepared = [self._prepare(i) for i in dict.fromkeys(some)]
        return [*prepared, self.word("R", "".join(map(str, some)))]

    def switch(self) -> list[str]:
        return [self.word(self.rng.choice("de"), self._one_of(self.probes, PROBES))]

    def toggle(self) -> list[str]:
        i = self._one_of(self.probes, PROBES)
        words = self.rng.choice(("de", "ded", "ed", "ede"))
        return [self.word(what, i) for what in words]

    def hit(self) -> list[str]:
        return [self.word("h", self.rng.randrange(1, 4))]

    def fast(self) -> list[str]:
        return self.rng.choices((self.add, self.switch, self.hit), (4, 4, 1))[0]()

    def at_once(self) -> list[str]:
        kinds = self.rng.choices((self.add, self.toggle, self.hit), (2, 3, 1), k=2)
        words = [word for kind in kinds for word in kind()]
        return [*words, self.word("q", 0)]

    def slow(self) -> str:
        """Return a line of the script."""
        kind = self.rng.choices(("u", "U", "R", "event", "on"), (4, 1, 1, 3, 4))[0]
        if kind == "u":
            i = self._one_of(self.probes, PROBES)
            self.probes.discard(i)
            return f"say {self.word('u', i)}"
        if kind == "U":
            some = [self._one_of(self.probes, KPROBES) for _ in range(2)]
            some = [i for i in some if i < KPROBES] or [0]
            self.probes.difference_update(some)
            return f"say {self.word('U', ''.join(map(str, some)))}"
        if kind == "R":
            return "say " + " ".join(self.add_several())
        if kind == "on":
            name = self.name(self._one_of(self.events, EVENTS))
            return f"on {name} {self.rng.randrange(2)}"
        return f"put '{self._event()}' $T/kprobe_events"

    def name(self, i: int) -> str:
        return f"e{self.group}_{i}"

    def anew(self) -> list[str]:
        """Return lines of the script after which nothing is there."""
        self.probes.clear()
        self.events.clear()
        lines = [f"say {self.word('z', 0)}"]
        for i in range(EVENTS):
            lines += (
                f"on {self.name(i)} 0",
                f"put -:seq/{self.name(i)} $T/kprobe_events",
            )
        return lines

    def _event(self) -> str:
        free = sorted(set(range(EVENTS)) - self.events)
        if not free or (self.events and self.rng.random() < 0.3):
            i = self._one_of(self.events, EVENTS)
            if self.rng.random() < 0.9:
                self.events.discard(i)
            return f"-:seq/{self.name(i)}"
        i = self.rng.choice(free)
        self.events.add(i)
        traced = [place for place in self.places if place[0] == "t"]
        function, offset = self.rng.choice(traced)
        if self.rng.random() < 0.1:
            function, offset = self.place()
        kind = self.rng.choice("pppr")
        symbol = f"sequence:{SYMBOLS[function]}{self.group}"
        if kind == "p" or self.rng.random() < 0.1:
            symbol += f"+{offset}"
        return f"{kind}:seq/{self.name(i)} {symbol}"


def script(seed: int, steps: int) -> str:
    """Return sequences of so many steps, as a script that wants KO: the module."""
    rng = random.Random(seed)
    sequences = [Sequence(rng, g) for g in range(GROUPS)]
    hits = " ".join(f"h{g},1" for g in range(GROUPS))
    lines = [HEAD]
    for step in range(steps):
        kind = rng.choices(("fast", "slow", "all"), (9, 8, 2))[0]
        lines.append(f"echo @ {step} {kind}")
        if kind == "fast":
            words = [word for one in sequences for word in one.fast()]
            lines += (f"say {' '.join(words)}", SETTLE)
            for one in rng.sample(sequences, AT_ONCE):
                lines += (f"say {' '.join(one.at_once())}", SETTLE)
        elif kind == "slow":
            lines += [one.slow() for one in sequences]
        else:
            lines.append(f"put {rng.randrange(2)} {rng.choice(('$D/enabled', '$S'))}")
        lines += sequences[step % GROUPS].anew()
        lines.append(f"end '{hits}'")
    return "\n".join((*lines, TAIL))


def without_targets(line: str, listed: list[str]) -> str:
    """Return a line of changed bytes without those that say where a jump leads.

    Behind an int3 they may be what is left of one.  listed: kprobes/list.
    """
    group, *changed = line.split()
    known = set()
    for name, number, offset in PLACE.findall("\n".join(listed)):
        if f"g{number}" == group:
            known.add((name[0], int(offset, 16)))
    bytes_ = {}
    for word in changed:
        at, byte = word[1:].split(":")
        bytes_[word[0], int(at)] = byte
    words, passed = [group], set[tuple[str, int]]()
    for place, byte in bytes_.items():
        if place in passed:
            continue
        behind = [(place[0], place[1] + i) for i in range(1, 5)]
        others = itertools.takewhile(
            lambda at: at not in known or bytes_.get(at) not in PATCHES, behind
        )
        if byte != "cc" or any(at in bytes_ and at not in known for at in others):
            passed.update(behind)
            byte += "+"
        words.append(f"{place[0]}{place[1]}:{byte}")
    return " ".join(words)


def comparable(said: str) -> str:
    """Return what a script has printed, as it is everywhere.

    Addresses go, and with them the order of kprobes/list, which is that of a hash; at
    one address it is by age.
    """
    steps: list[str] = []
    for step in re.split("^@ ", said, flags=re.MULTILINE)[1:]:
        title, *lines = step.splitlines()
        listed = [line.split(maxsplit=1)[1] for line in lines if LISTED.match(line)]
        listed.sort(key=lambda line: line.split()[1])
        others = []
        for line in lines:
            if CHANGED.fullmatch(line):
                others.append(without_targets(line, listed))
            elif not LISTED.match(line):
                others.append(line)
        steps += (f"@ {title}", *others, *listed)
    return "\n".join((*steps, ""))


def differences(right: str, found: str) -> list[str]:
    """Return a text for each step that differs, of two texts that are comparable.

    A group is not compared from where a kernel was late with it to where it begins
    anew.
    """
    late = set[str]()

    def timely(step: str) -> list[str]:
        lines = []
        for line in step.splitlines():
            about = ABOUT.search(line)
            if not about or about[1] not in late:
                lines.append(line)
        return lines

    texts = []
    steps = [re.split("^@ ", text, flags=re.MULTILINE)[1:] for text in (right, found)]
    for here, there in itertools.zip_longest(*steps, fillvalue=""):
        late.update(LATE.findall(here + there))
        if here != there:
            lines = timely(here), timely(there)
            diff = list(difflib.unified_diff(*lines, n=0, lineterm=""))
            if diff:
                texts.append(
                    "\n".join((f"step {here.partition(chr(10))[0]}", *diff[2:]))
                )
        late.difference_update(ANEW.findall(here))
    return texts
