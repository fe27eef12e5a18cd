"""One EPDDeployment under edits, faults and accidents in any order: the real reconciler on the model of a cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.cluster.errors import ClusterError
from epd_operator.objects.identity import REVISION_LABEL, Identity, Key, revision_label
from epd_operator.objects.kinds import EPD_DEPLOYMENT
from epd_operator.objects.pods import is_live, is_ready
from epd_operator.plan.observation import ChildKey, Verdict
from epd_operator.plan.rollout.history import RETURNED, SERVES, TRAFFIC_STEP
from epd_operator.plan.stages.plan_stages import plan_stages
from epd_operator.reconcile.reconciler import Reconciler
from support.model.cluster import Disturbance, Fault, KilledError, ModelCluster
from support.model.nodes import Nodes
from support.model.reads import NAME, PRIMARY, Reads, annotations_of, image_of, pod_spec_text, revision_of
from support.model.specs import Edit, edits
from support.model.store import Object, Store
from support.rollouts import Comparer, Verifier

NAMESPACE = "models"
SERVICE = ChildKey("Service", NAME)
FOREIGN = {
    ChildKey("Deployment", "other-pd"): {"epd.dev/deployment": NAME},
    ChildKey("ConfigMap", NAME): {"epd.dev/deployment": NAME},
    ChildKey("PodDisruptionBudget", f"{NAME}-frontend"): {},
}
"""Objects of other owners, with their labels. The last may be missing; it has the name of a child."""
MAX_ROUNDS = 120
SHARE_ROUNDS = 25

number = st.integers(0, 1000)
disturbances = st.builds(
    Disturbance,
    fault=st.sampled_from([None, *Fault]),
    number=st.integers(0, 14),
    of_writes=st.booleans(),
    lags=st.dictionaries(
        st.sampled_from(["Deployment", "Pod", "Service", "ControllerRevision", PRIMARY.kind]), st.integers(0, 6)
    ),
)


class RolloutMachine(RuleBasedStateMachine):
    """Users, the operator, controllers and nodes act in any order.

    ``serving`` is the revision that the operator itself has selected last, whatever other clients did to the Service,
    and ``partner`` the one with which it has shared the traffic last.
    """

    counts: ClassVar[Counter[str]] = Counter()
    """What all runs of this process have done."""

    def __init__(self) -> None:
        super().__init__()
        self.counts["runs"] += 1
        self.store = Store(namespace=NAMESPACE)
        self.nodes = Nodes(self.store, now=datetime(2026, 1, 1, tzinfo=UTC))
        self.cluster = ModelCluster(self.store, written=self.wrote)
        self.read = Reads(self.cluster)
        self.verifier, self.comparer = Verifier(), Comparer()
        self.foreign: dict[ChildKey, Object] = {}
        self.serving: str | None = None
        self.partner: str | None = None
        self.read_verdict: Verdict | None = None
        self.loop = asyncio.new_event_loop()
        self.restart()

    def teardown(self) -> None:
        """Whatever has happened, the object comes to rest in the state of its spec."""
        try:
            if self.store.find(PRIMARY) is not None:
                self.comes_to_rest()
        finally:
            self.loop.close()

    @initialize(edit=edits, is_name_taken=st.booleans())
    def create(self, edit: Edit, is_name_taken: bool) -> None:
        """A user creates the object."""
        body = {"apiVersion": EPD_DEPLOYMENT.api_version, "kind": PRIMARY.kind, "spec": edit.spec()}
        self.store.put(PRIMARY, {**body, "metadata": {"name": NAME, "namespace": NAMESPACE}})
        for key, labels in list(FOREIGN.items())[: None if is_name_taken else -1]:
            metadata = {"name": key.name, "namespace": NAMESPACE, "labels": labels}
            spec = {"replicas": 1, "template": {"metadata": {"labels": {"app": "other"}}}}
            self.foreign[key] = self.store.put(key, {"kind": key.kind, "metadata": metadata, "spec": spec})

    # Users

    @rule(edit=edits)
    def replace_spec(self, edit: Edit) -> None:
        """A user replaces the spec."""
        self.store.change(PRIMARY, lambda primary: primary.update(spec=edit.spec()))

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        """A user pauses or resumes rollouts."""
        self.store.change(PRIMARY, lambda primary: primary["spec"]["rollout"].update(paused=paused))

    @rule(which=number, change=st.sampled_from(["delete", "scale", "select"]), replicas=st.integers(0, 4))
    def change_child(self, which: int, change: str, replicas: int) -> None:
        """A user deletes a child, scales a Deployment, or changes the selector of the Service."""
        workloads = [key for key in self.children() if key.kind == "Deployment"]
        found = self.children() if change == "delete" else workloads
        if not found:
            return
        chosen = found[which % len(found)]
        if change == "delete":
            self.store.remove(chosen)
        elif change == "scale":
            self.store.change(chosen, lambda child: child["spec"].update(replicas=replicas))
        elif self.store.find(SERVICE) is not None:
            label = revision_of(self.store.objects[chosen])
            self.store.change(SERVICE, lambda child: child["spec"]["selector"].update({REVISION_LABEL: label}))

    # The operator

    @rule(disturbance=disturbances)
    def reconcile(self, disturbance: Disturbance) -> None:
        """The operator reconciles, and something may go wrong."""
        self.run(disturbance)

    @rule()
    def reconcile_undisturbed(self) -> None:
        """The operator reconciles."""
        self.run(Disturbance())

    @rule()
    def restart(self) -> None:
        """The operator is restarted."""
        self.verifier = Verifier(passes=self.verifier.passes)
        self.comparer = Comparer(fails=self.comparer.fails)
        self.reconciler = Reconciler(
            self.cluster,  # type: ignore[arg-type]
            now=lambda: self.nodes.now,
            verification=self.verifier,
            comparer=self.comparer,
        )

    @rule(passes=st.sampled_from([True, True, False, None]))
    def answer(self, passes: bool | None) -> None:
        """New revisions answer the requests of the operator from now on, or answer wrongly, or not yet."""
        self.verifier.passes = passes

    @rule(fails=st.sampled_from([False, False, True]))
    def answer_clients(self, fails: bool) -> None:
        """New revisions that get a share of the traffic answer clients from now on, or many with errors."""
        self.comparer.fails = fails

    @rule(edit=edits, pause=st.sampled_from([20, 100]))
    def reach_share(self, edit: Edit, pause: int) -> None:
        """A user changes the spec, and everything acts until the new revision gets a share of the traffic."""
        self.nodes.return_nodes()
        self.verifier.passes, self.comparer.fails = True, False
        wanted = replace(edit, strategy="BlueGreen", paused=False, steps=((10, pause), (50, pause)))
        self.store.change(PRIMARY, lambda primary: primary.update(spec=wanted.spec()))
        for _ in range(SHARE_ROUNDS):
            self.nodes.now += timedelta(seconds=1)
            self.run(Disturbance())
            self.rest()
            service = self.store.find(SERVICE)
            if service is not None and REVISION_LABEL not in service["spec"]["selector"]:
                return

    # Controllers and nodes

    @rule(which=number)
    def sync_deployment(self, which: int) -> None:
        """The Deployment controller acts on one Deployment."""
        found = self.nodes.deployments()
        self.nodes.collect_garbage()
        if found:
            self.nodes.sync(found[which % len(found)])

    @rule()
    def controllers_act(self) -> None:
        """All controllers and nodes act until nothing changes."""
        self.rest()

    @rule(rounds=st.integers(1, 6))
    def all_act(self, rounds: int) -> None:
        """The operator, controllers and nodes act in turn."""
        for _ in range(rounds):
            self.run(Disturbance())
            self.rest()

    @rule(which=number, event=st.sampled_from(["start", "start", "fail", "end", "delete", "finish"]))
    def pod_changes(self, which: int, event: str) -> None:
        """Something happens to a pod."""
        found = sorted(self.nodes.pods())
        if found:
            getattr(self.nodes, event)(found[which % len(found)])

    @rule(which=st.sampled_from([0, 1, 2, None]))
    def nodes_change(self, which: int | None) -> None:
        """A node does not answer any more, or all answer again."""
        self.nodes.return_nodes()
        if which is not None:
            self.nodes.lose_node(which)

    @rule(seconds=st.sampled_from([1, 20, 200]))
    def time_passes(self, seconds: int) -> None:
        """Time passes."""
        self.nodes.now += timedelta(seconds=seconds)

    @rule()
    def comes_to_rest(self) -> None:
        """Without further faults the object reaches the state of its spec, and nothing is written any more."""
        self.nodes.return_nodes()
        self.verifier.passes, self.comparer.fails = True, False
        # Enough GPUs for all strategies.
        self.store.change(PRIMARY, lambda primary: primary["spec"]["rollout"].update(paused=False, maxSurgeGpus=9))
        for _ in range(MAX_ROUNDS):
            self.nodes.now += timedelta(seconds=10)
            self.run(Disturbance())
            wrote = self.cluster.writes
            marks = self.marks()
            if RETURNED in marks:
                self.store.change(PRIMARY, lambda primary: primary["spec"]["rollout"].update(steps=[]))
            elif not self.rest() and not wrote and self.verifier.found is None and TRAFFIC_STEP not in marks:
                break
        else:
            raise AssertionError(f"still writing: {wrote}, {self.conditions()}")
        self.check_end()
        self.restart()
        self.run(Disturbance())
        assert not self.cluster.writes, self.cluster.writes

    # What must always be true

    @invariant()
    def count_step(self) -> None:
        """For the report of the long run."""
        self.counts["steps"] += 1

    @invariant()
    def foreign_objects_are_as_before(self) -> None:
        """Objects of other owners are not touched."""
        for key, before in self.foreign.items():
            assert self.store.find(key) is before, key

    @invariant()
    def processes_of_two_revisions_do_not_meet(self) -> None:
        """Each revision has a Dynamo namespace of its own."""
        for key in self.children():
            if key.kind == "Deployment":
                labels = self.store.objects[key]["metadata"]["labels"]
                revision = "" if labels[REVISION_LABEL] == "initial" else labels[REVISION_LABEL]
                expected = self.identity().dynamo_namespace(revision)
                assert expected in pod_spec_text(self.store.objects[key]), key

    @invariant()
    def only_two_revisions_share_the_traffic(self) -> None:
        """Frontends of an unverified or of a third revision are never among the selected pods."""
        service = self.store.find(SERVICE)
        if service is None or not self.is_own(service) or REVISION_LABEL in service["spec"]["selector"]:
            return
        self.counts["checks of a share"] += 1
        ready = {
            str(pod["metadata"]["labels"][REVISION_LABEL])
            for pod in self.nodes.pods().values()
            if pod["metadata"]["labels"]["app.kubernetes.io/component"] == "frontend" and is_live(pod) and is_ready(pod)
        }
        assert ready <= {self.serving, self.partner}, (ready, self.serving, self.partner)

    def wrote(self, verb: str, key: ChildKey, before: Object | None, after: Object | None) -> None:
        """Check one write of the operator."""
        self.counts["writes"] += 1
        assert key not in self.foreign, f"{verb} on a foreign object"
        strategy = self.read.spec()["rollout"]["strategy"]
        if key.kind == "ControllerRevision" and after is not None:
            self.check_record(after)
        if key == SERVICE and after is not None:
            self.check_service(after, strategy=strategy)
        if key.kind == "Deployment" and strategy != "Recreate" and before is not None:
            self.check_workload(verb, key, before, after)
        self.only_two_revisions_share_the_traffic()

    def check_service(self, after: Object, *, strategy: str) -> None:
        """The Service selects one revision; a new one only if it is complete and has answered.

        While two share the traffic it selects all: then only these two have frontends, and the new one has answered.
        """
        chosen = after["spec"]["selector"].get(REVISION_LABEL)
        if chosen is None:
            self.counts["shares"] += 1
            read = {
                revision_of(found)
                for key, found in self.cluster.reads.items()
                if key.kind == "Deployment" and key.name.split("-")[1] == "frontend" and key not in self.foreign
            }
            (self.partner,) = read - {self.serving}
            assert strategy == "BlueGreen"
            assert self.read.is_recorded(self.partner, TRAFFIC_STEP), self.partner
            return
        # If users delete the record of the revision that serves, only the Service says which one it is.
        is_bound = strategy != "Recreate" and self.read.is_recorded(str(self.serving), SERVES)
        if self.serving != chosen and is_bound and self.read.has_served(str(self.serving)):
            verdict = self.read_verdict
            is_known = self.read.is_recorded(chosen, SERVES) or self.read.is_recorded(chosen, TRAFFIC_STEP)
            assert is_known or (verdict is not None and verdict.passed and revision_label(verdict.revision) == chosen)
            assert is_known or strategy == "Rolling" or self.read.is_complete(chosen), f"{chosen} was not complete"
        self.counts["switches"] += self.serving not in (None, chosen)
        self.serving = chosen

    def check_record(self, after: Object) -> None:
        """A revision may get a share only if it was complete and has answered."""
        verdict, revision = self.read_verdict, revision_of(after)
        if TRAFFIC_STEP not in annotations_of(after) or self.read.is_recorded(revision, TRAFFIC_STEP):
            return
        assert verdict is not None
        assert verdict.passed
        assert revision_label(verdict.revision) == revision
        assert self.read.is_complete(revision), f"{revision} was not complete"

    def check_workload(self, verb: str, key: ChildKey, before: Object, after: Object | None) -> None:
        """A revision that serves keeps its stages."""
        if self.serving != revision_of(before) or not self.read.has_served(self.serving) or not self.read.is_known():
            return
        assert after is not None, f"{verb} {key} of the revision that serves"
        assert after["spec"]["replicas"] >= 1, f"{key} of the revision that serves was scaled to 0"

    # Helpers

    def run(self, disturbance: Disturbance) -> None:
        """Reconcile once; a killed operator is replaced by a new one."""
        self.cluster.begin(disturbance)
        self.read_verdict = self.verifier.found
        self.counts["reconciles"] += 1
        try:
            self.loop.run_until_complete(self.reconciler.reconcile(Key(NAMESPACE, NAME)))
        except ClusterError:
            # The queue tries again later.
            self.counts["failed reconciles"] += 1
        except KilledError:
            self.counts["kills"] += 1
            self.restart()

    def rest(self) -> bool:
        """Controllers and nodes act until nothing changes."""
        is_changed = self.nodes.rest()
        self.only_two_revisions_share_the_traffic()
        return is_changed

    def identity(self) -> Identity:
        """The identity of the object."""
        return Identity(name=NAME, namespace=NAMESPACE, uid=self.store.objects[PRIMARY]["metadata"]["uid"])

    def is_own(self, found: Object) -> bool:
        """Whether the object controls it."""
        owners = found["metadata"].get("ownerReferences", ())
        return any(owner["uid"] == self.identity().uid for owner in owners)

    def children(self) -> list[ChildKey]:
        """All children."""
        return sorted(key for key, found in self.store.objects.items() if self.is_own(found))

    def conditions(self) -> Any:
        """The conditions of the object."""
        return self.store.objects[PRIMARY].get("status", {}).get("conditions")

    def marks(self) -> set[str]:
        """The annotations of all records."""
        found = (self.store.objects[key] for key in self.children() if key.kind == "ControllerRevision")
        return {name for record in found for name in annotations_of(record)}

    def check_end(self) -> None:
        """Only the revision of the spec exists, is ready and gets the requests."""
        spec = EPDDeploymentSpec.model_validate(self.store.objects[PRIMARY]["spec"])
        found = {key.name: self.store.objects[key] for key in self.children() if key.kind == "Deployment"}
        labels = {item["metadata"]["labels"][REVISION_LABEL] for item in found.values()}
        chosen = self.store.objects[SERVICE]["spec"]["selector"][REVISION_LABEL]
        assert labels == {chosen}, (labels, chosen, self.conditions())
        planned = plan_stages(spec, identity=self.identity(), revision="" if chosen == "initial" else chosen)
        expected = {self.identity().workload_name(stage.key): stage.replicas for stage in planned}
        replicas = {name: item["spec"]["replicas"] for name, item in found.items()}
        assert replicas == expected, (replicas, expected, self.conditions())
        image = spec.runtime.image
        assert all(image_of(item) == image for item in found.values() if "frontend" not in item["metadata"]["name"])
        ready = next(condition for condition in self.conditions() if condition["type"] == "Ready")
        expected_reason = "AllStagesReady" if len(self.foreign) < len(FOREIGN) else "NameTaken"
        assert ready["reason"] == expected_reason, ready
        pods = [pod for pod in self.nodes.pods().values() if is_live(pod)]
        assert all(is_ready(pod) for pod in pods)
        assert len(pods) == sum(expected.values()), [pod["metadata"]["name"] for pod in pods]
