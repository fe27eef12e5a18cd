"""A fake engine, run as a real process: health and metrics pages that a test can change over HTTP.

`GET /set?health=503&metrics=…` changes the answers; health=hang never answers. The marker file gets one line per start.
`/set?transfers=…` changes the page of NIXL, on its own port.
As with Dynamo, the metrics page is without the endpoint until the process is healthy for the first time.
"""

from __future__ import annotations

import argparse
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qsl, urlsplit

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)


STARTING = "dynamo_component_uptime_seconds 3"
IDLE = 'dynamo_component_inflight_requests{dynamo_endpoint="generate"} 0'


class Handler(http.server.BaseHTTPRequestHandler):
    state: ClassVar[dict[str, str]] = {
        "health": "200",
        "metrics": STARTING,
        "models": '{"object": "list", "data": []}',
        "transfers": "",
    }

    transfers_port: ClassVar[int] = 0

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        status, body = 200, ""
        if url.path == "/set":
            self.state.update(parse_qsl(url.query, keep_blank_values=True))
        elif url.path == "/health":
            if self.state["health"] == "hang":
                time.sleep(600)
            status = int(self.state["health"])
        elif url.path == "/metrics" and self.server.server_address[1] == self.transfers_port:
            body = self.state["transfers"] + "\n"
        elif url.path in {"/metrics", "/v1/models"}:
            if self.state["health"] == "200" and self.state["metrics"] == STARTING:
                self.state["metrics"] = IDLE
            body = self.state[url.path.rpartition("/")[2]] + "\n"
        else:
            status = 404
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *arguments: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--health", default="200")
    parser.add_argument("--transfers-port", type=int, default=0)
    parser.add_argument("--marker")
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--helper", help="file for the pid of a child that ignores SIGTERM")
    parser.add_argument("--helper-leaves-session", action="store_true")
    options = parser.parse_args()
    Handler.state["health"] = options.health
    if options.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.helper:
        helper = subprocess.Popen(
            [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, start_new_session=options.helper_leaves_session
        )
        assert helper.stdout is not None
        helper.stdout.readline()
        Path(options.helper).write_text(str(helper.pid))
    if options.marker:
        with Path(options.marker).open("a") as marker:
            marker.write(f"{options.port} {os.getpid()}\n")
    if options.transfers_port:
        Handler.transfers_port = options.transfers_port
        transfers = http.server.ThreadingHTTPServer(("127.0.0.1", options.transfers_port), Handler)
        threading.Thread(target=transfers.serve_forever, daemon=True).start()
    http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
