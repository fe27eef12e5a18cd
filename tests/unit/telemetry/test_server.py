"""The HTTP server of the metrics, over real sockets."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import socket
import time

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, enable_created_metrics

from epd_operator.telemetry.server import MAX_CONNECTIONS, MAX_REQUEST_BYTES, MetricsServer

WAIT_SECONDS = 30


def started(*, deadline: float = 30.0) -> tuple[int, Gauge]:
    registry = CollectorRegistry()
    gauge = Gauge("epd_test", "A number.", registry=registry)
    return MetricsServer(registry, deadline=deadline).start(0), gauge


@pytest.fixture(scope="module")
def port() -> int:
    return started()[0]


def fetch(port: int, method: str = "GET", path: str = "/metrics", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()


def opened(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS)


def read_all(connection: socket.socket) -> bytes:
    """All bytes until the other side closes the connection."""
    with contextlib.suppress(ConnectionResetError):
        return b"".join(iter(lambda: connection.recv(65536), b""))
    return b""


def test_a_scraper_reads_the_metrics(port: int) -> None:
    status, headers, body = fetch(port)
    assert (status, body.splitlines()[-1]) == (200, b"epd_test 0.0")
    assert headers["Content-Type"].startswith("text/plain")


def test_a_scraper_can_request_openmetrics_and_gzip(port: int) -> None:
    accepted = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
    _, headers, body = fetch(port, Accept=accepted, **{"Accept-Encoding": "gzip"})
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert gzip.decompress(body).endswith(b"# EOF\n")


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text;version=1.0.0"])
def test_the_page_has_no_created_series(accept: str) -> None:
    enable_created_metrics()
    registry = CollectorRegistry()
    Counter("epd_turns_total", "Turns.", registry=registry).inc()
    _, _, body = fetch(MetricsServer(registry).start(0), Accept=accept)
    assert b"epd_turns_total 1.0" in body
    assert b"_created" not in body


@pytest.mark.parametrize("accept", ["application/openmetrics-text;version=x", "text/plain;version=1.0.0.0.x", ";;=,"])
def test_a_request_with_an_invalid_accept_header_gets_plain_text(port: int, accept: str) -> None:
    status, headers, _ = fetch(port, Accept=accept)
    assert (status, headers["Content-Type"].partition(";")[0]) == (200, "text/plain")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/metrics", 405), ("GET", "/healthz", 404), ("GET", "/metrics?name[]=x", 200), ("HEAD", "/metrics", 200)],
)
def test_only_requests_that_read_the_metrics_are_served(port: int, method: str, path: str, status: int) -> None:
    assert fetch(port, method, path)[0] == status


@pytest.mark.parametrize("request_text", ["GET\r\n\r\n", "GET /metrics SMTP\r\n\r\n", "\xff\xfe a b\r\n\r\n"])
def test_an_invalid_request_is_refused(port: int, request_text: str, caplog: pytest.LogCaptureFixture) -> None:
    with opened(port) as connection:
        connection.sendall(request_text.encode("latin-1"))
        assert read_all(connection).startswith(b"HTTP/1.1 400")
    assert caplog.text == ""


def test_the_body_of_a_request_is_ignored(port: int, caplog: pytest.LogCaptureFixture) -> None:
    with opened(port) as connection:
        head = "GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n"
        connection.sendall(f"{head}5\r\nabcde\r\n".encode())
        assert b"epd_test" in read_all(connection)
    assert caplog.text == ""


@pytest.mark.parametrize("request_text", ["GET /metrics HTTP/1.0", "GET /x HTTP/1.1\r\nHost: x", "GET"])
def test_a_response_closes_the_connection_and_contains_no_versions(port: int, request_text: str) -> None:
    with opened(port) as connection:
        connection.sendall(f"{request_text}\r\n\r\n".encode())
        head = read_all(connection).partition(b"\r\n\r\n")[0]
    assert b"Connection: close" in head
    assert b"Server: epd-operator\r\n" in head
    assert b"Python" not in head


@pytest.mark.parametrize("header", ["X: " + "x" * MAX_REQUEST_BYTES, "a:b\r\n" * 150])
def test_a_request_that_is_too_large_gets_no_metrics(port: int, header: str) -> None:
    with opened(port) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(f"GET /metrics HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n".encode())
        assert b"epd_test" not in read_all(connection)
    assert fetch(port)[0] == 200


@pytest.mark.parametrize("start", [b"", b"GET /metrics", b"\r\n\r\n"], ids=["nothing", "a part", "empty lines"])
def test_a_client_that_sends_no_complete_request_is_disconnected(start: bytes) -> None:
    port, _ = started(deadline=0.2)
    with opened(port) as connection:
        connection.sendall(start)
        assert read_all(connection) == b""


def test_a_client_that_does_not_read_is_disconnected() -> None:
    registry = CollectorRegistry()
    Gauge("epd_test", "x" * 16_000_000, registry=registry)
    port = MetricsServer(registry, deadline=0.5).start(0)
    with opened(port) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(1)
        assert len(read_all(connection)) < 16_000_000


def test_a_client_that_never_ends_its_request_is_disconnected() -> None:
    port, _ = started(deadline=100 * WAIT_SECONDS)
    with opened(port) as connection, pytest.raises(OSError, match=r"reset|pipe"):
        connection.sendall(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 20000000\r\n\r\n" + b"x" * 20_000_000)


def open_slowly(stack: contextlib.ExitStack, port: int, address: str, *, size: int) -> list[socket.socket]:
    """Connections from an address that start a request and do not finish it."""
    made = []
    for _ in range(size):
        source = (address, 0)
        made.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_SECONDS, source)))
        made[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: ")
    return made


def test_slow_connections_do_not_block_other_clients_and_the_oldest_is_closed_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    port, _ = started(deadline=100 * WAIT_SECONDS)
    with contextlib.ExitStack() as stack:
        slow = open_slowly(stack, port, "127.0.0.1", size=MAX_CONNECTIONS)
        assert fetch(port)[0] == 200
        assert read_all(slow[0]) == b""
        slow[-1].sendall(b"y\r\n\r\n")
        assert b"epd_test" in read_all(slow[-1])
        open_slowly(stack, port, "127.0.0.1", size=MAX_CONNECTIONS)
        assert fetch(port)[0] == 200
    assert "StreamReader" not in caplog.text


def test_an_address_with_few_connections_keeps_them_while_another_opens_many() -> None:
    port, _ = started(deadline=100 * WAIT_SECONDS)
    with contextlib.ExitStack() as stack:
        (probe,) = open_slowly(stack, port, "127.0.0.2", size=1)
        open_slowly(stack, port, "127.0.0.1", size=2 * MAX_CONNECTIONS)
        probe.sendall(b"y\r\n\r\n")
        assert b"epd_test" in read_all(probe)


def test_a_metric_that_cannot_be_computed_gives_an_error_and_does_not_stop_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    port, gauge = started()
    gauge.set_function(lambda: 1 / 0)
    assert fetch(port)[0] == 500
    gauge.set_function(lambda: 7)
    assert b"epd_test 7" in fetch(port)[2]
    assert "metrics could not be generated" in caplog.text


def test_a_port_that_is_in_use_is_an_error_at_the_start(port: int) -> None:
    with pytest.raises(OSError, match="in use"):
        MetricsServer(CollectorRegistry()).start(port)
