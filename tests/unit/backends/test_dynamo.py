"""Command lines of frontends, and environments of Dynamo processes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.api.v1alpha1.stages import Routing
from epd_operator.backends import dynamo
from epd_operator.backends.dynamo import ROUTER_MODES, Role, frontend_command


@pytest.mark.parametrize(("routing", "mode"), ROUTER_MODES.items())
def test_a_frontend_gets_the_router_mode_of_dynamo(routing: str, mode: tuple[str, ...]) -> None:
    line = frontend_command(namespace="serving-qwen", port=8000, routing=routing, migration_limit=0, args=[])
    assert line == [
        *("python3", "-m", "dynamo.frontend"),
        *("--http-port", "8000"),
        *("--namespace", "serving-qwen", "--router-mode", *mode),
    ]


def test_a_router_without_events_is_chosen_by_name_only() -> None:
    """Without events and without the flag, Dynamo's KV router would look at the load only."""
    without = {routing for routing, flags in ROUTER_MODES.items() if "--no-router-kv-events" in flags}
    assert without == {"KVApproximate"}
    assert {routing for routing in ROUTER_MODES if dynamo.needs_kv_events(routing)} == {"KV"}


def test_a_frontend_lets_requests_continue_on_another_worker_if_the_limit_is_set() -> None:
    def line(limit: int) -> str:
        return " ".join(frontend_command(namespace="n", port=1, routing="KV", migration_limit=limit, args=[]))

    assert line(3).endswith("--migration-limit 3")
    assert "--migration-limit" not in line(0)


def test_every_routing_of_the_api_has_a_router_mode() -> None:
    assert set(ROUTER_MODES) == set(Routing)


@given(st.lists(st.text()))
def test_arguments_of_a_frontend_are_at_the_end_in_their_order(args: list[str]) -> None:
    line = frontend_command(namespace="n", port=1, routing="KV", migration_limit=3, args=args)
    assert line[len(line) - len(args) :] == args


def test_every_flag_of_a_frontend_is_owned() -> None:
    line = frontend_command(namespace="n", port=1, routing="KV", migration_limit=3, args=[])
    flags = {word for word in line[3:] if word.startswith("-")}
    assert flags <= {*dynamo.FRONTEND_FLAGS, *dynamo.RUNTIME_FLAGS}


@given(st.text())
def test_the_namespace_is_passed_unchanged(namespace: str) -> None:
    assert dynamo.pod_environment(namespace=namespace)["DYN_NAMESPACE"] == namespace


def test_discovery_uses_kubernetes_in_container_mode() -> None:
    environment = dynamo.pod_environment(namespace="n")
    assert (environment["DYN_DISCOVERY_BACKEND"], environment["DYN_KUBE_DISCOVERY_MODE"]) == ("kubernetes", "container")
    assert dynamo.DISCOVERY_LABELS["nvidia.com/dynamo-discovery-backend"] == environment["DYN_DISCOVERY_BACKEND"]


def test_requests_use_the_address_of_the_pod_and_the_system_server_only_loopback() -> None:
    environment = dynamo.pod_environment(namespace="n")
    assert environment["DYN_TCP_RPC_HOST"] == "$(POD_IP)"
    assert environment["DYN_SYSTEM_HOST"] == "127.0.0.1"


def test_a_process_gets_its_name_in_discovery_and_its_port() -> None:
    environment = dynamo.process_environment(discovery_name="encoder-1", system_port=9191)
    assert environment == {"CONTAINER_NAME": "encoder-1", "DYN_SYSTEM_PORT": "9191"}


@pytest.mark.parametrize("role", Role)
def test_dynamo_does_not_wait_at_its_shutdown(role: Role) -> None:
    assert dynamo.role_environment(role)["DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS"] == "0"


def test_only_frontends_have_the_admin_api_and_it_is_disabled() -> None:
    roles = {role for role in Role if "DYN_DISABLE_FRONTEND_ADMIN_API" in dynamo.role_environment(role)}
    assert roles == {Role.FRONTEND}
    assert dynamo.role_environment(Role.FRONTEND)["DYN_DISABLE_FRONTEND_ADMIN_API"] == "true"


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.FRONTEND])
def test_the_health_of_an_engine_is_that_of_its_generate_endpoint(role: Role) -> None:
    assert json.loads(dynamo.role_environment(role)["DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS"]) == ["generate"]


def test_users_cannot_set_the_variables_of_dynamo_processes() -> None:
    written = {
        *dynamo.POD_FIELDS,
        *dynamo.pod_environment(namespace="n"),
        *dynamo.process_environment(discovery_name="c", system_port=1),
        *(name for role in Role for name in dynamo.role_environment(role)),
    }
    owned = {
        name for name in written if name.startswith(dynamo.OWNED_VARIABLE_PREFIXES) or name in dynamo.OWNED_VARIABLES
    }
    assert written == owned
