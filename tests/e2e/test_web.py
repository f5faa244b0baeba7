# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs web and kpfs run --web, as a browser shows them.

Tests kpfs.web.command, kpfs.web.server, kpfs.web.kernel, kpfs.web.hit,
kpfs.inside.files and kpfs.backends.linux.inside_files.
"""

import contextlib
import http.client
import importlib.util
import json
import os
import signal
import threading
import time
from importlib.resources import files
from typing import Any

import pytest

from tests import browser, harness

pytestmark = [
    pytest.mark.fuse,
    pytest.mark.skipif(
        not importlib.util.find_spec("starlette"),
        reason="missing: the packages of kpfs[web]",
    ),
]
with_browser = pytest.mark.browser
with_axe = pytest.mark.skipif(
    not importlib.util.find_spec("axe_core_python"),
    reason="missing: the package axe-core-python",
)
STEP = "document.querySelector('#probes td:last-child button')"
TEXT = "document.getElementById('text').innerText"
PATCHES = (
    "[...document.querySelectorAll('#text tr[data-to] small')].map(e => e.innerText)"
)
ALIVE = "document.getElementById('alive').innerText"
SAID = "document.getElementById('said').innerText"
AXE = "axe.run().then(r => r.violations.map(v => [v.id, v.nodes[0].html]))"
KINDS = "[...document.querySelectorAll('#probes td.kind')].map(e => e.innerText)"


@contextlib.contextmanager
def served(kpfs, *words):
    """Yield the address that a command has printed first, and its process."""
    with kpfs.started("web", *words) as process:
        try:
            yield process.stdout.readline().decode().strip(), process
        finally:
            process.terminate()


@pytest.fixture
def m(kpfs, request):
    return kpfs.mount("--gdb", *getattr(request, "param", ()))


@pytest.fixture
def page(kpfs, m):
    with served(kpfs, m) as (address, _):
        with browser.opened(address, width=1500) as page:
            yield page
            assert page.complaints == []


@pytest.fixture
def busy(m):
    """Somebody reads a file all the time."""
    stop = threading.Event()

    def read():
        while not stop.wait(0.02):
            with contextlib.suppress(BlockingIOError):  # while the kernel is stepped
                (m / "version").read_bytes()

    thread = threading.Thread(target=read)
    thread.start()
    yield
    stop.set()
    thread.join()


def until(page, expression, wanted):
    """Wait until an expression of the page has a value that is wanted."""
    seen = [None]

    def sees():
        seen[0] = page.value(expression)
        return wanted(seen[0])

    harness.until(sees, f"{expression} is not as it should be")
    return seen[0]


def define(m, *lines):
    for number, line in enumerate(lines):
        kind, place = line.split(" ", 1)
        fd = os.open(m / "tracing/kprobe_events", os.O_WRONLY | os.O_APPEND)
        os.write(fd, f"{kind}:e{number} {place}\n".encode())
        os.close(fd)
        (m / f"tracing/events/kprobes/e{number}/enable").write_text("1")


def ask(address, path="", method="GET", body=None, **headers):
    """Return the status and the body of an answer.  path: behind the secret."""
    host, _, secret = address.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=30)
    with contextlib.closing(connection):
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, f"/{secret}{path}", body, names)
        answer = connection.getresponse()
        return answer.status, answer.read()


def test_it_lets_in_nobody_but_its_own_page(kpfs, m):
    with served(kpfs, m) as (address, _):
        origin, _, secret = address.rstrip("/").rpartition("/")
        assert origin.startswith("http://127.0.0.1:")
        assert ask(address)[0] == 200
        assert ask(address, Origin=origin, Sec_Fetch_Site="same-origin")[0] == 200
        assert ask(address.replace(secret, "x" * len(secret)))[0] == 403
        assert ask(f"{origin}/")[0] == 403
        assert ask(address, Host="localhost.example")[0] == 403
        assert ask(address, Origin="http://example.org")[0] == 403
        assert ask(address, Origin="null")[0] == 403
        assert ask(address, "live", Sec_Fetch_Site="cross-site")[0] == 403
        assert ask(address, "../index.html")[0] in (403, 404)
        assert ask(address, "%2e%2e/server.py")[0] in (403, 404)
        for path, wrong in (
            ("switch", {"name": "tracing/trace", "on": True}),
            ("switch", [1]),
            ("enable", {"event": "../../machine", "on": True}),
            ("enable", {"event": "kprobes/..", "on": True}),
            ("define", {"line": "p:e vfs_read\np:f vfs_write"}),
            ("define", {}),
            ("hit", {"address": "zz", "type": "k"}),
        ):
            status, said = ask(address, path, "POST", json.dumps(wrong))
            assert (status, list(json.loads(said))) == (400, ["error"]), path
        assert ask(address, "define", "POST", "x" * 100_000)[0] == 413
        status, said = ask(address, "define", "POST", '{"line": "p:e nowhere"}')
        assert b"Invalid probed address or symbol" in said
        assert (m / "tracing/kprobe_events").read_text() == ""


def test_while_no_page_is_open_the_kernel_is_left_alone(kpfs, m):
    define(m, "p vfs_read")
    with served(kpfs, m) as (address, process):
        assert ask(address)[0] == 200
        (m / "tracing/trace").write_text("")
        time.sleep(1)  # nothing may come
        own = [f"-{name} " for name in os.listdir(f"/proc/{process.pid}/task")]
        trace = (m / "tracing/trace").read_text()
        assert not any(name in trace for name in own), trace


@with_browser
def test_a_probe_is_added_by_keyboard_and_switched(page, m):
    until(page, "document.readyState", "complete".__eq__)
    page.value("document.getElementById('point').focus()")
    page.type("vfs_read+7")
    until(page, "document.getElementById('verdict').innerText", lambda t: "accept" in t)
    page.type("[Tab][Tab]mine[Tab][Tab][Enter]")
    assert until(page, KINDS, len)[0]
    until(page, PATCHES, ["jump"].__eq__)
    assert "mine" in (m / "tracing/kprobe_events").read_text()
    assert "detour buffer of vfs_read+0x7" in page.value(TEXT)
    page.click("#switch-enabled")
    until(page, PATCHES, [].__eq__)
    until(page, KINDS, ["disarmed"].__eq__)
    assert (m / "kprobes/enabled").read_text() == "0\n"
    page.click("#switch-enabled")
    page.click("#switch-optimization")
    until(page, PATCHES, ["breakpoint"].__eq__)
    page.click("#probes input")
    until(page, KINDS, ["disabled"].__eq__)
    until(page, PATCHES, [].__eq__)
    (m / "tracing/events/kprobes/mine/enable").write_text("1")  # by somebody else
    until(page, PATCHES, ["breakpoint"].__eq__)
    page.do("Page.reload")
    until(page, KINDS, ["breakpoint"].__eq__)
    page.click("#probes button[aria-label^=remove]")
    until(page, KINDS, [].__eq__)
    assert page.value(SAID) == ""


@with_browser
@pytest.mark.usefixtures("busy")
def test_a_hit_of_each_kind_is_gone_through_step_by_step(page, m):
    (m / "sys/debug/kprobes-optimization").write_text("0")
    points = "p vfs_read+0x1b", "p vfs_read", "r vfs_read", "p ksys_read+0x13"
    define(m, *points, "p vfs_read+7")
    assert len(until(page, KINDS, lambda kinds: len(kinds) == 5)) == 5
    seen = {}
    for optimised in (False, True):
        (m / "sys/debug/kprobes-optimization").write_text(f"{int(optimised)}")
        until(page, KINDS, lambda kinds, on=optimised: ("jump" in kinds) == on)
        for number, point in enumerate(points if not optimised else [points[0]]):
            owner = f"kprobes/e{number if not optimised else 4}"
            page.value(
                "[...document.querySelectorAll('#probes tr')]"
                f".find(e => e.innerText.includes('{owner}'))"
                ".querySelector('td:last-child button').click()"
            )
            recorded = "document.getElementById('hit-said').innerText"
            until(page, recorded, lambda said: "instructions" in said or "No" in said)
            phases = (
                "[...document.querySelectorAll('#phases button')].map(e => e.innerText)"
            )
            seen[point if not optimised else "jump"] = page.value(phases)
    assert seen == {
        "p vfs_read+0x1b": ["trap", "handler", "step", "boost", "go on"],
        "p vfs_read": ["call", "handler", "go on"],
        "r vfs_read": [
            *("call", "handler", "go on"),
            *("trampoline", "handler", "go on"),
        ],
        "p ksys_read+0x13": ["trap", "handler", "step", "boost", "go on"],
        "jump": ["jump", "detour", "copy", "back", "go on"],
    }
    slider = "document.getElementById('slider').value"
    now = "document.getElementById('now').innerText"
    assert page.value(slider) == "0"
    assert "vfs_read+0x7, in the probe" in page.value(now)
    until(page, "document.querySelector('#states .lit').id", "state-jump".__eq__)
    page.type("[End]")
    assert "vfs_read+0xc, in the text" in page.value(now)
    page.click("#phase-back")
    assert page.value(now).startswith("back")
    page.click("#step-back")
    assert page.value(now).startswith("copy")
    assert "push r12" in page.value("document.querySelector('#code .here').innerText")
    assert page.value("document.querySelectorAll('#registers .new').length") > 0
    assert "sp+0" in page.value("document.getElementById('stack').innerText")


@pytest.mark.slow
@with_browser
def test_a_page_keeps_up_with_many_probes_and_hits(page, m):
    functions = (m / "tracing/available_filter_functions").read_text().splitlines()
    fd = os.open(m / "tracing/kprobe_events", os.O_WRONLY | os.O_APPEND)
    for number, function in enumerate(functions):
        with contextlib.suppress(OSError):  # some may not be probed
            os.write(fd, f"p:e{number} {function.split()[0]}\n".encode())
    os.close(fd)
    defined = (m / "tracing/kprobe_events").read_text().count("\n")
    (m / "tracing/events/kprobes/enable").write_text("1")
    end = time.monotonic() + 5
    while time.monotonic() < end:
        (m / "version").read_text()
    until(page, "document.querySelectorAll('#probes tr').length", defined.__eq__)
    hits = "[...document.querySelectorAll('#probes td:nth-child(5)')]"
    until(page, f"{hits}.reduce((n, e) => n + Number(e.innerText), 0) > 50000", bool)
    until(page, "document.getElementById('left-out').innerText", bool)
    assert defined > 1000
    assert page.value(ALIVE).startswith("live")


@with_browser
def test_nobody_hits_the_probe_and_one_gives_up(page, m):
    define(m, "p vfs_mkdir")
    until(page, KINDS, len)
    page.click("#probes td:last-child button")
    page.click("#hit-said button")
    until(page, SAID, lambda said: "nothing has come to vfs_mkdir" in said)


@with_browser
@pytest.mark.usefixtures("busy")
def test_the_trace_is_shown_filtered_and_exported(page, m):
    define(m, "p vfs_read", "r vfs_read")
    trace = "document.getElementById('trace').innerText"
    assert "e0: (vfs_read+0x0" in until(page, trace, lambda text: "<- vfs_read" in text)
    page.value("document.getElementById('event').focus()")
    page.type("e1")
    assert "e0:" not in page.value(trace)
    page.value("document.getElementById('event').value = ''")
    page.click("#calls")
    assert until(page, "document.querySelectorAll('#timeline rect.call').length", bool)
    exported = page.value(
        "fetch('perfetto', {method: 'POST', body: '{}'}).then(r => r.json())"
    )
    assert {e["ph"] for e in exported["traceEvents"]} >= {"M", "X"}
    page.click("#pause")
    until(page, "document.getElementById('pause').ariaPressed", "true".__eq__)
    before = page.value(trace)
    (m / "version").read_text()
    time.sleep(0.5)  # nothing may come
    assert page.value(trace) == before


@with_browser
@with_axe
@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize(("width", "dark"), [(1500, False), (360, True)])
def test_it_is_fit_for_everybody(kpfs, m, width, dark):
    define(m, "p vfs_read", "p vfs_read+7")
    look = {"width": width, "dark": dark}
    with (
        served(kpfs, m) as (address, _),
        browser.opened(address, **look) as page,
    ):
        until(page, KINDS, len)
        page.value((files("axe_core_python") / "axe.min.js").read_text() + ";0")
        assert page.value(AXE) == []
        page.click("#probes button.link")
        until(page, PATCHES, len)
        page.value("document.getElementById('calls').click()")
        page.click("#probes td:last-child button")
        until(page, "document.getElementById('hit').hidden", False.__eq__)
        assert page.value("document.documentElement.scrollWidth") <= width
        assert page.value(AXE) == []
        assert page.complaints == []


@with_browser
@pytest.mark.kernel
def test_two_pages_see_a_linux_kernel_die_and_come_back(kpfs):
    m = kpfs.mount("--kernel", harness.KERNEL)
    kpfs.announce("the guest is dead")
    define(m, "p vfs_read")
    with (
        served(kpfs, m) as (address, _),
        browser.opened(address) as one,
        browser.opened(address) as two,
    ):
        for page in (one, two):
            assert until(page, KINDS, len) == ["ftrace"]
            assert page.value(
                "document.querySelector('#probes td:last-child button').disabled"
            )
        one.click("#probes button.link")
        until(one, PATCHES, len)
        with contextlib.suppress(OSError):
            (m / "proc/sysrq-trigger").write_text("c")
        for page in (one, two):
            until(page, ALIVE, lambda said: "shutdown" in said)
        one.click("#reboot")
        for page in (one, two):
            until(page, ALIVE, "live".__eq__)
            until(page, KINDS, [].__eq__)
        harness.kill(harness.daemon_of(m), signal.SIGKILL)
        until(one, ALIVE, lambda said: said != "live")


def on_kernel(kernel, place):
    """Return the parameters of a hit of a place in a kernel."""
    marks = harness.repeated_on(kernel)
    return pytest.param(("--kernel", kernel), place, marks=marks, id=kernel)


@pytest.mark.parametrize(
    ("m", "place"),
    [
        on_kernel(harness.ARM64, "vfs_read+16"),
        on_kernel(harness.S390X, "vfs_read+6"),
        on_kernel(harness.I386, "vfs_read+6"),
        on_kernel(harness.RISCV64, "vfs_read+8"),
        on_kernel(harness.PPC64, "vfs_read+32"),
        on_kernel(harness.ARMHF, "vfs_read"),
        on_kernel(harness.MIPS64, "vfs_read"),
    ],
    indirect=["m"],
)
@pytest.mark.usefixtures("busy")
def test_a_hit_on_another_architecture(kpfs, m, place):
    optimization = m / "sys/debug/kprobes-optimization"
    if optimization.exists():
        optimization.write_text("0")
    define(m, f"p {place}")
    with served(kpfs, m) as (address, _):
        seen: dict[str, Any] = {}
        for found in looked_at(address, "function=vfs_read"):
            seen |= found
            if "state" in seen:
                break
        assert "enabled" in seen["state"]["switches"]
        assert "# breakpoint, was: " in seen["text"]
        (probe,) = seen["state"]["probes"]
        asked = json.dumps({"address": probe["address"], "type": "k"})
        status, said = ask(address, "hit", "POST", asked)
        assert status == 200, said
    hit = json.loads(said)
    steps, at = hit["steps"], int(probe["address"], 16)
    phases = [*dict.fromkeys(step["phase"] for step in steps)]
    # ppc64 emulates the instruction, and i386 jumps back behind its copy
    others = [
        ["trap", "handler", "done"],
        ["trap", "handler", "step", "boost", "done"],
    ]
    assert phases in (["trap", "handler", "step", "fixup", "done"], *others)
    assert at in [int(value, 16) for value in steps[0]["set"].values()]
    words = {int(word, 16) for step in steps for word in step.get("stack", [])}
    assert max(words) < 1 << 8 * hit["long"]
    assert any(word >> 22 == at >> 22 for word in words)  # addresses of returns


@with_browser
def test_the_page_of_a_command_says_that_it_has_ended(kpfs, tmp_path):
    go_on = tmp_path / "fifo"
    os.mkfifo(go_on)
    script = "echo p:e vfs_read >/sys/kernel/tracing/kprobe_events; cat $0"
    with (
        kpfs.started("run", "--web", "--", "sh", "-c", script, go_on, stderr=-1) as run,
        browser.opened(run.stderr.readline().decode().split()[1]) as page,
    ):
        assert until(page, KINDS, len) == ["disabled"]
        assert not page.value(
            "document.querySelector('#probes td:last-child button').disabled"
        )
        go_on.write_text("done")
        assert run.communicate()[0] == b"done"
        assert run.returncode == 0
        until(page, ALIVE, "kpfs web has ended".__eq__)


def looked_at(address, query):
    """Yield what a page sees live, as long as the server lives."""
    host, _, secret = address.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", f"/{secret}live?{query}")
        for line in connection.getresponse():
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


@pytest.mark.kernel
def test_a_kernel_with_a_command_inside_has_a_page(kpfs):
    script = "while sleep .05; do cat /proc/version >/dev/null || exit; done"
    words = "--kernel", harness.KERNEL, "--inside", "--web", "--", "sh", "-c", script
    with kpfs.started("run", *words, stderr=-1) as run:
        address = run.stderr.readline().decode().split()[1]

        def post(path, **body):
            status, said = ask(address, path, "POST", json.dumps(body))
            assert status == 200, said
            return json.loads(said)

        post("define", line="p:mine vfs_read")
        post("enable", event="kprobes/mine", on=True)
        seen: dict[str, Any] = {}
        for found in looked_at(address, "function=vfs_read&trace=records"):
            seen |= found
            if "ftrace" in str(seen.get("state")) and seen.get("trace"):
                break
        assert "# call, was: nop" in seen["text"]
        records = seen["trace"]["lines"]
        assert {comm for _, _, _, comm, *_ in records} <= {"sh", "sleep", "cat"}
        (probe,) = seen["state"]["probes"]
        assert (probe["place"], probe["owner"]) == ("vfs_read+0x0", "kprobes/mine")
        assert (seen["state"]["gdb"], seen["state"]["reboots"]) == (True, False)
        post("switch", name="tracing", on=False)  # so that a hit is short
        hit = post("hit", address=probe["address"], type=probe["type"])
        assert [hit["steps"][i]["phase"] for i in (0, 1, -1)] == [
            *("call", "handler", "done"),
        ]
        _, said = ask(address, "define", "POST", '{"line": "p:e nowhere"}')
        assert b"Invalid probed address or symbol" in said
        run.send_signal(signal.SIGTERM)
        assert run.wait(30) == 128 + signal.SIGTERM
        with pytest.raises(ConnectionRefusedError):
            ask(address)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["web", "."], "no files of kpfs"),
        (["run", "--open", "--", "true"], "--open is for --web"),
        (["run", "--kernel", "x", "--inside", "--open", "true"], "--open is for --web"),
    ],
)
def test_wrong_use(kpfs, words, said):
    done = kpfs(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
