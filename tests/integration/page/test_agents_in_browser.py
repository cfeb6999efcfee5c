# SPDX-License-Identifier: Apache-2.0
"""The page of a master in a real browser: its queries, its agents and what they report."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.page.followed_master import FollowedQuery
from tests.integration.page.watched_page import WatchedPage
from tests.toy_query import ToyQuery, start

from penstock.adaptors.agent.master_address import MasterAddress
from penstock.service.address_file import ADDRESS_FILE, ServiceAddress, read_address
from penstock.service.application import make_application
from penstock.service.asking import Service
from penstock.service.events import EventFeed
from penstock.service.master import Master
from penstock.service.master_stores import StoreFolder
from penstock.service.page_files import page_router
from penstock.service.server import Server, Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


PATIENCE_SECONDS = 120.0


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        return int(reserved.getsockname()[1])


def leader_of(stores: StoreFolder) -> ServiceAddress:
    """Wait until a master leads, and give the address that it writes into the folder then."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (stores.folder / ADDRESS_FILE).exists():
        assert time.monotonic() < deadline, "no master leads"
        time.sleep(0.1)
    return read_address(stores.folder / ADDRESS_FILE)


class ServedMaster:
    """A master with its page, in this process."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.stores, self._ends = StoreFolder(folder), ExitStack()
        self.access, feed = self.stores.access(), EventFeed()
        service = Service((), self.access, feed)
        self.server = self._ends.enter_context(
            Server(make_application(service, routers=[page_router()]), Site(), feed)
        )  # fmt: skip
        self.master = Master(Site(port=0), self.stores, service, page=self.server.address, **more)
        service.master = self.master
        self._ends.enter_context(self.master)

    @property
    def place(self) -> tuple[str, int]:
        """Where agents find it."""
        return "127.0.0.1", self.master.port.port

    def close(self) -> None:
        """End it, page and all. May be called twice."""
        self._ends.close()


def test_a_page_whose_master_is_gone_leads_to_the_page_of_the_other(chromium: Browser, tmp_path: Path) -> None:
    """The other one says that it does not lead while that is so; afterwards the same view is there, with its token."""
    first = ServedMaster(tmp_path / "masters")
    second = ServedMaster(tmp_path / "masters")
    query = ToyQuery("counts", lambda _: None)
    agent, link = start(query, MasterAddress((first.place, second.place), first.stores.token()))
    standby = WatchedPage(chromium, second.server.address)
    followed = FollowedQuery(
        chromium, f"{first.server.address}/#token={first.access.operate_token}", "counts", tmp_path
    )
    try:
        waiting = standby.open(first.access.read_token)
        waiting.locator(".connection", has_text="This master does not lead.").wait_for()
        waiting.get_by_role("link", name="Open the page of the other master").wait_for()
        followed.hears_of_another_master()
        assert followed.why()
        first.close()
        followed.lose_master()
        followed.picture("lost")
        waiting.get_by_role("link", name="counts").wait_for()
        followed.go_on(second.server.address)
        assert "scale" in followed.shows_change("scale")
        followed.replace_policy("fixed")
        followed.picture("fixed")
        standby.forgive("ERR_")
    finally:
        followed.close()
        standby.close()
        link.close()
        agent.close()
        first.close()
        second.close()


def test_a_page_whose_master_hangs_leads_to_the_page_of_the_other(chromium: Browser, tmp_path: Path) -> None:
    """A process that was stopped keeps its connections: the way to the other one is there as soon as data are old."""
    stores = StoreFolder(tmp_path / "masters")
    agent_port = free_port()
    command = [sys.executable, "-m", "penstock", "serve", "--store", f"sqlite:{stores.folder}"]
    hanging = subprocess.Popen([*command, "--agent-port", str(agent_port)])
    with ExitStack() as ends:
        ends.callback(hanging.wait, 30)
        ends.callback(hanging.kill)
        known = leader_of(stores)
        second = ServedMaster(stores.folder)
        ends.callback(second.close)
        places = (("127.0.0.1", agent_port), second.place)
        agent, link = start(ToyQuery("counts", lambda _: None), MasterAddress(places, stores.token()))
        ends.callback(agent.close)
        ends.callback(link.close)
        followed = FollowedQuery(chromium, f"{known.address}/#token={known.operate_token}", "counts", tmp_path)
        ends.callback(followed.close)
        followed.hears_of_another_master()
        hanging.send_signal(signal.SIGSTOP)
        silent = followed.page.locator(".connection", has_text="Connected, but no new data come.")
        silent.get_by_role("link", name="Open the page of the other master").wait_for()
        followed.go_on(second.server.address)


def test_a_master_whose_store_is_gone_says_so(chromium: Browser, tmp_path: Path) -> None:
    """It cannot lead, and the page says why rather than that another one does."""
    served = ServedMaster(tmp_path / "masters")
    watched = WatchedPage(chromium, served.server.address)
    try:
        page = watched.open(served.access.operate_token)
        page.get_by_text("There is no pipeline yet.").wait_for()
        shutil.rmtree(served.stores.folder)
        page.locator(".connection", has_text="This master cannot lead.").wait_for()
        page.locator(".notice", has_text="Queries go on").wait_for()
        watched.close()
    finally:
        served.close()


def test_a_master_shows_its_agents_and_what_comes_in(chromium: Browser, tmp_path: Path) -> None:
    """Who leads, the query with a link to its view, and the newest value of a metric that is subscribed to."""
    served = ServedMaster(tmp_path / "masters", watch=["own_executors"], every_seconds=0.5)
    try:
        query = ToyQuery("counts", lambda _: None)
        agent, link = start(query, MasterAddress((served.place,), served.stores.token()))
        watched = WatchedPage(chromium, served.server.address)
        page = watched.open(served.access.operate_token)
        page.get_by_text(re.compile(r"This master leads, with fencing number \d+\.")).wait_for()
        page.get_by_role("cell", name="own_executors").wait_for()
        page.get_by_role("link", name="counts").click()
        page.get_by_role("heading", name="counts").first.wait_for()
        watched.close()
        link.close()
        agent.close()
    finally:
        served.close()
