"""One EPDDeployment: where the time of its requests goes, stage by stage."""

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
            description="The conditions of the EPDDeployment, with their reasons.",
            kind="table",
            width=8,
            height=7,
            queries=[Query(expr=f"max by (type, status, reason) (epd_deployment_condition{{{OF}}})")],
            hidden=["Value"],
            columns={"type": "condition"},
        ),
        Panel(
            title="Model",
            description="Topology and model.",
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
            description="Pods of each stage: what the operator wants (decided by scaling where a stage is scaled), and"
            " what is ready.",
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
    title="Where the time goes",
    panels=[
        Panel(
            title="Shares of encode, queue, prefill and decode",
            description="Time that requests spent in each part, as a share of all four. Encode includes the wait at the"
            " encoder. vLLM counts the other parts when a request ends. In topology Aggregated encoding is in prefill.",
            unit="s",
            stack="percent",
            width=12,
            queries=[Query(expr=_part(name, "sum"), legend=name) for name in _PARTS],
        ),
        Panel(
            title="Mean time per request",
            description="Time in each part, spread over all requests, those without images included. The parts up to"
            " prefill add up to the time to the first token, but for network and frontend.",
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
                    "Time of a request in an encoder, its wait there included. Only requests with images"
                    " that are not cached come here.",
                ),
                ("queue", "Queue", "Wait of a request in the engine before prefill."),
                ("prefill", "Prefill", "From the end of the wait to the first token."),
                ("decode", "Decode", "From the first token to the last."),
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
            title="Time to the first token",
            description="What clients wait for the first token, over all requests: Dynamo gives it no label that tells"
            " classes of traffic apart.",
            unit="s",
            queries=_quantiles("dynamo_frontend_time_to_first_token_seconds"),
        ),
        Panel(
            title="Time between tokens",
            description="Between two tokens of an answer, over all requests.",
            unit="s",
            queries=_quantiles("dynamo_frontend_inter_token_latency_seconds"),
        ),
        Panel(
            title="Duration of a request",
            description="From the request to the last token.",
            unit="s",
            queries=_quantiles("dynamo_frontend_request_duration_seconds"),
        ),
        Panel(
            title="Requests by class",
            description="Requests without and with images, from the number of images that frontends count.",
            unit="reqps",
            stack="normal",
            queries=[Query(expr=_TEXT, legend="text"), Query(expr=f"{_ALL} - ({_TEXT})", legend="with images")],
        ),
        Panel(
            title="Time to the first token by class, estimated",
            description="Means. Text: queue and prefill. With images: the time in an encoder in addition. An estimate,"
            " since vLLM does not tell the classes apart: prefill is the mean of both.",
            unit="s",
            queries=[
                Query(expr=_TO_FIRST, legend="text"),
                Query(expr=f"{_TO_FIRST} + {_mean(*_PARTS['encode'])}", legend="with images"),
            ],
        ),
        Panel(
            title="Length of prompts and answers",
            description="Tokens per request; long prompts lengthen prefill, long answers decode.",
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
            description="Finished requests. Errors carry their kind; validation, not_found and cancelled are the"
            " client's.",
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
            title="In flight",
            description="Requests that frontends work on, and those of them that have no token yet.",
            queries=[
                Query(expr=f"sum (dynamo_frontend_inflight_requests{{{OF}}})", legend="in flight"),
                Query(expr=f"sum (dynamo_frontend_queued_requests{{{OF}}})", legend="without a token"),
            ],
        ),
        Panel(
            title="Tokens",
            description="Prompt tokens (those from the prefix cache included) and generated tokens.",
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
            description="Encoders: requests that they have taken in, waiting ones included. Engines: running and"
            " waiting requests.",
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
            description="The metric that decides about replicas, per ready replica, and its target.",
            queries=[
                Query(expr=f"max by (stage) (epd_operator_scaling_signal_value{{{OF}}})", legend="{{stage}}"),
                Query(expr=f"max by (stage) (epd_operator_scaling_signal_target{{{OF}}})", legend="{{stage}} target"),
            ],
        ),
        Panel(
            title="Decisions",
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
            description="Use of the KV cache of each PD worker. When it is full, requests are preempted and computed"
            " again.",
            unit="percentunit",
            queries=[Query(expr=f"max by (pod) (vllm:kv_cache_usage_perc{{{OF}}})", legend="{{pod}}")],
        ),
        Panel(
            title="Preemptions",
            description="Requests that were thrown out of a full KV cache.",
            unit="ops",
            queries=[Query(expr=_rate("vllm:num_preemptions_total", by="pod"), legend="{{pod}}")],
        ),
        Panel(
            title="Prefix cache",
            description="Share of prompt tokens whose KV was there already.",
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
            title="Embedding cache",
            description="Share of images whose embedding the PD worker had already, so that no encoder was asked. No"
            " line: the cache is off.",
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
            title="Embedding cache, fill",
            description="Used share of the cache of each PD worker.",
            unit="percentunit",
            width=6,
            queries=[
                Query(expr=f"max by (pod) (dynamo_component_embedding_cache_utilization{{{OF}}})", legend="{{pod}}")
            ],
        ),
        Panel(
            title="NIXL throughput",
            description="Bytes that NIXL moved: received by PD workers that read, sent by encoders that write.",
            unit="Bps",
            width=6,
            queries=[
                Query(expr=_rate(f"agent_{way}_bytes_total", by="stage"), legend=f"{{{{stage}}}} {word}")
                for way, word in (("rx", "received"), ("tx", "sent"))
            ],
        ),
        Panel(
            title="NIXL transfers",
            description="Transfers per second, and failed ones by their kind.",
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
            title="Duration of a NIXL transfer",
            description="Mean, from start to completion.",
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
            title="Frontend",
            description="Mean time in the steps of the frontend. transport_roundtrip holds the work of encoders and PD"
            " workers up to the first token.",
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
    description="Where the requests of one EPDDeployment spend their time, and how its stages keep up.",
    variables=[
        Variable(name="namespace", metric="epd_deployment_info"),
        Variable(name="deployment", metric='epd_deployment_info{namespace="$namespace"}'),
    ],
    rows=[_STATE, _TIME, _LATENCY, _REQUESTS, _STAGES, _EMBEDDINGS],
    links=[("All EPDDeployments", "/d/epd-fleet")],
)
