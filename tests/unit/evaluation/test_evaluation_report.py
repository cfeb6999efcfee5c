# SPDX-License-Identifier: Apache-2.0
"""The page of a run: self-contained, escaped, complete."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from penstock.errors import ConfigurationError
from penstock.evaluation import read_history, report, write_report
from penstock.evaluation.pictures import Picture
from penstock.evaluation.report import cards, render_page
from penstock.knowledge import MemoryStore
from penstock.records import Allocation, Decision
from penstock.testing.synthetic_run import START, fill_store

EVIL = "<script>alert('x')</script>"
NO_PICTURE = Picture(b"png", "<svg></svg>")


@pytest.fixture
def store() -> MemoryStore:
    """A run of one operator."""
    store = MemoryStore()
    fill_store(store, "log-analysis")
    return store


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action")]


def test_everything_is_escaped(store: MemoryStore) -> None:
    """Names, reasons, notes and settings that look like HTML stay text."""
    decision = Decision(EVIL, START + 5, EVIL, Allocation(1), Allocation(2), EVIL)
    store.add_decision(decision.amended(EVIL, Allocation(3), EVIL))
    store.add_observation(replace(store.observations()[-1], operator=EVIL, missing=(EVIL,)))
    store.set_fact("settings", json.dumps({"name": EVIL, "policy": {"name": EVIL}, "mode": EVIL}))
    page = render_page(read_history(store), NO_PICTURE)
    tags = _Tags()
    tags.feed(page)
    assert "script" not in tags.names
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 8


def test_the_page_needs_nothing_beside_itself(store: MemoryStore, tmp_path: Path) -> None:
    """No script, no link to another resource, and a policy that forbids both; the picture is inside."""
    written = write_report(store, tmp_path)
    page = written.html.read_text()
    tags = _Tags()
    tags.feed(page)
    assert "script" not in tags.names
    assert all(link.startswith(("data:", "#")) for link in tags.links)
    assert "default-src 'none'" in page
    assert "<svg" in page
    assert "prefers-color-scheme: dark" in page
    assert written.png.read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.png"]


def test_decisions_guards_outcomes_and_times_are_there(store: MemoryStore) -> None:
    """The page says what was changed and why, what guards held back, outcomes, stage times and notes."""
    page = render_page(read_history(store), NO_PICTURE)
    for words in (
        "utilisation 0.7171 is above 0.7: one level up", "done after 1.00 s", "25 changes that a guard held back",
        "cooldown changed 1 executor x 70% CPU to 1 executor x 55% CPU", "utilisation: the CPU counters could not",
        "incomplete 5 %", "collect", "executors:", "still going, or was cut off",
    ):  # fmt: skip
        assert words in page, words


def test_cards_say_the_verdict(store: MemoryStore) -> None:
    """The objective, whether all records were done, and what was saved come first."""
    store.set_fact("summary", json.dumps({
        "name": "x", "mode": "act", "records_due": 10, "records_done": 9, "faults": 2,
        "objective": {"statistic": "p95", "seconds": 3.0, "met": True},
        "latency": {"mean": 1.0, "p50": 0.9, "p95": 2.5, "p99": 4.0}, "cpu_share_mean": 0.7,
        "executor_seconds": 380.0, "capacity_seconds": 120.0, "static_capacity_seconds": 480.0,
    }))  # fmt: skip
    found = {card.title: card for card in cards(read_history(store))}
    assert (found["Latency p95"].value, found["Latency p95"].verdict) == ("2.50 s", "good")
    assert (found["Records done"].value, found["Records done"].verdict) == ("9", "bad")
    assert found["Capacity saved"].value == "75%"  # 1 - 120/480
    assert found["Failed looks"].value == "2"


def test_unknown_figures_are_dashes(store: MemoryStore) -> None:
    """What a summary does not know is a dash or left out, never zero."""
    store.set_fact("summary", json.dumps({
        "name": "x", "mode": "act", "records_due": None, "records_done": None, "objective": {}, "latency": None,
        "cpu_share_mean": None, "executor_seconds": 0.0, "capacity_seconds": 0.0, "static_capacity_seconds": 0.0,
    }))  # fmt: skip
    found = {card.title: card for card in cards(read_history(store))}
    assert (found["Records done"].value, found["Records done"].note) == ("-", "of - due")
    assert not {"Capacity saved", "Mean CPU share", "Latency p95"} & set(found)


def test_long_runs_carry_a_png(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """With very many observations the page holds the PNG, not an SVG of megabytes."""
    monkeypatch.setattr(report, "_SVG_UP_TO", 100)
    page = render_page(read_history(store), NO_PICTURE)
    assert re.search(r'<img alt="" src="data:image/png;base64,\w+', page)
    assert "<svg" not in page


def test_long_lists_say_what_they_leave_out(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where older decisions are not listed, the page says how many."""
    monkeypatch.setattr(report, "_DECISIONS_SHOWN", 5)
    page = render_page(read_history(store), NO_PICTURE)
    assert "7 older changes are left out here" in page
    assert "The newest 5 are listed" in page


def test_a_folder_that_is_not_there_is_named(store: MemoryStore, tmp_path: Path) -> None:
    """Where the files cannot be written, the folder is named."""
    with pytest.raises(ConfigurationError, match=r"folder: .*nowhere is not a folder"):
        write_report(store, tmp_path / "nowhere")


def _summary(**changes: object) -> str:
    latency = {"mean": 12.0, "p50": 9.0, "p95": 33.0, "p99": 40.0, "max": 41.0, "records": 5000, "is_exact": True}
    return json.dumps({
        "name": "x", "mode": "act", "records_due": 10, "records_done": 10, "steady_from": START + 48,
        "objective": {"statistic": "p95", "seconds": 3.0, "met": False, "met_steady": True},
        "latency": latency, "latency_steady": {**latency, "p95": 2.5}, "latency_start_up": {**latency, "p95": 41.0},
        **changes,
    })  # fmt: skip


def test_the_headline_latency_is_that_after_the_start_up(store: MemoryStore) -> None:
    """All records stand beside it with their own verdict, and the page has the start-up alone."""
    store.set_fact("summary", _summary())
    history = read_history(store)
    found = {card.title: card for card in cards(history)}
    assert (found["Latency p95"].value, found["Latency p95"].verdict) == ("2.50 s", "good")
    assert found["Latency p95"].note.startswith("after the start-up; met: bound 3.00 s")
    assert (found["Latency p95 with the start-up"].value, found["Latency p95 with the start-up"].verdict) == (
        "33 s",
        "bad",
    )
    page = render_page(history, NO_PICTURE)
    assert "<td>start-up</td>" in page
    assert f"before {history.moment(START + 48)}, when the operator had warmed up" in page


def test_while_a_run_goes_on_the_last_seconds_have_a_card(store: MemoryStore) -> None:
    """What the run was long ago does not stand for how it is now."""
    found = {card.title: card for card in cards(read_history(store))}
    newest = store.observations()[-1].latency
    assert newest is not None
    assert found["Latency p95 now"].value == f"{newest.p95_seconds:.2f} s"
    assert found["Latency p95 now"].note == "last 15 s"


def test_missed_turns_are_shown_with_what_they_mean(store: MemoryStore) -> None:
    """Only where there were some."""
    store.set_fact("summary", _summary(missed_turns=0))
    assert "Missed turns" not in {card.title for card in cards(read_history(store))}
    store.set_fact("summary", _summary(missed_turns=7))
    card = {card.title: card for card in cards(read_history(store))}["Missed turns"]
    assert (card.value, card.note[:22]) == ("7", "passes that fell out: ")


def test_the_page_says_why_a_master_ended_a_run(store: MemoryStore) -> None:
    """With the time of its newest look; a run that ended by itself needs no word."""
    store.set_fact("summary", _summary())
    assert "This run ended" not in render_page(read_history(store), NO_PICTURE)
    store.set_fact("summary", _summary(why_ended="its agent was lost"))
    history = read_history(store)
    assert history.ended_at is not None
    page = render_page(history, NO_PICTURE)
    assert f"This run ended at {history.moment(history.ended_at)}: its agent was lost." in page
    assert "still going" not in page


def test_the_page_has_restarts_lost_exactness_and_one_clock(store: MemoryStore) -> None:
    """Each event has the local time and the time since the first look, as `penstock explain` has them."""
    last = store.observations()[-1]
    assert last.latency is not None
    guessed = replace(last.latency, is_exact=False, inexact_because="the broker was away")
    store.add_observation(replace(last, at=START + 250, query_run="one", latency=guessed))
    store.add_observation(replace(last, at=START + 260, query_run="two"))
    history = read_history(store)
    page = render_page(history, NO_PICTURE)
    lost = "log-analysis: latency is not exact from here on: the broker was away"
    assert f"<p>{history.moment(START + 250)} {lost}</p>" in page
    assert f"<p>{history.moment(START + 260)} log-analysis: latency is exact again</p>" in page
    assert f"{history.moment(START + 260)}</td><td>log-analysis: runs again after it had ended" in page
    assert f'<td class="number">{history.moment(START + 35)}</td>' in page


def test_what_was_predicted_and_measured_is_told_once_for_each_plan(store: MemoryStore) -> None:
    """Several decisions tell of the same plan: it is one row; the card has the coverage of the newest."""

    def decided(after: float, judged: int, coverage: float, measured: float) -> Decision:
        evidence: dict[str, float | int | str | None] = {
            "judged_path": "log-analysis", "predictions_judged": judged, "prediction_coverage": coverage,
            "last_predicted_seconds": 1.25, "last_low_seconds": 1.0, "last_high_seconds": 1.5,
            "last_measured_seconds": measured,
        }  # fmt: skip
        return Decision("log-analysis", START + after, "mead", Allocation(1), Allocation(1), "as planned", evidence)

    for decision in (decided(5, 1, 1.0, 1.4), decided(6, 1, 1.0, 1.4), decided(7, 2, 0.5, 1.9)):
        store.add_decision(decision)
    history = read_history(store)
    page = render_page(history, NO_PICTURE)
    assert page.count("1.00 s to 1.50 s") == 2
    assert "1.90 s" in page
    assert "50 % of 2" in page
    card = next(card for card in cards(history) if card.title == "Measured within the upper end")
    assert card.value == "50%"
    assert "so far 1 of 2 plans measured within their upper end (50%)" in decided(7, 2, 0.5, 1.9).explain()
    assert "the last predicted 1.25 s (1.00 s to 1.50 s), measured 1.90 s" in decided(7, 2, 0.5, 1.9).explain()
