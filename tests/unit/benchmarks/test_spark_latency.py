# SPDX-License-Identifier: Apache-2.0
"""The comparison of predicted with measured latency learns elsewhere than it predicts, and its bars can be missed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from benchmarks.marked_part import marked_part
from benchmarks.spark_latency import run
from benchmarks.spark_latency.cells import (
    BURSTS,
    EXECUTORS,
    KINDS,
    LIMITS,
    LOADS,
    OBJECTIVE,
    POISSON,
    SHARES,
    Measured,
    all_cells,
    interval_after,
    missing_cells,
    read,
    write,
)
from benchmarks.spark_latency.predictor import Predicted, Question, predict
from benchmarks.spark_latency.timetable import (
    BURST_SECONDS,
    CALM_SECONDS,
    MEASURED_SECONDS,
    PAST_SECONDS,
    Turn,
    arrivals,
    rate_of,
    turn_at,
    turns_for,
)
from benchmarks.spark_latency.verdict import is_within, table, verdicts
from benchmarks.spark_latency.watcher import Watcher, _CellUnderWay

from penstock.evaluation.simulation import simulate
from penstock.performance.adaptive_interval import Margin
from penstock.performance.demand import BatchDemand
from penstock.policies.mead.options import mead_options
from penstock.ports import DoneRecords, Look
from penstock.records import BatchProgress, ClusterState, LatencySummary, Quality, Telemetry
from penstock.simulator import MicroBatch, Operator, Pipeline
from penstock.testing import an_observation

RECORD_SECONDS = 1e-3
CELLS = all_cells()
GOOD = Measured(
    cell=CELLS[0],
    at=0.0,
    rate=300.0,
    record_seconds=RECORD_SECONDS,
    records=9000,
    batches=30,
    batch_seconds=1.0,
    mean=1.0,
    p95=2.0,
    predicted_mean=1.1,
    predicted_p95=2.2,
    low=1.8,
    high=2.6,
    margin=(-0.15, 0.2),
    fitted_mean=1.1,
    fitted_p95=2.2,
    fixed_seconds=0.3,
    fixed_cpu_seconds=0.2,
    per_record_seconds=RECORD_SECONDS,
    version="1",
    commit=None,
)
ALL = [replace(GOOD, cell=cell) for cell in CELLS]
ABOVE = [replace(one, high=1.9) if i % 9 == 0 else one for i, one in enumerate(ALL)]
"""32 of 36 at or below the upper end."""


def _answers(measured: list[Measured]) -> list[bool | None]:
    return [is_so for _, is_so in verdicts(measured)]


def test_every_allocation_and_load_comes_once_with_both_kinds_of_arrivals() -> None:
    """18 cells of each kind."""
    assert len(CELLS) == len(set(CELLS)) == len(EXECUTORS) * len(SHARES) * len(LOADS) * len(KINDS) == 36


def test_nothing_is_learnt_at_an_allocation_or_load_that_is_predicted() -> None:
    """Before each cell comes a turn with another share and another load, of as many executors."""
    turns = turns_for(CELLS, 0.0, Random(1))
    assert [turn.cell for turn in turns if turn.cell is not None] == CELLS
    learnt = [turn for turn in turns if turn.cell is None]
    assert not {turn.allocation for turn in learnt} & {cell.allocation for cell in CELLS}
    assert not {turn.load for turn in learnt} & set(LOADS)
    for before, turn in pairwise(turns):
        assert before.end == turn.begin
        if turn.cell is not None:
            assert before.cell is None
            assert before.allocation.executors == turn.cell.executors
    assert all(LIMITS.allows(turn.allocation) for turn in turns)


def test_past_and_measured_time_hold_two_bursts_that_are_longer_than_several_batches() -> None:
    """Three batches of 3 s are within a burst, and a cell takes a minute and a half at most."""
    assert BURST_SECONDS > 3 * 3.0
    assert min(PAST_SECONDS, MEASURED_SECONDS) >= 2 * (BURST_SECONDS + CALM_SECONDS)
    turns = turns_for(CELLS[:2], 0.0, Random(1))
    assert turns[-1].end - turns[-3].end <= 90.0


def test_what_mead_remembers_holds_all_that_came_before_a_prediction() -> None:
    """A window of so many records may be over within a burst; the look back of its defaults is not."""
    assert (mead_options().look_back or 0.0) > PAST_SECONDS


def test_an_instant_has_the_turn_that_it_lies_in() -> None:
    """Before the first and after the last there is none."""
    turns = turns_for(CELLS[:1], 100.0, Random(1))
    assert turn_at(turns, 99.9) is None
    assert turn_at(turns, 100.0) == turns[0]
    assert turn_at(turns, turns[1].begin) == turns[1]
    assert turn_at(turns, turns[-1].end) is None


@pytest.mark.parametrize("kind", KINDS)
def test_arrivals_have_the_rate_of_their_load_and_bursts_are_bursts(kind: str) -> None:
    """The same number of records in both kinds; by the half second they vary far more in bursts."""
    turns = turns_for([cell for cell in CELLS if cell.kind == kind], 0.0, Random(1))
    times = arrivals(turns, RECORD_SECONDS, np.random.default_rng(1))
    assert np.all(np.diff(times) >= 0.0)
    variations = []
    for turn in [turn for turn in turns if turn.cell is not None]:
        mine, rate = times[(times >= turn.begin) & (times < turn.end)], rate_of(turn, RECORD_SECONDS)
        assert rate == pytest.approx(turn.load * turn.allocation.capacity * 1000.0)
        assert mine.size / (turn.end - turn.begin) == pytest.approx(rate, rel=0.25)
        counts, _ = np.histogram(mine, bins=100, range=(turn.begin, turn.end))
        variations.append(counts.std() / counts.mean())
    assert (min(variations) > 0.4) if kind == BURSTS else (max(variations) < 0.2)


def test_cells_come_back_from_the_file_as_they_were(tmp_path: Path) -> None:
    """What was measured is not measured again, and the interval goes on from it."""
    file = tmp_path / "cells.jsonl"
    assert read(file) == []
    for one in ALL[:3]:
        write(file, one)
    assert read(file) == ALL[:3]
    assert interval_after(read(file)).judged == 3


def test_a_cell_is_a_short_line(tmp_path: Path) -> None:
    """The file is kept in the repository; its digits say no less than a clock does."""
    file = tmp_path / "cells.jsonl"
    write(file, replace(GOOD, mean=1.0 / 3.0, margin=(-1.0 / 3.0, 2.0 / 3.0)))
    assert "0.3333333," in file.read_text()
    (one,) = read(file)
    assert one.margin == pytest.approx((-1.0 / 3.0, 2.0 / 3.0), abs=1e-7)
    assert one.cell == GOOD.cell


def test_the_readme_has_the_cells_that_are_kept_in_the_repository() -> None:
    """No cell of the file is missing in the table; `--cells 0 --readme` writes it."""
    assert marked_part(run.HERE / "README.md") == run.readme_part(read(run.HERE / "cells.jsonl"))
    assert [line for line in run.readme_part(ALL) if line.startswith("|")] == table(ALL)


def test_the_prediction_is_that_of_mead_for_the_cell() -> None:
    """Even arrivals in batches of 0.3 s + 1 ms a record: a steady state that can be worked out by hand."""
    cell = next(c for c in CELLS if (c.kind, c.executors, c.share, c.load) == (POISSON, 1, 1.0, 0.5))
    demand = BatchDemand(0.3, RECORD_SECONDS)
    iats = np.random.default_rng(1).exponential(1.0 / 500.0, int(500 * PAST_SECONDS))
    told = predict(Question(cell, 0.0, iats, (1.0, 0.5), None, demand, interval_after([]).margin))
    # T = 0.3 + 0.5 T, so 0.6 s a batch: a record waits for half of one on average, and then for its own.
    assert told.mean == pytest.approx(0.9, rel=0.05)
    assert told.p95 == pytest.approx(0.6 * 1.95, rel=0.08)
    assert told.low < told.p95 < told.high
    assert told.fitted_mean == pytest.approx(0.9, rel=0.05)


class HereExecutor(Executor):
    """Does at once what it is given."""

    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        """Do it."""
        done: Future[Any] = Future()
        done.set_result(function(*given, **named))
        return done


def test_cells_are_predicted_and_measured_as_the_timetable_says() -> None:
    """On a simulated query whose batches cost what they are said to cost, predictions are within the bars."""
    cells = [next(c for c in CELLS if (c.kind, c.executors, c.load) == (kind, 1, 0.5)) for kind in KINDS]
    turns = turns_for(cells, 0.0, Random(1))
    times = arrivals(turns, RECORD_SECONDS, np.random.default_rng(1))
    times = np.concatenate([[0.0], times, turns[-1].end + np.arange(0.0, 20.0, 0.1)])
    kept: list[Measured] = []
    watcher = Watcher(turns, RECORD_SECONDS, [], kept.append, HereExecutor())
    query = Operator("logs", MicroBatch(0.2, RECORD_SECONDS, driver=0.1), limits=LIMITS, demand_is_known=False)
    simulate(times, Pipeline.of_one(query), watcher, OBJECTIVE)
    assert [one.cell for one in kept] == cells
    assert watcher.is_done
    for one in kept:
        assert one.per_record_seconds == pytest.approx(RECORD_SECONDS, rel=0.05)
        assert one.records / MEASURED_SECONDS == pytest.approx(one.rate, rel=0.15)
        assert is_within(one), one


def _kept_of(turn: Turn, looks: list[Look]) -> list[Measured]:
    """What is kept of a cell with these looks: nothing, where it is void."""
    kept: list[Measured] = []
    watcher = Watcher([turn], RECORD_SECONDS, [], kept.append, HereExecutor())
    told = Predicted(1.0, 2.0, 1.0, 3.0, 1.0, 2.0)
    question = Question(
        turn.cell or CELLS[0], 0.0, np.ones(2), (1.0,), None, BatchDemand(0.3, 1e-3), Margin(-0.1, 0.1, 0.05)
    )
    under_way = _CellUnderWay(turn, question, HereExecutor().submit(lambda: told))
    for look in looks:
        under_way.take(look)
    assert under_way.is_over
    watcher._end(under_way)
    return kept


def _looks(turn: Turn, change: Callable[[int, Look], Look] = lambda _, look: look) -> list[Look]:
    """A look a second and a batch in each, from the prediction until after the cell."""
    found = []
    for i in range(int(MEASURED_SECONDS) + 3):
        at = turn.predicted_at + 1.0 + i
        batch = BatchProgress("logs", "query", "run", i, at - 1.0, at, 10, {}, ())
        done = DoneRecords(at - np.linspace(0.9, 0.0, 10), np.linspace(0.9, 0.0, 10))
        state = ClusterState(turn.allocation, turn.allocation, turn.allocation)
        seen = an_observation(operator="logs", at=at, cluster=state)
        found.append(change(i, Look(Telemetry("logs", at, (batch,)), seen, done=done)))
    return found


def _seen(**changed: Any) -> Callable[[int, Look], Look]:
    """The tenth look with something else seen."""
    return lambda i, look: replace(look, observation=replace(look.observation, **changed)) if i == 10 else look


def test_a_cell_is_void_only_where_its_measurement_would_be_untrue() -> None:
    """Late looks, missing CPU counters and an allocation that was not known for a moment change no latency."""
    turn = next(turn for turn in turns_for(CELLS[:1], 0.0, Random(1)) if turn.cell is not None)
    unknown, other = ClusterState(turn.allocation), replace(turn.allocation, cpu_share=0.5)
    guessed = LatencySummary(10, 0.5, 0.5, 0.9, 0.9, 0.9, is_exact=False, inexact_because="it did not answer")
    kept = _kept_of(turn, _looks(turn))
    assert [one.cell for one in kept] == [turn.cell]
    for quality in (Quality.STALE, Quality.INCOMPLETE, Quality.WARMING_UP):
        assert _kept_of(turn, _looks(turn, _seen(quality=quality))) == kept
    assert _kept_of(turn, _looks(turn, _seen(cluster=unknown))) == kept
    assert not _kept_of(turn, _looks(turn, _seen(cluster=ClusterState(turn.allocation, other, other))))
    assert not _kept_of(turn, _looks(turn, _seen(latency=guessed)))
    missing = [look for i, look in enumerate(_looks(turn)) if i != 10]
    assert not _kept_of(turn, missing)
    never = [replace(look, observation=replace(look.observation, cluster=unknown)) for look in _looks(turn)]
    assert not _kept_of(turn, never)


def test_a_second_round_measures_each_cell_again_and_all_count() -> None:
    """What was measured more often than asked for counts too; the bars grow with the rounds."""
    assert missing_cells(1, ALL) == []
    assert sorted(map(str, missing_cells(2, ALL[:30]))) == sorted(map(str, [*CELLS, *CELLS[30:]]))
    assert missing_cells(2, ALL) != CELLS
    assert _answers(ABOVE) == [True, True, True]
    assert [is_so for _, is_so in verdicts(ABOVE, 2)] == [None, None, None]
    both = [*ABOVE, *ABOVE]
    assert _answers(both) == [is_so for _, is_so in verdicts(both, 2)] == [True, True, True]
    assert "in 32 of 36 cells (36 of 36 measured)" in verdicts(both)[0][0]
    off = [replace(one, predicted_p95=2.5) for one in both if one.cell.kind == POISSON][:5]
    rest = [one for one in both if one.cell.kind == POISSON][5:]
    assert verdicts([*off, *rest])[0][1] is False
    assert verdicts([*ABOVE, *ABOVE[:4]])[2][1] is None


def test_all_bars_are_kept_where_predictions_are_good() -> None:
    """Every cell within, and nine of ten at or below their upper end."""
    assert _answers(ABOVE) == [True, True, True]


def test_three_bad_cells_of_a_kind_miss_its_bar() -> None:
    """16 of 18 are needed; the other kind is not touched."""
    bad = [one for one in ABOVE if one.cell.kind == POISSON][:3]
    off = [replace(one, predicted_p95=2.5) if one in bad else one for one in ABOVE]
    assert _answers(off) == [False, True, True]
    assert sum(line.endswith(("| off |", "| off, above |")) for line in table(off)) == 3


def test_an_interval_that_is_never_left_is_too_wide() -> None:
    """36 of 36 at 90 % is no interval of 90 %; 30 of 36 is too narrow."""
    assert _answers(ALL)[2] is False
    assert _answers([replace(one, high=1.9) if i < 6 else one for i, one in enumerate(ALL)])[2] is False


def test_what_was_not_measured_is_not_known() -> None:
    """Unless too many are off already."""
    assert _answers(ABOVE[:4]) == [None, None, None]
    assert _answers([replace(one, predicted_mean=2.0) for one in ABOVE[:12]])[0] is False
