"""The API server accepts and refuses the same objects as the models; the unit tests check the schema in more detail."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from crdgen import compile_crd
from crdgen.crd import Names
from hypothesis import HealthCheck, given, settings
from pydantic import Field, ValidationError

from epd_operator.api.markers import (
    Bool,
    Int,
    Int64,
    KubernetesObject,
    ListMap,
    ListSet,
    PrinterColumn,
    Quantity,
    Rule,
)
from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.base import ApiModel
from epd_operator.api.v1alpha1.epddeployment import GROUP, MAX_NAME_LENGTH, PLURAL, VERSION
from support.apiserver import ApiServer
from support.bad_objects import A, C, D, deployment, env, mount
from support.from_schema import almost_accepted
from support.schemas import compiled, rule_messages

COLLECTION = f"/apis/{GROUP}/{VERSION}/namespaces/default/{PLURAL}"
PROBLEMS = {message.partition(": ")[0] for message in rule_messages(compiled())}
"""The part of the messages that does not depend on the value."""

NEAR_MISSES: dict[str, tuple[str, dict[str, Any]]] = {
    "a variable of Dynamo that is the user's": (D, {"runtime.env": env("DYN_LOG", value="debug")}),
    "a variable that only resembles the operator's": (D, {"runtime.env": env("DYNAMO", value="1")}),
    "a variable without a value": (D, {"runtime.env": env("EMPTY")}),
    "a variable from a label of the pod": (
        D,
        {"pd.env": env("A", valueFrom={"fieldRef": {"fieldPath": "metadata.labels['tier']"}})},
    ),
    "a flag that only resembles the operator's": (D, {"pd.args": ["--model-impl=vllm", "--max-model-len", "8192"]}),
    "a value that looks like a pool": (A, {"worker.args": ["-O3", "--kv-cache-dtype=fp8"]}),
    "requests at their limits, in other units": (
        D,
        {"pd.resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}},
    ),
    "huge pages": (D, {"pd.resources": {"limits": {"hugepages-1Gi": "2Gi"}}}),
    "a folder of the user's below the cache": (
        D,
        {"podTemplate": {"volumes": [{"name": "a"}], "volumeMounts": [mount("a", "/var/cache/worker/hub")]}},
    ),
    "paths that only resemble those of others": (
        D,
        {
            "model.storage": {"claimName": "weights", "mountPath": "/models/"},
            "podTemplate": {
                "volumes": [{"name": "a"}],
                "volumeMounts": [
                    mount("a", path)
                    for path in ("/models-2", "/models/lora", "/a", "/a.b/", "/...", "/.a/", "/var/", "/dev/infiniband")
                ],
            },
        },
    ),
    "a stage's mount of a common volume": (
        D,
        {"podTemplate.volumes": [{"name": "a"}], "pd.podTemplate.volumeMounts": [mount("a", "/a")]},
    ),
    "the same product in gpu and nodeSelector": (
        D,
        {"pools.0.nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-GB200"}},
    ),
    "a pool for later": (A, {"pools.1.gpu.memory": "96Gi"}),
    "local transports within a group": (C, {"transfer.ucx.transports": ["self", "sm", "cuda_ipc"]}),
    "a group that fills its GPU": (
        C,
        {
            "group.encoder": {"count": 2, "memory": "11Gi"},
            "group.pd.gpuMemoryPercent": 78,
            "pools.0.gpu.memory": "100Gi",
        },
    ),
    **{
        f"the image {image}": (A, {"runtime.image": image, "podTemplate.image": image})
        for image in (
            "worker",
            "worker:1",
            "team/worker",
            "registry:5000/team/worker:1.2_3-b",
            "localhost/worker:1",
            "Registry.Example.com/team/worker:V1",
            "[fd00::1]:5000/worker:1",
            "a.b__c--d/e",
            "worker@sha256:" + "0a" * 32,
            "r.example.com:443/worker:1@sha512:" + "0" * 128,
        )
    },
    "a toleration of everything": (D, {"pools.0.tolerations": [{"operator": "Exists"}]}),
    "a name as long as it may be": (D, {}),
}


@pytest.mark.parametrize("sentence", NEAR_MISSES)
def test_the_server_accepts(api_server: ApiServer, sentence: str) -> None:
    topology, changes = NEAR_MISSES[sentence]
    value = deployment(topology, changes=changes, name="q" * MAX_NAME_LENGTH)
    answer = api_server.client.create(COLLECTION, value, dry_run=True)
    assert answer.ok, answer.message


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(spec=almost_accepted(compiled()["properties"]["spec"]))
def test_the_server_refuses_what_the_model_refuses_and_more_only_by_cel_rules(
    api_server: ApiServer, spec: dict[str, Any]
) -> None:
    value = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "EPDDeployment", "metadata": {"name": "sample"}, "spec": spec}
    answer = api_server.client.request("POST", f"{COLLECTION}?dryRun=All", value)
    try:
        EPDDeploymentSpec.model_validate(spec)
    except ValidationError:
        null_was_absent = answer.ok and _has_null(spec)
        assert answer.status == 422 or null_was_absent, spec
    else:
        beyond = [text for _, text in answer.causes if not any(problem in text for problem in PROBLEMS)]
        assert beyond == [], answer.message


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_null(item) for item in value.values())
    return any(map(_has_null, value)) if isinstance(value, list) else value is None


class Item(ApiModel):
    """An item."""

    name: Annotated[str, Field(max_length=9)] = Field(default="first", description="Key with a default.")
    flag: Bool = Field(default=False, description="A flag.")


class Everything(ApiModel):
    """A field of every kind that the compiler supports."""

    port: Annotated[Int, Field(le=65535)] = Field(description="A required number.")
    count: Annotated[Int, Field(ge=1, le=9)] = Field(default=2, description="A small number.")
    generation: Int64 | None = Field(default=None, description="A large number.")
    amount: Quantity = Field(default="1Gi", description="An amount.")
    words: Annotated[list[Annotated[str, Field(max_length=9)]], Field(max_length=3), ListSet()] = Field(
        default=["a"], description="A set."
    )
    items: Annotated[list[Item], Field(max_length=3), ListMap(("name",))] | None = Field(
        default=None, description="A map."
    )
    first: Item = Field(default_factory=Item, description="An object of defaults.")
    labels: Annotated[dict[str, Annotated[str, Field(max_length=9)]], Field(max_length=3)] | None = Field(
        default=None, description="Free keys."
    )
    rest: KubernetesObject | None = Field(default=None, description="Anything.")

    rules = (Rule(expression="self.count < 9 || has(self.rest)", message="nine needs a rest", field_path=".rest"),)


class Probe(ApiModel):
    """A kind for this test."""

    spec: Everything = Field(description="All.")


@pytest.fixture(scope="module")
def probes(bare_api_server: ApiServer) -> str:
    """Path of the collection of a kind that uses every feature of the compiler."""
    names = Names(group="test.epd.dev", version="v1", kind="Probe", plural="probes", short_names=("prb",))
    columns = (PrinterColumn(name="Count", json_path=".spec.count", type="integer"),)
    answer = bare_api_server.install_crd(compile_crd(Probe, names=names, columns=columns))
    assert answer.warnings == ()
    return "/apis/test.epd.dev/v1/namespaces/default/probes"


def _probe(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "test.epd.dev/v1", "kind": "Probe", "metadata": {"name": "probe"}, "spec": spec}


def test_the_server_fills_in_every_kind_of_default(bare_api_server: ApiServer, probes: str) -> None:
    answer = bare_api_server.client.create(probes, _probe(port=80, items=[{}]), dry_run=True)
    assert answer.ok, answer.message
    read = Everything.model_validate({"port": 80, "items": [{}]})
    assert answer.body["spec"] == read.model_dump(mode="json", by_alias=True, exclude_none=True)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"port": True}, "spec.port: Invalid value"),
        ({"port": 1, "words": ["a", "a"]}, 'spec.words[1]: Duplicate value: "a"'),
        ({"port": 1, "items": [{}, {"name": "first"}]}, 'spec.items[1]: Duplicate value: {"name":"first"}'),
        ({"port": 1, "count": 9}, "spec.rest: Invalid value: nine needs a rest"),
        ({"port": 1, "labels": dict.fromkeys("abcd", "x")}, "spec.labels: Too many: 4: must have at most 3"),
        ({"port": 1, "amount": "much"}, 'spec.amount: Invalid value: "much": not a quantity: write a'),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_the_server_enforces_every_kind_of_limit(
    bare_api_server: ApiServer, probes: str, spec: dict[str, Any], message: str
) -> None:
    answer = bare_api_server.client.create(probes, _probe(**spec), dry_run=True)
    assert answer.status == 422
    assert message in answer.message
