"""A server of files for proxies that fetch images, in a thread of the test."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ImageServer:
    """Answers GET by `answers`: path -> (status, headers, body); keeps the paths that it was asked for."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[], tuple[int, dict[str, str], bytes]]] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                status, headers, body = outer.answers.get(self.path, lambda: (404, {}, b""))()
                self.send_response(status)
                for name, value in ({"content-length": str(len(body))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def has(self, path: str, *bodies: bytes, status: int = 200, **headers: str) -> str:
        """Makes a path give these bodies one after the other, the last one for ever; gives its URL."""
        left = list(bodies) or [b""]
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = lambda: (status, named, left.pop(0) if len(left) > 1 else left[0])
        return self.url + path

    @contextlib.contextmanager
    def running(self) -> Iterator["ImageServer"]:
        """Serves until the context is left."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()
