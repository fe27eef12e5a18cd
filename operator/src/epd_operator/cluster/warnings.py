"""What the API server warns of, such as a deprecated API or pods that a policy will refuse."""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Iterable

from epd_operator.objects.text import one_line

logger = logging.getLogger(__name__)

MAX_KNOWN = 256
MAX_HEADERS = 16
"""Of one answer."""

_HEADER = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class Warnings:
    """Logs each warning once; of too many, the one that was seen least recently is forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()

    def saw(self, headers: Iterable[str], *, request: str) -> None:
        """Log what is new in the Warning headers of an answer."""
        for header in list(headers)[:MAX_HEADERS]:
            found = _HEADER.match(header)
            if found is None:
                continue
            text = one_line(re.sub(r"\\(.)", r"\1", found[1]))
            if text not in self._known:
                logger.warning("the API server warns at %s: %s", request, text)
            self._known[text] = None
            self._known.move_to_end(text)
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
