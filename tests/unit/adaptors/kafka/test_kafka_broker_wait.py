# SPDX-License-Identifier: Apache-2.0
"""Waiting for a broker that does not come up."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("confluent_kafka", reason="needs the extra [kafka]")

from penstock.adaptors.kafka.broker import wait_until_ready
from penstock.errors import ClusterError


def test_a_request_to_stop_ends_the_wait_for_the_broker() -> None:
    """A user who presses Ctrl-C does not wait until the broker answers."""
    stop = threading.Event()

    def list_topics(timeout: float) -> Any:
        stop.set()
        return SimpleNamespace(brokers={})

    client = SimpleNamespace(list_topics=list_topics, poll=lambda _: None)
    connection = SimpleNamespace(admin=lambda faults: client, bootstrap_servers="h:1")
    process = SimpleNamespace(raise_if_ended=lambda: None, log="log", tail=lambda: "")
    with pytest.raises(ClusterError, match="stopped while the Kafka broker was starting"):
        wait_until_ready(cast("Any", connection), cast("Any", process), 20.0, stop)
