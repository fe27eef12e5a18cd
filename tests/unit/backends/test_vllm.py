"""Command lines and environments of vLLM processes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.api.v1alpha1.epddeployment import TransferMode
from epd_operator.backends import dynamo
from epd_operator.backends.backend import EngineSettings
from epd_operator.backends.dynamo import Role
from epd_operator.backends.vllm import OWNED_FLAGS, TRANSFER_MODES, VLLM, command

ENGINE_ROLES = (Role.WORKER, Role.ENCODER, Role.PD)
ENGINES = st.builds(
    EngineSettings,
    role=st.sampled_from(ENGINE_ROLES),
    model=st.text(),
    served_name=st.text(),
    frontend_decoding=st.booleans(),
    gpus=st.integers(1, 16),
    embedding_cache_gib=st.none() | st.integers(0, 1024),
    gpu_memory_percent=st.none() | st.integers(1, 100),
    kv_events_port=st.none() | st.integers(1, 65535),
    local_encoders=st.booleans(),
    args=st.lists(st.text()).map(tuple),
)


def settings(role: Role = Role.PD, **changes: Any) -> EngineSettings:
    return EngineSettings(role=role, model="org/model", served_name="served", **changes)


def value_of(line: list[str], flag: str) -> str | None:
    """The argument after a flag, or None if there is no such flag."""
    return line[line.index(flag) + 1] if flag in line else None


def test_every_engine_has_the_model_and_accepts_images() -> None:
    for role in ENGINE_ROLES:
        line = command(settings(role))
        assert line[:3] == ["python3", "-m", "dynamo.vllm"]
        assert value_of(line, "--model") == "org/model"
        assert value_of(line, "--served-model-name") == "served"
        assert "--enable-multimodal" in line


@pytest.mark.parametrize(
    ("role", "flags"),
    [
        (Role.WORKER, []),
        (Role.ENCODER, ["--disaggregation-mode", "encode"]),
        (Role.PD, ["--disaggregation-mode", "pd", "--route-to-encoder", "--enable-mm-embeds"]),
    ],
)
def test_the_role_decides_the_disaggregation_mode(role: Role, flags: list[str]) -> None:
    line = command(settings(role))
    assert line[line.index("--enable-multimodal") + 1 :] == flags


def test_flags_of_settings_that_are_not_set_are_absent() -> None:
    line = command(settings())
    for flag in (
        "--frontend-decoding",
        "--tensor-parallel-size",
        "--multimodal-embedding-cache-capacity-gb",
        "--gpu-memory-utilization",
    ):
        assert flag not in line


def test_several_gpus_are_used_with_tensor_parallelism() -> None:
    assert value_of(command(settings(gpus=1)), "--tensor-parallel-size") is None
    assert value_of(command(settings(gpus=4)), "--tensor-parallel-size") == "4"


def test_an_embedding_cache_of_size_zero_is_not_the_default() -> None:
    assert value_of(command(settings(embedding_cache_gib=0)), "--multimodal-embedding-cache-capacity-gb") == "0"


@pytest.mark.parametrize(("percent", "share"), [(1, "0.01"), (7, "0.07"), (29, "0.29"), (90, "0.90"), (100, "1.00")])
def test_the_share_of_gpu_memory_is_written_as_a_fraction(percent: int, share: str) -> None:
    assert value_of(command(settings(gpu_memory_percent=percent)), "--gpu-memory-utilization") == share


@pytest.mark.parametrize(("role", "publishes"), [(Role.WORKER, True), (Role.PD, True), (Role.ENCODER, False)])
def test_only_processes_with_a_kv_cache_publish_events_about_it(role: Role, publishes: bool) -> None:
    found = value_of(command(settings(role, kv_events_port=20199)), "--kv-events-config")
    if publishes:
        assert found is not None
        # Without '*' in the address vLLM would connect to it instead of listening on it.
        assert json.loads(found) == {
            "enable_kv_cache_events": True,
            "publisher": "zmq",
            "topic": "kv-events",
            "endpoint": "tcp://*:20199",
        }
    else:
        assert found is None
    assert "--kv-events-config" not in command(settings(role))


def test_frontend_decoding_adds_its_flag() -> None:
    assert "--frontend-decoding" in command(settings(frontend_decoding=True))


@given(ENGINES)
def test_arguments_of_the_spec_are_at_the_end_in_their_order(engine: EngineSettings) -> None:
    line = command(engine)
    assert tuple(line[len(line) - len(engine.args) :]) == engine.args


@given(ENGINES)
def test_every_flag_that_the_operator_writes_is_owned(engine: EngineSettings) -> None:
    line = command(engine)
    written = line[3 : len(line) - len(engine.args)]
    values = {engine.model, engine.served_name}
    assert {word for word in written if word.startswith("-") and word not in values} <= set(OWNED_FLAGS)


def test_every_transfer_mode_of_the_api_is_known() -> None:
    assert set(TRANSFER_MODES) == set(TransferMode)


@pytest.mark.parametrize(("mode", "written"), TRANSFER_MODES.items())
def test_a_process_gets_its_transfer_mode_and_handshake_port(mode: str, written: str) -> None:
    assert VLLM.process_environment(mode, 5600) == {
        "DYN_VLLM_EMBEDDING_TRANSFER_MODE": written,
        "VLLM_NIXL_SIDE_CHANNEL_PORT": "5600",
    }


def test_the_memory_of_an_encoder_is_written_in_bytes() -> None:
    environment = VLLM.encoder_memory_environment(4 * 1024**3)
    assert environment == {"DYN_VLLM_ENCODER_KV_CACHE_MEMORY_BYTES": "4294967296"}


def test_addresses_of_the_engine_are_the_address_of_the_pod() -> None:
    assert set(VLLM.pod_environment.values()) == {"$(POD_IP)"}


def test_users_cannot_set_the_variables_of_the_backend() -> None:
    written = {
        *VLLM.pod_environment,
        *VLLM.process_environment("NixlRead", 1),
        *VLLM.encoder_memory_environment(1),
    }
    prefixes = (*VLLM.owned_variable_prefixes, *dynamo.OWNED_VARIABLE_PREFIXES)
    owned = {name for name in written if name.startswith(prefixes) or name in VLLM.owned_variables}
    assert written == owned


def test_names_of_metrics_are_different() -> None:
    names = (*VLLM.metrics.gauges, *VLLM.metrics.histograms)
    assert len(names) == len(set(names)) == 6
