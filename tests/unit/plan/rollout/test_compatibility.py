"""Which changes need a revision of their own."""

from __future__ import annotations

from typing import Any

import pytest

from epd_operator.plan.rollout.compatibility import compatibility_key
from support.specs import raw_spec, spec

PD: dict[str, Any] = {"pool": "gb200", "replicas": 3}
ENCODER: dict[str, Any] = {"pool": "rtx", "replicas": 2}
RUNTIME = raw_spec()["runtime"]


@pytest.mark.parametrize(
    "change",
    [
        {"model": {**raw_spec()["model"], "name": "Qwen/other"}},
        {"model": {**raw_spec()["model"], "servedName": "other"}},
        {"runtime": {**RUNTIME, "image": "example.test/epd:2"}},
        {"runtime": {**RUNTIME, "args": ["--dtype", "float32"]}},
        {"runtime": {**RUNTIME, "env": [{"name": "OMP_NUM_THREADS", "value": "1"}]}},
        {"transfer": {"mode": "NixlWrite"}},
        {"transfer": {"ucx": {"transports": ["tcp", "self"]}}},
        {"frontend": {"mediaDecoding": "Frontend"}},
        {"encoder": {**ENCODER, "network": {"transports": ["tcp"]}}},
        {"pools": [{**pool, "network": {"devices": ["eth0"]}} for pool in raw_spec()["pools"]]},
        {"frontend": {"podTemplate": {"image": "example.test/frontend:2"}}},
        {"podTemplate": {"image": "example.test/epd:2"}},
        {"pd": {**PD, "args": ["--mm-processor-kwargs", '{"size": 1}']}},
        {"pd": {**PD, "args": ["--some-new-flag"]}},
        {"encoder": {**ENCODER, "args": ["--limit-mm-per-prompt", '{"image": 3}']}},
    ],
    ids=str,
)
def test_a_change_of_what_processes_send_or_answer_needs_a_new_revision(change: dict[str, Any]) -> None:
    assert compatibility_key(spec(**change)) != compatibility_key(spec())


@pytest.mark.parametrize(
    "change",
    [
        {"encoder": {**ENCODER, "replicas": 9, "resources": {"limits": {"cpu": "2"}}}},
        {"encoder": {**ENCODER, "pool": "gb200", "env": [{"name": "OMP_NUM_THREADS", "value": "1"}]}},
        {"pd": {**PD, "args": ["--max-num-seqs", "16", "--enforce-eager", "--max_num_batched_tokens=4096"]}},
        {"pd": {**PD, "args": ["--no-enable-prefix-caching"], "gpuMemoryPercent": 80, "embeddingCache": "4Gi"}},
        {"frontend": {"replicas": 3, "routing": "LeastLoaded", "migrationLimit": 2, "service": {"port": 80}}},
        # Whether workers publish KV events is not part of the checksum of a model card: ModelDeploymentCard.mdcsum in
        # https://github.com/ai-dynamo/dynamo/blob/v1.6.1/lib/llm/src/model_card.rs
        {"frontend": {"routing": "KV"}},
        {"drain": {"timeoutSeconds": 7}},
        {"networkPolicy": {"mode": "Unmanaged"}},
        {"rollout": {"strategy": "Recreate", "paused": True}},
        {
            "verification": {
                "requests": [{"name": "a", "messages": [{"text": "b"}], "expect": {"text": {"equals": "c"}}}]
            }
        },
        {"model": {**raw_spec()["model"], "tokenSecret": {"name": "hf", "key": "token"}}},
    ],
    ids=str,
)
def test_a_change_that_old_and_new_processes_can_share_needs_none(change: dict[str, Any]) -> None:
    assert compatibility_key(spec(**change)) == compatibility_key(spec())


def test_each_topology_has_another_key_and_each_part_of_a_group_counts() -> None:
    keys = {compatibility_key(spec(topology)) for topology in ("Aggregated", "CoLocated", "Disaggregated")}
    group = {"pool": "gb200", "pd": {"args": ["--dtype=float16"]}}
    assert len({*keys, compatibility_key(spec("CoLocated", group=group))}) == 4


def test_empty_lists_and_defaults_are_no_change() -> None:
    same = spec(runtime={**RUNTIME, "args": [], "env": []}, pd={**PD, "args": []}, transfer={"mode": "NixlRead"})
    assert compatibility_key(same) == compatibility_key(spec())
