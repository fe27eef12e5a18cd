"""Strategy Rolling, replayed to its end: pods become ready and terminate in any order, and writes are interrupted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from epd_operator.api.v1alpha1.rollout import RevisionRollout, RolloutStrategy
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.plan.observation import Verdict
from epd_operator.plan.rollout.sizes import (
    GpuPool,
    Gpus,
    Stages,
    StageView,
    full_of,
    gpus_with,
    least_of,
    limits_of,
    sizes_of,
)
from epd_operator.plan.rollout.steps import Phase, Presence, RevisionView, RolloutStep, next_step

FRONTEND, WORKER, ENCODER, PD = StageName.FRONTEND, StageName.WORKER, StageName.ENCODER, StageName.PD
BIG = GpuPool(resource="nvidia.com/gpu", selector=frozenset({("tier", "big")}), name="big")
CHEAP = GpuPool(resource="nvidia.com/gpu", selector=frozenset({("tier", "cheap")}), name="cheap")
ROLLING = RevisionRollout(strategy=RolloutStrategy.ROLLING)
MAX_STEPS = 400


def workers(full: int, *, gpus: int = 1, pool: GpuPool = BIG) -> Stages:
    return {FRONTEND: StageView(full=1), WORKER: StageView(full=full, gpus=gpus, pool=pool)}


def pairs(encoders: int, pds: int, *, encoder_pool: GpuPool = BIG, gpus: int = 1) -> Stages:
    return {
        FRONTEND: StageView(full=2),
        ENCODER: StageView(full=encoders, gpus=1, pool=encoder_pool),
        PD: StageView(full=pds, gpus=gpus, pool=BIG),
    }


@dataclass
class Pods:
    """Pods of one stage."""

    starting: int = 0
    ready: int = 0
    terminating: int = 0

    @property
    def total(self) -> int:
        return self.starting + self.ready + self.terminating


@dataclass
class Cluster:
    """Deployments, pods and the Service of one object, and what the operator has recorded.

    Attributes:
        plans: the stages of each revision.
        desired: replicas of the Deployments.
        pods: pods; those of a deleted Deployment terminate.
        served: revisions that were given the requests.
        verdict: the answer of a new revision.
    """

    plans: Mapping[str, Stages]
    policy: RevisionRollout
    budget: int | None = None
    target: str = "old"
    service: str = "old"
    desired: dict[tuple[str, StageName], int] = field(default_factory=dict)
    pods: dict[tuple[str, StageName], Pods] = field(default_factory=dict)
    served: set[str] = field(default_factory=lambda: {"old"})
    verdict: Verdict | None = None

    def __post_init__(self) -> None:
        for name, stage in self.plans["old"].items():
            self.desired["old", name] = stage.full
            self.pods["old", name] = Pods(ready=stage.full)

    def view(self, revision: str) -> RevisionView:
        stages = {}
        for name, stage in self.plans[revision].items():
            pods = self.pods.get((revision, name), Pods())
            desired = self.desired.get((revision, name), 0)
            ready = pods.ready if (revision, name) in self.desired else 0
            is_reduced = 0 < desired < stage.full
            stages[name] = replace(stage, desired=desired, pods=pods.total, ready=ready, is_reduced=is_reduced)
        return RevisionView(
            name=revision,
            pods={name: self.pods[key].total for key in self.desired if key[0] == revision for name in [key[1]]},
            stages=stages,
            is_complete=all(stage.ready >= stage.full for stage in stages.values()),
            has_served=revision in self.served,
        )

    def step(self) -> RolloutStep:
        live = sorted({revision for revision, _ in self.desired})
        others = [self.view(name) for name in live if name not in (self.target, self.service)]
        known = {self.target, self.service, *(view.name for view in others)}
        gone: Gpus = Counter()
        for (revision, name), pods in self.pods.items():
            if revision not in known:
                gone += gpus_with(self.plans[revision], {name: pods.total})
        return next_step(
            target=self.view(self.target),
            serving=self.view(self.service),
            others=others,
            policy=self.policy,
            budget=self.budget,
            beside=gone,
            verdict=self.verdict,
        )

    def writes(self, step: RolloutStep) -> list[tuple[tuple[str, StageName], int | None]]:
        """The Deployments that differ: their replicas, or None if they are deleted."""
        wanted: dict[tuple[str, StageName], int] = {}
        for revision, presence in step.presence.items():
            for name, stage in self.plans[revision].items():
                key = (revision, name)
                replicas = _replicas(presence, stage, name, live=self.desired.get(key))
                if replicas is not None:
                    wanted[key] = replicas
        changed = [(key, replicas) for key, replicas in wanted.items() if self.desired.get(key) != replicas]
        return [*changed, *((key, None) for key in self.desired if key not in wanted)]

    def reconcile(self, *, at_most: int | None = None, backwards: bool = False) -> int:
        """One reconcile, which is interrupted after some of its writes; returns their number."""
        step = self.step()
        writes = self.writes(step)
        done = (writes[::-1] if backwards else writes)[:at_most]
        for key, replicas in done:
            if replicas is None:
                del self.desired[key]
            else:
                self.desired[key] = replicas
                self.pods.setdefault(key, Pods())
        self.run_controllers()
        moves = step.serving != self.service
        if moves and at_most is None:
            self.served.add(step.serving)
            self.service = step.serving
        is_asked = step.phase is Phase.VERIFYING
        self.verdict = Verdict(revision=self.target, passed=True, message="") if is_asked else None
        return len(done) + moves + is_asked

    def run_controllers(self) -> None:
        """Create and delete pods, those that are not ready first."""
        for key, pods in self.pods.items():
            wanted = self.desired.get(key, 0)
            while pods.starting + pods.ready > wanted:
                if pods.starting:
                    # It has loaded nothing yet, but terminates all the same.
                    pods.starting -= 1
                else:
                    pods.ready -= 1
                pods.terminating += 1
            pods.starting += wanted - pods.starting - pods.ready

    def play(self, number: int) -> bool:
        """One pod becomes ready, or ends; false if there is none."""
        moving = [pods for pods in self.pods.values() if pods.starting or pods.terminating]
        if not moving:
            return False
        pods = moving[number % len(moving)]
        if pods.starting and (number % 2 or not pods.terminating):
            pods.starting, pods.ready = pods.starting - 1, pods.ready + 1
        else:
            pods.terminating -= 1
        return True

    def used(self) -> Gpus:
        found: Gpus = Counter()
        for (revision, name), pods in self.pods.items():
            found += gpus_with(self.plans[revision], {name: pods.total})
        return found

    def finish(self, check: Callable[[Cluster], None]) -> None:
        """Reconcile, and let pods become ready and end, until nothing changes."""
        for number in range(MAX_STEPS):
            changed = self.reconcile()
            check(self)
            is_moving = self.play(number)
            check(self)
            if not changed and not is_moving:
                return
        raise AssertionError((self.step(), self.desired, self.pods))


def _replicas(presence: Presence, stage: StageView, name: StageName, *, live: int | None) -> int | None:
    """Replicas of a Deployment; None if it should not exist."""
    if name in presence.draining:
        return 0
    if presence.running is not None:
        return live if name in presence.running else None
    wanted = presence.replicas.get(name, stage.full)
    return wanted if wanted or live is not None else None


@dataclass
class Checks:
    """What holds at every moment of a rollout."""

    least: Mapping[str, Mapping[StageName, int]]
    most: Gpus

    def __call__(self, cluster: Cluster) -> None:
        for name, least in self.least[cluster.service].items():
            assert cluster.pods[cluster.service, name].ready >= least, (cluster.service, name, cluster.pods)
        used = cluster.used()
        for pool, count in used.items():
            assert count <= self.most[pool], (pool, cluster.pods, cluster.desired)


def checks(cluster: Cluster, *revisions: str) -> Checks:
    """At no time fewer pods than must remain, and in no pool more GPUs than the larger revision and the surge."""
    least = {
        name: least_of(stages, max_unavailable=cluster.policy.max_unavailable) for name, stages in cluster.plans.items()
    }
    most: Gpus = Counter()
    for name in ("old", *revisions):
        most |= gpus_with(cluster.plans[name], full_of(cluster.plans[name]))
    for pool in list(most):
        most[pool] += cluster.policy.max_surge_gpus
    return Checks(least=least, most=most)


def test_a_full_pool_is_replaced_in_two_halves() -> None:
    cluster = Cluster(plans={"old": workers(4), "new": workers(4)}, policy=ROLLING, target="new")
    seen: list[tuple[int, int]] = []
    check = checks(cluster, "new")

    def watch(found: Cluster) -> None:
        check(found)
        sizes = (found.desired.get(("old", WORKER), 0), found.desired.get(("new", WORKER), 0))
        if sizes not in seen:
            seen.append(sizes)

    cluster.finish(watch)
    assert seen[:4] == [(2, 0), (2, 1), (2, 2), (0, 2)]
    assert seen[-1] == (0, 4)
    assert cluster.service == "new"


def test_one_replica_on_a_full_pool_is_not_started_and_keeps_its_pod() -> None:
    cluster = Cluster(plans={"old": workers(1), "new": workers(1)}, policy=ROLLING, target="new")
    cluster.finish(checks(cluster, "new"))
    assert cluster.step().phase is Phase.BLOCKED
    assert cluster.desired == {("old", FRONTEND): 1, ("old", WORKER): 1}
    cluster.policy = ROLLING.model_copy(update={"max_surge_gpus": 1})
    cluster.finish(checks(cluster, "new"))
    assert cluster.service == "new"


def test_another_pool_does_not_wait_for_the_gpus_of_the_old_revision() -> None:
    """Encoders move to another pool: they need none of the GPUs that the old pods have."""
    old, new = workers(3), pairs(2, 3, encoder_pool=CHEAP)
    sizes = sizes_of(old, new, limits=limits_of(old, new, surge=0, budget=None), max_unavailable="50%")
    assert sizes is not None
    assert (sizes.old[WORKER], sizes.new[ENCODER], sizes.new[PD]) == (1, 2, 2)


def test_gpus_per_pod_count_in_whole_pods() -> None:
    old, new = workers(2, gpus=4), workers(4, gpus=2)
    sizes = sizes_of(old, new, limits=limits_of(old, new, surge=3, budget=None), max_unavailable="50%")
    assert sizes is not None
    assert (sizes.old[WORKER], sizes.new[WORKER]) == (1, 3), "one more pod needs 4 GPUs, but 11 - 4 - 6 are 1"


def test_a_surge_for_all_gpus_of_the_new_revision_takes_nothing_from_the_old_one() -> None:
    old, new = workers(3), workers(2, gpus=2)
    sizes = sizes_of(old, new, limits=limits_of(old, new, surge=4, budget=None), max_unavailable=1)
    assert sizes is not None
    assert (sizes.old, sizes.new) == (full_of(old), full_of(new))


def test_the_gpu_budget_limits_both_revisions_together() -> None:
    old, new = workers(4), pairs(4, 4, encoder_pool=CHEAP)
    sizes = sizes_of(old, new, limits=limits_of(old, new, surge=8, budget=6), max_unavailable="50%")
    assert sizes is not None
    assert gpus_with(old, sizes.old).total() + gpus_with(new, sizes.new).total() == 6
    cluster = Cluster(plans={"old": old, "new": new}, policy=RevisionRollout(), budget=11, target="new")
    assert cluster.step().phase is Phase.BLOCKED
    cluster.budget = 12
    assert cluster.step().phase is Phase.STARTING


def test_a_new_revision_that_is_ready_is_used_although_the_strategy_is_recreate_now() -> None:
    cluster = Cluster(plans={"old": workers(2), "new": pairs(1, 1)}, policy=RevisionRollout(), target="new")
    check = checks(cluster, "new")
    while cluster.step().phase is not Phase.VERIFYING:
        cluster.reconcile()
        cluster.play(1)
    cluster.policy = RevisionRollout(strategy=RolloutStrategy.RECREATE)
    check.most = Counter({BIG: 4})
    cluster.finish(check)
    assert cluster.service == "new"


def test_a_new_revision_that_is_not_ready_keeps_its_pods_while_recreate_removes_the_old_one() -> None:
    cluster = Cluster(plans={"old": workers(2), "new": pairs(1, 1)}, policy=RevisionRollout(), target="new")
    cluster.reconcile()
    begun = {key: n for key, n in cluster.desired.items() if key[0] == "new"}
    cluster.policy = RevisionRollout(strategy=RolloutStrategy.RECREATE)
    cluster.reconcile()
    assert {key: n for key, n in cluster.desired.items() if key[0] == "new"} == begun
    assert cluster.desired["old", FRONTEND] == 0


def test_a_paused_rollout_keeps_the_sizes_of_both_revisions() -> None:
    cluster = Cluster(plans={"old": workers(4), "new": workers(4)}, policy=ROLLING, target="new")
    while not cluster.desired.get(("new", WORKER)):
        cluster.reconcile()
        cluster.play(0)
    before = dict(cluster.desired)
    cluster.policy = ROLLING.model_copy(update={"paused": True})
    cluster.finish(checks(cluster, "new"))
    assert cluster.desired == before
    cluster.policy = ROLLING
    cluster.finish(checks(cluster, "new"))
    assert cluster.service == "new"


_pools = st.sampled_from([BIG, CHEAP])
_plans = st.one_of(
    st.builds(workers, st.integers(1, 6), gpus=st.integers(1, 4), pool=_pools),
    st.builds(pairs, st.integers(1, 4), st.integers(1, 4), encoder_pool=_pools, gpus=st.integers(1, 3)),
)
_policies = st.builds(
    RevisionRollout,
    strategy=st.just(RolloutStrategy.ROLLING),
    max_surge_gpus=st.integers(0, 6),
    max_unavailable=st.one_of(st.integers(0, 6), st.integers(0, 100).map("{}%".format)),
)
_interruptions = st.lists(
    st.tuples(st.sampled_from(["reconcile", "play", "edit"]), st.integers(0, 5), st.booleans()), max_size=40
)


@settings(max_examples=60)
@given(old=_plans, new=_plans, third=_plans, policy=_policies, events=_interruptions)
def test_at_every_interruption_enough_pods_serve_within_the_gpus_and_the_rollout_ends(
    old: Stages,
    new: Stages,
    third: Stages,
    policy: RevisionRollout,
    events: list[tuple[str, int, bool]],
) -> None:
    plans = {"old": old, "new": new, "third": third}
    for following in (new, third):
        limits = limits_of(old, following, surge=policy.max_surge_gpus, budget=None)
        assume(sizes_of(old, following, limits=limits, max_unavailable=policy.max_unavailable))
    cluster = Cluster(plans=plans, policy=policy, target="new")
    check = checks(cluster, "new", "third")
    for kind, number, is_backwards in events:
        if kind == "reconcile":
            cluster.reconcile(at_most=number, backwards=is_backwards)
        elif kind == "play":
            cluster.play(number)
        elif cluster.service == "old":
            cluster.target = ("new", "third", "old")[number % 3]
        check(cluster)
    cluster.finish(check)
    assert cluster.service == cluster.target
    assert cluster.desired == {(cluster.target, name): stage.full for name, stage in plans[cluster.target].items()}
    assert cluster.reconcile() == 0


def test_an_old_revision_that_grows_again_while_its_pods_terminate_leaves_no_gpu_to_the_new_one() -> None:
    """The first target needs two GPUs, so two old pods leave; the second one needs one, so one of them comes back."""
    cluster = Cluster(plans={"old": workers(3), "new": workers(1), "third": workers(1, gpus=2)}, policy=ROLLING)
    check = checks(cluster, "new", "third")
    cluster.target = "third"
    cluster.reconcile(at_most=1)
    cluster.target = "new"
    cluster.finish(check)
    assert cluster.service == "new"
