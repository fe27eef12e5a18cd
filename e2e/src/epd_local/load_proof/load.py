"""The stream of requests: one every two seconds, whatever the answers; a client with one connection; long answers."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Self

from epd_local.load_proof.requests import Client, Kind, Request

PERIOD_SECONDS = 2.0
"""Time between two short requests on connections of their own, every second one with a picture."""
MOST_AT_A_TIME = 16
"""Requests in flight on such connections, as with a pool of clients. More would only measure the machine's speed."""
KEPT_PAUSE_SECONDS = 1.0
"""Pause of the client on a kept connection between an answer and its next request."""
LONG_PERIOD_SECONDS = 20.0
"""Time between the starts of two long answers, every second one with a picture."""


class Load:
    """Sends requests until the block is left, and then waits for their answers."""

    def __init__(self, *, url: str, model: str, long_tokens: int) -> None:
        self._url, self._model, self._long_tokens = url, model, long_tokens
        self._stopped = threading.Event()
        self._slots = threading.BoundedSemaphore(MOST_AT_A_TIME)
        self._numbers = itertools.count(int(time.time()) % 1_000_000)
        self._requests: list[threading.Thread] = []
        self._senders = [
            threading.Thread(target=self._periodically, args=(PERIOD_SECONDS, (Kind.TEXT, Kind.IMAGE))),
            threading.Thread(target=self._periodically, args=(LONG_PERIOD_SECONDS, (Kind.LONG_TEXT, Kind.LONG_IMAGE))),
            threading.Thread(target=self._on_kept_connection),
        ]
        self.ended: list[Request] = []

    def __enter__(self) -> Self:
        for sender in self._senders:
            sender.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in (*self._senders, *self._requests):
            thread.join()

    def answered_since(self, moment: float) -> set[Kind]:
        """The kinds of which a request that was sent after this moment is answered."""
        return {request.kind for request in self.ended if not request.fault and request.sent >= moment}

    def _periodically(self, period: float, kinds: tuple[Kind, ...]) -> None:
        began = time.monotonic()
        for index in itertools.count():
            if self._stopped.wait(max(0.0, began + index * period - time.monotonic())):
                return
            self._slots.acquire()
            thread = threading.Thread(target=self._ask_once, args=(kinds[index % len(kinds)],))
            self._requests.append(thread)
            thread.start()

    def _ask_once(self, kind: Kind) -> None:
        try:
            self.ended.append(self._client().ask(kind, number=next(self._numbers), long_tokens=self._long_tokens))
        finally:
            self._slots.release()

    def _on_kept_connection(self) -> None:
        client = self._client(keep=True)
        while not self._stopped.wait(KEPT_PAUSE_SECONDS):
            self.ended.append(client.ask(Kind.KEPT, number=next(self._numbers), long_tokens=self._long_tokens))
        client.close()

    def _client(self, *, keep: bool = False) -> Client:
        return Client(url=self._url, model=self._model, keep=keep)


def tokens_in(seconds: float, *, ask: Callable[[int], object], sample: int = 64, most: int = 1500) -> int:
    """How many tokens the model answers in this time at present."""
    began = time.monotonic()
    ask(sample)
    return min(max(sample, round(sample * seconds / (time.monotonic() - began))), most)
