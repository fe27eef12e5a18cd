"""The dashboard of one EPDDeployment: how long its requests spend in each stage."""

from __future__ import annotations

from monitoring.dashboards.grafana import Dashboard, Panel, Query, Row, Variable

OF = 'namespace="$namespace", deployment="$deployment"'
RATE = "$__rate_interval"
QUANTILES = (("P50", 0.5), ("P95", 0.95))

_PARTS = {
    "encode": ("dynamo_component_request_duration_seconds", ', dynamo_component="encode", dynamo_endpoint="generate"'),
    "queue": ("vllm:request_queue_time_seconds", ""),
    "prefill": ("vllm:request_prefill_time_seconds", ""),
    "decode": ("vllm:request_decode_time_seconds", ""),
}


def _rate(metric: str, more: str = "", *, by: str = "") -> str:
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (rate({metric}{{{OF}{more}}}[{RATE}]))"


def _quantiles(metric: str, more: str = "") -> list[Query]:
    return [
        Query(expr=f"histogram_quantile({quantile}, {_rate(f'{metric}_bucket', more, by='le')})", legend=name)
        for name, quantile in QUANTILES
    ]


def _mean(metric: str, more: str = "") -> str:
    return f"{_rate(f'{metric}_sum', more)} / {_rate(f'{metric}_count', more)}"


def _part(name: str, suffix: str) -> str:
    metric, more = _PARTS[name]
    return _rate(f"{metric}_{suffix}", more)


_PER_REQUEST = f"({_rate('dynamo_frontend_time_to_first_token_seconds_count')})"

_STATE = Row(
    title="State",
    panels=[
        Panel(
            title="Conditions",
            description="Conditions of the EPDDeployment with their reasons.",
            kind="table",
            width=8,
            height=7,
            queries=[Query(expr=f"max by (type, status, reason) (epd_deployment_condition{{{OF}}})")],
            hidden=["Value"],
            columns={"type": "condition"},
        ),
        Panel(
            title="Model",
            description="Topology and model of the EPDDeployment.",
            kind="stat",
            text="name",
            width=4,
            height=7,
            queries=[
                Query(expr=f"max by (topology, model) (epd_deployment_info{{{OF}}})", legend="{{topology}} {{model}}")
            ],
        ),
        Panel(
            title="Replicas",
            description="Desired and ready pods of each stage. Autoscaling sets the desired number of scaled stages.",
            width=12,
            height=7,
            queries=[
                Query(
                    expr=f'max by (stage) (epd_deployment_stage_replicas{{{OF}, state="{state}"}})',
                    legend=f"{{{{stage}}}} {state}",
                )
                for state in ("desired", "ready")
            ],
        ),
    ],
)

_TIME = Row(
    title="Time breakdown",
    panels=[
        Panel(
            title="Shares of encode, queue, prefill and decode",
            description="Time of requests in each phase, as a share of all four. Encode includes the wait in the"
            " encoder. vLLM counts the other phases when a request ends. In topology Aggregated, encoding is"
            " part of prefill.",
            unit="s",
            stack="percent",
            width=12,
            queries=[Query(expr=_part(name, "sum"), legend=name) for name in _PARTS],
        ),
        Panel(
            title="Mean time per request",
            description="Mean time in each phase over all requests, with and without images. The sum up to prefill is"
            " the time to first token without network and frontend.",
            unit="s",
            stack="normal",
            width=12,
            queries=[Query(expr=f"({_part(name, 'sum')}) / {_PER_REQUEST}", legend=name) for name in _PARTS],
        ),
        *(
            Panel(
                title=title,
                description=description,
                unit="s",
                width=6,
                queries=_quantiles(*_PARTS[name]),
            )
            for name, title, description in (
                (
                    "encode",
                    "Encode",
                    "Time of a request in an encoder, including the wait. Only requests with images that are"
                    " not cached use an encoder.",
                ),
                ("queue", "Queue", "Time that a request waits in the engine before prefill."),
                ("prefill", "Prefill", "Time from the end of the queue to the first token."),
                ("decode", "Decode", "Time from the first to the last token."),
            )
        ),
    ],
)

_TEXT = _rate("dynamo_frontend_images_per_request_bucket", ', le=~"0|0.0"')
_ALL = _rate("dynamo_frontend_images_per_request_count")
_TO_FIRST = f"{_mean('vllm:request_queue_time_seconds')} + {_mean('vllm:request_prefill_time_seconds')}"

_LATENCY = Row(
    title="Latency and traffic classes",
    panels=[
        Panel(
            title="Time to first token (TTFT)",
            description="Time until the first token, over all requests. Dynamo has no label that separates traffic"
            " classes.",
            unit="s",
            queries=_quantiles("dynamo_frontend_time_to_first_token_seconds"),
        ),
        Panel(
            title="Inter-token latency (ITL)",
            description="Time between two tokens of an answer, over all requests.",
            unit="s",
            queries=_quantiles("dynamo_frontend_inter_token_latency_seconds"),
        ),
        Panel(
            title="Request duration",
            description="Time from the request to the last token.",
            unit="s",
            queries=_quantiles("dynamo_frontend_request_duration_seconds"),
        ),
        Panel(
            title="Requests by class",
            description="Requests without and with images, by the number of images that frontends count.",
            unit="reqps",
            stack="normal",
            queries=[Query(expr=_TEXT, legend="text"), Query(expr=f"{_ALL} - ({_TEXT})", legend="with images")],
        ),
        Panel(
            title="Time to first token by class, estimated",
            description="Mean. Text: queue and prefill. With images: plus the time in an encoder. This is an estimate,"
            " because vLLM does not separate the classes: prefill is the mean of both.",
            unit="s",
            queries=[
                Query(expr=_TO_FIRST, legend="text"),
                Query(expr=f"{_TO_FIRST} + {_mean(*_PARTS['encode'])}", legend="with images"),
            ],
        ),
        Panel(
            title="Length of prompts and answers",
            description="Tokens per request. Long prompts increase prefill time, long answers increase decode time.",
            queries=[
                Query(expr=query.expr, legend=f"{name} {query.legend}")
                for name, metric in (
                    ("prompt", "dynamo_frontend_input_sequence_tokens"),
                    ("answer", "dynamo_frontend_output_sequence_tokens"),
                )
                for query in _quantiles(metric)
            ],
        ),
    ],
)

_REQUESTS = Row(
    title="Requests",
    panels=[
        Panel(
            title="Requests by result",
            description="Finished requests by status and type of error. The client causes validation, not_found and"
            " cancelled.",
            unit="reqps",
            stack="normal",
            queries=[
                Query(
                    expr=_rate("dynamo_frontend_requests_total", by="status, error_type"),
                    legend="{{status}} {{error_type}}",
                )
            ],
        ),
        Panel(
            title="Requests in flight",
            description="Requests in the frontends, and those of them without a first token.",
            queries=[
                Query(expr=f"sum (dynamo_frontend_inflight_requests{{{OF}}})", legend="in flight"),
                Query(expr=f"sum (dynamo_frontend_queued_requests{{{OF}}})", legend="without a token"),
            ],
        ),
        Panel(
            title="Tokens",
            description="Prompt tokens (including those from the prefix cache) and generated tokens.",
            unit="short",
            queries=[
                Query(expr=_rate("vllm:prompt_tokens_total"), legend="prompt tokens/s"),
                Query(expr=_rate("vllm:generation_tokens_total"), legend="generated tokens/s"),
            ],
        ),
    ],
)

_STAGES = Row(
    title="Stages",
    panels=[
        Panel(
            title="Requests in each stage",
            description="Encoders: accepted requests, including waiting ones. Engines: running and waiting requests.",
            queries=[
                Query(
                    expr=f'sum by (stage) (dynamo_component_inflight_requests{{{OF}, dynamo_component="encode",'
                    ' dynamo_endpoint="generate"})',
                    legend="{{stage}} encoding",
                ),
                Query(expr=f"sum by (stage) (vllm:num_requests_running{{{OF}}})", legend="{{stage}} running"),
                Query(expr=f"sum by (stage) (vllm:num_requests_waiting{{{OF}}})", legend="{{stage}} waiting"),
            ],
        ),
        Panel(
            title="Load against target",
            description="The metric that decides the number of replicas, per ready replica, and its target.",
            queries=[
                Query(expr=f"max by (stage) (epd_operator_scaling_signal_value{{{OF}}})", legend="{{stage}}"),
                Query(expr=f"max by (stage) (epd_operator_scaling_signal_target{{{OF}}})", legend="{{stage}} target"),
            ],
        ),
        Panel(
            title="Scaling decisions",
            description="Scaling decisions by stage and reason.",
            unit="ops",
            stack="normal",
            queries=[
                Query(
                    expr=_rate("epd_operator_scaling_decisions_total", by="stage, reason"),
                    legend="{{stage}} {{reason}}",
                )
            ],
        ),
        Panel(
            title="KV cache",
            description="Usage of the KV cache of each PD worker. If it is full, requests are preempted.",
            unit="percentunit",
            queries=[Query(expr=f"max by (pod) (vllm:kv_cache_usage_perc{{{OF}}})", legend="{{pod}}")],
        ),
        Panel(
            title="Preemptions",
            description="Requests that were preempted because the KV cache was full.",
            unit="ops",
            queries=[Query(expr=_rate("vllm:num_preemptions_total", by="pod"), legend="{{pod}}")],
        ),
        Panel(
            title="Prefix cache hit rate",
            description="Share of prompt tokens whose KV data was in the prefix cache.",
            unit="percentunit",
            queries=[
                Query(
                    expr=f"{_rate('vllm:prefix_cache_hits_total')} / {_rate('vllm:prefix_cache_queries_total')}",
                    legend="hits",
                )
            ],
        ),
    ],
)

_EMBEDDINGS = Row(
    title="Embeddings",
    panels=[
        Panel(
            title="Embedding cache hit rate",
            description="Share of images whose embedding was in the cache of the PD worker, so that no encoder was"
            " needed. No line: the cache is off.",
            unit="percentunit",
            width=6,
            queries=[
                Query(
                    expr=f"{_rate('dynamo_component_embedding_cache_hits_total')} / ("
                    f"{_rate('dynamo_component_embedding_cache_hits_total')}"
                    f" + {_rate('dynamo_component_embedding_cache_misses_total')})",
                    legend="hits",
                )
            ],
        ),
        Panel(
            title="Embedding cache usage",
            description="Used share of the embedding cache of each PD worker.",
            unit="percentunit",
            width=6,
            queries=[
                Query(expr=f"max by (pod) (dynamo_component_embedding_cache_utilization{{{OF}}})", legend="{{pod}}")
            ],
        ),
        Panel(
            title="NIXL throughput",
            description="Bytes per second by NIXL: received by PD workers (NixlRead), sent by encoders (NixlWrite).",
            unit="Bps",
            width=6,
            queries=[
                Query(expr=_rate(f"agent_{way}_bytes_total", by="stage"), legend=f"{{{{stage}}}} {word}")
                for way, word in (("rx", "received"), ("tx", "sent"))
            ],
        ),
        Panel(
            title="NIXL transfers",
            description="Transfers per second, and failed transfers by type of error.",
            unit="ops",
            width=6,
            queries=[
                Query(
                    expr=f"{_rate('agent_rx_requests_num_total')} + {_rate('agent_tx_requests_num_total')}",
                    legend="transfers",
                ),
                Query(
                    expr=_rate("agent_errors_total", ', status!="no_telemetry"', by="status"),
                    legend="{{status}}",
                ),
            ],
        ),
        Panel(
            title="NIXL transfer duration",
            description="Mean time from start to completion of a transfer.",
            unit="µs",
            width=6,
            queries=[
                Query(
                    expr=f"{_rate('agent_xfer_time_total')} / ({_rate('agent_rx_requests_num_total')}"
                    f" + {_rate('agent_tx_requests_num_total')})",
                    legend="transfer",
                )
            ],
        ),
        Panel(
            title="Frontend steps",
            description="Mean time in the steps of the frontend. transport_roundtrip includes the time in encoders and"
            " PD workers until the first token.",
            unit="s",
            width=6,
            queries=[
                Query(
                    expr=f"{_rate('dynamo_frontend_stage_duration_seconds_sum', by='exported_stage')}"
                    f" / {_rate('dynamo_frontend_stage_duration_seconds_count', by='exported_stage')}",
                    legend="{{exported_stage}}",
                )
            ],
        ),
    ],
)

DEPLOYMENT = Dashboard(
    uid="epd-deployment",
    title="EPD: one deployment",
    description="How long the requests of one EPDDeployment spend in each stage, and the load of the stages.",
    variables=[
        Variable(name="namespace", metric="epd_deployment_info"),
        Variable(name="deployment", metric='epd_deployment_info{namespace="$namespace"}'),
    ],
    rows=[_STATE, _TIME, _LATENCY, _REQUESTS, _STAGES, _EMBEDDINGS],
    links=[("All EPDDeployments", "/d/epd-fleet")],
)
