"""The address on which a frontend listens: IPv4 and IPv6 where the kernel has both."""

from __future__ import annotations

import errno
import socket
import sys

import pytest

from epd_worker.listening import any_address


class Kernel(socket.socket):
    """A kernel with `net.ipv6.bindv6only`, so that a socket for IPv6 does not serve IPv4."""

    def getsockopt(self, level, option, *more):
        if (level, option) == (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY):
            return 1
        return super().getsockopt(level, option, *more)


def _no_ipv6(family, *_arguments):
    raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")


def test_a_process_gets_an_address_that_serves_ipv4_and_ipv6_clients(workbench, engine):
    fake = engine()
    script = """
import os, socket, sys
server = socket.create_server((os.environ["DYN_HTTP_HOST"], 0), family=socket.AF_INET6 if socket.has_dualstack_ipv6()
                              else socket.AF_INET, dualstack_ipv6=socket.has_dualstack_ipv6())
port = server.getsockname()[1]
hosts = ["127.0.0.1"]
try:
    socket.socket(socket.AF_INET6).bind(("::1", 0))
    hosts.append("::1")
except OSError:
    pass
for host in hosts:
    socket.create_connection((host, port), timeout=30).close()
print("served", *hosts, flush=True)
sys.exit(3)
"""
    urls = ["--role", "frontend", "--health-url", fake.health_url, "--metrics-url", fake.metrics_url]
    launcher = workbench.launch(*urls, command=[sys.executable, "-c", script])
    assert launcher.wait() == 3
    assert "served 127.0.0.1" in launcher.output()


def test_without_ipv6_in_the_kernel_it_is_an_address_of_ipv4(monkeypatch):
    monkeypatch.setattr(socket, "socket", _no_ipv6)
    assert any_address(pod_ip="10.1.2.3") == "0.0.0.0"


@pytest.mark.parametrize(("pod_ip", "address"), [("10.1.2.3", "0.0.0.0"), ("fd00::7", "::"), ("", "0.0.0.0")])
def test_where_one_socket_cannot_serve_both_the_family_of_the_pod_decides(monkeypatch, pod_ip, address):
    monkeypatch.setattr(socket, "socket", Kernel)
    assert any_address(pod_ip=pod_ip) == address
