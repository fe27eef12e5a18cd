"""One real API server for the session, with the project's CRDs installed."""

from __future__ import annotations

from support.fixtures import api_server, bare_api_server, controllers, crd_answers, live_world, world

__all__ = ["api_server", "bare_api_server", "controllers", "crd_answers", "live_world", "world"]
