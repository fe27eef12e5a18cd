"""The launcher that runs, watches, drains and stops the processes of one epd-operator pod."""

from __future__ import annotations

import signal

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
