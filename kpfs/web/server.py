# SPDX-License-Identifier: GPL-2.0-or-later
"""The server of a kernel's page: requests, and a stream of what is live.

The page and all that it asks for lie below a secret, the first part of the path.  While
no page is open, no file of the kernel is read.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing, suppress
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kpfs.page.page import STYLE
from kpfs.session.records import Record
from kpfs.web.hit import HitRecorder
from kpfs.web.kernel import RefusedError, WatchedKernel
from kpfs.web.trace import TraceTail, rows

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page")
FILES = {"": "index.html", "page.css": STYLE} | {
    name: name for name in os.listdir(PAGE) if name != "index.html"
}
# s between two looks at a function's text and at the trace, and at all of the probes
TEXT_PAUSE, STATE_PAUSE = 0.15, 0.5
BUSY = 4  # and at least so many times what the last look took, but for
LATE = 1.0  # s; a look that takes longer is told
LINES = 400  # records of the trace that one look shows
MOST = 1 << 16  # bytes of a request
_HEADERS = {
    b"content-security-policy": b"default-src 'none'; script-src 'self'; style-src "
    b"'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}


def serve(listener: socket.socket, address: str, kernel: WatchedKernel) -> None:
    """Serve until SIGINT or SIGTERM comes."""
    with closing(kernel):
        config = uvicorn.Config(
            Guard(application(kernel), address),
            log_level="critical",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=0,  # streams do not end by themselves
        )
        uvicorn.Server(config).run(sockets=[listener])


class Guard:
    """Lets in who knows the secret, from the page itself or an address that was typed.

    A page of another origin knows neither the secret, nor may it ask by another name of
    this host.
    """

    def __init__(self, app: ASGIApp, address: str) -> None:
        self._app = app
        self._origin, self._secret = address.rstrip("/").rsplit("/", 1)

    def _may(self, scope: Scope) -> bool:
        headers = dict(scope["headers"])
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site", b"none")
        first, _, rest = scope["path"].removeprefix("/").partition("/")
        return (
            headers.get(b"host", b"").decode("latin-1")
            == self._origin.removeprefix("http://")
            and (origin is None or origin.decode("latin-1") == self._origin)
            and (site in (b"same-origin", b"none") or not rest)
            and secrets.compare_digest(first.encode(), self._secret.encode())
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._may(scope):
            await PlainTextResponse("no\n", 403)(scope, receive, send)
            return

        async def protected(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS.items()]
            await send(message)

        path = scope["path"].partition(self._secret)[2] or "/"
        scope = dict(scope, path=path, raw_path=path.encode())
        await self._app(scope, receive, protected)


def application(kernel: WatchedKernel) -> Starlette:
    """Return the application, without what guards it."""
    pages = Pages(kernel)
    posts = {
        "switch": lambda a: kernel.switch(str(a["name"]), bool(a["on"])),
        "enable": lambda a: kernel.enable(str(a["event"]), bool(a["on"])),
        "define": lambda a: kernel.define(str(a["line"])),
        "explain": lambda a: kernel.explain(str(a["point"])),
        "functions": lambda a: kernel.functions(str(a["typed"])),
        "perfetto": lambda a: kernel.perfetto(),
        "hit": lambda a: pages.recorder.record(int(a["address"], 16), str(a["type"])),
        "give_up": lambda a: pages.recorder.give_up(),
    }
    return Starlette(
        routes=[
            *(Route(f"/{path}", partial(_file, name)) for path, name in FILES.items()),
            *(
                Route(f"/{path}", _post(do, pages), methods=["POST"])
                for path, do in posts.items()
            ),
            Route("/live", pages.live),
        ]
    )


def _file(name: str, _request: Request) -> Response:
    return FileResponse(os.path.join(PAGE, name))


def _post(
    do: Callable[[dict[str, Any]], object], pages: Pages
) -> Callable[[Request], Awaitable[Response]]:
    """Answer a request in JSON by what a function returns; by 400, if it is refused."""

    async def respond(request: Request) -> Response:
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MOST:
                return JSONResponse({"error": "a request that is too long"}, 413)
        try:
            asked = json.loads(body)
            answer = await run_in_threadpool(do, asked)
        except RefusedError as refused:
            return JSONResponse({"error": str(refused)}, 400)
        except OSError as error:
            return JSONResponse({"error": f"the kernel: {error.strerror}"}, 400)
        except (ValueError, KeyError, TypeError):
            return JSONResponse({"error": "no such request"}, 400)
        finally:
            pages.look()
        return JSONResponse(answer)

    return respond


class Pages:
    """The open pages of one kernel."""

    def __init__(self, kernel: WatchedKernel) -> None:
        self._kernel, self.recorder = kernel, HitRecorder(kernel.tree)
        self._changed = 0  # by requests: what is shown may be old
        self._state: tuple[float, int, dict[str, Any]] = 0.0, 0, {}
        self._state_lock = asyncio.Lock()

    def look(self) -> None:
        """Have all pages look again at once."""
        self._changed += 1

    async def live(self, request: Request) -> Response:
        """Answer with a stream.  The query: function and trace, if they are wanted."""
        stream = self._stream(dict(request.query_params))
        return StreamingResponse(stream, media_type="text/event-stream")

    async def _stream(self, wanted: dict[str, str]) -> AsyncIterator[bytes]:
        """Yield what has changed, as server-sent events, while the page is open.

        A page is told how many looks have come late, because of itself or the kernel.
        """
        sent, late, tail = dict[str, Any](), 0, TraceTail(self._kernel.tree)
        recent = deque[Record](maxlen=LINES)
        with closing(tail):
            while True:
                begin, seen = time.monotonic(), self._changed
                try:
                    async for found in self._look(wanted, tail, recent):
                        new = {k: found[k] for k in found if sent.get(k) != found[k]}
                        sent |= found
                        if new:
                            yield _event(new)
                except OSError as error:
                    tail.close()
                    sent["gone"] = error.strerror or "it does not answer"
                    yield _event({"gone": sent["gone"]})
                took = time.monotonic() - begin
                if took > LATE:
                    late += 1
                    yield _event({"late": late})
                pause = min(max(TEXT_PAUSE, BUSY * took), LATE)
                while pause > 0 and seen == self._changed:
                    await asyncio.sleep(min(pause, 0.02))
                    pause -= 0.02

    async def _look(
        self, wanted: dict[str, str], tail: TraceTail, recent: deque[Record]
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield what a page wants to see, what is soon read first.  OSError."""
        yield {"recording": self.recorder.is_busy}
        if self.recorder.is_busy:  # the kernel stands still again and again
            return
        if function := wanted.get("function"):
            with suppress(RefusedError):
                text = await run_in_threadpool(self._kernel.text, function)
                yield {"text": text}
        yield {"state": await self._shared_state(), "gone": ""}
        if wanted.get("trace"):
            records, left_out = await run_in_threadpool(tail.read, LINES)
            lines = [
                [each.timestamp, each.cpu, each.pid, each.comm, each.event, str(each)]
                for each in records
            ]
            yield {"trace": {"lines": lines, "left_out": left_out}}
            recent.extend(records)
            if wanted["trace"] == "calls":
                yield {"calls": rows(recent)}

    async def _shared_state(self) -> dict[str, Any]:
        """Return the state, which is read once for all pages."""
        async with self._state_lock:
            when, changed, state = self._state
            age = time.monotonic() - when
            if age < STATE_PAUSE and changed == self._changed:
                return state
            changed = self._changed
            state = dict(await run_in_threadpool(self._kernel.state))
            self._state = time.monotonic(), changed, state
            return state


def _event(value: object) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()
