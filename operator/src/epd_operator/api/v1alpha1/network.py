"""Networks of nodes: the transports and devices of UCX, and RDMA devices."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from epd_operator.api.markers import Int, ListSet, Rule
from epd_operator.api.v1alpha1.base import ApiModel, ExtendedResource

Transport = Annotated[
    str,
    Field(min_length=1, max_length=32, pattern=r"^[A-Za-z0-9_]+$"),
    Rule(
        expression="self == self.lowerAscii()",
        message="names of UCX transports are in lower case: write for example rc",
        message_expression="'names of UCX transports are in lower case: write ' + self.lowerAscii()",
    ),
]
Transports = Annotated[list[Transport], Field(min_length=1, max_length=16), ListSet()]
Devices = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.:-]+$")]],
    Field(max_length=16),
    ListSet(),
]


class Network(ApiModel):
    """The network of the nodes of a pool, or of the pods of a stage. What is unset is that of spec.transfer."""

    transports: Transports | None = Field(default=None, description="Transports that UCX may use (UCX_TLS).")
    devices: Devices | None = Field(
        default=None, description="Network devices that UCX may use (UCX_NET_DEVICES). An empty list means all."
    )
    gid_index: Annotated[Int, Field(ge=0, le=255)] | None = Field(
        default=None,
        description="Index in the GID table of RoCE devices (UCX_IB_GID_INDEX). Unset means that UCX chooses.",
    )
    rdma_resources: Annotated[list[ExtendedResource], Field(max_length=8), ListSet()] | None = Field(
        default=None,
        description="Extended resources of RDMA devices, instead of transfer.rdmaResource. Pods request one of each "
        "per GPU. An empty list means none.",
    )
