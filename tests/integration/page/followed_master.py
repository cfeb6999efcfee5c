# SPDX-License-Identifier: Apache-2.0
"""A person who looks at one operator on the page of a master, steers it there, and goes on at another master."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.integration.page.watched_page import WatchedPage

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Response


class FollowedQuery:
    """The page of one operator; everything that is asked of it is waited for.

    Parameters
    ----------
    browser, link
        The browser, and the address that a master prints, with its token.
    name
        Of the pipeline.
    pictures
        Where pictures of the page go.
    operator
        Which operator of it; default: of an attached query the only one, which is called the same.
    """

    def __init__(self, browser: Browser, link: str, name: str, pictures: Path, *, operator: str | None = None) -> None:
        self.address, _, fragment = link.partition("/#token=")
        self._name, self._pictures, self._number = name, pictures, 0
        self._operator = operator or name
        self._watched = WatchedPage(browser, self.address, viewport={"width": 1280, "height": 1400})
        self.page = self._watched.open(fragment, f"/{name}/operators/{self._operator}")
        self._is_live()

    def _is_live(self) -> None:
        self.page.locator(".connection", has_text="Live.").wait_for()
        self.page.locator(".operator-name", has_text=self._operator).wait_for()

    def picture(self, name: str) -> None:
        """Keep a picture of the page."""
        self._number += 1
        self.page.screenshot(path=self._pictures / f"{self._number:02}-{name}.png", full_page=True)

    def shows_size(self, executors: int) -> None:
        """Wait until the operator has so many executors on the page."""
        words = f"Observed: {executors} executor{'' if executors == 1 else 's'}"
        self.page.locator(".facts li", has_text=words).filter(visible=True).wait_for()

    def shows_policy(self, name: str) -> None:
        """Wait until the page names the policy."""
        self.page.locator(".facts li", has_text=f"Policy: {name}").filter(visible=True).wait_for()

    def why(self) -> str:
        """The sentence that says what happens, and why."""
        shown = self.page.locator(".why").filter(visible=True).first
        shown.wait_for()
        return shown.inner_text().strip()

    def shows_change(self, verb: str) -> str:
        """Open the newest change of the size from its mark, and give its explanation."""
        mark = self.page.locator(".strip").get_by_role("button", name=verb).last
        mark.wait_for()
        mark.click()
        explained = self.page.get_by_role("region", name="The decision explained")
        explained.get_by_text("What it was based on").first.wait_for()
        return explained.inner_text()

    def replace_policy(self, name: str, rules: str = "") -> str:
        """Try another policy in the editor, apply it, and give what it said that it would decide."""
        self.page.goto(f"{self._watched.address}/#/{self._name}/policy")
        form = self.page.get_by_role("form", name="Change the policy")
        form.get_by_label("Policy").select_option(name)
        if rules and not form.get_by_label("Text of the rules").is_visible():
            form.get_by_text("Rules", exact=True).click()
        if rules:
            form.get_by_label("Text of the rules").fill(rules)
        form.get_by_role("button", name="Check and try").click()
        self.page.get_by_text("Nothing has been changed yet").wait_for()
        result = self.page.locator("[role=status]", has_text="What it would decide now").inner_text()
        self.picture(f"try-{name}")
        self.page.get_by_role("button", name="Apply").click()
        self.page.get_by_text("Done:").last.wait_for()
        self.shows_policy(name)
        self.page.goto(f"{self._watched.address}/#/{self._name}/operators/{self._operator}")
        self._is_live()
        return result

    def hears_of_another_master(self) -> None:
        """Wait until the service has told the page where it can go on."""
        with self.page.expect_response(self._names_another):
            pass

    def _names_another(self, answer: Response) -> bool:
        is_asked = answer.url.endswith(f"/pipelines/{self._name}") and answer.ok
        return is_asked and answer.json()["other_page"] is not None

    def lose_master(self) -> None:
        """Wait until the page says that its master is gone."""
        self.page.locator(".connection", has_text="Not connected since").wait_for()
        self.page.get_by_role("link", name="Open the page of the other master").wait_for()

    def go_on(self, address: str) -> None:
        """Go to the page of the other master, which is at `address` and leads by now."""
        self._watched.move(address)
        self.page.get_by_role("link", name="Open the page of the other master").click()
        self._is_live()
        assert self.page.url == f"{address}/#/{self._name}/operators/{self._operator}"

    def close(self) -> None:
        """End it, and check that it stayed at home and was quiet, but for what a dead master leaves."""
        self._watched.close("ERR_", "404")
