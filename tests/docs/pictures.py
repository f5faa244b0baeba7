# SPDX-License-Identifier: GPL-2.0-or-later
"""Make the pictures of docs/ from a live machine, and the page of differences.

``python -m tests.docs.pictures`` makes all of them anew.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import os
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import kpfs
from bench import promises
from kpfs.commands.run import GREETING
from kpfs.guest.images import RELEASE
from kpfs.manual import calls, differs
from kpfs.record.writers import Recording, write_chrome
from kpfs.top.samples import HISTORY, Rate, Sampler, TopProbe
from kpfs.top.screen import Screen
from tests import browser, harness
from tests.docs import transcript

DOCS = harness.ROOT / "docs"
FONT = "font-family='DejaVu Sans Mono, Menlo, Consolas, monospace'"
CHAR, LINE = 7.25, 18  # size of a character of 12 px
PAPER, INK, PALE, MARK = "#ffffff", "#1f2328", "#59636e", "#fff3b0"
NIGHT, SNOW, GREEN = "#0d1117", "#e6edf3", "#7ee787"
EVENTS = "tracing/kprobe_events"
SWITCH = "tracing/events/kprobes/i/enable"
OPTIMIZE = "sys/debug/kprobes-optimization"
ALL = "kprobes/enabled"
SECONDS_A_LINE = 0.45
SECONDS_AT_FIRST = 3.0  # all of a session is there, before its lines come one by one
SLICES = "#1a7f37", "#0969da", "#8250df", "#bc4c00", "#57606a"  # colours by name
TRACED = (
    *("do_sys_openat2", "do_filp_open", "path_openat", "do_open", "vfs_open"),
    *("do_dentry_open", "fd_install"),
)
TOP_SIZE = 130, 19  # characters
NO_BREAK = "\N{NO-BREAK SPACE}"

SESSION = """
```console
$ kpfs run
# cd /sys/kernel/tracing
# echo 'p:opened do_sys_openat2 file=+0(%si):ustring' > kprobe_events
# echo 1 > events/kprobes/opened/enable
# cat /etc/os-release > /dev/null
# grep os-release trace
# head -n 2 $KPFS/machine/text/do_sys_openat2
# exit
```
"""


class State(NamedTuple):
    """The text of a function, and what has led to it."""

    action: str  # what was done just before
    tags: str  # tags in kprobes/list
    lines: tuple[str, ...]  # lines of the text


def states() -> Iterator[State]:
    """A probe inside a function, from its definition to its end, on a live machine.

    The last state is that of a probe at the function's entry.
    """
    with kpfs.Kernel(cpus=1) as k:

        def now(action: str, offset: str = "+0x5") -> State:
            listed = k.read("kprobes/list").split(offset, 1)
            tags = listed[1].split() if len(listed) > 1 else ["no probe"]
            lines = k.disassemble("vfs_read").splitlines()[1:4]
            return State(action, " ".join(tags) or "no tag", tuple(lines))

        yield now("before")
        k.write(EVENTS, "p:i vfs_read+5")
        yield now("echo 'p:i vfs_read+5' > kprobe_events")
        k.write(SWITCH, "1")
        yield now("echo 1 > events/kprobes/i/enable")
        k.clock.advance(0.5)
        yield now("half a second later")
        k.write(OPTIMIZE, "0")
        yield now("echo 0 > /proc/sys/debug/kprobes-optimization")
        k.write(OPTIMIZE, "1")
        k.clock.advance(0.5)
        k.write(ALL, "0")
        yield now("echo 0 > /sys/kernel/debug/kprobes/enabled")
        k.write(ALL, "1")
        k.write(SWITCH, "0")
        k.write(EVENTS, "p:i vfs_read")
        k.write(SWITCH, "1")
        yield now("a probe at the entry", "+0x0")


class Drawing:
    """An SVG that grows downwards."""

    def __init__(self, width: int, background: str) -> None:
        self.width = width
        self.background = background
        self.height = 0.0
        self.parts: list[str] = []

    def text(
        self, x: float, y: float, words: str, colour: str = INK, more: str = ""
    ) -> None:
        self.height = max(self.height, y)
        x += CHAR * (len(words) - len(words.lstrip(" ")))
        words = escape(words.strip()).replace(" ", NO_BREAK)  # else several become one
        self.parts.append(
            f"<text x='{x:g}' y='{y:g}' fill='{colour}' {more}>{words}</text>"
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        rounded: int = 3,
        more: str = "",
    ) -> None:
        self.height = max(self.height, y + height)
        self.parts.append(
            f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' "
            f"rx='{rounded}' fill='{fill}'{more}/>"
        )

    def arrow(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.parts.append(
            f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='{PALE}' "
            "stroke-width='1.5' marker-end='url(#head)'/>"
        )

    def svg(self) -> str:
        height = self.height + 14
        head = (
            f"<svg xmlns='http://www.w3.org/2000/svg' width='{self.width}' "
            f"height='{height:g}' viewBox='0 0 {self.width} {height:g}' {FONT} "
            "font-size='12'>"
            "<!-- SPDX-License-Identifier: GPL-2.0-or-later -->"
            "<defs><marker id='head' markerWidth='8' markerHeight='8' refX='7' "
            f"refY='4' orient='auto'><path d='M0,0 L8,4 L0,8 z' fill='{PALE}'/>"
            "</marker></defs>"
            f"<rect width='100%' height='100%' fill='{self.background}'/>"
        )
        return "\n".join((head, *self.parts, "</svg>\n"))


def text_picture(seen: Sequence[State]) -> str:
    """The text of a function at each step, with what is not as it was marked."""
    drawing = Drawing(860, PAPER)
    before = {line[:60].rstrip() for line in seen[0].lines}
    y = 24.0
    for state in seen:
        drawing.text(14, y, state.action, more="font-weight='bold'")
        tags = f"kprobes/list: {state.tags}"
        drawing.text(846, y, tags, PALE, "text-anchor='end'")
        y += LINE
        for line in state.lines:
            if line.rstrip() not in before and "#" in line:
                drawing.box(14, y - 13, 832, LINE - 1, MARK)
            drawing.text(14, y, line[:112])
            y += LINE
        y += LINE * 0.7
    return drawing.svg()


def states_picture(seen: Sequence[State]) -> str:
    """The states of a probe, each with the bytes that stood there.

    The page of kpfs web lights one of the boxes, by its id.
    """
    _, registered, waiting, jump, stopped, disarmed, call = seen
    drawing = Drawing(860, PAPER)
    boxes = (
        (20, 30, "disabled", "registered, not armed", registered),
        (320, 30, "queued", "breakpoint, to be a jump", waiting),
        (590, 30, "ftrace", "ftrace's call, at the entry", call),
        (590, 190, "jump", "jump to the detour buffer", jump),
        (320, 190, "breakpoint", "breakpoint, not optimised", stopped),
        (20, 190, "disarmed", "disarmed by the switch", disarmed),
    )
    for x, y, name, title, state in boxes:
        drawing.box(x, y, 250, 78, "#eef4ff", more=f" id='state-{name}'")
        drawing.text(x + 10, y + 20, title, more="font-weight='bold'")
        drawing.text(x + 10, y + 42, _patched(state), more="font-size='11'")
        drawing.text(x + 10, y + 62, state.tags, PALE, "font-size='11'")
    for x1, y1, x2, y2, words, at in (
        (270, 62, 318, 62, "enable", (274, 54)),
        (520, 108, 660, 188, "0.2 s later, if it can be a jump", (604, 140)),
        (590, 240, 572, 240, "", (0, 0)),
        (445, 190, 445, 110, "optimise again", (452, 150)),
        (320, 190, 210, 110, "disable", (180, 150)),
        (590, 262, 272, 262, "", (0, 0)),
    ):
        drawing.arrow(x1, y1, x2, y2)
        drawing.text(*at, words, PALE, "font-size='11'")
    drawing.text(20, 296, "leftwards: 0 > kprobes-optimization makes a breakpoint of a")
    drawing.text(20, 314, "jump; 0 > enabled takes every probe out of the text at once")
    return drawing.svg()


def _patched(state: State) -> str:
    """The bytes and words of the probed instruction."""
    at = "0" if state.tags == "[FTRACE]" else "5"
    line = next(line for line in state.lines if line.split()[0].endswith(at))
    return " ".join(line.split("#")[0].split()[1:])[:34]


def session_picture() -> str:
    """A session at a terminal, whose lines appear one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = transcript.play(SESSION, Path(folder))
    lines: list[tuple[str, str]] = []
    for step, output in zip(transcript.all_steps(SESSION), outputs, strict=True):
        lines.append((f"{step.prompt} {step.words}", GREEN))
        lines += [(line, SNOW) for line in output.splitlines()]
        if step.words == transcript.RUN:
            greeting = f"kpfs: {GREETING.format(release=RELEASE)}"
            lines += [(line, SNOW) for line in textwrap.wrap(greeting, 110)]
    drawing = Drawing(860, NIGHT)
    whole = SECONDS_AT_FIRST + SECONDS_A_LINE * len(lines)
    styles = [f"text{{animation:{whole:g}s step-end}}"]
    for number, (line, colour) in enumerate(lines):
        hidden, shown = (
            100 * (SECONDS_AT_FIRST + SECONDS_A_LINE * n) / whole for n in (0, number)
        )
        drawing.text(14, 28 + LINE * number, line[:114], colour, f"class='l{number}'")
        styles.append(
            f"@keyframes l{number}{{0%{{opacity:1}}{hidden:.2f}%{{opacity:0}}"
            f"{shown:.2f}%{{opacity:1}}}}.l{number}{{animation-name:l{number}}}"
        )
    drawing.parts.append(f"<style>{''.join(styles)}</style>")
    return drawing.svg()


def recording() -> Recording:
    """Return the trace of a task of a live machine that opens a new file."""
    pairs = (f"p:{function} {function}\nr {function}" for function in TRACED)
    with kpfs.Kernel(cpus=1) as k:
        k.write(EVENTS, "\n".join(pairs))
        for group in ("kprobes", "syscalls"):
            k.write(f"tracing/events/{group}/enable", "1")
        task = k.task(pid=4242, comm="reader")
        task.syscall("openat", -100, "/tmp/notes", os.O_RDWR | os.O_CREAT)
        return Recording(records=[r for r in k.trace() if r.pid == task.pid])


def trace_picture() -> str:
    """The slices of a task, as Perfetto shows them, out of the file that it opens."""
    file = io.BytesIO()
    write_chrome(recording(), file)
    events: list[dict[str, Any]] = json.loads(file.getvalue())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    first = min(event["ts"] for event in slices)
    scale = 800 / (max(event["ts"] + event["dur"] for event in slices) - first)
    drawing = Drawing(860, PAPER)
    task = next(event for event in events if event["name"] == "thread_name")
    drawing.text(
        14, 24, f"{task['args']['name']} {task['tid']}", more="font-weight='bold'"
    )
    names = list(dict.fromkeys(event["name"] for event in slices))
    open_: list[float] = []  # the ends of the slices around this one
    for event in slices:
        open_ = [end for end in open_ if end > event["ts"]]
        x, width = 14 + (event["ts"] - first) * scale, event["dur"] * scale
        y = 40 + 26 * len(open_)
        open_.append(event["ts"] + event["dur"])
        colour = SLICES[names.index(event["name"]) % len(SLICES)]
        drawing.box(x, y, width, 23, colour)
        label = f"{event['name']} {event['dur']:g} us"
        if len(label) * CHAR < width:
            drawing.text(x + 5, y + 16, label, PAPER)
        else:
            drawing.text(x + width + 5, y + 16, label)
    return drawing.svg()


class SampleEachSecond(Sampler):
    """A sampler whose clock goes on by a second with each sample."""

    seconds = 0

    def add(self, probes: Iterable[TopProbe], now: float | None = None) -> list[Rate]:
        """Return the rates since the second before."""
        self.seconds += 1
        return super().add(probes, self.seconds)


def top_picture() -> str:
    """The screen of kpfs top over a live machine, whose files stand in a folder."""
    with tempfile.TemporaryDirectory() as name, kpfs.Kernel(cpus=1) as k:
        return asyncio.run(_top_picture(k, Path(name)))


async def _top_picture(k: kpfs.Kernel, folder: Path) -> str:
    probes = "p:read vfs_read", "p:copy vfs_read+5", "p:kind vfs_read+0x1f"
    k.write(EVENTS, "\n".join((*probes, "r:opened do_sys_openat2")))
    k.write("tracing/events/kprobes/enable", "1")
    k.clock.advance(0.5)
    task = k.task(pid=4242, comm="reader")

    def copy() -> None:
        for path in (
            "kprobes/list",
            "kprobes/enabled",
            "machine/probes",
            "machine/text/vfs_read",
            "sys/kernel/osrelease",
        ):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(k.read(path))

    copy()
    screen = Screen(folder, interval=transcript.TIMEOUT)
    screen.sampler = SampleEachSecond()
    async with screen.run_test(size=TOP_SIZE) as pilot:
        for second in range(HISTORY):
            for _ in range(second * 7 % 20):
                fd = task.syscall("open", "/etc/passwd")
                task.syscall("read", fd, 4096)
                task.syscall("close", fd)
            copy()
            screen.sample()
        # those with as many hits stand in the order of the kernel's list
        while not (probe := screen.chosen()) or "vfs_read+0x5" not in probe.place:
            await pilot.press("down")
        await pilot.press("d")
        await screen.workers.wait_for_complete()
        screen.show_rates()  # the column of costs gets its width
        await pilot.pause(0.2)
        screen.sub_title = "m"
        await pilot.pause(0.2)
        strips = screen.screen._compositor.render_strips()
    drawing = Drawing(round(12 + CHAR * TOP_SIZE[0]), NIGHT)
    for row, strip in enumerate(strips):
        column = 0
        for words, style, _ in strip:
            x, y = 6 + CHAR * column, 6 + LINE * row
            if style and style.bgcolor and style.bgcolor.triplet:
                width = CHAR * len(words) + 0.3
                drawing.box(x, y, width, LINE + 0.3, style.bgcolor.triplet.hex, 0)
            colour = style.color.triplet if style and style.color else None
            if words.strip(" \N{HEAVY CIRCLE}"):  # which few fonts have
                drawing.text(x, y + 13, words, colour.hex if colour else SNOW)
            column += len(words)
    return drawing.svg()


def pictures() -> dict[str, Callable[[], str]]:
    """Return path below docs/ -> function that makes its text."""
    seen = list(states())
    return {
        "explanation/text.svg": lambda: text_picture(seen[:-1]),
        "explanation/states.svg": lambda: states_picture(seen),
        "session.svg": session_picture,
        "trace.svg": trace_picture,
        "top.svg": top_picture,
        "reference/calls.md": calls.page,
        "reference/differs.md": differs.page,
        "promises.md": promises.page,
    }


def web_picture() -> bytes:
    """Return what a browser shows of ``kpfs web``, as a PNG.  It needs a mount."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as end:
        run = harness.Kpfs(Path(scratch))
        end.callback(run.finish)
        m = run.mount("--gdb")
        for line in "p:copied vfs_read+7 count=%dx", "p:opened vfs_read", "r vfs_read":
            fd = os.open(m / EVENTS, os.O_WRONLY | os.O_APPEND)
            os.write(fd, f"{line}\n".encode())
            os.close(fd)
        (m / "tracing/events/kprobes/enable").write_text("1")
        server = end.enter_context(run.started("web", str(m)))
        end.callback(server.terminate)
        end.callback(browser.end)
        address = server.stdout.readline().decode().strip()
        look = browser.opened(address, width=1400)
        page = end.enter_context(look)

        def until(expression: str) -> None:
            harness.until(lambda: page.value(expression), expression)

        until("document.querySelectorAll('#probes tr').length == 3")
        page.value("[...document.querySelectorAll('#probes button.link')][2].click()")
        until("document.querySelector('#text tr[data-to]')?.dataset.to")
        page.click("#probes tr:last-child td:last-child button")
        (m / "version").read_text()
        until("!document.getElementById('hit').hidden")
        until("document.querySelector('#states .lit').id")
        for _ in range(3):
            page.click("#phase-on")
        size = {"width": 1440, "height": 1360, "deviceScaleFactor": 1, "mobile": False}
        page.do("Emulation.setDeviceMetricsOverride", **size)
        page.do("Emulation.setScrollbarsHidden", hidden=True)
        page.value("scrollTo(0, 0)")
        time.sleep(1)  # until it is painted, which nothing tells
        png = page.do("Page.captureScreenshot", format="png")["data"]
        return base64.b64decode(png)


if __name__ == "__main__":
    if not browser.missing():
        (DOCS / "web.png").write_bytes(web_picture())
    for name, draw in pictures().items():
        (DOCS / name).write_text(draw())
