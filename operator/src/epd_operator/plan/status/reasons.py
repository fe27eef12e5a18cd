"""Condition types and reasons that the operator writes. docs/conditions.md has a paragraph on each."""

from __future__ import annotations

from enum import StrEnum


class ConditionType(StrEnum):
    """Condition types; Ready, Reconciling and Stalled follow kstatus."""

    READY = "Ready"
    AVAILABLE = "Available"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"


class Reason(StrEnum):
    """Reasons of conditions and of stages."""

    ALL_STAGES_READY = "AllStagesReady"
    REQUESTS_ANSWERED = "RequestsAnswered"
    NO_READY_PODS = "NoReadyPods"
    WAITING_FOR_ENCODER = "WaitingForEncoder"
    PODS_STARTING = "PodsStarting"
    ROLLING_OUT = "RollingOut"
    SCALING_DOWN = "ScalingDown"
    SETTLED = "Settled"
    UNSCHEDULABLE = "Unschedulable"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CONTAINER_CONFIG_INVALID = "ContainerConfigInvalid"
    CONTAINER_RESTARTED = "ContainerRestarted"
    CRASH_LOOPING = "CrashLooping"
    PODS_REFUSED = "PodsRefused"
    PODS_FAILED = "PodsFailed"
    NAME_TAKEN = "NameTaken"
    CHILD_REFUSED = "ChildRefused"
    SPEC_INVALID = "SpecInvalid"
    WAITING_FOR_REMOVAL = "WaitingForRemoval"
