"""Why a container is not ready: it cannot be created, or it has ended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from epd_operator.api.untyped import mapping
from epd_operator.objects.text import one_line
from epd_operator.plan.status.problem import Problem
from epd_operator.plan.status.reasons import Reason

_IMAGE_REASONS = ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
_CONFIG_REASONS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
_MISSING = "CreateContainerConfigError"
"""A ConfigMap or Secret, or a key of one, does not exist."""
_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*": (ErrImagePull: )?')


def container_problem(pod: str, container: Mapping[str, Any]) -> Problem | None:
    """Why the container of a pod cannot be created, or why it has ended; None if neither is true."""
    where = f"pod {pod}, container {one_line(container.get('name'))}"
    state = mapping(container.get("state"))
    waiting = mapping(state.get("waiting"))
    reason = waiting.get("reason")
    if reason in _IMAGE_REASONS:
        # The kubelet alternates between two texts during the back-off. The message has only their common cause, so that
        # the status does not change each time.
        cause = one_line(_BACK_OFF.sub("", str(waiting.get("message") or reason)))
        image = one_line(container.get("image"))
        return Problem(Reason.IMAGE_PULL_FAILED, f"{where}: image {image!r} cannot be pulled: {cause}")
    if reason in _CONFIG_REASONS:
        fix = " (create the object or key that is missing, or correct the reference)" if reason == _MISSING else ""
        message = f"{where}: {one_line(waiting.get('message') or reason)}{fix}"
        return Problem(Reason.CONTAINER_CONFIG_INVALID, message)
    ended = mapping(state.get("terminated")) or mapping(mapping(container.get("lastState")).get("terminated"))
    if ended:
        message = f"{where}: {_termination_message(ended)}"
        if reason == "CrashLoopBackOff":
            return Problem(Reason.CRASH_LOOPING, f"{message}; it ends repeatedly and is restarted after a back-off")
        return Problem(Reason.CONTAINER_RESTARTED, f"{message}; it is being restarted")
    return None


def _termination_message(terminated: Mapping[str, Any]) -> str:
    code, reason = one_line(repr(terminated.get("exitCode"))), one_line(terminated.get("reason"))
    ending = f"ended with exit code {code}" + (f" ({reason})" if reason not in ("", "Error", "Completed") else "")
    message = one_line(terminated.get("message"))
    return f"{ending}: {message}" if message else ending
