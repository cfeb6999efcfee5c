# SPDX-License-Identifier: Apache-2.0
"""`penstock explain`: decisions, reasons, outcomes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.knowledge import SqliteStore
from penstock.records import Action, Allocation, Decision, Mode, Outcome, OutcomeStatus


def test_changes_with_reason_and_outcome(invoke: Callable[..., Any], run_here: Path) -> None:
    """Without RUN the newest run is named; each change has its time, reason and outcome; holds are left out."""
    result = invoke("explain")
    assert result.exit_code == 0, result.output
    assert f"runs/{run_here.name} (the newest)" in result.stdout
    assert "0:35  log-analysis: scale up: 1 executor x 40% CPU -> 1 executor x 55% CPU" in result.stdout
    assert "because utilisation 0.7171 is above 0.7: one level up (threshold)" in result.stdout
    assert "outcome: done after 1.00 s" in result.stdout
    assert "hold at" not in result.stdout


def test_last_and_all(invoke: Callable[..., Any], run_here: Path) -> None:
    """--all shows holds too, --last limits to the newest."""
    result = invoke("explain", str(run_here), "--all", "--last", "2")
    assert "2 of 48 decisions" in result.stdout
    assert "hold at" in result.stdout
    assert "0:35" not in result.stdout


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
        assert "scale up: 1 executor x 100% CPU -> 2 executors x 100% CPU" in result.stdout
        assert len(store.decisions()) == 2
    finally:
        store.close()
