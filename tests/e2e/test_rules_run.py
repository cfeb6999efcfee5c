# SPDX-License-Identifier: Apache-2.0
"""Scaling rules on a real Spark: the tests of the dynamic scaling framework, Sec. 5.2, with operators of known rate.

What differs from the simulator, and how far instants are met:

- A run begins with all its executors, so each stream begins with a lead-in of few records, in which a rule takes them
  away. Instants are counted from the end of the lead-in, by the records that have arrived.
- Records are done when their batch is. A batch of 30 records at 5/s is 6 s, so a queue is up to 30 records longer than
  in the simulator, and falls in steps.
- Each batch and each task costs some time besides that of its records, so an instance does some records less than its
  rate. On a busy machine that is a quarter.
- A new executor takes 5 to 10 s to start, and serves from the next batch on.

A queue that grows by 5/s reaches a value of N between N / 6.5 s and N / 4 s, and the decision follows the readings to
the second. Below 1, as the paper's scale-in asks for, a queue of micro-batches never is while records come: those of a
batch are in it until the batch ends. Here it is below 40.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.e2e.live_run import LiveRun

from penstock.records import Decision, Observation

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(1200)]

LEAD_SECONDS, LEAD_RATE = 100, 1
"""Long enough for a first batch on a busy machine, and for executors to go."""
START_SMALL = """
rule "start small":
  scale-in * by 2 never below 1
  when queue_length below 20 for 5 seconds
  when arrival_rate below 4
  unless scale-out within 30 minutes
"""


def operator(name: str, milliseconds: float, app: str = "keep_nothing", **others: Any) -> dict[str, Any]:
    """One to three executors of a core, each of which takes so long for a record."""
    return {
        "name": name,
        "app": f"tests.e2e.rated_operator:{app}",
        "options": {"milliseconds": str(milliseconds)},
        "executors": [1, 3],
        "executor_memory": "600m",
        "driver_memory": "600m",
        **others,
    }


def settings(steps: str, rules: str, *operators: dict[str, Any], rows_per_batch: int = 30) -> dict[str, Any]:
    """A run under rules alone: no guard but the limits, as the rules have guard times of their own."""
    return {
        "name": "rules",
        "arrivals": {
            "shape": f"steps:{LEAD_SECONDS}s@{LEAD_RATE},{steps}",
            # Six tasks in a batch are shared evenly by one, two and three executors.
            "options": {"partitions": "6", "maxRowsPerBatch": str(rows_per_batch)},
        },
        "operators": list(operators),
        "policy": {"name": "rules", "rules": START_SMALL + rules},
        "guards": "none",
        "mode": "act",
        "window": "5s",
        "warm_up": "5s",
        "drain": "300s",
    }


def queue_is(above: int, seconds: int, by: int, most: int, name: str = "operator") -> str:
    """A rule of the paper's form."""
    return f"""
rule "queue of {name} is above {above} for {seconds} seconds":
  scale-out {name} by {by} never above {most}
  when queue_length above {above} for {seconds} seconds
  unless scale-out within 5 minutes
"""


class Played:
    """A run that is over, by the clock of its stream: zero is the end of the lead-in."""

    def __init__(self, run: LiveRun, rate: float, name: str = "operator") -> None:
        result = run.result()
        assert result["records_done"] == result["records_due"]
        self.looks: list[Observation] = [o for o in run.observations() if o.operator == name]
        self.changes: list[Decision] = [d for d in run.decisions() if d.operator == name]
        lead = LEAD_SECONDS * LEAD_RATE
        # The records that have arrived are known exactly; each look in the first seconds after the lead-in gives zero.
        zeros = [
            o.at - (o.records_arrived - lead) / rate
            for o in self.looks
            if o.records_arrived is not None and lead + 2 * rate < o.records_arrived < lead + 15 * rate
        ]
        self.zero = sorted(zeros)[len(zeros) // 2]

    def queue(self, at: float) -> int:
        """The queue at the look nearest to an instant."""
        known = [o for o in self.looks if o.backlog_records is not None]
        found = min(known, key=lambda o: abs(o.at - self.zero - at)).backlog_records
        assert found is not None
        return found

    def after_lead(self) -> list[tuple[float, int, int]]:
        """Changes after the lead-in: when, and the executors before and after."""
        return [(d.at - self.zero, d.current.executors, d.target.executors) for d in self.changes if d.at > self.zero]

    def first_above(self, value: int) -> float:
        """When a look first saw the queue above a value, for good until the next change."""
        return next(
            o.at - self.zero
            for o in self.looks
            if o.at > self.zero and o.backlog_records is not None and o.backlog_records > value
        )


def check_rule_alone(played: Played, above: int, seconds: int, sizes: tuple[int, int]) -> None:
    """The scale-out comes between the fastest and slowest growth of the queue, and to the second by the readings."""
    ((at, before, after),) = played.after_lead()
    assert (before, after) == sizes
    assert above / 6.5 + seconds - 2 <= at <= above / 4.0 + seconds + 8, at
    change = next(d for d in played.changes if d.at > played.zero)
    assert f"for {seconds} seconds" in str(change.evidence["trigger"])
    assert change.evidence["held_seconds"] == pytest.approx(seconds, abs=0.11 * seconds + 2.5)
    assert change.evidence["queue_length"] > above  # type: ignore[operator]


def test_a_long_queue_scales_out_a_real_query(tmp_path: Path) -> None:
    """10/s in and 5/s done: above 100 after 20 s, scaled from 1 to 2 some 10 s later, and only once."""
    spec = settings("60s@10", queue_is(100, 10, 1, 2), operator("operator", 200))
    with LiveRun(tmp_path / "run", spec) as run:
        check_rule_alone(Played(run, 10), 100, 10, (1, 2))


@pytest.mark.long
def test_single_operator_scale_out(tmp_path: Path) -> None:
    """5.2.2: above 300 after 60 s, scaled from 1 to 2 at about 90 s; then the queue hardly grows any more."""
    spec = settings("200s@10", queue_is(300, 30, 1, 2), operator("operator", 200))
    with LiveRun(tmp_path / "run", spec) as run:
        played = Played(run, 10)
    check_rule_alone(played, 300, 30, (1, 2))
    # By 5/s and more before, by what overhead costs two instances after it.
    assert played.queue(200) - played.queue(130) < 0.6 * 5 * 70


@pytest.mark.long
def test_scale_out_with_additional_capacity(tmp_path: Path) -> None:
    """5.2.3: scaled from 1 to 3 at about 90 s; then the queue is worked off."""
    spec = settings("240s@10", queue_is(300, 30, 2, 3), operator("operator", 200))
    with LiveRun(tmp_path / "run", spec) as run:
        played = Played(run, 10)
    check_rule_alone(played, 300, 30, (1, 3))
    assert played.queue(235) < played.queue(110)


@pytest.mark.long
def test_only_the_bottleneck_is_scaled(tmp_path: Path) -> None:
    """5.2.4: of two operators under the same rule the one with 20/s keeps its size, and that with 5/s gets two more.

    The second reads files, and all of them that there are: while its batches grow, up to all records since the start
    are in its queue, so that 300 may be passed after 30 s already.
    """
    rules = queue_is(300, 30, 2, 3, "fast") + queue_is(300, 30, 2, 3, "slow")
    fast, slow = operator("fast", 50, "pass_on", trigger="2s"), operator("slow", 200, input="fast")
    with LiveRun(tmp_path / "run", settings("200s@10", rules, fast, slow)) as run:
        first = Played(run, 10, "fast")
        changes = [(d.at - first.zero, d.current.executors, d.target.executors) for d in run.decisions()
                   if d.operator == "slow" and d.at > first.zero]  # fmt: skip
    assert first.after_lead() == []
    ((at, before, after),) = changes
    assert (before, after) == (1, 3)
    assert 30 + 30 - 2 <= at <= 300 / 4.0 + 30 + 15


@pytest.mark.long
def test_a_threshold_that_is_never_reached(tmp_path: Path) -> None:
    """5.2.5: peaks make the queue longer, 10,000 is never reached, and nothing is scaled."""
    spec = settings(
        "30s@10,5s@20,40s@10,10s@20,30s@10", queue_is(10000, 60, 2, 3), operator("operator", 80), rows_per_batch=60
    )
    with LiveRun(tmp_path / "run", spec) as run:
        played = Played(run, 10)
    assert played.after_lead() == []
    # 10 s at 20/s, of which at most 12.5/s are done: 75 records and more are left.
    assert played.queue(86) - played.queue(74) > 40


OUT_AND_IN = """
rule "queue is above 100 for 5 seconds":
  scale-out operator by 2 never above 3
  when queue_length above 100 for 5 seconds

rule "queue is below 40 for 5 seconds":
  scale-in operator by 2 never below 1
  when queue_length below 40 for 5 seconds
  {guard}
"""


@pytest.mark.long
def test_scale_out_and_scale_in_with_peaks(tmp_path: Path) -> None:
    """5.2.6: in each of two peaks of 20 s out, and in again when the queue has been short for some time."""
    spec = settings(
        "40s@10,20s@20,60s@10,20s@20,60s@10", OUT_AND_IN.format(guard=""), operator("operator", 70), rows_per_batch=60
    )
    with LiveRun(tmp_path / "run", spec) as run:
        changes = Played(run, 10).after_lead()
    assert [(before, after) for _, before, after in changes[:4]] == [(1, 3), (3, 1), (1, 3), (3, 1)]
    out, back, again, _ = (at for at, _, _ in changes[:4])
    # A peak leaves 6 to 10 records a second; the queue of a batch, up to 30 records, is there before it.
    assert 40 + 70 / 10 + 5 - 2 <= out <= 40 + 20 + 5 + 3
    assert out + 5 < back < 120
    assert 120 + 70 / 10 + 5 - 2 <= again <= 120 + 20 + 5 + 3


@pytest.mark.long
def test_a_guard_time_keeps_the_size_through_the_peaks(tmp_path: Path) -> None:
    """5.2.7: with a guard time of five minutes nothing is taken away after the first peak, nor after the second."""
    guard = "unless scale-out within 5 minutes"
    spec = settings(
        "40s@10,20s@20,60s@10,20s@20,60s@10", OUT_AND_IN.format(guard=guard), operator("operator", 70),
        rows_per_batch=60,
    )  # fmt: skip
    with LiveRun(tmp_path / "run", spec) as run:
        played = Played(run, 10)
    ((at, before, after),) = played.after_lead()
    assert (before, after) == (1, 3)
    assert 40 + 70 / 10 + 5 - 2 <= at <= 40 + 20 + 5 + 3
    waiting = [o for o in played.looks if o.at - played.zero > at + 20 and o.backlog_records is not None]
    assert min(o.backlog_records for o in waiting if o.backlog_records is not None) < 40
