# SPDX-License-Identifier: GPL-2.0-or-later
"""A server of files on the loopback, as archives have them."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Archive:
    """The files of the server by path, and the requests that it got."""

    def __init__(self):
        self.files = {}
        self.gone = set()  # paths that only indexes still name
        self.asked = []
        self.ranges = True
        self.cut = None  # bytes after which it ends an answer
        self.url = ""


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """Yield an archive; the cache is an empty one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    served = Archive()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            served.asked.append((self.path, self.headers["Range"]))
            data = served.files.get(self.path)
            if data is None:
                self.send_error(404)
                return
            begin = 0
            if self.headers["Range"] and served.ranges:
                begin = int(self.headers["Range"][len("bytes=") : -1])
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(data) - begin))
            self.end_headers()
            self.wfile.write(data[begin:][: served.cut])

        def do_HEAD(self):
            self.send_response(404 if self.path in served.gone else 200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield served
    server.shutdown()
    server.server_close()
    thread.join()
