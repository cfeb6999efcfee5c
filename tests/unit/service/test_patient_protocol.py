# SPDX-License-Identifier: Apache-2.0
"""The service over real connections that say nothing, half of something, or nonsense."""

from __future__ import annotations

import logging
import socket
import time
import urllib.request
from collections.abc import Iterator

import pytest

from penstock.service import server
from penstock.service.access import Access
from penstock.service.application import make_application
from penstock.service.asking import Service
from penstock.service.events import EventFeed
from penstock.service.patient_protocol import Seldom
from penstock.service.server import Server, Site

HOST = b"Host: 127.0.0.1\r\n"
TOKEN = b"Authorization: Bearer steer\r\n"
HALF_BODY = (
    b"PUT /api/v1/agents/watch HTTP/1.1\r\n" + HOST + TOKEN
    + b"Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
)  # fmt: skip


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A service that has few connections and little patience."""
    monkeypatch.setattr("penstock.service.patient_protocol.REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(server, "_MOST_CONNECTIONS", 5)
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "filters", [])
    feed = EventFeed()
    app = make_application(Service((), Access("look", "steer"), feed))
    with Server(app, Site(), feed) as made:
        yield made


def dial(served: Server, said: bytes) -> socket.socket:
    """A connection that has said something."""
    made = socket.create_connection(("127.0.0.1", served.port), timeout=20.0)
    made.sendall(said)
    return made


def rest(connection: socket.socket) -> bytes:
    """All that comes until the far side closes."""
    found = b""
    while received := connection.recv(1 << 16):
        found += received
    return found


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n" + HOST + b"X: ", HALF_BODY])
def test_who_does_not_say_what_it_wants_is_not_waited_for(served: Server, said: bytes) -> None:
    """Six silent connections are closed, and then the service has room again, for whoever asks."""
    silent = [dial(served, said) for _ in range(6)]
    for connection in silent:
        rest(connection)  # would wait for ever where it is kept
        connection.close()
    with urllib.request.urlopen(f"{served.address}/healthz", timeout=20) as answer:
        assert answer.status == 200


def test_a_second_request_that_stops_halfway_is_not_waited_for(served: Server) -> None:
    """The time that a connection without a request is kept is over with its first byte."""
    with dial(served, b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n") as connection:
        assert b"200 OK" in connection.recv(1 << 16)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost")
        rest(connection)


def test_a_stream_outlives_the_patience_with_requests(served: Server) -> None:
    """Who has asked for events gets them, however long that takes."""
    with dial(served, b"GET /api/v1/events HTTP/1.1\r\n" + HOST + TOKEN + b"\r\n") as connection:
        time.sleep(1.0)
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            rest(connection)


def test_the_end_waits_for_nobody_who_has_not_said_all(served: Server, caplog: pytest.LogCaptureFixture) -> None:
    """The log has no traceback of it."""
    with dial(served, HALF_BODY), caplog.at_level(logging.INFO):
        time.sleep(0.1)
        began = time.monotonic()
        served.__exit__()
        assert time.monotonic() - began < 1.9  # uvicorn would wait for 2 s
    assert "Exception" not in caplog.text
    assert all(record.exc_info is None for record in caplog.records)


def test_nonsense_is_said_once(served: Server, caplog: pytest.LogCaptureFixture) -> None:
    """What strangers send does not fill the log."""
    for _ in range(10):
        with dial(served, b"\x16\x03\x01nonsense\r\n\r\n") as connection:
            assert b"400" in rest(connection)
    assert caplog.text.count("Invalid HTTP request") == 1


def test_a_minute_later_it_is_said_again_and_failures_always() -> None:
    """The filter has a clock, and a bound."""
    now = 0.0
    seldom = Seldom(lambda: now)

    def passes(text: str, failed: bool = False) -> bool:
        fault = (ValueError, ValueError(), None) if failed else None
        return seldom.filter(logging.LogRecord("a", logging.WARNING, "a.py", 1, text, (), fault))

    assert [passes("one"), passes("one"), passes("other")] == [True, False, True]
    now = 61.0
    assert passes("one")
    assert all(passes("one", failed=True) for _ in range(2))
    assert all(passes(f"text {n}") for n in range(1000))
    assert len(seldom._said) <= 100
