# SPDX-License-Identifier: Apache-2.0
"""`penstock backtest`: the table, its JSON, and mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.evaluation.test_backtest import a_run

from penstock.knowledge import SqliteStore
from penstock.loop.cycle import latency_fact


@pytest.fixture
def recorded(here: Path) -> Path:
    """A store in which a run was recorded."""
    memory, file = a_run(), here / "scaler.sqlite"
    store = SqliteStore(file)
    for fact in ("settings", latency_fact("counter")):
        if (value := memory.fact(fact)) is not None:
            store.set_fact(fact, value)
    for observation in memory.observations(limit=1000):
        store.add_observation(observation)
    for decision in memory.decisions(limit=1000):
        store.add_decision(decision)
    store.close()
    return file


def test_a_table_with_what_happened_and_each_policy(invoke: Callable[..., Any], recorded: Path) -> None:
    """The measured row comes first, then the run's own allocations, then the policies in their order."""
    result = invoke("backtest", str(recorded), "--policy", "static", "--policy", "threshold:upper=0.5,lower=0.3")
    assert result.exit_code == 0, result.output
    rows = [line.split()[0] for line in result.stdout.splitlines() if "%" in line and "CPU" not in line]
    assert rows[:4] == ["measured", "as", "static", "threshold:upper=0.5,lower=0.3"]
    assert "objective p95 <= 1.00 s; 1 to 2 executors" in result.stdout


def test_without_policies_the_default_is_tried_beside_static(invoke: Callable[..., Any], recorded: Path) -> None:
    """Who gives an objective wants to know what the policy that plans for it would do."""
    document = json.loads(invoke("backtest", str(recorded), "--json").stdout)
    assert [one["policy"] for one in document["results"]] == ["as recorded", "static", "mead"]
    assert document["operator"] == "counter"
    assert document["objective"] == {"statistic": "p95", "seconds": 1.0, "why_impossible": None}
    assert document["measured"]["changes"] == 2
    assert document["results"][1]["latency"]["p95"] > 0


def test_an_objective_that_nothing_can_keep_is_reported_as_broken(invoke: Callable[..., Any], recorded: Path) -> None:
    """The rows say no, and a line what is needed at least."""
    result = invoke("backtest", str(recorded), "--policy", "static", "--objective", "p95=50ms")
    assert result.exit_code == 0, result.output
    row = next(line for line in result.stdout.splitlines() if line.startswith("static"))
    assert "NO" in row.split()
    assert "No policy keeps the objective: p95 <= 50 ms is impossible on the path counter" in result.stdout


def test_a_picture_is_drawn(invoke: Callable[..., Any], recorded: Path, here: Path) -> None:
    """--plot writes a PNG with all runs."""
    result = invoke("backtest", str(recorded), "--policy", "static", "--plot", str(here / "runs.png"))
    assert result.exit_code == 0, result.output
    assert (here / "runs.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(("--policy", "treshold"), "threshold"), (("--objective", "p95"), "p95=0.5"), (("--executors", "none"), "1-4"),
     (("--operator", "other"), "counter"), (("--analysis", "soon"), "--analysis")],
)  # fmt: skip
def test_mistakes_are_named(invoke: Callable[..., Any], recorded: Path, arguments: tuple[str, ...], word: str) -> None:
    """Wrong input ends with 2 and what would be right."""
    result = invoke("backtest", str(recorded), *arguments)
    assert result.exit_code == 2, result.output
    assert word in result.output
