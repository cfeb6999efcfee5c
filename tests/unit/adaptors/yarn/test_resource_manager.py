# SPDX-License-Identifier: Apache-2.0
"""Asking a ResourceManager: which address, which of several, and what is said where it fails."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from penstock.adaptors.yarn.resource_manager import NotKnownError, ResourceManager, manager_addresses
from penstock.errors import MetricSourceError

NOBODY = "http://127.0.0.1:1"


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers with the status at the end of the path, else with an object that names the path."""

    def do_GET(self) -> None:
        """One answer."""
        last = self.path.rpartition("/")[2]
        status = int(last) if last.isdigit() else 200
        body = b"[1]" if last == "list" else b"<html>" if last == "page" else b'{"path": "' + self.path.encode() + b'"}'
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    """A server on the loopback."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_of_several_one_that_answers_is_found(address: str) -> None:
    """The one that answered is asked first afterwards."""
    manager = ResourceManager([NOBODY, address])
    assert manager.get("/nodes") == {"path": "/ws/v1/cluster/nodes"}
    assert manager._addresses[0] == address.rstrip("/")


@pytest.mark.parametrize(
    ("status", "words", "may_be_retried"),
    [(401, "it wants a login", False), (403, "may not see it", False), (500, "it has failed", True)],
)
def test_a_refusal_is_told_with_its_cause(address: str, status: int, words: str, may_be_retried: bool) -> None:
    """The sentence names the address, the status and what is behind it."""
    with pytest.raises(MetricSourceError, match=words) as caught:
        ResourceManager([address]).get(f"/{status}")
    assert f"status {status}" in str(caught.value)
    assert caught.value.retryable is may_be_retried


def test_what_it_does_not_know_is_told_apart(address: str) -> None:
    """A call of a later version, or an application that is gone."""
    with pytest.raises(NotKnownError, match="knows nothing"):
        ResourceManager([address]).get("/404")


@pytest.mark.parametrize("path", ["/list", "/page"])
def test_an_answer_that_is_no_object_is_none(address: str, path: str) -> None:
    """Somebody else may listen there."""
    with pytest.raises(MetricSourceError, match="does not answer"):
        ResourceManager([address]).get(path)


def test_silence_is_told_with_the_address() -> None:
    """So that the user can look there; also where no address is known."""
    with pytest.raises(MetricSourceError, match=r"127\.0\.0\.1:1"):
        ResourceManager([NOBODY]).get("/nodes")
    with pytest.raises(MetricSourceError, match="no address"):
        ResourceManager([]).get("/nodes")


@pytest.mark.parametrize(
    ("properties", "addresses"),
    [
        ({"yarn.resourcemanager.webapp.address": "rm:8088"}, ["http://rm:8088"]),
        ({"yarn.resourcemanager.hostname": "rm"}, ["http://rm:8088"]),
        (
            {"yarn.http.policy": "HTTPS_ONLY", "yarn.resourcemanager.webapp.https.address": "rm:9090"},
            ["https://rm:9090"],
        ),
        (
            {
                "yarn.resourcemanager.ha.enabled": "true",
                "yarn.resourcemanager.ha.rm-ids": "a, b",
                "yarn.resourcemanager.webapp.address.a": "one:1",
                "yarn.resourcemanager.hostname.b": "two",
            },
            ["http://one:1", "http://two:8088"],
        ),
        ({}, []),
    ],
)
def test_addresses_come_from_yarns_own_configuration(properties: dict[str, str], addresses: list[str]) -> None:
    """Plain, with TLS, and with several of which one is active."""
    assert manager_addresses(properties.get) == addresses
