"""The kinds that the operator uses, with their paths at the API server."""

from __future__ import annotations

import re
from dataclasses import dataclass

from epd_operator.api.v1alpha1 import epddeployment, epdstagescale

_SPECIAL = re.compile(r"[/%?#\\\s]")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of object. Nodes and RuntimeClasses are cluster-scoped, the others are namespaced."""

    kind: str
    api_version: str
    plural: str

    def path(self, *, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of the collection, of one object or of its subresource.

        Raises:
            ValueError: the name is not valid in Kubernetes, and would change the path.
        """
        if name in (".", "..") or (name is not None and _SPECIAL.search(name)):
            raise ValueError(f"not a valid name of an object: {name!r}")
        root = "/api" if "/" not in self.api_version else "/apis"
        parts = [root, self.api_version]
        if namespace is not None:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part is not None]
        return "/".join(parts)


EPD_DEPLOYMENT = Kind(kind=epddeployment.KIND, api_version=epddeployment.API_VERSION, plural=epddeployment.PLURAL)
DEPLOYMENT = Kind(kind="Deployment", api_version="apps/v1", plural="deployments")
CONTROLLER_REVISION = Kind(kind="ControllerRevision", api_version="apps/v1", plural="controllerrevisions")
SERVICE = Kind(kind="Service", api_version="v1", plural="services")
SERVICE_ACCOUNT = Kind(kind="ServiceAccount", api_version="v1", plural="serviceaccounts")
ROLE_BINDING = Kind(kind="RoleBinding", api_version="rbac.authorization.k8s.io/v1", plural="rolebindings")
STAGE_SCALE = Kind(
    kind=epdstagescale.SCALE_KIND, api_version=epddeployment.API_VERSION, plural=epdstagescale.SCALE_PLURAL
)
NETWORK_POLICY = Kind(kind="NetworkPolicy", api_version="networking.k8s.io/v1", plural="networkpolicies")
DISRUPTION_BUDGET = Kind(kind="PodDisruptionBudget", api_version="policy/v1", plural="poddisruptionbudgets")
EVENT = Kind(kind="Event", api_version="events.k8s.io/v1", plural="events")
CORE_EVENT = Kind(kind="Event", api_version="v1", plural="events")
"""The same Events, in the version whose field selectors include the uid of the object."""
POD = Kind(kind="Pod", api_version="v1", plural="pods")
NODE = Kind(kind="Node", api_version="v1", plural="nodes")
RUNTIME_CLASS = Kind(kind="RuntimeClass", api_version="node.k8s.io/v1", plural="runtimeclasses")
