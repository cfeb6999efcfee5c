# SPDX-License-Identifier: Apache-2.0
"""A page in a real browser, of which everything is noted that it must not do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

# A busy machine is no fault of the page; nothing waits that long where it works.
PATIENCE_MS = 120_000


class WatchedPage:
    """A page of which everything is noted that it must not do."""

    def __init__(self, browser: Browser, address: str, **context: Any) -> None:
        self.address = address
        self._homes = {urlsplit(address).netloc}
        self._context = browser.new_context(**context)
        self._context.set_default_timeout(PATIENCE_MS)
        self.page: Page = self._context.new_page()
        self.said: list[str] = []
        self.elsewhere: list[str] = []
        self.sent: list[tuple[str, str, Any]] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", self._note_request)

    def open(self, token: str | None, way: str = "") -> Page:
        """Go to a view, with a token in the fragment or without."""
        parts = [part for part in (f"token={token}" if token else "", way) if part]
        self.page.goto(f"{self.address}/#{'&'.join(parts)}", timeout=PATIENCE_MS)
        return self.page

    def close(self, *forgiven: str) -> None:
        """End it, and check that it stayed at home and was quiet, but for lines with a text that is forgiven."""
        self._context.close()
        for text in forgiven:
            self.forgive(text)
        assert self.elsewhere == [], self.elsewhere
        assert self.said == [], self.said

    def move(self, address: str) -> None:
        """Let it go to another home; what it has asked of the one before is no fault."""
        self.address = address
        self._homes.add(urlsplit(address).netloc)

    def forgive(self, text: str) -> None:
        """Leave out what the browser itself noted of requests that were meant to fail."""
        self.said = [line for line in self.said if text not in line]

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.said.append(message.text)

    def _note_request(self, request: Request) -> None:
        if urlsplit(request.url).netloc not in self._homes:
            self.elsewhere.append(request.url)
        if request.method != "GET":
            self.sent.append((request.method, urlsplit(request.url).path, request.post_data_json))
