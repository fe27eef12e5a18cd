"""A TCP connection to the API server that can be cut: from then on nothing arrives, and no side is notified."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from support.apiserver import ApiServer


class Wire:
    """Forwards a local port to the API server; a context manager."""

    def __init__(self, server: ApiServer) -> None:
        self._target = urlsplit(server.url).port
        self._connected = threading.Event()
        self._connected.set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()

    def kubeconfig(self, server: ApiServer, *, to: Path) -> Path:
        """A kubeconfig that connects through this port."""
        config = json.loads(server.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self._listening.getsockname()[1]}"
        to.write_text(json.dumps(config))
        return to

    def cut(self) -> None:
        """Stop forwarding, without closing the connections."""
        self._connected.clear()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._connected.wait()
                sink.sendall(data)
        sink.close()
