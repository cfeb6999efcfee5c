# SPDX-License-Identifier: Apache-2.0
"""Masters that share a real PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from tests.toy_query import ToyQuery, start

from penstock.adaptors.agent.master_address import TOKEN_VARIABLE, MasterAddress
from penstock.adaptors.postgresql.address import StoreAddress
from penstock.adaptors.postgresql.leases import PostgresqlLeases
from penstock.errors import AdaptorError, ConfigurationError
from penstock.service.access import Access
from penstock.service.asking import Service
from penstock.service.events import EventFeed
from penstock.service.master import Master
from penstock.service.master_stores import StoreDatabase, stores_at
from penstock.service.server import Site
from penstock.testing import check_leases
from penstock.testing.postgresql_server import PostgresqlServer

pytestmark = [pytest.mark.postgresql, pytest.mark.core]
TOKEN = "a token for the agents of a test"


def until(is_so: Callable[[], bool], what: str) -> None:
    """Wait; the bound only ends a failing test."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.02)


def test_lease_contract(new_address: Callable[[], str]) -> None:
    """Leases in PostgreSQL keep every promise of the port, from several connections."""
    address = StoreAddress.parse(new_address())
    with ExitStack() as ends:

        def make() -> PostgresqlLeases:
            made = PostgresqlLeases(address)
            ends.callback(made.close)
            return made

        check_leases(make)


def test_a_lost_server_is_an_error_that_may_be_tried_again(server: PostgresqlServer, new_address: Any) -> None:
    """The lease is there again with the server; a database that is not there is refused at once."""
    leases = PostgresqlLeases(StoreAddress.parse(new_address()))
    first = leases.take_lease("a lead", "ana", 60.0)
    server.stop()
    try:
        with pytest.raises(AdaptorError) as caught:
            leases.take_lease("a lead", "ana", 60.0)
        assert caught.value.retryable
    finally:
        server.start()
    assert leases.take_lease("a lead", "ana", 60.0) == first
    leases.close()
    with pytest.raises(ConfigurationError, match="--store"):
        PostgresqlLeases(StoreAddress.parse("postgresql://nobody@127.0.0.1:1/none"))


def test_one_master_goes_on_where_another_has_ended(
    new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leases and histories are in the database; the second one goes on from what the first has left."""
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    url = new_address()
    done: list[dict[str, Any]] = []

    kept = [stores_at(url) for _ in range(3)]
    first, second = (Master(Site(port=0), stores, Service((), Access(), EventFeed())) for stores in kept[:2])
    with second:
        with first:
            until(lambda: first.leadership.is_leading or second.leadership.is_leading, "a leader")
            places = tuple(("127.0.0.1", master.port.port) for master in (first, second))
            agent, link = start(ToyQuery("counts", done.append), MasterAddress(places, TOKEN.encode()))
            until(lambda: bool(done), "scaling")
            tenure = done[-1]["fence"]
            leading = first if first.leadership.is_leading else second
            if leading is second:  # let the other lead, so that the one that stays takes over
                second.leadership._lose("a test")
                second.leadership._not_before = time.monotonic() + 5.0
                second.leadership._give_back()
                until(lambda: first.leadership.is_leading, "the first one's lead")
                until(lambda: done[-1]["fence"] > tenure, "scaling by the first")
                tenure = done[-1]["fence"]
        until(lambda: done[-1]["fence"] > tenure, "scaling by the second")
        link.close()
        agent.close()
    assert isinstance(kept[2], StoreDatabase)
    history = kept[2].open_readonly("counts")
    found = {decision.decision_id for decision in history.decisions("counts", changes_only=True, limit=10_000)}
    assert {line["decision"] for line in done if line["decision"]} <= found
    history.close()
    for stores in kept:
        stores.close()
