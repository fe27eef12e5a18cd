"""Copies the output of processes to the launcher's stdout, without blocking the event loop."""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

_MAX_LINE = 64 * 1024
# Enough for the tracebacks of an engine and of the process that started it: vLLM prints about 150 lines.
_TAIL_LINES = 400
_TAIL_LINE = 2048


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of output of a process, and its age in seconds."""

    text: str
    age: float = 0.0


class Console:
    """The launcher's stdout. Pumps write to it from their own threads; `log` queues a line and returns at once."""

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._drain_messages, name="console", daemon=True)
        self._writer.start()

    def log(self, message: str) -> None:
        """Log one line of the launcher itself."""
        self._messages.put(f"epd_worker: {message}\n".encode(errors="replace"))

    def write(self, data: bytes) -> None:
        """Write whole lines; blocks until they are read. Text for a closed stdout is lost; the process continues."""
        with self._lock, contextlib.suppress(OSError):
            view = memoryview(data)
            while view:
                view = view[os.write(self._descriptor, view) :]

    def close(self, *, timeout: float) -> None:
        """Write the queued lines, and wait at most `timeout` seconds for a slow reader."""
        self._messages.put(None)
        self._writer.join(timeout)

    def _drain_messages(self) -> None:
        while (message := self._messages.get()) is not None:
            self.write(message)


class Pump:
    """Copies one process's output, line by line, from a pipe to the console and remembers the last lines.

    `clock` gives monotonic seconds.
    """

    def __init__(self, *, console: Console, prefix: str, clock: Callable[[], float]) -> None:
        self._console = console
        self._prefix = prefix.encode()
        self._clock = clock
        self._tail: collections.deque[tuple[float, bytes]] = collections.deque(maxlen=_TAIL_LINES)
        self._source, self.sink = os.pipe()
        self._thread = threading.Thread(target=self._copy, name=f"output {prefix}", daemon=True)

    def start(self) -> None:
        """Begin to copy. The launcher closes its own copy of the sink, or it would never read the end of the output."""
        os.close(self.sink)
        self._thread.start()

    def discard(self) -> None:
        """Close both ends when no process was started."""
        os.close(self.sink)
        os.close(self._source)

    def tail(self, *, at: float) -> list[Line]:
        """Return the last lines that are not blank, oldest first, of limited length, with their ages at time `at`."""
        return [Line(text=line.decode(errors="replace"), age=max(at - came, 0.0)) for came, line in self._tail.copy()]

    def finish(self, *, timeout: float) -> None:
        """Wait for the end of the output, at most `timeout` seconds: another process may keep the pipe open."""
        self._thread.join(timeout)

    def _copy(self) -> None:
        rest = b""
        while data := self._read():
            *lines, rest = (rest + data).split(b"\n")
            self._emit(lines)
            while len(rest) > _MAX_LINE:
                self._emit([rest[:_MAX_LINE]])
                rest = rest[_MAX_LINE:]
        if rest:
            self._emit([rest])
        os.close(self._source)

    def _read(self) -> bytes:
        try:
            return os.read(self._source, 65536)
        except OSError:
            return b""

    def _emit(self, lines: list[bytes]) -> None:
        now = self._clock()
        self._tail.extend((now, line[:_TAIL_LINE]) for line in lines[-_TAIL_LINES:] if line.strip())
        self._console.write(b"".join(self._prefix + line + b"\n" for line in lines))
