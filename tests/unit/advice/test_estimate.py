"""The estimator, held against the published figures."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.advice.estimate import (
    TIMES,
    StageTimes,
    Verdict,
    Workload,
    break_even,
    mixture,
    sweep,
)

PUBLISHED = {"encode": 420.0, "prefill": 90.0, "decode": 260.0, "transfer": 35.0, "queue_saved": 180.0}

milliseconds = st.floats(min_value=0, max_value=1e6, allow_nan=False)


def published(**changes: float) -> StageTimes:
    return StageTimes(**{**PUBLISHED, **changes})


def test_the_published_example_gives_the_published_figures():
    times = published()

    assert (times.aggregated, times.split, round(times.gain_percent, 1)) == (770.0, 625.0, 18.8)
    assert times.verdict is Verdict.TEST


def test_the_published_exercise_with_long_outputs_stays_aggregated():
    times = published(decode=1200.0)

    assert (times.aggregated, times.split, round(times.gain_percent, 1)) == (1710.0, 1565.0, 8.5)
    assert times.verdict is Verdict.STAY_AGGREGATED


def test_the_published_exercise_with_a_slow_transfer_stays_aggregated():
    times = published(transfer=220.0)

    assert (times.aggregated, times.split, round(times.gain_percent, 1)) == (770.0, 810.0, -5.2)
    assert times.verdict is Verdict.STAY_AGGREGATED


def test_a_gain_of_exactly_the_threshold_is_not_worth_a_test():
    times = StageTimes(encode=50, prefill=25, decode=25, queue_saved=10)

    assert (times.gain_percent, times.verdict) == (10.0, Verdict.STAY_AGGREGATED)


def test_the_shares_of_the_stages_add_up_to_the_whole():
    assert published().shares_percent == pytest.approx({"encode": 54.5, "prefill": 11.7, "decode": 33.8}, abs=0.1)


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, -math.inf, 2e9])
def test_a_time_that_cannot_be_is_refused_by_name(time: str, value: float):
    with pytest.raises(ValueError, match=f"^{time}: .* use milliseconds from 0 to 1000000000"):
        published(**{time: value})


def test_a_request_that_takes_no_time_is_refused():
    with pytest.raises(ValueError, match="all are 0"):
        StageTimes(encode=0, prefill=0, decode=0)


def test_more_saved_time_than_the_request_takes_is_refused():
    with pytest.raises(ValueError, match=r"queue_saved: 900 ms is more than the whole request takes \(805 ms\)"):
        published(queue_saved=900)


@pytest.mark.parametrize("share", [0.0, -1.0, math.nan, math.inf])
def test_a_share_that_cannot_be_is_refused(share: float):
    with pytest.raises(ValueError, match=r"share: .* use a positive number"):
        Workload(name="images", times=published(), share=share)


def test_a_mixture_is_weighted_by_the_shares():
    text = StageTimes(encode=0, prefill=50, decode=500)
    both = mixture([Workload(name="a", times=published(), share=1), Workload(name="b", times=text, share=3)])

    assert (both.encode, both.prefill, both.decode, both.queue_saved) == (105.0, 60.0, 440.0, 45.0)


def test_a_mixture_of_nothing_is_refused():
    with pytest.raises(ValueError, match="list is empty"):
        mixture([])


def test_the_break_even_values_of_the_published_example():
    values = {time: break_even(published(), time=time) for time in TIMES}

    assert values == pytest.approx({"encode": 1100, "prefill": 770, "decode": 940, "transfer": 103, "queue_saved": 112})


def test_the_length_of_the_output_cannot_turn_a_gain_into_a_loss():
    assert break_even(published(), time="decode", gain_percent=0) is None


@given(
    times=st.builds(
        lambda **ms: StageTimes(**{**ms, "queue_saved": min(ms["queue_saved"], ms["encode"])}),
        **{time: milliseconds.map(lambda ms: ms + 1) for time in TIMES},
    ),
    time=st.sampled_from(TIMES),
)
def test_at_the_break_even_value_the_gain_is_the_threshold(times: StageTimes, time: str):
    value = break_even(times, time=time)

    if value is not None:
        (there,) = sweep(times, time=time, values=[value])
        assert there.gain_percent == pytest.approx(10.0, abs=1e-6)
