"""The real API server, as for the tests of the API."""

from __future__ import annotations

from support.fixtures import api_server, bare_api_server, controllers, crd_answers, live_world, world

__all__ = ["api_server", "bare_api_server", "controllers", "crd_answers", "live_world", "world"]
