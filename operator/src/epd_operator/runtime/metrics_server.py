"""Serves /metrics to scrapers."""

from __future__ import annotations

import gzip
import http.client
from http import HTTPStatus

from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.exposition import choose_encoder, generate_latest

from epd_operator.runtime.web import DEADLINE_SECONDS, Response, WebServer


class MetricsServer(WebServer):
    """The metrics of a registry, as they are when somebody looks."""

    def __init__(self, registry: CollectorRegistry, *, deadline: float = DEADLINE_SECONDS) -> None:
        super().__init__({"/metrics": self._page, "/": self._page}, name="metrics", deadline=deadline)
        self._registry = registry
        # Of the whole process. The times at which series began double the page, and nobody asks for them.
        disable_created_metrics()  # type: ignore[no-untyped-call]

    def _page(self, headers: http.client.HTTPMessage) -> Response:
        try:
            encode, content_type = choose_encoder(" ".join(headers.get("Accept", "").split()))
        except (ValueError, TypeError):
            # A version that is none.
            encode, content_type = generate_latest, choose_encoder("")[1]
        page = encode(self._registry)
        shown = {"Content-Type": content_type}
        if "gzip" in headers.get("Accept-Encoding", ""):
            page = gzip.compress(page, compresslevel=1)
            shown["Content-Encoding"] = "gzip"
        return Response(status=HTTPStatus.OK, headers=shown, body=page)
