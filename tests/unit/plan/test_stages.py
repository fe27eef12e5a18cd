"""What the pods of each stage run, see and ask for."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.stages import Routing
from epd_operator.objects.identity import Identity
from epd_operator.plan.stages.plan_stages import plan_stages
from support.specs import TOPOLOGIES, raw_spec, spec

IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")


def pods(wanted: EPDDeploymentSpec) -> dict[str, dict[str, Any]]:
    return {stage.name: stage.pod_template for stage in plan_stages(wanted, identity=IDENTITY)}


def main(template: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = template["spec"]["containers"][-1]
    return container


def env(container: dict[str, Any]) -> dict[str, Any]:
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in container["env"]}


def command(container: dict[str, Any]) -> str:
    return " ".join(container["command"])


def group(template: dict[str, Any]) -> list[dict[str, Any]]:
    document: dict[str, Any] = json.loads(env(main(template))["EPD_GROUP"])
    processes: list[dict[str, Any]] = document["processes"]
    return processes


def test_roles_get_dynamos_flags() -> None:
    apart = pods(spec())
    assert "dynamo.vllm --model Qwen/Qwen3-VL-8B-Instruct --served-model-name qwen-vl" in command(
        main(apart["encoder"])
    )
    assert "--disaggregation-mode encode" in command(main(apart["encoder"]))
    assert "--disaggregation-mode pd --route-to-encoder --enable-mm-embeds" in command(main(apart["pd"]))
    assert "--disaggregation-mode" not in command(main(pods(spec("Aggregated"))["worker"]))
    assert "--router-mode kv" in command(main(pods(spec(frontend={"routing": "KV"}))["frontend"]))
    assert "--migration-limit 2" in command(main(pods(spec(frontend={"migrationLimit": 2}))["frontend"]))


def kv_event_ports(words: list[str]) -> list[str]:
    configs = [json.loads(after) for word, after in pairwise(words) if word == "--kv-events-config"]
    return [config["endpoint"].rpartition(":")[2] for config in configs]


def test_with_kv_routing_every_process_with_a_kv_cache_publishes_events_on_a_port_of_its_own() -> None:
    routing = {"frontend": {"routing": "KV"}}
    for topology, stage in (("Aggregated", "worker"), ("Disaggregated", "pd")):
        assert kv_event_ports(main(pods(spec(topology, **routing))[stage])["command"]) == ["20197"]
    assert kv_event_ports(main(pods(spec(**routing))["encoder"])["command"]) == []
    wanted = spec("CoLocated", group={"pool": "gb200", "encoder": {"count": 3}}, **routing)
    published = {p["name"]: kv_event_ports(p["command"]) for p in group(pods(wanted)["group"])}
    assert published == {"encoder-0": [], "encoder-1": [], "encoder-2": [], "pd": ["20200"]}


@pytest.mark.parametrize("routing", [routing for routing in Routing if routing is not Routing.KV])
def test_with_other_routing_no_process_publishes_events(routing: Routing) -> None:
    for topology in TOPOLOGIES:
        assert "--kv-events-config" not in json.dumps(pods(spec(topology, frontend={"routing": routing})))


def test_flags_that_dynamo_removed_are_never_written() -> None:
    for topology in TOPOLOGIES:
        assert "--multimodal-encode-worker" not in json.dumps(pods(spec(topology)))


def test_frontends_see_only_the_workers_of_their_own_deployment() -> None:
    for topology in TOPOLOGIES:
        for template in pods(spec(topology)).values():
            assert env(main(template))["DYN_NAMESPACE"] == "serving-qwen"
    assert "--namespace serving-qwen" in command(main(pods(spec())["frontend"]))


def test_all_addresses_are_the_pods_own() -> None:
    for template in pods(spec()).values():
        variables = env(main(template))
        assert variables["POD_IP"] == {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}
        for name in ("DYN_TCP_RPC_HOST", "VLLM_HOST_IP", "VLLM_NIXL_SIDE_CHANNEL_HOST"):
            assert variables[name] == "$(POD_IP)"


def test_kubernetes_can_expand_the_address_since_it_is_defined_first() -> None:
    for topology in TOPOLOGIES:
        for template in pods(spec(topology)).values():
            order = [e["name"] for e in main(template)["env"]]
            assert order.index("POD_IP") < order.index("DYN_TCP_RPC_HOST")


def test_processes_of_one_pod_never_share_a_port_or_a_name() -> None:
    processes = group(pods(spec("CoLocated", group={"pool": "gb200", "encoder": {"count": 8}}))["group"])
    for variable in (
        "CONTAINER_NAME",
        "DYN_SYSTEM_PORT",
        "VLLM_NIXL_SIDE_CHANNEL_PORT",
        "NIXL_TELEMETRY_PROMETHEUS_PORT",
    ):
        assert len({p["env"][variable] for p in processes}) == 9
    ports = [p["env"][v] for p in processes for v in p["env"] if v.endswith("_PORT")]
    assert len(ports) == len(set(ports))


def test_dynamos_system_server_listens_inside_of_the_pod_only() -> None:
    for topology in TOPOLOGIES:
        for template in pods(spec(topology)).values():
            assert env(main(template))["DYN_SYSTEM_HOST"] == "127.0.0.1"
            # Else workers send frontends to that server for the model's configuration.
            assert env(main(template))["DYN_SELF_HOST_METADATA"] == "0"


def test_the_launcher_hands_out_the_metrics_of_the_system_server_on_the_port_that_the_pod_names() -> None:
    def system_ports(template: dict[str, Any]) -> list[int]:
        return [p["containerPort"] for p in main(template)["ports"] if p["name"].startswith("system")]

    for topology in ("Aggregated", "Disaggregated"):
        for stage, template in pods(spec(topology)).items():
            words = command(main(template)).split(" -- ")[0]
            if stage == "frontend":
                assert "--metrics-port" not in words
                assert "--metrics-url http://127.0.0.1:8000/metrics" in words
                continue
            assert env(main(template))["DYN_SYSTEM_PORT"] == "9190"
            assert "--metrics-url http://127.0.0.1:9190/metrics --metrics-port 9090" in words
            assert "--health-url http://127.0.0.1:9190/health" in words
            assert system_ports(template) == [9090]
    template = pods(spec("CoLocated", group={"pool": "gb200", "encoder": {"count": 8}}))["group"]
    for slot, process in enumerate(group(template)):
        assert process["env"]["DYN_SYSTEM_PORT"] == str(9190 + slot)
        assert process["healthUrl"] == f"http://127.0.0.1:{9190 + slot}/health"
        assert process["metricsUrl"] == f"http://127.0.0.1:{9190 + slot}/metrics"
    assert [p["metricsPort"] for p in group(template)] == system_ports(template) == list(range(9090, 9099))


def test_frontends_take_no_commands_of_an_administrator() -> None:
    for topology in TOPOLOGIES:
        assert env(main(pods(spec(topology))["frontend"]))["DYN_DISABLE_FRONTEND_ADMIN_API"] == "true"


def test_a_group_starts_its_encoders_before_its_pd_process() -> None:
    assert [p["name"] for p in group(pods(spec("CoLocated"))["group"])] == ["encoder-0", "encoder-1", "pd"]


def test_each_process_of_a_group_has_a_container_of_its_name_and_one_owns_the_gpu() -> None:
    template = pods(spec("CoLocated"))["group"]
    containers = template["spec"]["containers"]
    assert [c["name"] for c in containers] == [p["name"] for p in group(template)]
    owners = [c["name"] for c in containers if "nvidia.com/gpu" in c["resources"].get("limits", {})]
    assert owners == ["pd"]


def test_kubectl_shows_the_container_that_runs_the_processes_of_a_group_unless_told_otherwise() -> None:
    key = "kubectl.kubernetes.io/default-container"
    assert pods(spec("CoLocated"))["group"]["metadata"]["annotations"] == {key: "pd"}
    own = {"podTemplate": {"annotations": {key: "encoder-0"}}}
    assert pods(spec("CoLocated", **own))["group"]["metadata"]["annotations"] == {key: "encoder-0"}
    assert "annotations" not in pods(spec("Aggregated"))["worker"]["metadata"]


def test_a_group_encodes_in_its_own_pod_unless_the_spec_says_otherwise() -> None:
    def module_of_pd(encoder: dict[str, Any]) -> str:
        processes = group(pods(spec("CoLocated", group={"pool": "gb200", "encoder": encoder}))["group"])
        assert all(p["command"][2] == "dynamo.vllm" for p in processes[:-1])
        return str(processes[-1]["command"][2])

    assert module_of_pd({}) == module_of_pd({"scope": "Pod"}) == "epd_worker.local_encoders"
    assert module_of_pd({"scope": "Deployment"}) == "dynamo.vllm"
    assert "local_encoders" not in json.dumps([pods(spec("Aggregated")), pods(spec("Disaggregated"))])


def test_frontends_run_on_the_nodes_that_they_name() -> None:
    frontend = {
        "pool": "gb200",
        "nodeSelector": {"tier": "cpu", "kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "kubernetes.io/arch", "operator": "Exists"}],
        "sharedMemory": "2Gi",
    }
    pod = pods(spec(frontend=frontend))["frontend"]["spec"]
    assert pod["nodeSelector"] == {
        "tier": "cpu",
        "nvidia.com/gpu.product": "NVIDIA-GB200",
        "kubernetes.io/arch": "arm64",
    }
    assert pod["tolerations"] == [{"key": "kubernetes.io/arch", "operator": "Exists"}]
    assert pod["containers"][0]["resources"] == {}
    assert {"name": "epd-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}} in pod["volumes"]
    of_rtx = pods(spec(frontend={"pool": "rtx"}))
    assert of_rtx["frontend"]["spec"]["tolerations"] == of_rtx["encoder"]["spec"]["tolerations"]


def test_a_group_has_the_settings_of_nvidias_launch_scripts_and_users_can_change_them() -> None:
    recipe = {
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "DYN_SPLIT_ENCODE": "0",
        "DYN_VLLM_SKIP_ENCODER_ONLY_KERNEL_WARMUP": "1",
    }
    template = pods(spec("CoLocated"))["group"]
    assert recipe.items() <= env(main(template)).items()
    folders = [p["env"]["TRITON_CACHE_DIR"] for p in group(template)]
    assert folders == [f"/var/cache/worker/{name}/triton" for name in ("encoder-0", "encoder-1", "pd")]
    changed = [{"name": "DYN_SPLIT_ENCODE", "value": "1"}, {"name": "TRITON_CACHE_DIR", "value": "/cache"}]
    template = pods(spec("CoLocated", group={"pool": "gb200", "env": changed}))["group"]
    assert env(main(template))["DYN_SPLIT_ENCODE"] == "1"
    assert all("TRITON_CACHE_DIR" not in p["env"] for p in group(template))
    for topology in ("Aggregated", "Disaggregated"):
        assert not any(name in json.dumps(pods(spec(topology))) for name in recipe)


def test_processes_of_a_group_get_their_limits_of_mps() -> None:
    wanted = {
        "pool": "gb200",
        "encoder": {"count": 1, "gpuThreadPercent": 30, "gpuMemoryLimit": "6Gi"},
        "pd": {"gpuThreadPercent": 90},
    }
    encoder, pd = group(pods(spec("CoLocated", group=wanted))["group"])
    assert encoder["env"]["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "30"
    assert encoder["env"]["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=6144M"
    assert pd["env"]["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "90"
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" not in pd["env"]
    assert "CUDA_MPS_" not in json.dumps(pods(spec("CoLocated")))


def test_memory_of_the_shared_gpu_is_budgeted() -> None:
    processes = group(pods(spec("CoLocated", group={"pool": "gb200", "encoder": {"memory": "2Gi"}}))["group"])
    assert processes[0]["env"]["DYN_VLLM_ENCODER_KV_CACHE_MEMORY_BYTES"] == str(2 * 1024**3)
    assert "--gpu-memory-utilization 0.78" in " ".join(processes[-1]["command"])
    assert "--gpu-memory-utilization" not in " ".join(processes[0]["command"])


def test_pools_decide_where_pods_run_and_frontends_need_no_gpu() -> None:
    apart = pods(spec())
    assert apart["pd"]["spec"]["nodeSelector"] == {
        "nvidia.com/gpu.product": "NVIDIA-GB200",
        "kubernetes.io/arch": "arm64",
    }
    assert apart["encoder"]["spec"]["nodeSelector"] == {"tier": "cheap"}
    assert apart["encoder"]["spec"]["tolerations"] == [{"key": "nvidia.com/gpu"}]
    assert main(apart["encoder"])["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert "nodeSelector" not in apart["frontend"]["spec"]
    assert main(apart["frontend"])["resources"] == {}


def test_several_gpus_mean_tensor_parallelism() -> None:
    worker = main(pods(spec("Aggregated", worker={"pool": "gb200", "gpusPerReplica": 4}))["worker"])
    assert worker["resources"]["limits"] == {"nvidia.com/gpu": "4"}
    assert "--tensor-parallel-size 4" in command(worker)


def test_rdma_and_locked_memory_are_asked_for_only_when_wanted() -> None:
    plain = main(pods(spec())["pd"])
    assert plain["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    template = pods(spec(transfer={"rdmaResource": "rdma/ib"}))
    rdma = main(template["pd"])
    assert rdma["resources"]["limits"] == {"nvidia.com/gpu": "1", "rdma/ib": "1"}
    assert rdma["securityContext"] == plain["securityContext"]
    assert "rdma/ib" not in json.dumps(template["frontend"])


def test_transfer_settings_reach_ucx_and_dynamo() -> None:
    wanted = spec(transfer={"mode": "NixlWrite", "ucx": {"transports": ["tcp", "self"], "devices": ["eth0", "eth1"]}})
    variables = env(main(pods(wanted)["pd"]))
    assert variables["UCX_TLS"] == "tcp,self"
    assert variables["UCX_NET_DEVICES"] == "eth0,eth1"
    assert variables["DYN_VLLM_EMBEDDING_TRANSFER_MODE"] == "nixl-write"
    assert "UCX_NET_DEVICES" not in env(main(pods(spec())["pd"]))


def test_each_pool_has_its_own_network_and_a_stage_can_differ_from_its_pool() -> None:
    gke = [f"networking.gke.io.networks/rdma-{number}" for number in range(4)]
    networks = {
        "gb200": {
            "transports": ["rc", "cuda_copy", "self"],
            "devices": ["mlx5_0:1"],
            "gidIndex": 3,
            "rdmaResources": gke,
        },
        "rtx": {"devices": ["eth1"], "rdmaResources": []},
    }
    pools = [{**pool, "network": networks[pool["name"]]} for pool in raw_spec()["pools"]]
    transfer = {"rdmaResource": "rdma/ib", "lockedMemory": "Root", "ucx": {"transports": ["rc", "tcp"]}}
    apart = pods(spec(pools=pools, transfer=transfer, pd={"pool": "gb200", "gpusPerReplica": 2}))
    pd, encoder, frontend = (main(apart[name]) for name in ("pd", "encoder", "frontend"))
    assert env(pd)["UCX_TLS"] == "rc,cuda_copy,self"
    assert (env(pd)["UCX_NET_DEVICES"], env(pd)["UCX_IB_GID_INDEX"]) == ("mlx5_0:1", "3")
    assert pd["resources"]["limits"] == {"nvidia.com/gpu": "2", **dict.fromkeys(gke, "2")}
    assert pd["securityContext"]["runAsUser"] == 0
    assert (env(encoder)["UCX_TLS"], env(encoder)["UCX_NET_DEVICES"]) == ("rc,tcp", "eth1")
    assert encoder["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert "runAsUser" not in encoder["securityContext"]
    assert env(frontend)["UCX_TLS"] == "rc,tcp"
    assert "UCX_NET_DEVICES" not in env(frontend)
    own = {"transports": ["tcp"], "devices": [], "rdmaResources": []}
    changed = pods(
        spec(pools=pools, transfer=transfer, pd={"pool": "gb200", "network": own}, frontend={"network": own})
    )
    assert env(main(changed["pd"]))["UCX_TLS"] == env(main(changed["frontend"]))["UCX_TLS"] == "tcp"
    assert "UCX_NET_DEVICES" not in env(main(changed["pd"]))
    assert main(changed["pd"])["resources"]["limits"] == {"nvidia.com/gpu": "1"}


def test_shared_memory_is_a_memory_volume_of_the_size_asked_for() -> None:
    template = pods(spec("CoLocated"))["group"]
    volumes = {v["name"]: v for v in template["spec"]["volumes"]}
    assert volumes["epd-shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Gi"}
    assert {"name": "epd-shm", "mountPath": "/dev/shm"} in main(template)["volumeMounts"]


def test_the_token_of_a_gated_model_is_passed_by_reference_only() -> None:
    model = {"name": "m", "tokenSecret": {"name": "hugging-face", "key": "token"}}
    variables = env(main(pods(spec(model=model))["pd"]))
    assert variables["HF_TOKEN"] == {"secretKeyRef": {"name": "hugging-face", "key": "token"}}


def test_every_container_is_drained_before_it_is_stopped_and_within_its_grace_period() -> None:
    for topology in TOPOLOGIES:
        for template in pods(spec(topology, drain={"timeoutSeconds": 77})).values():
            assert template["spec"]["terminationGracePeriodSeconds"] > 77
            for container in template["spec"]["containers"]:
                assert "drain" in container["lifecycle"]["preStop"]["exec"]["command"]
            assert "--drain-timeout 77" in command(main(template))


def test_readiness_of_each_container_is_that_of_its_process() -> None:
    for topology in TOPOLOGIES:
        for template in pods(spec(topology)).values():
            for container in template["spec"]["containers"]:
                probe = container["readinessProbe"]["httpGet"]
                assert probe == {"path": f"/ready/{container['name']}", "port": 9400}


def test_frontends_wait_for_workers_without_being_restarted() -> None:
    assert "startupProbe" not in main(pods(spec())["frontend"])
    startup = main(pods(spec())["pd"])["startupProbe"]
    assert startup["failureThreshold"] * startup["periodSeconds"] == 3600


def test_pods_meet_the_restricted_pod_security_standard() -> None:
    for topology in TOPOLOGIES:
        for template in pods(spec(topology)).values():
            assert template["spec"]["securityContext"]["runAsNonRoot"] is True
            assert template["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            for container in template["spec"]["containers"]:
                assert container["securityContext"]["allowPrivilegeEscalation"] is False
                assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]


def test_users_shape_pods_and_the_stage_wins_over_the_whole() -> None:
    wanted = spec(
        podTemplate={"labels": {"team": "a"}, "image": "all:1", "volumes": [{"name": "usr", "emptyDir": {}}]},
        pd={
            "pool": "gb200",
            "podTemplate": {"labels": {"team": "b"}, "image": "pd:1", "affinity": {"nodeAffinity": {}}},
        },
    )
    pd = pods(wanted)["pd"]
    assert pd["metadata"]["labels"]["team"] == "b"
    assert main(pd)["image"] == "pd:1"
    assert pd["spec"]["affinity"] == {"nodeAffinity": {}}
    assert main(pods(wanted)["encoder"])["image"] == "all:1"
    assert {"name": "usr", "emptyDir": {}} in pd["spec"]["volumes"]


def test_variables_and_arguments_of_the_stage_come_after_those_of_the_runtime() -> None:
    runtime = {"image": "i", "args": ["--dtype", "bfloat16"], "env": [{"name": "A", "value": "1"}]}
    stage = {"pool": "gb200", "args": ["--dtype", "float16"], "env": [{"name": "A", "value": "2"}]}
    worker = main(pods(spec("Aggregated", runtime=runtime, worker=stage))["worker"])
    assert command(worker).endswith("--dtype bfloat16 --dtype float16")
    assert [e for e in worker["env"] if e["name"] == "A"] == [{"name": "A", "value": "2"}]


def test_the_model_volume_is_read_only() -> None:
    model = {"name": "/models/qwen", "storage": {"claimName": "weights"}}
    template = pods(spec(model=model))["pd"]
    mounts = {m["name"]: m for m in main(template)["volumeMounts"]}
    assert mounts["epd-model"] == {"name": "epd-model", "mountPath": "/models", "readOnly": True}


def test_a_variable_that_the_user_sets_over_one_of_ours_is_there_once() -> None:
    for topology, stage in (("Aggregated", "worker"), ("CoLocated", "group")):
        wanted = spec(topology, runtime={"image": "i", "env": [{"name": "HOME", "value": "/root"}]})
        found = [e for e in main(pods(wanted)[stage])["env"] if e["name"] == "HOME"]
        assert found == [{"name": "HOME", "value": "/root"}]


def test_a_stages_volume_and_mount_replace_those_of_all_pods_with_the_same_key() -> None:
    common = {
        "volumes": [{"name": "data", "emptyDir": {}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    own = {
        "volumes": [{"name": "data", "hostPath": {"path": "/data"}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
    }
    wanted = spec("Aggregated", podTemplate=common, worker={"pool": "gb200", "podTemplate": own})
    template = pods(wanted)["worker"]
    assert [v for v in template["spec"]["volumes"] if v["name"] == "data"] == own["volumes"]
    assert [m for m in main(template)["volumeMounts"] if m["mountPath"] == "/data"] == own["volumeMounts"]


def test_a_mount_of_an_object_older_than_the_rules_replaces_that_of_another_spelling() -> None:
    mounts = [{"name": "data", "mountPath": path} for path in ("/data/", "//data", "/data/x/..", "/data-2")]
    template = {"volumes": [{"name": "data", "emptyDir": {}}], "volumeMounts": mounts}
    paths = {m["mountPath"] for m in main(pods(spec("Aggregated", podTemplate=template))["worker"])["volumeMounts"]}
    assert paths == {"/var/cache/worker", "/dev/shm", "/data/x/..", "/data-2"}


def test_only_containers_with_an_rdma_device_run_as_root_and_with_no_other_right_than_to_lock_memory() -> None:
    transfer = {"rdmaResource": "rdma/ib", "lockedMemory": "Root"}
    context = main(pods(spec(transfer=transfer))["pd"])["securityContext"]
    assert context == {
        "runAsUser": 0,
        "runAsNonRoot": False,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]},
    }
    may_lock = {
        (stage, container["name"])
        for topology in TOPOLOGIES
        for stage, template in pods(spec(topology, transfer=transfer)).items()
        for container in template["spec"]["containers"]
        if "add" in container["securityContext"]["capabilities"]
    }
    assert "IPC_LOCK" not in json.dumps(
        [pods(spec(topology, transfer={"lockedMemory": "Root"})) for topology in TOPOLOGIES]
    )
    assert may_lock == {("worker", "main"), ("group", "pd"), ("encoder", "main"), ("pd", "main")}


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_services_of_the_namespace_add_no_variables_to_any_pod(topology: str) -> None:
    # A Service called vllm would set VLLM_PORT=tcp://..., which vLLM reads as its own port.
    templates = [stage.pod_template for stage in plan_stages(spec(topology), identity=IDENTITY)]
    assert [template["spec"]["enableServiceLinks"] for template in templates] == [False] * len(templates)


@pytest.mark.parametrize(("topology", "stage"), [("Aggregated", "worker"), ("Disaggregated", "pd")])
def test_the_share_of_gpu_memory_is_an_argument_of_the_stage(topology: str, stage: str) -> None:
    wanted = spec(topology, **{stage: {"pool": "gb200", "gpuMemoryPercent": 85}})
    assert "--gpu-memory-utilization 0.85" in command(main(pods(wanted)[stage]))
    assert all("--gpu-memory-utilization" not in command(main(pod)) for pod in pods(spec(topology)).values())


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_limits_for_requests_with_several_images_are_set_and_users_can_change_them(topology: str) -> None:
    for pod in pods(spec(topology)).values():
        assert env(main(pod))["DYN_TCP_MAX_MESSAGE_SIZE"] == "536870912"
        assert env(main(pod))["DYN_HTTP_BODY_LIMIT_MB"] == "192"
    changed = [{"name": "DYN_TCP_MAX_MESSAGE_SIZE", "value": "1"}]
    for pod in pods(spec(topology, runtime={"image": "i:1", "env": changed})).values():
        assert env(main(pod))["DYN_TCP_MAX_MESSAGE_SIZE"] == "1"


@pytest.mark.parametrize(
    ("variable", "offline"),
    [
        ({"name": "HF_HOME", "value": "/models"}, True),
        ({"name": "HF_HUB_CACHE", "value": "/models/hub/"}, True),
        ({"name": "HF_HUB_CACHE", "value": "//models/./hub"}, True),
        ({"name": "HF_HUB_CACHE", "value": "/models/../hub"}, False),
        ({"name": "HF_HUB_CACHE", "value": "models"}, False),
        ({"name": "HF_HUB_CACHE", "value": "/models-2/hub"}, False),
        ({"name": "HF_HUB_CACHE"}, False),
        ({"name": "OTHER", "value": "/models"}, False),
    ],
)
def test_downloads_are_off_if_the_hub_cache_is_on_the_read_only_volume(variable: dict[str, str], offline: bool) -> None:
    model = {"name": "org/m", "storage": {"claimName": "c"}}
    for pod in pods(spec(model=model, runtime={"image": "i:1", "env": [variable]})).values():
        assert ("HF_HUB_OFFLINE" in env(main(pod))) is offline
    for pod in pods(spec(model={"name": "org/m"}, runtime={"image": "i:1", "env": [variable]})).values():
        assert "HF_HUB_OFFLINE" not in env(main(pod))


def test_a_group_with_equal_requests_and_limits_is_guaranteed() -> None:
    amounts = {"cpu": "8", "memory": "64Gi"}
    wanted = spec("CoLocated", group={"pool": "gb200", "resources": {"requests": amounts, "limits": amounts}})
    for container in pods(wanted)["group"]["spec"]["containers"]:
        resources = container["resources"]
        assert {"cpu", "memory"} <= set(resources["limits"])
        assert {name: resources["limits"][name] for name in resources["requests"]} == resources["requests"]


def test_a_frontend_logs_requests_to_the_model_but_not_those_of_the_launcher_unless_the_user_wants_it() -> None:
    assert env(main(pods(spec())["frontend"]))["DYN_LOG"] == "info,dynamo_llm::http::service::service_v2=warn"
    wanted = spec(frontend={"env": [{"name": "DYN_LOG", "value": "debug"}]})
    assert env(main(pods(wanted)["frontend"]))["DYN_LOG"] == "debug"
    assert all("DYN_LOG" not in env(main(pod)) for name, pod in pods(spec()).items() if name != "frontend")


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_dynamos_check_of_the_engine_is_off_unless_the_user_sets_its_variables(topology: str) -> None:
    check = {"DYN_HEALTH_CHECK_ENABLED": "true", "DYN_HEALTH_CHECK_REQUEST_TIMEOUT": "60", "DYN_CANARY_WAIT_TIME": "30"}
    variables = [{"name": name, "value": value} for name, value in check.items()]
    wanted = spec(topology, runtime={"image": "i", "env": variables})
    for stage, pod in pods(wanted).items():
        assert env(main(pod)).items() >= check.items(), stage
        # Variables of one process of a group replace those of the container.
        processes = group(pod) if stage == "group" else []
        assert all(not set(check) & set(process["env"]) for process in processes)
    assert all(not set(check) & set(env(main(pod))) for pod in pods(spec(topology)).values())
