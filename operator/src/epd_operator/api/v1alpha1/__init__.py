"""Version v1alpha1 of the group epd.dev."""

from epd_operator.api.v1alpha1.deployment import EPDDeploymentSpec, Topology
from epd_operator.api.v1alpha1.resource import EPDDeployment
from epd_operator.api.v1alpha1.status import EPDDeploymentStatus

__all__ = ["EPDDeployment", "EPDDeploymentSpec", "EPDDeploymentStatus", "Topology"]
