"""Logs warnings of the API server, for example about deprecated APIs or pods that a policy will refuse."""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Iterable

from epd_operator.objects.text import one_line

logger = logging.getLogger(__name__)

MAX_KNOWN = 256
MAX_HEADERS = 16
"""Maximum number of warnings that are read from one answer."""

_HEADER = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class Warnings:
    """Logs each warning once. Remembers a limited number of warnings, and forgets the least recent ones first."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()

    def log_new(self, headers: Iterable[str], *, request: str) -> None:
        """Log the warnings in the Warning headers of an answer that have not been logged yet."""
        for header in list(headers)[:MAX_HEADERS]:
            found = _HEADER.match(header)
            if found is None:
                continue
            text = one_line(re.sub(r"\\(.)", r"\1", found[1]))
            if text not in self._known:
                logger.warning("warning of the API server for %s: %s", request, text)
            self._known[text] = None
            self._known.move_to_end(text)
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
