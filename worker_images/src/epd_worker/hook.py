"""The preStop hook: requests the drain from the launcher of the pod and waits for its end."""

from __future__ import annotations

import http.client
import sys
import time

PATIENCE_SECONDS = 25 * 3600.0
"""The launcher ends every drain at its own time limit, at most a day: this one only covers a launcher that hangs."""
_CONNECT_ATTEMPTS = 3
_CONNECT_PAUSE = 0.5


def drain(*, port: int, timeout: float) -> int:
    """Request the drain and wait for its end; always return 0.

    The kubelet ends the container after a failed hook too, which would only add a misleading Event. If no launcher
    answers, there is no process left to drain.
    """
    try:
        status, summary = _ask(port=port, timeout=timeout)
    except (OSError, http.client.HTTPException) as error:
        sys.stderr.write(f"nothing to drain: no answer from the launcher on port {port} ({error})\n")
        return 0
    sys.stdout.write(summary if status == 200 else f"the launcher refused to drain: {status} {summary}")
    return 0


def _ask(*, port: int, timeout: float) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        _connect(connection)
        connection.request("POST", "/drain", headers={"Connection": "close"})
        response = connection.getresponse()
        return response.status, response.read(64 * 1024).decode(errors="replace")
    finally:
        connection.close()


def _connect(connection: http.client.HTTPConnection) -> None:
    for attempt in range(_CONNECT_ATTEMPTS):
        try:
            connection.connect()
        except ConnectionRefusedError:
            # The launcher may have just started: it opens the port within a fraction of a second.
            if attempt == _CONNECT_ATTEMPTS - 1:
                raise
            time.sleep(_CONNECT_PAUSE)
        else:
            return
