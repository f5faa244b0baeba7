# SPDX-License-Identifier: GPL-2.0-or-later
"""A browser without a screen, asked by the protocol of its developer tools.

Messages are JSON with a NUL behind it, in pipes that are the browser's descriptors 3
and 4.  So a page can be looked at and clicked while its scripts are off.
"""

import contextlib
import itertools
import json
import os
import shutil
import subprocess

NAMES = "chromium", "chromium-browser", "google-chrome"
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-dev-shm-usage", "--remote-debugging-pipe"),
)
PATIENCE = 60  # s


def missing():
    """Return why there is no browser; "" if there is one."""
    return "" if any(map(shutil.which, NAMES)) else "no browser (Debian: chromium)"


class Page:
    """A page in a browser."""

    def __init__(self, call, session):
        self._call, self._session = call, session

    def do(self, method, **parameters):
        return self._call(method, parameters, self._session)

    def value(self, expression):
        """Return what an expression gives, whether the page's scripts are on or not."""
        options = {"expression": expression, "returnByValue": True}
        return self.do("Runtime.evaluate", **options)["result"]["value"]

    def click(self, selector):
        """Click in the middle of the first element that matches."""
        x, y = self.value(
            f"(e => (e.scrollIntoView(), e = e.getBoundingClientRect(),"
            f" [e.x + e.width / 2, e.y + e.height / 2]))"
            f"(document.querySelector({json.dumps(selector)}))"
        )
        for kind in ("mousePressed", "mouseReleased"):
            options = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}
            self.do("Input.dispatchMouseEvent", **options)


@contextlib.contextmanager
def opened(path, profile, *, width=1200, dark=False, scripts=True):
    """Open a file in a browser, and yield its page.  profile: a new folder."""
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

    def call(method, parameters, session=None):
        number = next(numbers)
        message = {"id": number, "method": method, "params": parameters}
        message |= {"sessionId": session} if session else {}
        os.write(ours_out, json.dumps(message).encode() + b"\0")
        answer = next(each for each in heard if each.get("id") == number)
        assert "error" not in answer, answer
        return answer["result"]

    def until(event):
        next(each for each in heard if each.get("method") == event)

    try:
        target = call("Target.createTarget", {"url": "about:blank"})["targetId"]
        how = {"targetId": target, "flatten": True}
        page = Page(call, call("Target.attachToTarget", how)["sessionId"])
        page.do("Page.enable")
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        page.do("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.do("Emulation.setEmulatedMedia", features=[scheme])
        page.do("Emulation.setScriptExecutionDisabled", value=not scripts)
        page.do("Page.navigate", url=f"file://{path}")
        until("Page.loadEventFired")
        yield page
        call("Browser.close", {})
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
        os.close(ours_in)
        os.close(ours_out)
