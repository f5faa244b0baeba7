# SPDX-License-Identifier: GPL-2.0-or-later
"""A browser without a screen, asked by the protocol of its developer tools.

Messages are JSON with a NUL behind it, in pipes that are the browser's descriptors 3
and 4.  So a page can be looked at and clicked while its scripts are off.
"""

import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import defaultdict

NAMES = "chromium", "chromium-browser", "google-chrome"
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-dev-shm-usage", "--remote-debugging-pipe"),
)
PATIENCE = 60  # s
TRIES = 50  # to click at what moves
KEYS = {"Tab": 9, "Enter": 13, "Home": 36, "End": 35, "ArrowRight": 39}


def missing():
    """Return why there is no browser; "" if there is one."""
    return "" if any(map(shutil.which, NAMES)) else "no browser (Debian: chromium)"


class Page:
    """A page in a browser."""

    def __init__(self, browser, session, scripts):
        self._browser, self.session = browser, session
        self.scripts = scripts  # they run

    def do(self, method, **parameters):
        return self._browser.call(method, self.session, **parameters)

    def value(self, expression):
        """Return what an expression gives, whether the page's scripts are on or not."""
        options = {"expression": expression, "returnByValue": True}
        options |= {"awaitPromise": True}
        return self.do("Runtime.evaluate", **options)["result"].get("value")

    @property
    def complaints(self):
        """Complaints of its scripts, and of the browser about them, so far."""
        return [
            each["params"]
            for each in self._browser.told[self.session]
            if each["method"] == "Runtime.exceptionThrown"
            or (
                each["method"] == "Log.entryAdded"
                and each["params"]["entry"]["source"] != "network"
            )
        ]

    def type(self, text):
        """Type a text, and names of keys in brackets: ``vfs_read[Enter]``."""
        for word in re.findall(r"\[\w+\]|[^\[]+", text):
            if not word.startswith("["):
                self.do("Input.insertText", text=word)
                continue
            key = {"key": word[1:-1], "windowsVirtualKeyCode": KEYS[word[1:-1]]}
            more = {"text": "\r"} if word == "[Enter]" else {}
            self.do("Input.dispatchKeyEvent", type="keyDown", **key, **more)
            self.do("Input.dispatchKeyEvent", type="keyUp", **key)

    def click(self, selector):
        """Click in the middle of the first element that matches.

        Where scripts run they may move or replace it meanwhile: then once more.
        """
        wanted = json.dumps(selector)
        missed = "window.clickedAt === null"
        for _ in range(TRIES):
            x, y = self.value(
                f"(e => (window.clickedAt = null, e.scrollIntoView(),"
                f" e = e.getBoundingClientRect(),"
                f" [e.x + e.width / 2, e.y + e.height / 2]))"
                f"(document.querySelector({wanted}))"
            )
            self.value(
                f"document.addEventListener('click', e => window.clickedAt ="
                f" e.target.closest({wanted}), {{capture: true, once: true}})"
            )
            options = {"x": x, "y": y, "button": "left", "clickCount": 1}
            for kind in ("mousePressed", "mouseReleased"):
                self.do("Input.dispatchMouseEvent", type=kind, **options)
            if not self.scripts or not self.value(missed):
                return
        raise AssertionError(f"{selector} cannot be clicked")


class Browser:
    """A browser that runs, with a folder of its own, until its pipes are closed."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        folder = self._folder.name
        program = next(filter(None, map(shutil.which, NAMES)))
        theirs_in, self._ours_out = os.pipe()
        self._ours_in, theirs_out = os.pipe()
        words = [program, *OPTIONS, f"--user-data-dir={folder}", "about:blank"]
        script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", *words],
            pass_fds=(theirs_in, theirs_out),
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": folder},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._numbers = itertools.count(1)
        self._heard = self._messages()
        # by session: its events so far
        self.told = defaultdict(list)

    def _messages(self):
        data = b""
        while piece := os.read(self._ours_in, 1 << 16):
            *whole, data = (data + piece).split(b"\0")
            yield from map(json.loads, whole)

    def heard_until(self, wanted):
        for each in self._heard:
            if wanted(each):
                return each
            if "method" in each:
                self.told[each.get("sessionId")].append(each)
        raise EOFError("the browser has ended")

    def call(self, method, session=None, **parameters):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        message |= {"sessionId": session} if session else {}
        os.write(self._ours_out, json.dumps(message).encode() + b"\0")
        answer = self.heard_until(lambda each: each.get("id") == number)
        assert "error" not in answer, answer
        return answer["result"]

    @contextlib.contextmanager
    def page(self, *, width, dark, scripts):
        """Yield an empty page, in a context that nothing else has been in."""
        context = self.call("Target.createBrowserContext")
        where = {"url": "about:blank", **context}
        target = self.call("Target.createTarget", **where)["targetId"]
        how = {"targetId": target, "flatten": True}
        session = self.call("Target.attachToTarget", **how)["sessionId"]
        page = Page(self, session, scripts)
        for part in ("Page", "Runtime", "Log"):
            page.do(f"{part}.enable")
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        page.do("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.do("Emulation.setEmulatedMedia", features=[scheme])
        page.do("Emulation.setScriptExecutionDisabled", value=not scripts)
        yield page
        self.call("Target.disposeBrowserContext", **context)
        del self.told[session]

    def load(self, page, address):
        loaded = {"method": "Page.loadEventFired", "sessionId": page.session}
        page.do("Page.navigate", url=address)
        self.heard_until(lambda each: loaded.items() <= each.items())

    def end(self):
        """End it, and whatever it has started."""
        os.close(self._ours_out)
        os.close(self._ours_in)
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            self._folder.cleanup()


_running: list[Browser] = []  # at most one, for all tests of this process


@contextlib.contextmanager
def opened(path, *, width=1200, dark=False, scripts=True):
    """Open a file or an address in this process's browser, and yield its page."""
    if not _running:
        _running.append(Browser())
    browser = _running[0]
    address = path if "://" in str(path) else f"file://{path}"
    try:
        with browser.page(width=width, dark=dark, scripts=scripts) as page:
            browser.load(page, address)
            yield page
    except BaseException:
        end()  # who knows what state it is in
        raise


def end():
    """End the browser, if one has been started."""
    while _running:
        _running.pop().end()
