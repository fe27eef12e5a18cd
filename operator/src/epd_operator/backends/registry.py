"""The registry of backends. A new engine needs a member of ``Framework``, an entry in ``BACKENDS`` and a module."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from epd_operator.backends import dynamo
from epd_operator.backends.backend import Backend
from epd_operator.backends.vllm import VLLM


class Framework(StrEnum):
    """Inference engine that Dynamo runs."""

    VLLM = "VLLM"


BACKENDS: Mapping[Framework, Backend] = {Framework.VLLM: VLLM}

OWNED_FLAGS: Mapping[str, str] = {
    **{flag: remedy for backend in BACKENDS.values() for flag, remedy in backend.owned_flags.items()},
    **dynamo.FRONTEND_FLAGS,
    **dynamo.RUNTIME_FLAGS,
}
"""Flags that users cannot set, and what to do instead."""

_SHARING_PREFIXES = ("CUDA_MPS_",)
_TRANSFER_VARIABLES = ("UCX_TLS", "UCX_NET_DEVICES")
_TELEMETRY_PREFIXES = ("NIXL_TELEMETRY_",)
_HOME_VARIABLES = ("HOME", "XDG_CACHE_HOME")

OWNED_VARIABLE_PREFIXES = (
    *dynamo.OWNED_VARIABLE_PREFIXES,
    *(prefix for backend in BACKENDS.values() for prefix in backend.owned_variable_prefixes),
    *_SHARING_PREFIXES,
    *_TELEMETRY_PREFIXES,
)
OWNED_VARIABLES = (
    *dynamo.OWNED_VARIABLES,
    *(name for backend in BACKENDS.values() for name in backend.owned_variables),
    *_TRANSFER_VARIABLES,
    *_HOME_VARIABLES,
)
