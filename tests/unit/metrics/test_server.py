"""The listener that answers for a run: who may reach it, and who cannot disturb it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from isthmus.errors import ConfigError, HostError, PortBusy
from isthmus.metrics.server import Show, serving
from isthmus.model.configuration import MetricsSettings
from testing.patience import TERM_S
from testing.values.standing import OPEN_METRICS, free_port, link_at, topic_at


@pytest.fixture
def port() -> int:
    """A port for the test."""
    return free_port()


@pytest.fixture
def show(port: int) -> Iterator[Show]:
    """What tells the listener at the port how links stand."""
    with serving(MetricsSettings(listen=f"127.0.0.1:{port}")) as told:
        assert told is not None
        yield told


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
    """The status, the type and the body that are answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.headers["Content-Type"] or "", body


def test_each_path_answers(show: Show, port: int) -> None:
    """Metrics in the format that is asked for, health as JSON, and elsewhere what there is."""
    assert ask(port, "/readyz")[0] == 503
    show((link_at(topic_at("orders")),))
    status, kind, body = ask(port, "/metrics")
    assert (status, kind.startswith("text/plain"), "isthmus_up" in body) == (200, True, True)
    assert "process_resident_memory_bytes" in body
    status, kind, body = ask(port, "/metrics?name=x", Accept=OPEN_METRICS)
    assert (status, kind.startswith("application/openmetrics-text"), body.endswith("# EOF\n")) == (200, True, True)
    for path in ("/livez", "/readyz", "/health"):
        status, kind, body = ask(port, path)
        assert (status, kind) == (200, "application/json")
        assert json.loads(body)["status"] in ("ok", "healthy")
    status, _, body = ask(port, "/")
    assert (status, "/metrics" in body) == (404, True)
    assert ask(port, "/metrics", "HEAD")[2] == ""
    assert ask(port, "/metrics", "POST")[0] == 501


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9464", 200),
        ("localhost", 200),
        ("[::1]:9464", 200),
        ("attacker.example.com:9464", 421),
        ("10.0.0.1", 421),
        ("[", 421),
        ("", 421),
    ],
)
def test_a_page_in_a_browser_reads_nothing(show: Show, port: int, host: str, status: int) -> None:
    """Its name may lead to this host, and is not the name of this host."""
    show((link_at(topic_at("orders")),))
    answered, _, body = ask(port, "/metrics", Host=host)
    assert (answered, "orders" in body) == (status, status == 200)


def test_a_port_in_use_is_told_before_anything_starts(show: Show, port: int) -> None:
    """With what to do about it."""
    with (
        pytest.raises(PortBusy, match=f"127.0.0.1:{port}") as refused,
        serving(MetricsSettings(listen=f"127.0.0.1:{port}")),
    ):
        pass
    assert "--metrics" in refused.value.hint


@pytest.mark.parametrize("listen", ["0.0.0.0:9464", "[::]:9464", "metrics.example.com:9464", "10.1.2.3:9464"])
def test_other_hosts_are_let_in_on_request_only(listen: str) -> None:
    """What other hosts could reach is refused unless that was asked for; nothing is looked up or opened."""
    with pytest.raises(ConfigError) as refused, serving(MetricsSettings(listen=listen)):
        pass
    assert "--metrics-any-interface" in refused.value.hint


def test_any_interface_where_it_was_asked_for(port: int) -> None:
    """Then it listens there."""
    with serving(MetricsSettings(listen=f"0.0.0.0:{port}", any_interface=True)):
        assert ask(port, "/livez")[0] == 200


@pytest.mark.parametrize("listen", ["9464", "127.0.0.1", "127.0.0.1:0", "::1:9464", "127.0.0.1:http"])
def test_what_is_no_address_is_refused(listen: str) -> None:
    """With an example of one."""
    with pytest.raises(ConfigError, match=r"must be host:port"), serving(MetricsSettings(listen=listen)):
        pass


def test_an_address_of_another_host_is_told(port: int) -> None:
    """One cannot listen where this host is not."""
    settings = MetricsSettings(listen=f"192.0.2.1:{port}", any_interface=True)
    with pytest.raises(HostError, match=r"192\.0\.2\.1"), serving(settings):
        pass


def test_nothing_listens_where_nothing_was_asked_for() -> None:
    """And no thread is started."""
    before = threading.active_count()
    with serving(MetricsSettings()) as show:
        assert show is None
        assert threading.active_count() == before


def test_slow_clients_hold_nobody_up(show: Show, port: int) -> None:
    """Whoever asks without end is left when others come; their number is bounded, and so is that of threads."""
    show((link_at(topic_at("orders")),))
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(100)]
        for each in slow:
            each.sendall(b"GET /metrics HTTP/1.1\r\nX-")
        assert ask(port, "/metrics")[0] == 200
        deadline = time.monotonic() + TERM_S
        while (answering := sum("process_request" in thread.name for thread in threading.enumerate())) > 16:
            assert time.monotonic() < deadline, answering
            time.sleep(0.01)


def test_the_end_of_a_run_waits_for_no_client(port: int) -> None:
    """Nor does the port stay taken: the next run may listen there at once."""
    for _ in range(2):
        with serving(MetricsSettings(listen=f"127.0.0.1:{port}")):
            client = socket.create_connection(("127.0.0.1", port))
            client.sendall(b"GET /metrics HTTP/1.1\r\n")
            begun = time.monotonic()
        # Whoever waited for the client would wait for ten seconds.
        assert time.monotonic() - begun < 9
        client.close()
