"""What is remembered and reported of changes by admission."""

from __future__ import annotations

from epd_operator.objects.identity import Key
from epd_operator.plan.observation import UNSTABLE_CHANGES, Admitted, ChildKey
from epd_operator.reconcile.admissions import Admissions

KEY = Key("serving", "qwen")
CHILD = ChildKey("Deployment", "qwen-pd")
OTHER = ChildKey("Service", "qwen")


def record(*, values: str = "v", plan: str = "p", uid: str = "u", fields: tuple[str, ...] = ("spec.x",)) -> Admitted:
    return Admitted(uid=uid, plan=plan, values=values, fields=fields)


def test_a_change_is_reported_once() -> None:
    admissions = Admissions()

    assert admissions.learn(KEY, {CHILD: record()}) == {CHILD: record()}
    assert admissions.learn(KEY, {CHILD: record()}) == {}
    assert admissions.of(KEY) == {CHILD: record()}


def test_other_fields_are_reported_again() -> None:
    admissions = Admissions()
    admissions.learn(KEY, {CHILD: record()})

    assert CHILD in admissions.learn(KEY, {CHILD: record(fields=("spec.y",))})


def test_a_child_that_was_not_applied_keeps_its_record() -> None:
    admissions = Admissions()
    admissions.learn(KEY, {CHILD: record()})
    admissions.learn(KEY, {OTHER: record()})

    assert set(admissions.of(KEY)) == {CHILD, OTHER}


def test_a_child_that_admission_changes_no_longer_has_no_record() -> None:
    admissions = Admissions()
    admissions.learn(KEY, {CHILD: record()})

    assert admissions.learn(KEY, {CHILD: None}) == {}
    assert admissions.of(KEY) == {}


def test_values_that_differ_each_time_are_unstable_and_reported_once_more() -> None:
    admissions = Admissions()
    reported = [bool(admissions.learn(KEY, {CHILD: record(values=str(n))})) for n in range(UNSTABLE_CHANGES + 3)]

    assert reported == [n in (0, UNSTABLE_CHANGES) for n in range(UNSTABLE_CHANGES + 3)]
    assert admissions.of(KEY)[CHILD].is_unstable


def test_another_plan_or_a_new_child_begins_to_count_again() -> None:
    for other in (record(plan="q"), record(uid="w")):
        admissions = Admissions()
        for n in range(UNSTABLE_CHANGES + 1):
            admissions.learn(KEY, {CHILD: record(values=str(n))})
        admissions.learn(KEY, {CHILD: other})

        assert not admissions.of(KEY)[CHILD].is_unstable


def test_a_deleted_object_leaves_nothing_behind() -> None:
    admissions = Admissions()
    admissions.learn(KEY, {CHILD: record()})
    admissions.forget(KEY)

    assert admissions.of(KEY) == {}
