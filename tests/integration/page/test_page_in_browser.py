# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser, over the real HTTP API and loop: what it shows, and what it sends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.page.toy_pipeline import ToyPipeline
from tests.integration.page.watched_page import WatchedPage

from penstock.errors import ActuationError
from penstock.records import Action
from penstock.steering import AuditAction

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


def _script(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8").rstrip().removesuffix(";")


@pytest.fixture
def watched(chromium: Browser, address: str) -> Iterator[WatchedPage]:
    """A page that is checked at the end."""
    page = WatchedPage(chromium, address)
    yield page
    page.close()


@pytest.fixture(autouse=True)
def nothing_ordered(pipeline: ToyPipeline) -> Iterator[None]:
    """Every test leaves the loop without orders."""
    yield
    pipeline.helm.resume(by="test")


def test_the_page_shows_the_pipeline_and_hides_the_token(watched: WatchedPage, pipeline: ToyPipeline) -> None:
    """Operators are drawn and listed, the sentence is there, and the token leaves the address but not the tab."""
    page = watched.open(pipeline.access.operate_token)
    page.get_by_role("heading", name="clicks", level=1).wait_for()
    page.get_by_role("link", name=re.compile("^parse: ")).wait_for()
    assert page.get_by_role("link", name="sessions", exact=True).is_visible()
    page.locator(".why", has_text="parse: ").wait_for()
    assert "token" not in page.url
    page.reload()
    page.get_by_role("link", name=re.compile("^parse: ")).wait_for()


def test_a_point_appears_with_each_observation(watched: WatchedPage, pipeline: ToyPipeline) -> None:
    """The live plots grow by what events bring, without reading the series again."""
    page = watched.open(pipeline.access.operate_token, "/clicks/operators/parse")
    plot = page.get_by_role("figure", name="Arrivals and records done")
    plot.get_by_text("Values as a table").click()
    newest = plot.locator("tbody tr").first.locator("td").first
    newest.wait_for()
    reads: list[str] = []
    page.on("request", lambda request: reads.append(request.url) if "/series" in request.url else None)
    before = newest.inner_text()
    plot.locator("tbody tr").first.locator("td").first.filter(has_not_text=before).wait_for()
    assert reads == []


def test_a_decision_is_opened_by_keyboard(watched: WatchedPage, pipeline: ToyPipeline) -> None:
    """One reaches the strip with Tab, a decision with the arrows, its explanation with Enter, and comes back."""
    page = watched.open(pipeline.access.operate_token, "/clicks/operators/parse")
    marks = page.get_by_role("group", name=re.compile("^Decisions in this time")).get_by_role("button")
    marks.nth(3).wait_for()
    page.get_by_label("Show the time up to").focus()
    while page.evaluate("() => document.activeElement.closest('.strip') === null"):
        page.keyboard.press("Tab")
    page.keyboard.press("Home")
    assert page.evaluate("() => document.activeElement === document.querySelector('.strip button')")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    explained = page.get_by_role("region", name="The decision explained")
    explained.get_by_text("What it was based on").first.wait_for()
    assert "utilisation" in explained.inner_text()
    assert "it would be used to 97 %" in explained.inner_text()
    page.keyboard.press("Escape")
    explained.wait_for(state="hidden")


def test_a_pause_is_sent_and_shown(watched: WatchedPage, pipeline: ToyPipeline) -> None:
    """One press pauses one operator, with the reason; the sentence says so, and a second press resumes it."""
    page = watched.open(pipeline.access.operate_token, "/clicks/operators/parse")
    page.get_by_text("More ways to steer this operator").click()
    page.get_by_role("textbox", name="Reason").fill("deploying the sink")
    page.get_by_role("button", name="Pause").click()
    page.locator(".why", has_text="paused").filter(visible=True).wait_for()
    page.get_by_role("button", name="Resume").wait_for()
    assert watched.sent == [
        ("POST", "/api/v1/pipelines/clicks/pause", {"operator": "parse", "reason": "deploying the sink"})
    ]
    assert "deploying the sink" in page.locator(".why").filter(visible=True).inner_text()
    paused = pipeline.helm.state.of("parse").paused
    assert paused is not None
    assert paused.reason == "deploying the sink"
    assert page.evaluate("() => document.activeElement.textContent") == "Resume"
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Pause").wait_for()
    assert pipeline.helm.state.of("parse").paused is None


def test_a_change_that_fails_is_said_with_its_cause(
    watched: WatchedPage, pipeline: ToyPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence about the operator has what failed, why, and what comes next."""

    def refuse(action: Action) -> None:
        raise ActuationError("the cluster has no free cores", target=action.operator)

    monkeypatch.setattr(pipeline.cycles["parse"]._source, "request", refuse)
    page = watched.open(pipeline.access.operate_token, "/clicks/operators/parse")
    page.get_by_role("button", name="Pause").wait_for()
    pipeline.helm.hold_size(4, 0.5, for_seconds=600.0, operator="parse", by="test")
    # The page is drawn anew at every look: each sentence is waited for, not read from what may be drawn over.
    for said in (
        "to 4 executors x 50% CPU, failed at",
        "the cluster has no free cores; it is asked for again with the next decision",
    ):
        page.locator(".why", has_text=said).filter(visible=True).wait_for()


def test_a_bad_policy_shows_what_to_do(watched: WatchedPage, pipeline: ToyPipeline) -> None:
    """A mistake is shown with its fix and cannot be applied; a right one says what it would decide, and is applied."""
    page = watched.open(pipeline.access.operate_token, "/clicks/policy")
    upper = page.get_by_label("upper", exact=True)
    upper.fill("7")
    page.get_by_role("button", name="Check and try").click()
    page.get_by_role("alert").get_by_text("What to do:").wait_for()
    assert page.get_by_role("button", name="Apply").count() == 0
    watched.forgive("422")
    upper.fill("0.9")
    page.get_by_role("button", name="Check and try").click()
    page.get_by_text("Nothing has been changed yet").wait_for()
    assert pipeline.helm.state.previous is None
    page.get_by_role("button", name="Apply").click()
    page.get_by_role("button", name="Roll back to threshold").wait_for()
    assert pipeline.helm.state.policy.options == {"upper": 0.9}
    page.get_by_role("button", name="Roll back to threshold").click()
    page.get_by_text("Done:").last.wait_for()
    page.get_by_role("link", name="Audit").click()
    page.locator(".entries li").nth(1).wait_for()
    assert pipeline.store.audit()[-1].action is AuditAction.POLICY_ROLLBACK


def test_who_may_only_look_gets_no_controls(watched: WatchedPage, pipeline: ToyPipeline) -> None:
    """With the token of the role read, controls are gone and the page says why."""
    page = watched.open(pipeline.access.read_token)
    page.get_by_text("Your token may only look").wait_for()
    assert page.get_by_role("button", name="Pause").count() == 0


def test_without_a_token_the_page_asks_for_it(chromium: Browser, address: str, pipeline: ToyPipeline) -> None:
    """Nothing is shown without the right token but what to do about it; the right one, typed in, opens the page."""
    watched = WatchedPage(chromium, address)
    page = watched.open("of another service")
    page.get_by_text("Open the page with the address that was printed at the start").wait_for()
    page.get_by_label("Token").fill(pipeline.access.read_token)
    page.get_by_role("button", name="Open").click()
    page.get_by_role("heading", name="clicks", level=1).wait_for()
    watched.forgive("401")
    watched.close()


def test_a_range_of_the_past_is_read_anew(watched: WatchedPage, pipeline: ToyPipeline) -> None:
    """Dragging over a plot reads that range; the plots then stand still until "Live" is pressed."""
    page = watched.open(pipeline.access.operate_token, "/clicks/operators/parse")
    plot = page.get_by_role("figure", name="Backlog").locator("svg")
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 60)
    with page.expect_request(re.compile("/series")):
        page.mouse.up()
    live = page.get_by_role("button", name="Live")
    page.locator("button[aria-pressed=false]", has_text="Live").wait_for()
    with page.expect_request(re.compile("/series")):
        live.click()
    page.locator("button[aria-pressed=true]", has_text="Live").wait_for()


def test_everything_that_can_be_used_has_a_name(watched: WatchedPage, pipeline: ToyPipeline) -> None:
    """In every view there is one main part and one title; whatever can be used has a name; ids are unique."""
    page = watched.open(pipeline.access.operate_token)
    for way in ("", "/operators/parse", "/decisions", "/policy", "/audit"):
        page.goto(f"{watched.address}/#/clicks{way}")
        page.locator("nav.views").wait_for()
        page.wait_for_timeout(1500)
        assert page.evaluate(_script("nameless.js")) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(chromium: Browser, address: str, pipeline: ToyPipeline, scheme: str) -> None:
    """Every text has a contrast of at least 4.5 to 1 to what is behind it, by day and by night (WCAG 1.4.3)."""
    watched = WatchedPage(chromium, address, color_scheme=scheme)
    page = watched.open(pipeline.access.operate_token, "/clicks/operators/parse")
    page.locator(".plot .line").first.wait_for(state="attached")
    page.wait_for_timeout(1500)
    assert page.evaluate(_script("pale_text.js")) == []
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("link", name=re.compile("^parse: ")).wait_for()
    assert page.evaluate(_script("pale_text.js")) == []
    watched.close()


def test_a_phone_needs_no_sideways_scrolling(chromium: Browser, address: str, pipeline: ToyPipeline) -> None:
    """At the width of a phone the page is no wider than the screen: what is wider scrolls by itself (WCAG 1.4.10)."""
    watched = WatchedPage(chromium, address, viewport={"width": 360, "height": 740})
    page = watched.open(pipeline.access.operate_token)
    for way in ("", "/operators/parse", "/decisions", "/policy", "/audit"):
        page.goto(f"{watched.address}/#/clicks{way}")
        page.locator("nav.views").wait_for()
        page.wait_for_timeout(1500)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 360, way
    watched.close()


def test_a_lost_connection_is_said_and_mended(watched: WatchedPage, pipeline: ToyPipeline) -> None:
    """While events cannot be had, the page says since when; when they can be had again, it goes on."""
    watched.page.route("**/api/v1/events*", lambda route: route.abort())
    page = watched.open(pipeline.access.operate_token)
    page.locator(".connection", has_text="Not connected since").wait_for()
    page.unroute("**/api/v1/events*")
    page.get_by_role("button", name="Try now").click()
    page.locator(".connection", has_text="Live.").wait_for()
    watched.forgive("Failed to load resource")


def test_a_loop_that_stands_still_is_said(chromium: Browser, tmp_path: Path) -> None:
    """Nothing comes any more: the line at the top, the operators and the sentence say so, without being asked."""
    toy = ToyPipeline(tmp_path, {"parse": "arrivals"}, past_hours=0.02)
    with toy.served() as server:
        watched = WatchedPage(chromium, server.address)
        page = watched.open(toy.access.read_token)
        page.locator(".connection", has_text="Live.").wait_for()
        toy.runner.stop()
        page.locator(".connection", has_text="Connected, but no new data come.").wait_for()
        page.locator(".why", has_text="nothing was heard of it for").filter(visible=True).wait_for()
        page.get_by_role("link", name=re.compile("^parse: data are")).wait_for()
        watched.close()
