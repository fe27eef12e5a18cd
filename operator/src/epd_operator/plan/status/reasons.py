"""The registry of condition reasons. A new reason is one member here and one paragraph in docs/conditions.md.

Each member has its section of the documentation, its rank among the reasons of stages, and the Event that is
recorded when a stage gets it. Tests check every member.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ConditionType(StrEnum):
    """Condition types; Ready, Reconciling and Stalled follow kstatus.

    CRDOutdated and NodesUnsuitable exist only while they are true.
    """

    READY = "Ready"
    AVAILABLE = "Available"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    CRD_OUTDATED = "CRDOutdated"
    NODES_UNSUITABLE = "NodesUnsuitable"


class EventType(StrEnum):
    """Type of an Event; Warning: a person should read it."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Section(StrEnum):
    """Sections of docs/conditions.md."""

    NORMAL = "Normal state"
    PROGRESS = "Work in progress"
    PODS = "Pods have a problem"
    PERSON = "A person has to act"


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Properties of a reason.

    Attributes:
        section: its section of the documentation. Conditions show reasons of work in progress only if there are no
            others, because they need no action.
        rank: the lowest is shown first, if several pods, or several stages in progress, have reasons.
        event: type of the Event that is recorded when a stage gets the reason; None for no Event.
    """

    section: Section
    rank: int = 0
    event: EventType | None = None


def _progress(*, rank: int = 0, event: EventType | None = None) -> Traits:
    return Traits(section=Section.PROGRESS, rank=rank, event=event)


def _pods(*, rank: int) -> Traits:
    return Traits(section=Section.PODS, rank=rank, event=EventType.WARNING)


_NORMAL = Traits(section=Section.NORMAL)
_PERSON = Traits(section=Section.PERSON)


class Reason(StrEnum):
    """Reasons of conditions and of stages."""

    traits: Traits

    def __new__(cls, value: str, traits: Traits) -> Reason:
        """Create a member with its traits; its value is the reason in the status."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.traits = traits
        return member

    ALL_STAGES_READY = "AllStagesReady", _NORMAL
    REQUESTS_ANSWERED = "RequestsAnswered", _NORMAL
    SETTLED = "Settled", _NORMAL

    ROLLING_OUT = "RollingOut", _progress(rank=1, event=EventType.NORMAL)
    SCALING_DOWN = "ScalingDown", _progress(rank=1)
    PODS_STARTING = "PodsStarting", _progress(rank=20)
    WAITING_FOR_ENCODER = "WaitingForEncoder", _progress(rank=30)
    REVISION_STARTING = "RevisionStarting", _progress(rank=40)
    REVISION_VERIFYING = "RevisionVerifying", _progress(rank=40)
    REVISION_SHARING = "RevisionSharing", _progress(rank=40)
    REVISION_REMOVING = "RevisionRemoving", _progress(rank=41)
    ROLLOUT_PAUSED = "RolloutPaused", _progress()
    WAITING_FOR_REMOVAL = "WaitingForRemoval", _progress()

    NO_READY_PODS = "NoReadyPods", Traits(section=Section.PODS)
    NODE_LOST = "NodeLost", _pods(rank=0)
    IMAGE_PULL_FAILED = "ImagePullFailed", _pods(rank=1)
    CONTAINER_CONFIG_INVALID = "ContainerConfigInvalid", _pods(rank=2)
    VOLUME_NOT_READY = "VolumeNotReady", _pods(rank=3)
    SANDBOX_FAILED = "SandboxFailed", _pods(rank=4)
    CRASH_LOOPING = "CrashLooping", _pods(rank=5)
    CONTAINER_RESTARTED = "ContainerRestarted", _pods(rank=6)
    CONTAINER_NOT_READY = "ContainerNotReady", _pods(rank=7)
    READINESS_GATES_NOT_READY = "ReadinessGatesNotReady", _pods(rank=8)
    ROLLOUT_BLOCKED = "RolloutBlocked", _pods(rank=9)
    UNSCHEDULABLE = "Unschedulable", _pods(rank=9)
    SCHEDULING_GATED = "SchedulingGated", _pods(rank=10)
    PODS_FAILED = "PodsFailed", _pods(rank=11)
    VERIFICATION_FAILED = "VerificationFailed", _pods(rank=12)
    REVISION_RETURNED = "RevisionReturned", _pods(rank=12)
    WRONG_ANSWERS = "WrongAnswers", _pods(rank=12)
    PODS_REFUSED = "PodsRefused", _pods(rank=12)
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded", _pods(rank=13)

    NAME_TAKEN = "NameTaken", _PERSON
    CHILD_REFUSED = "ChildRefused", _PERSON
    SPEC_INVALID = "SpecInvalid", _PERSON
    FIELDS_MISSING = "FieldsMissing", _PERSON
    NO_MATCHING_NODES = "NoMatchingNodes", _PERSON
    ARCHITECTURE_DIFFERS = "ArchitectureDiffers", _PERSON
    DEVICES_MISSING = "DevicesMissing", _PERSON
    TAINTS_NOT_TOLERATED = "TaintsNotTolerated", _PERSON
    RUNTIME_CLASS_MISSING = "RuntimeClassMissing", _PERSON

    @property
    def is_progress(self) -> bool:
        """Whether the reason needs no action: it normally ends automatically."""
        return self.traits.section is Section.PROGRESS
