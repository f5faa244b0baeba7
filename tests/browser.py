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

    def __init__(self, call, session, told, scripts):
        self._call, self._session, self._told = call, session, told
        self.scripts = scripts  # they run

    def do(self, method, **parameters):
        return self._call(method, parameters, self._session)

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
            for each in self._told
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


@contextlib.contextmanager
def opened(path, profile, *, width=1200, dark=False, scripts=True):
    """Open a file or an address in a browser, and yield its page.

    profile: a new folder.
    """
    browser = next(filter(None, map(shutil.which, NAMES)))
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    words = [browser, *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
    script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", *words],
        pass_fds=(theirs_in, theirs_out),
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    numbers = itertools.count(1)

    def messages():
        data = b""
        while piece := os.read(ours_in, 1 << 16):
            *whole, data = (data + piece).split(b"\0")
            yield from map(json.loads, whole)

    heard = messages()

    told = []

    def heard_until(wanted):
        for each in heard:
            if wanted(each):
                return each
            if "method" in each:
                told.append(each)
        raise EOFError("the browser has ended")

    def call(method, parameters, session=None):
        number = next(numbers)
        message = {"id": number, "method": method, "params": parameters}
        message |= {"sessionId": session} if session else {}
        os.write(ours_out, json.dumps(message).encode() + b"\0")
        answer = heard_until(lambda each: each.get("id") == number)
        assert "error" not in answer, answer
        return answer["result"]

    try:
        target = call("Target.createTarget", {"url": "about:blank"})["targetId"]
        how = {"targetId": target, "flatten": True}
        page = Page(
            call, call("Target.attachToTarget", how)["sessionId"], told, scripts
        )
        for part in ("Page", "Runtime", "Log"):
            page.do(f"{part}.enable")
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        page.do("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.do("Emulation.setEmulatedMedia", features=[scheme])
        page.do("Emulation.setScriptExecutionDisabled", value=not scripts)
        address = path if "://" in str(path) else f"file://{path}"
        page.do("Page.navigate", url=address)
        heard_until(lambda each: each.get("method") == "Page.loadEventFired")
        yield page
        call("Browser.close", {})
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
        os.close(ours_in)
        os.close(ours_out)
