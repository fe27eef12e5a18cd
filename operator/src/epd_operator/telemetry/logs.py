"""Structured logs: one JSON object per line, with the key of the EPDDeployment that the line is about."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType

from epd_operator.api.v1alpha1.epddeployment import KIND
from epd_operator.objects.identity import Key

MAX_MESSAGE = 8192
"""Maximum length of a message, in characters. Container runtimes split longer lines."""
MAX_TRACEBACK = 8192
"""Maximum length of a traceback, in characters. Its end is kept, because it contains the error."""

_LEVELS = ((logging.DEBUG, "debug"), (logging.INFO, "info"), (logging.WARNING, "warning"), (logging.ERROR, "error"))
_subject: ContextVar[Mapping[str, object] | None] = ContextVar("subject", default=None)

logger = logging.getLogger(__name__)


@contextmanager
def log_context(key: Key, *, number: int | None = None) -> Iterator[None]:
    """Add the key of an object, and the number of the reconcile if given, to all lines logged in this context."""
    fields: dict[str, object] = {"namespace": key.namespace, "deployment": key.name}
    token = _subject.set(fields if number is None else {**fields, "reconcile": number})
    try:
        yield
    finally:
        _subject.reset(token)


class JsonFormatter(logging.Formatter):
    """Formats a record as exactly one line of JSON. It never fails."""

    def format(self, record: logging.LogRecord) -> str:
        """Time (RFC 3339), level, logger, message, object key and traceback."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": next((name for level, name in _LEVELS if record.levelno <= level), "critical"),
            "logger": record.name,
            "message": _cut(_message(record)),
            **(_subject.get() or _kopf_subject(record)),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)[-MAX_TRACEBACK:]
        return json.dumps(line, default=str)


def configure_logging(level: str) -> None:
    """Log to standard error. Of kopf and other libraries, log only warnings and errors."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in ("kopf", "aiohttp", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        # The arguments do not match the format string. The format string alone is better than no message.
        return str(record.msg)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"


def _kopf_subject(record: logging.LogRecord) -> dict[str, object]:
    """The object of a record that kopf logged."""
    reference = getattr(record, "k8s_ref", None)
    if not isinstance(reference, Mapping):
        return {}
    namespace, kind, name = (reference.get(field) for field in ("namespace", "kind", "name"))
    if kind == KIND:
        return {"namespace": namespace, "deployment": name}
    return {"namespace": namespace, "kind": kind, "name": name}


def _log_uncaught(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    logger.critical("the operator exits after an uncaught error: %s", kind.__name__, exc_info=(kind, error, traceback))


def _log_uncaught_in_thread(end: threading.ExceptHookArgs) -> None:
    error = end.exc_value or end.exc_type()
    name = end.thread.name if end.thread is not None else "?"
    logger.critical(
        "thread %s ended after an uncaught error: %s",
        name,
        end.exc_type.__name__,
        exc_info=(end.exc_type, error, end.exc_traceback),
    )
