# SPDX-License-Identifier: Apache-2.0
"""Which measurements belong to which plan of MEAD."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.knowledge.memory import MemoryStore
from penstock.knowledge.notebook import StoreNotebook
from penstock.policies.mead.plan_judge import PlanInForce, PlanJudge
from penstock.ports import DoneRecords, Look
from penstock.records import Allocation, ClusterState, Objective, Observation, Prediction, Quality, Telemetry

HALF, FULL = Allocation(1, 0.5), Allocation(1, 1.0)
PERIOD = 60.0


class World:
    """A pipeline of one path, looked at every second; records arrive ten a second and are late by `late`."""

    def __init__(self, path: tuple[str, ...] = ("a",), objective: Objective = Objective("p95", 2.0)) -> None:  # noqa: B008
        self.path = path
        self.judge = PlanJudge({path: objective}, 0.9, PERIOD, dict.fromkeys(path, "q"))
        self.at, self.has, self.late = 0.0, HALF, 0.5
        self.quality, self.run = Quality.GOOD, "one"
        self.plan: PlanInForce | None = None
        self._waiting: list[tuple[float, float]] = []

    def planned(self, seconds: float, target: Allocation = HALF) -> None:
        """A plan comes that predicts so much."""
        self.judge.margins(self.at)
        predicted = Prediction(self.path, seconds, 2.0, {}, {}, "window 1")
        self.plan = PlanInForce(self.at, dict.fromkeys(self.path, target), (predicted,))

    def go(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(int(seconds)):
            self.at += 1.0
            came = self.at - 1.0 + np.arange(10) / 10.0
            self._waiting += [(float(t), float(t) + self.late) for t in came]
            ready = [(t, end) for t, end in self._waiting if end <= self.at]
            self._waiting = [one for one in self._waiting if one[1] > self.at]
            done = DoneRecords(np.array([t for t, _ in ready]), np.array([end - t for t, end in ready]))
            for name in self.path:
                seen = Observation(
                    name, self.at, 15.0, self.quality, ClusterState(None, None, self.has), query_run=self.run
                )
                mine = done if name == self.path[-1] else None
                is_whole = len(self.path) == 1
                look = Look(
                    Telemetry(name, self.at),
                    seen,
                    done=mine if is_whole else None,
                    path_done=None if is_whole else mine,
                )
                self.judge.watch(look)
            self.judge.look(self.at, self.plan)

    @property
    def measured(self) -> float | None:
        """What was last measured under a plan."""
        value = self.judge.evidence(self.path)["last_measured_seconds"]
        return None if value is None else float(value)

    @property
    def judged(self) -> int:
        """How many plans were."""
        return int(self.judge.evidence(self.path)["predictions_judged"] or 0)


def test_a_plan_is_judged_by_what_was_measured_in_its_period() -> None:
    """Prediction, interval and measurement are told, and the coverage so far."""
    world = World()
    world.go(5)
    world.planned(0.5)
    world.go(PERIOD + 5)
    told = world.judge.evidence(("a",))
    assert told["predictions_judged"] == 1
    assert told["last_predicted_seconds"] == 0.5
    assert told["last_measured_seconds"] == pytest.approx(0.5, rel=0.01)
    assert float(told["last_low_seconds"] or 0) < 0.5 < float(told["last_high_seconds"] or 0)
    assert told["prediction_coverage"] == 1.0
    assert told["prediction_error"] == pytest.approx(0.0, abs=0.01)
    world.late = 1.9
    world.planned(0.5)
    world.go(PERIOD + 5)
    told = world.judge.evidence(("a",))
    assert (told["predictions_judged"], told["prediction_coverage"]) == (2, 0.5)


def test_each_plan_gets_its_own_records_however_late_they_are() -> None:
    """A record counts for the plan that was in force when it arrived, though it is done in the next one's time."""
    world = World()
    world.late = 8.0
    world.go(20)
    world.planned(8.0)
    world.go(5)  # none of those that arrive now is done now
    world.planned(0.1)
    world.go(7)
    assert world.judged == 0
    world.go(3)
    assert world.judged == 1
    assert world.measured == pytest.approx(8.0, rel=0.01)


def test_the_interval_is_that_which_was_given_for_the_plan() -> None:
    """What was learnt while a plan was in force does not change by what it is judged."""
    world = World()
    world.go(5)
    before = world.judge.margins(world.at)[("a",)].around(0.5)
    world.planned(0.5)
    for _ in range(3):
        world.go(PERIOD + 2)
        told = world.judge.evidence(("a",))
        if told["predictions_judged"] == 1:
            assert (told["last_low_seconds"], told["last_high_seconds"]) == pytest.approx(before)
        world.planned(0.5)


@pytest.mark.parametrize("target", [FULL, Allocation(2, 0.5)])
def test_a_plan_that_was_never_in_force_is_not_judged(target: Allocation) -> None:
    """Held by a guard, or recommended only: what was measured was under something else."""
    world = World()
    world.go(5)
    world.planned(0.1, target)
    world.go(2 * PERIOD)
    assert world.judged == 0


def test_records_from_before_a_change_do_not_count_for_the_plan_that_made_it() -> None:
    """The backlog of the allocation before is done first; the plan is judged by what arrives afterwards."""
    world = World()
    world.late = 10.0
    world.go(30)
    world.planned(0.2, FULL)
    world.go(3)
    world.has = FULL
    world.late = 0.2
    world.go(PERIOD + 20)
    assert world.judged == 1
    assert world.measured == pytest.approx(0.2, rel=0.01)


def test_a_rescue_ends_the_period_and_what_came_before_it_counts() -> None:
    """A plan that had to be corrected is judged by the records that were late under it, and not by the ones after."""
    world = World()
    world.go(5)
    world.planned(0.5)
    world.go(10)
    world.late = 3.0
    world.go(8)
    world.has = FULL  # the rescue
    world.go(1)
    world.late = 0.1
    world.go(30)
    assert world.judged == 1
    assert world.measured == pytest.approx(3.0, rel=0.01)
    assert world.judge.evidence(("a",))["prediction_coverage"] == 0.0
    # Back at the planned level, the rest of the period is not judged a second time.
    world.has = HALF
    world.go(PERIOD)
    assert world.judged == 1


@pytest.mark.parametrize("trouble", ["warming up", "stale", "restarted", "clock"])
def test_what_cannot_be_trusted_is_not_judged_and_the_next_plan_is(trouble: str) -> None:
    """A warm-up, missing data, a restart or a clock that was set back void the plan under way."""
    world = World()
    world.go(5)
    world.planned(0.5)
    world.go(20)
    if trouble == "restarted":
        world.run = "two"
    elif trouble == "clock":
        world.at -= 10.0
    else:
        world.quality = Quality(trouble)
    world.go(1)
    world.quality = Quality.GOOD
    world.go(PERIOD + 10)
    assert world.judged == 0
    world.planned(0.5)
    world.go(PERIOD + 10)
    assert world.judged == 1


def test_too_few_records_and_endless_predictions_are_not_judged() -> None:
    """Ten records say nothing about a 99th percentile, and nothing can be above what is endless."""
    world = World(objective=Objective("p99", 2.0))
    world.go(5)
    world.planned(0.5)
    world.go(5)
    world.has = FULL
    world.go(20)
    assert world.judged == 0
    world = World()
    world.go(5)
    world.planned(float("inf"))
    world.go(PERIOD + 10)
    assert world.judged == 0


def test_a_plan_that_does_not_know_an_operator_is_not_judged() -> None:
    """Where a demand did not show, the prediction was for the most that batches allow."""
    world = World()
    world.go(5)
    world.planned(0.5)
    assert world.plan is not None
    world.plan = replace(world.plan, unjudged=frozenset({"a"}))
    world.go(PERIOD + 10)
    assert world.judged == 0


def test_a_path_of_several_operators_is_judged_by_its_whole_way() -> None:
    """The latency since the first arrival counts, and every operator has to have what was planned."""
    world = World(("a", "b"))
    world.go(5)
    world.planned(0.5)
    world.go(PERIOD + 5)
    assert world.judged == 1
    assert world.measured == pytest.approx(0.5, rel=0.01)


def test_paths_that_end_in_one_operator_are_not_told_apart() -> None:
    """Their records cannot be, so none is judged, and the margin stays that of the start."""
    objective = Objective("p95", 2.0)
    judge = PlanJudge({("a", "c"): objective, ("b", "c"): objective}, 0.9, PERIOD, dict.fromkeys("abc", ""))
    before = judge.margins(0.0)
    for at in range(100):
        for name in "abc":
            seen = Observation(name, float(at), 15.0, Quality.GOOD, ClusterState(None, None, HALF))
            done = DoneRecords(np.full(50, at - 0.5), np.full(50, 0.5))
            judge.watch(Look(Telemetry(name, float(at)), seen, path_done=done))
        told = (Prediction(("a", "c"), 0.5, 2.0, {}, {}, ""), Prediction(("b", "c"), 0.5, 2.0, {}, {}, ""))
        judge.look(float(at), PlanInForce(0.0, dict.fromkeys("abc", HALF), told))
    assert judge.margins(200.0) == before


def test_what_was_learnt_is_kept_for_runs_of_the_same_queries() -> None:
    """The next run begins with its margin and counts; with another query it begins anew."""
    world, notebook = World(), StoreNotebook(MemoryStore())
    world.go(5)
    for _ in range(4):
        world.planned(0.2)
        world.go(PERIOD + 5)
    assert world.judged == 4
    world.judge.write_down(notebook)
    same, other = (PlanJudge({("a",): Objective("p95", 2.0)}, 0.9, PERIOD, {"a": query}) for query in ("q", "changed"))
    for judge in (same, other):
        judge.begin_with(notebook)
    assert same.evidence(("a",))["predictions_judged"] == 4
    assert same.margins(0.0)[("a",)].high == pytest.approx(world.judge.margins(0.0)[("a",)].high, abs=1e-5)
    assert other.evidence(("a",))["predictions_judged"] == 0
