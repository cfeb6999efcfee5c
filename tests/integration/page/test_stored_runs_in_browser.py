# SPDX-License-Identifier: Apache-2.0
"""Many stored runs in a real browser, one of which goes on in another process, as `penstock serve` shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.page.watched_page import WatchedPage
from tests.unit.service.test_backtests import copied

from penstock.clock import SystemClock
from penstock.knowledge import SqliteStore
from penstock.service.access import Access
from penstock.service.application import make_application
from penstock.service.asking import Service
from penstock.service.events import EventFeed
from penstock.service.follower import Follower
from penstock.service.page_files import page_router
from penstock.service.server import Server, Site
from penstock.service.stored_desk import StoredDesk
from penstock.testing.synthetic_run import START, fill_store

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

NAME, RUNS = "log-analysis", 30


class StoredRuns:
    """Thirty runs that have ended, two with a recorded load, and one that another connection still writes to."""

    def __init__(self, folder: Path, ends: ExitStack) -> None:
        self._ends, self._folder = ends, folder
        self.access, self.feed = Access(operate_token=None), EventFeed()
        self.service = Service((), self.access, self.feed)
        for number in range(RUNS):
            store = self._new(f"old-{number:02}")
            fill_store(store, NAME, seconds=20)
            store.set_fact("summary", json.dumps({"ended_at": START + 20.0}))
            self._show(f"old-{number:02}")
        copied(self._new("recorded"))
        self._show("recorded")
        hopeless = self._new("hopeless")
        copied(hopeless)
        settings = json.loads(hopeless.fact("settings") or "null")
        hopeless.set_fact("settings", json.dumps({**settings, "objective": {"p95": 0.05}}))
        self._show("hopeless")
        self.live = self._new("live")
        now = SystemClock().now()
        fill_store(self.live, NAME, seconds=1)
        self.seen = replace(self.live.observations(NAME)[-1], at=now)
        self.live.add_observation(self.seen)
        self._show("live")

    def look(self, rate: float) -> None:
        """Let the other process look once more."""
        self.seen = replace(self.seen, at=SystemClock().now(), arrival_rate_rows_per_second=rate)
        self.live.add_observation(self.seen)

    def _new(self, name: str) -> SqliteStore:
        store = SqliteStore(self._folder / f"{name}.sqlite")
        self._ends.callback(store.close)
        return store

    def _show(self, name: str) -> None:
        kept = SqliteStore.open_readonly(self._folder / f"{name}.sqlite")
        self._ends.callback(kept.close)
        self.service.add(StoredDesk(kept, SystemClock(), name=name, feed=self.feed))


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[StoredRuns]:
    """What is shown."""
    with ExitStack() as ends:
        yield StoredRuns(tmp_path, ends)


@pytest.fixture
def watched(chromium: Browser, runs: StoredRuns) -> Iterator[WatchedPage]:
    """A page that is checked at the end."""
    app = make_application(runs.service, routers=[page_router()])
    with Server(app, Site(), runs.feed) as server, Follower(tuple(runs.service.desks.values()), every_seconds=0.2):
        page = WatchedPage(chromium, server.address)
        yield page
        page.close()
    runs.service.close()


def test_many_runs_are_listed_and_found(watched: WatchedPage, runs: StoredRuns) -> None:
    """All of them, with their state; a part of a name leaves those that have it, and a name leads to its run."""
    page = watched.open(runs.access.read_token)
    page.locator("tbody tr").nth(RUNS + 2).wait_for()
    assert page.locator("tbody tr").count() == RUNS + 3
    assert page.get_by_text("running in another process").count() == 1
    page.get_by_role("searchbox").first.fill("old-07")
    page.locator("tbody tr").nth(1).wait_for(state="detached")
    page.get_by_role("link", name="old-07").click()
    page.get_by_role("heading", name="old-07").wait_for()
    page.get_by_text("This run has ended: it can be looked at, not steered.").first.wait_for()


def test_a_run_of_another_process_is_live(watched: WatchedPage, runs: StoredRuns) -> None:
    """What that process stores reaches the page by itself, and nothing can be ordered."""
    page = watched.open(runs.access.read_token, "/live")
    page.get_by_text("This run goes on in another process").first.wait_for()
    page.get_by_text("Live.").first.wait_for()
    runs.look(rate=123_456.0)
    page.locator("tbody td", has_text="123").first.wait_for()
    runs.look(rate=765_432.0)
    page.locator("tbody td", has_text="765").first.wait_for()
    assert page.get_by_role("button", name="Pause").count() == 0


def test_a_backtest_is_asked_for_and_shown(watched: WatchedPage, runs: StoredRuns) -> None:
    """A button begins it, and its table has what was measured beside every policy that was chosen."""
    page = watched.open(runs.access.read_token, "/recorded/backtest")
    page.get_by_role("button", name="Backtest").wait_for()
    for box in page.get_by_role("checkbox").all():
        box.set_checked(box.get_attribute("value") in ("static", "threshold"))
    page.get_by_role("button", name="Backtest").click()
    page.locator(".backtest tbody tr").nth(3).wait_for()
    rows = page.locator(".backtest tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in rows] == ["measured", "as recorded", "static", "threshold"]
    assert watched.sent[-1][2]["policies"] == [{"policy": "static"}, {"policy": "threshold"}]


def test_a_backtest_of_an_objective_that_nothing_can_keep_says_so(watched: WatchedPage, runs: StoredRuns) -> None:
    """Every row has it broken, and a sentence says what is needed at least."""
    page = watched.open(runs.access.read_token, "/hopeless/backtest")
    page.get_by_role("button", name="Backtest").wait_for()
    for box in page.get_by_role("checkbox").all():
        box.set_checked(box.get_attribute("value") == "static")
    page.get_by_role("button", name="Backtest").click()
    page.get_by_text("No policy keeps the objective: p95 <= 50 ms is impossible").wait_for()
    rows = page.locator(".backtest tbody tr").all_inner_texts()
    assert [row.split("\t")[4] for row in rows] == ["not met"] * 3
