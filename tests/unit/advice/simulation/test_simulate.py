"""Whole deployments: what must hold whatever the constants are."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epd_operator.advice.simulation.costs import Gpu, Llm
from epd_operator.advice.simulation.goodput import highest_goodput
from epd_operator.advice.simulation.known import COSTS
from epd_operator.advice.simulation.layout import Layout
from epd_operator.advice.simulation.results import Result, Slo
from epd_operator.advice.simulation.simulate import simulate
from epd_operator.advice.simulation.traffic import Arrival, Image, Kind, generated
from epd_operator.api.v1alpha1.stages import MediaDecoding, Routing
from epd_operator.api.v1alpha1.topology import Topology

AGGREGATED, CO_LOCATED, DISAGGREGATED = Topology
FAST, SLOW = Gpu(compute=1.0, memory=1.0, price=10.0), Gpu(compute=0.2, memory=0.2, price=2.0)
LLM = Llm(parameters=30, active_parameters=3, bits=8, hidden_size=2048, vision_parameters=0.5)
PHOTO = Image(tokens=1000, megapixels=2.0)
IMAGES = Kind(text_tokens=500, output_tokens=100, images=(PHOTO,) * 3)
TEXT = Kind(text_tokens=500, output_tokens=100)


def layout(topology: Topology, **changes: object) -> Layout:
    """Two PD workers."""
    encoders = {AGGREGATED: 0, CO_LOCATED: 4, DISAGGREGATED: 2}[topology]
    base = Layout(topology=topology, workers=2, gpu=FAST, encoders=encoders, encoder_gpu=SLOW)
    return replace(base, **changes)  # type: ignore[arg-type]


def run(
    topology: Topology,
    *kinds: Kind,
    rate: float = 2.0,
    duration: float = 100.0,
    arrivals: list[Arrival] | None = None,
    slo: Slo | None = None,
    warm_up: float = 0.0,
    seed: int = 1,
    **changes: object,
) -> Result:
    """Requests of these kinds."""
    traffic = (
        arrivals
        if arrivals is not None
        else generated(kinds or (IMAGES, TEXT), rate=rate, duration=duration, source=random.Random(seed))
    )
    return simulate(
        traffic,
        layout=layout(topology, **changes),
        costs=COSTS,
        llm=LLM,
        source=random.Random(2),
        slo=slo,
        warm_up=warm_up,
    )


@pytest.mark.parametrize("topology", Topology)
def test_every_request_ends_and_the_same_seed_gives_the_same_result(topology: Topology):
    one, two, other = run(topology), run(topology), run(topology, seed=5)

    assert one.requests == one.good > 100
    assert one.output_tokens == 100 * one.requests
    assert (one.media, one.text) == (two.media, two.text)
    assert one.media != other.media


@pytest.mark.parametrize("topology", Topology)
def test_the_phases_add_up_to_the_time_to_the_first_token(topology: Topology):
    result = run(topology, media_decoding=MediaDecoding.FRONTEND)
    phases = result.phases

    total = sum(vars(phases).values())
    assert total / result.requests == pytest.approx(result.mean("ttft"))


@pytest.mark.parametrize("topology", Topology)
def test_a_time_is_a_time(topology: Topology):
    result = run(topology, rate=20)

    for latencies in (result.media, result.text):
        assert all(ttft > COSTS.request for ttft in latencies.ttft)
        assert all(itl > 0 for itl in latencies.itl)
        assert all(e2e > ttft for e2e, ttft in zip(latencies.e2e, latencies.ttft, strict=True))
    assert all(0 <= share <= 1.0001 for share in result.utilisation.values())


def test_text_never_waits_for_an_encoder_or_a_transfer():
    result = run(DISAGGREGATED, TEXT)

    assert (result.phases.media, result.phases.media_queue, result.phases.transfer) == (0, 0, 0)
    assert result.utilisation["media"] == 0


def test_encoding_of_others_delays_text_in_aggregated_and_not_if_encoders_have_their_own_gpus():
    def delay(topology: Topology) -> float:
        return run(topology, IMAGES, TEXT, rate=10).mean("ttft", "text") / run(topology, TEXT, rate=5).mean("ttft")

    assert delay(DISAGGREGATED) < delay(AGGREGATED)


def test_faster_gpus_shorten_every_latency():
    slow, fast = run(AGGREGATED, gpu=SLOW), run(AGGREGATED, gpu=FAST)

    assert all(fast.mean(latency) < slow.mean(latency) for latency in ("ttft", "itl", "e2e"))


def test_more_gpus_per_worker_shorten_a_request():
    one, four = run(AGGREGATED, gpus_per_worker=1), run(AGGREGATED, gpus_per_worker=4)

    assert four.mean("e2e") < one.mean("e2e")


def test_a_slow_network_delays_the_first_token():
    quick = run(DISAGGREGATED, IMAGES, transfer_bandwidth=1e10)
    slow = run(DISAGGREGATED, IMAGES, transfer_bandwidth=1e7)

    size = 3 * 1000 * 2048 * 2
    assert slow.phases.transfer / slow.requests > size / 1e7
    assert slow.mean("ttft") > quick.mean("ttft") + size / 1e7 / 2


def test_spreading_the_images_of_a_request_over_encoders_shortens_it_without_load():
    alone: list[Arrival] = [(0.0, IMAGES, None)]

    together = run(CO_LOCATED, arrivals=alone, is_encode_split=False).phases.media
    spread = run(CO_LOCATED, arrivals=alone, is_encode_split=True).phases.media

    assert spread == pytest.approx(together / 3)


def test_decoding_images_in_the_frontend_takes_work_from_the_encoders():
    worker = run(DISAGGREGATED, IMAGES, media_decoding=MediaDecoding.WORKER)
    frontend = run(DISAGGREGATED, IMAGES, media_decoding=MediaDecoding.FRONTEND)

    assert frontend.utilisation["frontend"] > 0 == worker.utilisation["frontend"]
    assert frontend.utilisation["media"] < worker.utilisation["media"]


@pytest.mark.parametrize("topology", Topology)
def test_a_cached_image_is_not_encoded_again(topology: Topology):
    kind = replace(IMAGES, different_images=5)

    without, with_cache = run(topology, kind), run(topology, kind, embedding_cache=1e9)

    assert without.cached_images == 0
    # Each of the two workers encodes each of the five images once.
    assert with_cache.images - with_cache.cached_images == 10
    assert with_cache.mean("ttft") < without.mean("ttft")


def test_images_that_never_repeat_are_never_found_in_the_cache():
    assert run(DISAGGREGATED, IMAGES, embedding_cache=1e9).cached_images == 0


def test_a_cache_that_is_too_small_for_the_images_helps_less():
    kind = replace(IMAGES, different_images=100)
    size = 1000 * 2048 * 2

    small, large = (run(DISAGGREGATED, kind, embedding_cache=images * size) for images in (10, 100))

    assert small.cached_images < large.cached_images


@pytest.mark.parametrize("routing", [Routing.POWER_OF_TWO, Routing.LEAST_LOADED])
def test_routing_by_load_is_better_than_at_random(routing: Routing):
    long, short = replace(TEXT, output_tokens=2000), replace(TEXT, output_tokens=10)
    loaded = {"rate": 40.0, "duration": 60.0, "max_running": 32, "workers": 4}

    by_load = run(AGGREGATED, long, short, routing=routing, **loaded)
    at_random = run(AGGREGATED, long, short, routing=Routing.RANDOM, **loaded)

    assert by_load.mean("ttft") < at_random.mean("ttft")


def test_only_requests_after_the_warm_up_are_counted():
    result = run(AGGREGATED, TEXT, warm_up=50.0)

    assert result.requests < run(AGGREGATED, TEXT).requests * 0.7
    assert result.span < 60


def test_goodput_counts_requests_within_both_limits():
    everything = run(AGGREGATED)
    middle = everything.distribution("ttft").percentiles[50]

    assert run(AGGREGATED, slo=Slo(ttft=middle)).good == pytest.approx(everything.requests / 2, rel=0.05)
    assert run(AGGREGATED, slo=Slo(ttft=middle, itl=1e-9)).good == 0


def test_the_price_is_that_of_all_gpus_for_the_time_of_the_run():
    result = run(DISAGGREGATED)

    assert layout(DISAGGREGATED).price == 2 * 10 + 2 * 2
    assert result.price_per_million(24.0, 1_000_000) == pytest.approx(24 * result.span / 3600)
    assert layout(DISAGGREGATED, encoder_gpu=replace(SLOW, price=None)).price is None


def test_the_highest_goodput_is_near_the_rate_that_a_worker_can_serve():
    found = highest_goodput(
        [replace(TEXT, output_tokens=1)],
        layout=layout(AGGREGATED),
        costs=replace(COSTS, step=0.0, step_request=0.0, memory_gigabyte=0.0),
        llm=LLM,
        slo=Slo(),
        source=lambda: random.Random(1),
    )
    seconds = COSTS.prefill_token * 3 * 0.5 * 500

    assert found.goodput == pytest.approx(2 / seconds, rel=0.1)


def test_an_slo_that_no_request_keeps_gives_no_goodput():
    found = highest_goodput(
        [TEXT], layout=layout(AGGREGATED), costs=COSTS, llm=LLM, slo=Slo(itl=1e-9), source=lambda: random.Random(1),
        requests=100,
    )  # fmt: skip

    assert found.goodput == 0


def test_a_run_without_requests_has_no_latencies():
    result = run(AGGREGATED, arrivals=[])

    assert (result.requests, result.goodput, result.distribution("ttft")) == (0, 0, None)


def test_requests_that_are_not_in_order_are_refused():
    with pytest.raises(ValueError, match="a request at 1 s comes after one at 2 s"):
        run(AGGREGATED, arrivals=[(2.0, TEXT, None), (1.0, TEXT, None)])


def test_constant_arrivals_have_equal_distances():
    times = [at for at, _, _ in generated([TEXT], rate=4, duration=2, source=random.Random(1), is_constant=True)]

    assert times == [n / 4 for n in range(1, 8)]


def test_random_arrivals_have_the_rate_and_the_shares():
    arrivals = list(generated([replace(IMAGES, share=3), TEXT], rate=50, duration=200, source=random.Random(1)))

    assert len(arrivals) == pytest.approx(10000, rel=0.05)
    assert sum(kind.share == 3 for _, kind, _ in arrivals) == pytest.approx(7500, rel=0.05)


kinds = st.builds(
    Kind,
    text_tokens=st.integers(1, 100_000),
    output_tokens=st.integers(1, 10_000),
    images=st.lists(
        st.builds(Image, tokens=st.integers(1, 100_000), megapixels=st.floats(0.001, 1000)), max_size=5
    ).map(tuple),
    different_images=st.none() | st.integers(1, 10),
)


@settings(deadline=None, max_examples=60)
@given(
    topology=st.sampled_from(Topology),
    mix=st.lists(kinds, min_size=1, max_size=3),
    rate=st.floats(1e-4, 1e5),
    workers=st.integers(1, 3),
    max_running=st.integers(1, 50),
    max_tokens=st.integers(1, 1_000_000),
    routing=st.sampled_from(Routing),
    media_decoding=st.sampled_from(MediaDecoding),
    is_split=st.booleans(),
    cache=st.sampled_from([0.0, 1.0, 1e9]),
    bandwidth=st.floats(1, 1e15),
)
def test_every_request_of_any_size_ends_once(
    topology, mix, rate, workers, max_running, max_tokens, routing, media_decoding, is_split, cache, bandwidth
):
    changes = {
        "workers": workers,
        "encoders": {AGGREGATED: 0, CO_LOCATED: 2 * workers, DISAGGREGATED: 3}[topology],
        "max_running": max_running,
        "max_tokens": max_tokens,
        "routing": routing,
        "media_decoding": media_decoding,
        "is_encode_split": is_split,
        "embedding_cache": cache,
        "transfer_bandwidth": bandwidth,
    }
    arrivals = list(generated(mix, rate=rate, duration=40 / rate, source=random.Random(1)))

    result = run(topology, arrivals=arrivals, **changes)

    assert result.requests == len(arrivals)
    assert result.output_tokens == sum(kind.output_tokens for _, kind, _ in arrivals)
    for latencies in (result.media, result.text):
        assert all(0 <= ttft <= e2e for ttft, e2e in zip(latencies.ttft, latencies.e2e, strict=True))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Kind(text_tokens=0, output_tokens=1), "needs at least one token or image"),
        (lambda: Kind(text_tokens=1, output_tokens=0), "output_tokens: 0"),
        (lambda: Kind(text_tokens=1, output_tokens=1, share=0), "share: 0"),
        (lambda: Image(tokens=0, megapixels=1), "tokens: 0"),
        (lambda: Image(tokens=1, megapixels=float("nan")), "megapixels: nan"),
        (lambda: Gpu(compute=0, memory=1), "compute: 0"),
        (lambda: replace(COSTS, step=float("inf")), "step: inf"),
        (lambda: replace(LLM, active_parameters=31.0), "more parameters are active"),
        (lambda: layout(AGGREGATED, encoders=1), "encoders: Aggregated has none"),
        (lambda: layout(CO_LOCATED, encoders=3), "the same number"),
        (lambda: layout(DISAGGREGATED, encoder_gpu=None), "encoder_gpu"),
        (lambda: layout(AGGREGATED, workers=0), "workers: 0"),
        (lambda: Slo(itl=0), "itl: 0"),
        (lambda: generated([], rate=1, duration=1, source=random.Random(1)), "requests: the list is empty"),
        (lambda: generated([TEXT], rate=0, duration=1, source=random.Random(1)), "rate: 0"),
        (lambda: generated([TEXT], rate=1, duration=float("nan"), source=random.Random(1)), "duration: nan"),
    ],
)
def test_what_cannot_be_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()
