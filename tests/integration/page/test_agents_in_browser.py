# SPDX-License-Identifier: Apache-2.0
"""The page of a master in a real browser: its queries, its agents and what they report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.page.test_page_in_browser import WatchedPage
from tests.toy_query import ToyQuery, start

from penstock.adaptors.agent.master_address import MasterAddress
from penstock.service.access import Access
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


def test_a_master_shows_its_agents_and_what_comes_in(chromium: Browser, tmp_path: Path) -> None:
    """Who leads, the query with a link to its view, and the newest value of a metric that is subscribed to."""
    access, feed = Access(), EventFeed()
    service, stores = Service((), access, feed), StoreFolder(tmp_path / "masters")
    app = make_application(service, routers=[page_router()])
    master = Master(Site(port=0), stores, service, watch=["own_executors"], every_seconds=0.5)
    service.master = master
    with Server(app, Site(), feed) as server, master:
        query = ToyQuery("counts", lambda _: None)
        agent, link = start(query, MasterAddress((("127.0.0.1", master.port.port),), stores.token()))
        watched = WatchedPage(chromium, server.address)
        page = watched.open(access.operate_token)
        page.get_by_text("This master leads, with fencing number 1.").wait_for()
        page.get_by_role("cell", name="own_executors").wait_for()
        page.get_by_role("link", name="counts").click()
        page.get_by_role("heading", name="counts").first.wait_for()
        watched.close()
        link.close()
        agent.close()
