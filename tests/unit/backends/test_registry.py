"""The registry of backends."""

from __future__ import annotations

import pytest

from epd_operator.api.v1alpha1.epddeployment import TransferMode
from epd_operator.api.v1alpha1.stages import Routing
from epd_operator.backends import dynamo
from epd_operator.backends.backend import Backend, EngineSettings
from epd_operator.backends.dynamo import Role
from epd_operator.backends.registry import (
    BACKENDS,
    OWNED_FLAGS,
    OWNED_VARIABLE_PREFIXES,
    OWNED_VARIABLES,
    Framework,
)

every_backend = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)


def flags(line: list[str]) -> set[str]:
    """The flags of a command line, after the interpreter and the module; --no-FLAG as --FLAG, as the rule reads it."""
    return {word.split("=")[0].replace("--no-", "--") for word in line[3:] if word.startswith("-")}


def is_refused(variable: str) -> bool:
    """Whether the API refuses the variable in the env of users."""
    return variable in OWNED_VARIABLES or variable.startswith(OWNED_VARIABLE_PREFIXES)


@every_backend
@pytest.mark.parametrize("role", [role for role in Role if role is not Role.FRONTEND])
@pytest.mark.parametrize("everything_set", [False, True])
def test_the_api_refuses_every_flag_that_an_engine_gets(backend: Backend, role: Role, everything_set: bool) -> None:
    options = {"gpus": 4, "embedding_cache_gib": 8, "gpu_memory_percent": 78, "frontend_decoding": True}
    options |= {"kv_events_port": 20197, "local_encoders": True}
    settings = EngineSettings(role=role, model="m", served_name="s", **(options if everything_set else {}))
    written = flags(backend.command(settings))
    assert written
    assert written <= set(OWNED_FLAGS)


@pytest.mark.parametrize("routing", Routing)
def test_the_api_refuses_every_flag_that_a_frontend_gets(routing: Routing) -> None:
    written = flags(dynamo.frontend_command(namespace="n", port=1, routing=routing, migration_limit=3, args=[]))
    assert written
    assert written <= set(OWNED_FLAGS)


@every_backend
@pytest.mark.parametrize("mode", TransferMode)
def test_the_api_refuses_every_variable_of_a_backend(backend: Backend, mode: TransferMode) -> None:
    written = {
        *backend.pod_environment,
        *backend.process_environment(mode, 1),
        *backend.encoder_memory_environment(1),
    }
    assert {name for name in written if not is_refused(name)} == set()


def test_the_api_refuses_every_variable_of_dynamo() -> None:
    written = {
        *dynamo.POD_FIELDS,
        *dynamo.pod_environment(namespace="n"),
        *dynamo.process_environment(discovery_name="c", system_port=1),
        *(name for role in Role for name in dynamo.role_environment(role)),
    }
    assert {name for name in written if not is_refused(name)} == set()


def test_every_framework_has_a_backend() -> None:
    assert set(BACKENDS) == set(Framework)


def test_owned_flags_are_those_of_dynamo_and_of_every_backend() -> None:
    for backend in BACKENDS.values():
        assert set(backend.owned_flags) <= set(OWNED_FLAGS)
    assert {*dynamo.FRONTEND_FLAGS, *dynamo.RUNTIME_FLAGS} <= set(OWNED_FLAGS)
    assert all(flag.startswith("-") for flag in OWNED_FLAGS)


def test_owned_variables_are_those_of_dynamo_and_of_every_backend() -> None:
    for backend in BACKENDS.values():
        assert set(backend.owned_variable_prefixes) <= set(OWNED_VARIABLE_PREFIXES)
        assert set(backend.owned_variables) <= set(OWNED_VARIABLES)
    assert set(dynamo.OWNED_VARIABLE_PREFIXES) <= set(OWNED_VARIABLE_PREFIXES)
    assert set(dynamo.OWNED_VARIABLES) <= set(OWNED_VARIABLES)


def test_an_owned_prefix_is_never_empty() -> None:
    assert all(OWNED_VARIABLE_PREFIXES)


@pytest.mark.parametrize(
    "variable",
    [
        "DYN_LOG",
        "DYN_LOGGING_JSONL",
        "DYN_HTTP_BODY_LIMIT_MB",
        "DYN_TCP_MAX_MESSAGE_SIZE",
        "DYN_MM_MAX_DATA_URL_MB",
        "DYN_MM_MAX_FILE_SIZE_MB",
        "DYN_MM_ALLOW_INTERNAL",
        "DYN_LORA_ENABLED",
        "DYN_LORA_PATH",
        "DYN_HEALTH_CHECK_ENABLED",
        "DYN_HEALTH_CHECK_PAYLOAD",
        "DYN_HEALTH_CHECK_REQUEST_TIMEOUT",
        "DYN_CANARY_WAIT_TIME",
        "DYN_VLLM_SKIP_ENCODER_ONLY_KERNEL_WARMUP",
        "HF_HOME",
        "HF_TOKEN",
    ],
)
def test_users_can_set_variables_that_the_operator_does_not_need(variable: str) -> None:
    assert not is_refused(variable)


def test_every_owned_flag_has_a_remedy() -> None:
    assert all(remedy.startswith(("set ", "remove it", "write ")) for remedy in OWNED_FLAGS.values())
