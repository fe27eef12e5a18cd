"""Metrics pages of real processes, served on loopback addresses at the ports that pods have."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER = Path(__file__).parent / "pages"
NAMES = ("frontend", "encoder", "pd", "encoder-nixl", "pd-nixl")


def recorded(name: str, moment: str) -> bytes:
    """A page at a moment: early or busy."""
    return (FOLDER / f"{name}_{moment}.txt").read_bytes()


@dataclass
class PageServer:
    """Serves the current content of one page at an address."""

    host: str
    port: int
    page: Callable[[], bytes]
    _server: ThreadingHTTPServer = field(init=False)

    def start(self) -> None:
        """Serve until `stop`."""
        page = self.page

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = page()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer((self.host, self.port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()
