"""Version v1alpha1 of the group epd.dev."""

from epd_operator.api.v1alpha1.epddeployment import EPDDeployment, EPDDeploymentSpec
from epd_operator.api.v1alpha1.status import EPDDeploymentStatus
from epd_operator.api.v1alpha1.topology import Topology

__all__ = ["EPDDeployment", "EPDDeploymentSpec", "EPDDeploymentStatus", "Topology"]
