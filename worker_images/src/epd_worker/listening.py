"""The address on which the process can listen for all clients of the pod."""

from __future__ import annotations

import socket

VARIABLE = "DYN_HTTP_HOST"
"""The variable of Dynamo's frontend for its flag --http-host, whose default is 0.0.0.0."""


def any_address(*, pod_ip: str) -> str:
    """Return `::`, which serves IPv4 and IPv6, and `0.0.0.0` where the kernel cannot do that and the pod has IPv4."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            both = not probe.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
            probe.bind(("::", 0))
    except OSError:
        return "0.0.0.0"  # noqa: S104 - the endpoint serves all clients
    # With the sysctl net.ipv6.bindv6only, "::" does not serve IPv4.
    return "::" if both or ":" in pod_ip else "0.0.0.0"  # noqa: S104
