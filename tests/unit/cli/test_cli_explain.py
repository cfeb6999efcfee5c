# SPDX-License-Identifier: Apache-2.0
"""`penstock explain`: decisions, reasons, outcomes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.knowledge import SqliteStore
from penstock.knowledge.run_notes import RunNotes
from penstock.records import (
    Action,
    Allocation,
    Decision,
    LatencySummary,
    Mode,
    Outcome,
    OutcomeStatus,
    RunLatency,
    encode,
)
from penstock.testing import a_decision, an_observation
from penstock.testing.synthetic_run import START
from penstock.units import moment


def test_changes_with_reason_and_outcome(invoke: Callable[..., Any], run_here: Path) -> None:
    """Without RUN the newest run is named; each change has its time, reason and outcome; holds are left out."""
    result = invoke("explain")
    assert result.exit_code == 0, result.output
    assert f"runs/{run_here.name} (the newest)" in result.stdout
    when = moment(START + 35.0, START)
    assert f"{when}  log-analysis: scale up: 1 executor x 40% CPU -> 1 executor x 55% CPU" in result.stdout
    assert "objective p95 <= 3.00 s, policy threshold" in result.stdout
    assert "because utilisation 0.7171 is above 0.7: one level up (threshold)" in result.stdout
    assert "outcome: done after 1.00 s" in result.stdout
    assert "hold at" not in result.stdout


def test_last_and_all(invoke: Callable[..., Any], run_here: Path) -> None:
    """--all shows holds too, --last limits to the newest."""
    result = invoke("explain", str(run_here), "--all", "--last", "2")
    assert "2 of 48 decisions" in result.stdout
    assert "hold at" in result.stdout
    assert "(+0:35)" not in result.stdout


def test_json_carries_evidence_and_outcome(invoke: Callable[..., Any], run_here: Path) -> None:
    """--json gives the decisions with evidence, verb and outcome on stdout alone."""
    found = json.loads(invoke("explain", str(run_here / "knowledge.sqlite"), "--json", "--last", "3").stdout)
    assert len(found["decisions"]) == 3
    assert found["is_ended"] is True
    newest = found["decisions"][-1]
    assert newest["verb"] == "scale up"
    assert newest["evidence"]["upper"] == 0.7
    assert newest["outcome"]["status"] == "done"


def test_outcomes_in_words(invoke: Callable[..., Any], here: Path) -> None:
    """Failed, replaced, pending and only recommended changes are told apart."""
    store = SqliteStore(here / "knowledge.sqlite")
    small, large = Allocation(1, 0.4), Allocation(2, 1.0)
    endings = [(OutcomeStatus.FAILED, "no room"), (OutcomeStatus.SUPERSEDED, ""), None]
    for second, ending in enumerate(endings):
        decision = Decision("op", 100.0 + second, "threshold", small, large, "busy")
        action = Action("op", decision.at, large, decision.decision_id)
        store.add_decision(decision)
        store.add_action(action)
        if ending is not None:
            store.add_outcome(Outcome(action.request_id, "op", 110.0, ending[0], None, 9.0, ending[1]))
    store.add_decision(Decision("op", 105.0, "threshold", small, large, "busy", mode=Mode.RECOMMEND))
    store.close()
    text = invoke("explain", str(here)).stdout
    assert "outcome: failed after 9.00 s: no room" in text
    assert "outcome: replaced by a later decision after 9.00 s" in text
    assert "outcome: under way" in text
    assert "recommended only: not carried out" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), "RUN: nowhere does not exist"),
        ((".",), "has no knowledge.sqlite"),
        (("note.txt",), "not an SQLite file"),
        ((), "there is no run under runs/"),
        (("--last", "0"), "--last"),
    ],
)
def test_wrong_runs_are_named(invoke: Callable[..., Any], here: Path, arguments: tuple[str, ...], words: str) -> None:
    """A run that is not there, or is none, gives exit code 2 and what to give instead."""
    (here / "note.txt").write_text("these are words, and many of them, but no database at all\n" * 20)
    result = invoke("explain", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_an_unknown_operator_lists_the_known(invoke: Callable[..., Any], run_here: Path) -> None:
    """--operator with a name that is not in the run lists those that are."""
    result = invoke("explain", "--operator", "parser")
    assert result.exit_code == 2
    assert "its operators: log-analysis" in result.stderr


def test_a_live_run_can_be_asked(invoke: Callable[..., Any], here: Path) -> None:
    """While another holds the store open and writes, its decisions can be read."""
    store = SqliteStore(here / "knowledge.sqlite")
    try:
        store.add_decision(Decision("op", 1.0, "threshold", Allocation(1), Allocation(2), "busy"))
        result = invoke("explain", str(here))
        store.add_decision(Decision("op", 2.0, "threshold", Allocation(2), Allocation(1), "idle"))
        assert "scale out: 1 executor x 100% CPU -> 2 executors x 100% CPU" in result.stdout
        assert len(store.decisions()) == 2
    finally:
        store.close()


def test_restarts_and_lost_exactness_stand_between_the_decisions(invoke: Callable[..., Any], here: Path) -> None:
    """Each with its moment; --json has them too."""
    store = SqliteStore(here / "knowledge.sqlite")
    exact = LatencySummary(9, 1.0, 1.0, 1.0, 1.0, 1.0)
    guessed = replace(exact, is_exact=False, inexact_because="the broker was away")
    for second, latency, run in ((0, exact, "one"), (10, guessed, "one"), (20, exact, "two")):
        store.add_observation(an_observation(operator="op", at=START + second, latency=latency, query_run=run))
    store.add_decision(a_decision(Allocation(1), Allocation(2), operator="op", at=START + 15))
    store.close()
    text = invoke("explain", str(here)).stdout
    places = [
        text.index(f"{moment(START + second, START)}  {what}")
        for second, what in (
            (10, "op: latency is not exact from here on: the broker was away"),
            (15, "op: scale out"),
            (20, "op: runs again after it had ended"),
        )
    ]
    assert places == sorted(places)
    assert f"{moment(START + 20, START)}  op: latency is exact again" in text
    found = json.loads(invoke("explain", str(here), "--json").stdout)
    assert [(c["at"], c["is_exact"]) for c in found["exactness"]] == [(START + 10, False), (START + 20, True)]
    assert [r["at"] for r in found["restarts"]] == [START + 20]
    assert "is not exact" not in invoke("explain", str(here), "--operator", "op", "--last", "1", "--json").stdout


def test_a_change_whose_executors_still_go_is_draining(invoke: Callable[..., Any], here: Path) -> None:
    """It is done only when they are gone, and says then how long that took."""
    store = SqliteStore(here / "knowledge.sqlite")
    decision = a_decision(Allocation(2), Allocation(1), operator="op", at=START)
    action = Action("op", START, decision.target, decision.decision_id)
    store.add_decision(decision)
    store.add_action(action)
    draining = Outcome(action.request_id, "op", START + 2, OutcomeStatus.DRAINING, decision.target, 2.0, "executor 1")
    store.add_outcome(draining)
    store.add_observation(an_observation(operator="op", at=START + 40))
    assert "outcome: draining, 38 s: executor 1" in invoke("explain", str(here)).stdout
    store.add_outcome(replace(draining, at=START + 41, status=OutcomeStatus.DONE, after_seconds=41.0, detail=""))
    store.close()
    assert "outcome: done after 41 s, of which draining 39 s" in invoke("explain", str(here)).stdout


def test_latency_is_shown_with_the_start_up_apart_and_over_the_last_seconds(
    invoke: Callable[..., Any], here: Path
) -> None:
    """While a run goes on, its parts are those that were kept last, and the newest window stands beside them."""

    def of(seconds: float) -> LatencySummary:
        return LatencySummary(9, seconds, seconds, seconds, seconds, seconds)

    store = SqliteStore(here / "knowledge.sqlite")
    store.add_observation(an_observation(operator="op", at=START, window_seconds=15.0, latency=of(0.5)))
    run = json.loads(encode(RunLatency(of(33.0), of(41.0), of(2.5), START + 48)))
    store.set_fact("latency of op", json.dumps({"at": START, "operator": run, "path": None}))
    store.close()
    text = invoke("explain", str(here)).stdout
    assert "latency p95: after the start-up 2.50 s, start-up 41 s, all records 33 s" in text
    assert f"latency p95 of op over the last 15 s, up to {moment(START, START)}: 500 ms" in text


@pytest.mark.parametrize("operators", ["5", "[5]", "null", "{}", '[{"executors": 3}]'])
def test_damaged_settings_leave_the_decisions_readable(
    invoke: Callable[..., Any], run_here: Path, operators: str
) -> None:
    """Operators that are none in the kept settings are passed over; they are known from the decisions too."""
    store = SqliteStore(run_here / "knowledge.sqlite")
    store.set_fact("settings", f'{{"operators": {operators}}}')
    store.close()
    result = invoke("explain", str(run_here), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["decisions"]


def test_a_run_without_changes_says_why_by_count(invoke: Callable[..., Any], here: Path) -> None:
    """Reasons that differ in a number alone are one, and a guard's word counts where it held a change back."""
    store = SqliteStore(here / "knowledge.sqlite")
    small, large = Allocation(1, 0.4), Allocation(1, 1.0)
    for second in range(5):
        reason = f"p95 is {second}.5 s, beyond 50% of its bound, and no plan yet"
        store.add_decision(Decision("op", START + second, "mead", small, small, reason))
    held = Decision("op", START + 9, "mead", small, large, "busy").amended("cooldown", small, "8 s since the last")
    store.add_decision(held)
    store.close()
    text = invoke("explain", str(here)).stdout
    assert "0 of 0 changes; 6 decisions in all" in text
    assert "why nothing was changed, and how often:" in text
    assert "5 x  p95 is 4.5 s, beyond 50% of its bound, and no plan yet" in text
    assert "1 x  cooldown: 8 s since the last" in text
    found = json.loads(invoke("explain", str(here), "--json").stdout)
    assert [hold["count"] for hold in found["holds"]] == [5, 1]


def test_a_store_with_a_name_of_its_own_is_called_by_it(invoke: Callable[..., Any], here: Path) -> None:
    """`attach` writes scaler.sqlite beside the job: that is shown, and not the folder."""
    store = SqliteStore(here / "scaler.sqlite")
    store.add_decision(Decision("op", START, "mead", Allocation(1), Allocation(1), "calm"))
    store.close()
    assert invoke("explain", "scaler.sqlite").stdout.startswith("scaler.sqlite: ")


def test_what_was_said_stands_between_the_decisions(invoke: Callable[..., Any], here: Path) -> None:
    """Notes are shown at their time, in --json too; with --operator its own, and those that concern all."""
    store = SqliteStore(here / "knowledge.sqlite")
    small, large = Allocation(1, 0.4), Allocation(2, 1.0)
    for name in ("op", "other"):
        store.add_decision(Decision(name, 100.0, "threshold", small, large, "busy"))
    notes = RunNotes(store, lambda: 105.0)
    notes.add("op", "its process ended")
    notes.add("other", "another one")
    notes.add("cluster", "a worker was lost")
    store.close()
    shown = invoke("explain", str(here / "knowledge.sqlite"))
    assert "op: its process ended" in shown.stdout
    assert "another one" in shown.stdout
    of_one = invoke("explain", str(here / "knowledge.sqlite"), "--operator", "op").stdout
    assert "another one" not in of_one
    assert "a worker was lost" in of_one
    found = json.loads(invoke("explain", str(here / "knowledge.sqlite"), "--json").stdout)
    assert [(note["at"], note["text"]) for note in found["notes"]] == [
        (105.0, "its process ended"),
        (105.0, "another one"),
        (105.0, "a worker was lost"),
    ]
