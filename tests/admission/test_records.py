"""A worker pod may write its own discovery records, and none of another pod."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from support.admission import PLURALS, REGISTRATION, Object, policies_about_records
from support.apiserver import ApiServer
from support.client import Answer, Client
from support.helm import Helm

NAMESPACE = "records"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
RECORDS = f"/apis/nvidia.com/v1alpha1/namespaces/{NAMESPACE}/dynamoworkermetadatas"
ACCOUNT = "tiny-discovery"
POD, OTHER = "tiny-pd-6f7d-x2x4z", "tiny-pd-6f7d-b8b9c"


def record(name: str) -> Object:
    return {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoWorkerMetadata",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"data": {}},
    }


def apply(client: Client, name: str) -> Answer:
    """Apply a record, as Dynamo does."""
    return client.apply(f"{RECORDS}/{name}", record(name), manager="dynamo")


@dataclass(frozen=True, kw_only=True)
class Accounts:
    """Clients of the API server.

    Attributes:
        admin: may do everything.
        pod: with the token of a worker pod.
        unbound: with a token of the same ServiceAccount that is not bound to a pod.
    """

    admin: Client
    pod: Client
    unbound: Client


def client_of(server: ApiServer, *, pod: str = "") -> Client:
    """A client with a token of the workers' ServiceAccount, bound to a pod if given."""
    bound = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod}} if pod else {}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": bound}
    answer = server.client.create(f"{CORE}/serviceaccounts/{ACCOUNT}/token", body)
    assert answer.ok, answer.message
    return Client(url=server.url, token=answer.body["status"]["token"], ca_file=server.client.ca_file)


def make(server: ApiServer, path: str, body: dict[str, Any]) -> None:
    answer = server.client.create(path, body)
    assert answer.ok, answer.message


@pytest.fixture(scope="module")
def accounts(controllers: ApiServer, helm: Helm) -> Accounts:
    """A namespace with two worker pods, the role of the chart bound for their account, and the policy in effect."""
    make(controllers, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    make(controllers, f"{CORE}/serviceaccounts", {"metadata": {"name": ACCOUNT}})
    (role,) = [found for found in helm.template() if found["metadata"]["name"] == "epd-worker-discovery"]
    make(controllers, "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]}
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    binding = {"metadata": {"name": ACCOUNT}, "roleRef": reference, "subjects": [subject]}
    make(controllers, f"{RBAC}/rolebindings", binding)
    for pod in (POD, OTHER):
        spec = {"serviceAccountName": ACCOUNT, "containers": [{"name": "main", "image": "none"}]}
        make(controllers, f"{CORE}/pods", {"metadata": {"name": pod}, "spec": spec})
    for document in policies_about_records(helm):
        make(controllers, f"{REGISTRATION}/{PLURALS[document['kind']]}", document)
    found = Accounts(admin=controllers.client, pod=client_of(controllers, pod=POD), unbound=client_of(controllers))
    controllers.wait_for("policy in effect", lambda: apply(found.unbound, "probe").status == 422)
    return found


@pytest.mark.parametrize("name", [POD, f"{POD}-encoder-0"])
def test_a_pod_can_write_and_delete_the_records_of_its_own_processes(accounts: Accounts, name: str) -> None:
    assert apply(accounts.pod, name).status == 201
    assert apply(accounts.pod, name).status == 200
    assert accounts.pod.request("DELETE", f"{RECORDS}/{name}").ok


@pytest.mark.parametrize("name", [OTHER, f"{OTHER}-encoder-0", POD.removesuffix("z"), f"{POD}x"])
def test_a_pod_cannot_create_a_record_of_another_pod(accounts: Accounts, name: str) -> None:
    answer = apply(accounts.pod, name)
    assert answer.status == 422
    assert (
        f"the discovery record {name} does not belong to this pod. A pod can write only its own records."
        in answer.message
    )


def test_a_pod_cannot_change_or_delete_a_record_of_another_pod(accounts: Accounts) -> None:
    assert apply(accounts.admin, OTHER).ok
    assert apply(accounts.pod, OTHER).status == 422
    assert accounts.pod.request("DELETE", f"{RECORDS}/{OTHER}").status == 422
    assert accounts.admin.get(f"{RECORDS}/{OTHER}").ok


def test_a_record_whose_name_is_only_in_the_body_is_checked_too(accounts: Accounts) -> None:
    assert accounts.pod.create(RECORDS, record(f"{OTHER}-pd")).status == 422
    assert accounts.pod.create(RECORDS, record(f"{POD}-pd")).ok


def test_a_token_that_is_not_bound_to_a_pod_cannot_write_records(accounts: Accounts) -> None:
    assert apply(accounts.unbound, POD).status == 422


def test_the_policy_about_records_can_be_switched_off(helm: Helm) -> None:
    assert policies_about_records(helm, "--set", "admission.records.enabled=false") == []
    assert policies_about_records(helm, "--set", "admission.enabled=false") == []
