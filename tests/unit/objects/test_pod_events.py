"""Which pods their Events can explain, and what an Event says, whatever other clients have written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.objects.pod_events import events_about, silent_since
from epd_operator.objects.text import MAX_TEXT
from unit.objects.test_pods import VALUES

POD = {"metadata": {"name": "p"}, "spec": {"schedulerName": "volcano"}}
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
CREATING = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}


def event(**fields: Any) -> dict[str, Any]:
    return {"reason": "FailedMount", "message": "words", "source": {"component": "kubelet"}, **fields}


def pod(
    *containers: Any, init: Any = (), spec: Any = None, condition: Any = SCHEDULED, **status: Any
) -> dict[str, Any]:
    statuses = {"initContainerStatuses": list(init), "containerStatuses": list(containers)}
    return {
        "metadata": {"name": "p", "creationTimestamp": "2025-12-31T00:00:00Z"},
        "spec": spec or {},
        "status": {"phase": "Pending", "conditions": [condition], **statuses, **status},
    }


def test_an_event_in_the_fields_of_core_v1_is_read() -> None:
    (found,) = events_about(
        POD, [event(count=7, firstTimestamp="2026-01-01T00:00:00Z", lastTimestamp="2026-01-01T00:09:00Z")]
    )
    assert (found.pod, found.reason, found.message, found.component) == ("p", "FailedMount", "words", "kubelet")
    assert (found.count, found.last) == (7, datetime(2026, 1, 1, 0, 9, tzinfo=UTC))


def test_an_event_in_the_fields_of_events_v1_is_read() -> None:
    series = {"count": 3, "lastObservedTime": "2026-01-01T00:05:00.000001Z"}
    newer = {"reportingComponent": "default-scheduler", "eventTime": "2026-01-01T00:00:00.5Z", "series": series}
    (found,) = events_about(POD, [event(source={}, firstTimestamp=None, **newer)])
    assert (found.component, found.count) == ("default-scheduler", 3)
    assert found.last == datetime(2026, 1, 1, 0, 5, 0, 1, tzinfo=UTC)


def test_the_oldest_event_comes_first() -> None:
    times = ["2026-01-01T00:00:02Z", "2026-01-01T00:00:01Z", None]
    found = events_about(POD, [event(lastTimestamp=time, message=str(time)) for time in times])
    assert [one.message for one in found] == ["None", times[1], times[0]]


@pytest.mark.parametrize("component", ["", "epd.dev/epd-operator", "my-app", None, 1])
def test_events_of_unknown_components_are_left_out(component: Any) -> None:
    assert events_about(POD, [event(source={"component": component})]) == ()


def test_the_scheduler_that_the_pod_names_is_known() -> None:
    assert len(events_about(POD, [event(source={"component": "volcano"})])) == 1
    assert events_about({"metadata": {"name": "p"}}, [event(source={"component": "volcano"})]) == ()


def test_text_of_events_is_bounded_and_on_one_line() -> None:
    (found,) = events_about(POD, [event(message="\x1b[31mred\n" * 1000, reason="A\nB" * 1000)])
    for text in (found.message, found.reason):
        assert len(text) == MAX_TEXT
        assert "\n" not in text
        assert "\x1b" not in text


TIMES = VALUES | st.sampled_from(["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-01-01T00:00:00Z"])
EVENTS = st.dictionaries(
    st.sampled_from(("reason", "message", "source", "series", "lastTimestamp", "eventTime", "count", "metadata")),
    TIMES | st.dictionaries(st.sampled_from(("component", "lastObservedTime", "count")), TIMES),
)


@given(st.lists(VALUES | EVENTS.map(lambda fields: event(**fields))), VALUES | st.fixed_dictionaries({"spec": VALUES}))
def test_events_may_have_any_content(found: list[Any], about: Any) -> None:
    about = about if isinstance(about, dict) else {}
    for one in events_about(about, found):
        assert one.count >= 1
        assert one.reason
        assert datetime.max.replace(tzinfo=UTC) - one.last


CONTAINERS = st.lists(
    st.dictionaries(
        st.sampled_from(("name", "state", "restartPolicy")),
        VALUES
        | st.dictionaries(st.sampled_from(("waiting", "running")), VALUES | st.dictionaries(st.just("reason"), VALUES)),
    )
)


@given(VALUES | CONTAINERS, VALUES | CONTAINERS, VALUES, TIMES)
def test_pods_may_have_any_content(main: Any, init: Any, spec: Any, time: Any) -> None:
    described = pod(condition={**SCHEDULED, "lastTransitionTime": time}, spec={"initContainers": spec})
    described["status"] |= {"containerStatuses": main, "initContainerStatuses": init}
    assert silent_since(described) is None or isinstance(silent_since(described), datetime)


@pytest.mark.parametrize("metadata", [{}, None, [], {"creationTimestamp": 5}])
def test_a_pod_without_times_is_not_silent(metadata: Any) -> None:
    assert (
        silent_since({**pod(CREATING, condition={**SCHEDULED, "lastTransitionTime": None}), "metadata": metadata})
        is None
    )


def test_a_pod_whose_containers_the_kubelet_has_not_started_is_silent_since_it_was_scheduled() -> None:
    assert silent_since(pod(CREATING)) == SINCE
    assert silent_since(pod()) == SINCE  # the kubelet has reported nothing


def test_a_pod_for_which_the_scheduler_finds_no_node_is_silent_because_a_cluster_autoscaler_reports_in_events() -> None:
    assert silent_since(pod(condition={**SCHEDULED, "status": "False", "reason": "Unschedulable"})) == SINCE


def test_a_sidecar_that_runs_does_not_explain_why_the_main_container_waits() -> None:
    spec = {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]}
    sidecar = {"name": "proxy", "state": {"running": {}}}
    assert silent_since(pod(CREATING, init=[sidecar], spec=spec)) == SINCE


@pytest.mark.parametrize(
    "explained",
    [
        pod(CREATING, {"name": "b", "state": {"waiting": {"reason": "ImagePullBackOff"}}}),
        pod({"name": "main", "state": {"running": {}}}),
        pod(CREATING, init=[{"name": "i", "state": {"running": {}}}]),
        pod(condition={**SCHEDULED, "status": "False", "reason": "SchedulingGated"}),
        pod(condition={"type": "Other", "status": "True"}),
        pod(CREATING, phase="Failed"),
        pod(condition={"type": "Ready", "status": "True"}),
        {**pod(CREATING), "metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
    ],
)  # fmt: skip
def test_a_pod_whose_status_says_what_it_waits_for_is_not_silent(explained: dict[str, Any]) -> None:
    assert silent_since(explained) is None
