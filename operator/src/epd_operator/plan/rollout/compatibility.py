"""Which changes of a spec old and new processes can share, and which need a revision of their own.

Processes of one revision discover each other and exchange embeddings, hidden states of the router and model cards. So
all that decides what they send and answer belongs to the key; everything else is replaced stage by stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.stages import Group, Stage
from epd_operator.api.v1alpha1.topology import GPU_STAGES, StageName
from epd_operator.backends.registry import BACKENDS
from epd_operator.objects.digests import digest
from epd_operator.plan.replicas import settings_of

KEY_LENGTH = 6
"""Characters of the key. It becomes part of names, and of the few revisions of one object no two may be equal."""


def compatibility_key(spec: EPDDeploymentSpec) -> str:
    """A hash of what old and new processes must have in common to serve a request together."""
    stages = {
        name: settings
        for name in (StageName.FRONTEND, *GPU_STAGES[spec.topology])
        if (settings := settings_of(spec, name))
    }
    shared = {
        "topology": spec.topology,
        "model": spec.model.model_dump(mode="json", exclude={"token_secret"}, exclude_defaults=True),
        "framework": spec.runtime.framework,
        "image": spec.runtime.image,
        "images": {name: image for name, settings in stages.items() if (image := _image(spec, settings)) is not None},
        # Variables of all processes may change what these send.
        "env": [v.model_dump(mode="json", exclude_defaults=True) for v in spec.runtime.env or ()],
        "args": {name: list(_shared_arguments(spec, settings)) for name, settings in stages.items()},
        **_networks(spec, stages),
        "transfer": spec.transfer.model_dump(mode="json", exclude_defaults=True),
        "media_decoding": spec.frontend.media_decoding,
    }
    return digest(shared, length=KEY_LENGTH)


def _networks(spec: EPDDeploymentSpec, stages: Mapping[StageName, Stage]) -> dict[str, Any]:
    """The networks that differ from ``transfer``: processes must have a transport in common."""
    pools = {pool.name: pool.network for pool in spec.pools}
    found = {
        name: [network.model_dump(mode="json", exclude_none=True) for network in networks]
        for name, settings in stages.items()
        if (networks := [n for n in (pools.get(getattr(settings, "pool", None) or ""), settings.network) if n])
    }
    return {"networks": found} if found else {}


def _image(spec: EPDDeploymentSpec, settings: Stage) -> str | None:
    """The image of a stage if it has one of its own."""
    own = settings.pod_template.image if settings.pod_template is not None else None
    return own or (spec.pod_template.image if spec.pod_template is not None else None)


def _shared_arguments(spec: EPDDeploymentSpec, settings: Stage) -> Iterator[str]:
    """Arguments on which the processes of a revision must agree: all that are not known to concern one process only."""
    arguments = [*(spec.runtime.args or ()), *(settings.args or ())]
    if isinstance(settings, Group):
        arguments += [*(settings.encoder.args or ()), *(settings.pd.args or ())]
    local = BACKENDS[spec.runtime.framework].local_flags
    is_local = False
    for argument in arguments:
        if argument.startswith("-"):
            flag = argument.partition("=")[0].replace("_", "-").replace("--no-", "--")
            is_local = flag in local
        if not is_local:
            yield argument
