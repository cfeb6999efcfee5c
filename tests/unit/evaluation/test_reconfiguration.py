# SPDX-License-Identifier: Apache-2.0
"""How long an operator stands still while its size changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.evaluation.run_histories import a_history

from penstock.errors import ClusterError
from penstock.evaluation import reproduce_reconfiguration as subject
from penstock.evaluation.experiment_kinds import load_experiment
from penstock.evaluation.history import RunHistory
from penstock.evaluation.live_run import LiveRun
from penstock.evaluation.reconfiguration_experiment import ReconfigurationExperiment
from penstock.evaluation.reproduction import Call
from penstock.measuring.throughput import BatchEnd
from penstock.records import (
    Action,
    Allocation,
    ClusterState,
    Decision,
    Observation,
    Outcome,
    OutcomeStatus,
    Quality,
)
from penstock.settings import parse_settings

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
ONE, TWO = Allocation(1), Allocation(2)


def an_experiment() -> ReconfigurationExperiment:
    """One run, of which 20 s on either side count."""
    return ReconfigurationExperiment.model_validate(
        {
            "kind": "reconfiguration", "title": "try", "paper": "Fig. 3", "operator": "o", "before": 20, "after": 20,
            "published": {"Flink": 120},
            "runs": {"live": {"title": "one more", "pipeline": {"operators": [{"name": "o"}]}}},
        }
    )  # fmt: skip


def a_look(at: float, done: int, has: Allocation) -> Observation:
    """With so many records done."""
    return Observation("o", at, 15.0, Quality.GOOD, cluster=ClusterState(has, has, has), records_done=done)


def a_run() -> RunHistory:
    """A batch every 2 s; at 30 s one executor more is decided, and no batch ends from 32 to 39 s."""
    ends = [*range(0, 33, 2), *range(39, 80, 2)]
    seen = [a_look(at, 100 * sum(end <= at for end in ends), ONE if at < 40 else TWO) for at in range(81)]
    growth = Decision("o", 30.0, "test", ONE, TWO, "because")
    action = Action("o", 30.0, TWO, growth.decision_id)
    history = a_history([growth], [Outcome(action.request_id, "o", 40.0, OutcomeStatus.DONE, TWO, 10.0)], o=seen)
    return RunHistory(history.observations, history.decisions, (action,), history.outcomes, (), None, None)


def test_the_longest_time_without_a_batch_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """During the change and before it, with what was published beside it, and a picture."""
    monkeypatch.setattr(subject, "run_live", lambda settings, folder: LiveRun(folder, settings, a_run(), 0.1))
    monkeypatch.setattr(subject, "working_folder", lambda name: tmp_path / name)
    result = subject.reproduce_reconfiguration(an_experiment(), Call("figure", tmp_path))
    (row,) = result.document["rows"]
    assert (row["standstill_seconds"], row["standstill_before_seconds"]) == (7.0, 2.0)
    assert (row["decided_at_seconds"], row["in_force_at_seconds"]) == (30.0, 40.0)
    assert result.document["published"] == {"Flink": 120.0}
    assert result.picture().startswith(b"\x89PNG")


def test_a_run_that_never_grew_shows_nothing() -> None:
    """And says what to change."""
    with pytest.raises(ClusterError, match="never asked for more"):
        subject.standstill(an_experiment(), "live", a_history(o=[a_look(0.0, 0, ONE)]))


def test_a_query_that_is_started_again_goes_on_counting() -> None:
    """What was done before the restart is not lost."""
    seen = [a_look(at, done, ONE) for at, done in enumerate([100, 200, 0, 50])]
    assert subject.batch_ends(seen) == [BatchEnd(0, 100), BatchEnd(1, 200), BatchEnd(3, 250)]


def test_the_shipped_experiment_can_be_run() -> None:
    """Its settings are those of a run."""
    shipped = load_experiment(EXPERIMENTS / "gesscale-figure-3")
    assert isinstance(shipped, ReconfigurationExperiment)
    for run in shipped.runs.values():
        settings: Any = parse_settings(run.pipeline)
        assert settings.operators[0].first_executors == 1
