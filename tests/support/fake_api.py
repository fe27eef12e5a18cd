"""A small HTTP server with the answers of an API server, for commands that users type: no cluster, no processes.

Only what `epdctl` needs: one EPDDeployment, its records, and refusals that a test chooses.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

Answer = tuple[int, Any]


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A request."""

    method: str
    path: str
    query: dict[str, str]
    body: Any = None


@dataclass
class FakeApi:
    """Objects by path; ``refusals`` come first, one for each request that it answers."""

    objects: dict[str, Any] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    refuse: Callable[[Sent], Answer | None] = lambda _sent: None
    url: str = ""

    def writes(self) -> list[Sent]:
        return [sent for sent in self.sent if sent.method != "GET"]

    def answer(self, sent: Sent) -> Answer:
        self.sent.append(sent)
        refused = self.refuse(sent)
        if refused is not None:
            return refused
        found = self.objects.get(sent.path)
        if found is None:
            return 404, {"message": f'"{sent.path.rpartition("/")[2]}" not found'}
        if sent.method == "GET":
            return 200, found
        merged = sent.body if sent.method == "PUT" else _merged(found, sent.body)
        if "dryRun" not in sent.query:
            self.objects[sent.path] = merged
        return 200, merged

    @contextmanager
    def running(self) -> Iterator[FakeApi]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def _handle(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                url = urlsplit(self.path)
                query = {key: values[0] for key, values in parse_qs(url.query).items()}
                status, answer = api.answer(Sent(method=self.command, path=url.path, query=query, body=body))
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_PATCH = _handle  # noqa: N815

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def _merged(live: Any, patch: Any) -> Any:
    if not isinstance(patch, dict) or not isinstance(live, dict):
        return patch
    result = copy.deepcopy(live)
    for key, value in patch.items():
        result[key] = _merged(result.get(key, {}), value)
    return result


def kubeconfig(path: Path, *, url: str, context: str = "lab", namespace: str = "", current: str | None = None) -> Path:
    """Write a kubeconfig with one context."""
    inner = {"cluster": context, "user": context, **({"namespace": namespace} if namespace else {})}
    document = {
        "clusters": [{"name": context, "cluster": {"server": url}}],
        "users": [{"name": context, "user": {"token": f"token-of-{context}"}}],
        "contexts": [{"name": context, "context": inner}],
        "current-context": context if current is None else current,
    }
    path.write_text(json.dumps(document))
    return path
