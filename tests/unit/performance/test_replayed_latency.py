# SPDX-License-Identifier: Apache-2.0
"""Windows replayed through a pipeline."""

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.performance.replayed_latency import ReplayedLatency
from penstock.records import Allocation, Objective
from penstock.testing.path_latencies import single_executors
from penstock.topology import Stream


def one_queue(bound: float, mean: float = 0.01, statistic: str = "mean") -> PipelineModel:
    """A single operator with Erlang-2 service."""
    return PipelineModel([OperatorModel("matcher", RecordDemand(PH.erlang(2, mean=mean)))], Objective(statistic, bound))


def poisson(rate: float, count: int = 40_000) -> np.ndarray:
    """Arrival times."""
    return np.cumsum(np.random.default_rng(5).exponential(1.0 / rate, count))


def test_a_replayed_poisson_window_meets_the_closed_form() -> None:
    """Mean and 95th percentile of a replayed Poisson window are those of M/E2/1, for any share."""
    arrivals = poisson(20.0)
    for statistic in ("mean", "p95"):
        model = one_queue(1.0, statistic=statistic)
        replayed, solved = ReplayedLatency(model, arrivals), PipelineLatency(model, {"calm": MAP.poisson(20.0)})
        for share in (0.4, 1.0):
            [met], [told] = (
                replayed.predict(single_executors({"matcher": share})),
                solved.predict(single_executors({"matcher": share})),
            )
            assert met.seconds == pytest.approx(told.seconds, rel=0.05)
            assert met.utilisation["matcher"] == pytest.approx(told.utilisation["matcher"], rel=0.03)


def test_paths_of_a_tree_are_replayed_with_what_goes_on() -> None:
    """A path's time is the sum of its operators', and a selectivity of a half sends every other record on."""
    operators = [
        OperatorModel("parser", RecordDemand(PH.erlang(2, mean=0.004)), selectivity=0.5),
        OperatorModel("counter", RecordDemand(PH.erlang(2, mean=0.002)), ("parser",)),
        OperatorModel("matcher", RecordDemand(PH.erlang(2, mean=0.01)), ("parser",)),
    ]
    model = PipelineModel(operators, Objective("mean", 1.0))
    replayed = ReplayedLatency(model, poisson(50.0))
    for told in replayed.predict({"parser": Allocation(1, 0.5), "counter": Allocation(1), "matcher": Allocation(2)}):
        assert told.seconds == pytest.approx(sum(told.operator_seconds.values()), rel=0.02)
    # 25 per second of 10 ms on two executors.
    assert told.utilisation["matcher"] == pytest.approx(0.125, rel=0.03)


def test_batches_of_even_arrivals_settle_as_computed() -> None:
    """With a record every 10 ms, f = 0.3 s and c = 5 ms a batch lasts f / (1 - rate c); latency is half of one more."""
    one = OperatorModel("counter", BatchDemand(0.3, 0.005))
    replayed = ReplayedLatency(PipelineModel([one], Objective("mean", 2.0)), np.arange(0.0, 3.0, 0.01))
    [told] = replayed.predict(single_executors({"counter": 1.0}))
    assert told.seconds == pytest.approx(1.5 * 0.6, rel=0.05)
    assert told.utilisation["counter"] == pytest.approx(0.5, rel=0.01)
    [twice] = replayed.predict({"counter": Allocation(2, 1.0)})
    assert twice.seconds == pytest.approx(1.5 * 0.4, rel=0.05)


def test_a_batch_takes_what_waits_at_its_trigger_and_no_more_than_its_cap() -> None:
    """Four records at once with room for three: one waits for the trigger after the batch."""
    capped = OperatorModel("counter", BatchDemand(0.1, 0.1, cap=3, trigger_seconds=1.0))
    replayed = ReplayedLatency(PipelineModel([capped], Objective("mean", 9.0)), np.array([0.5, 0.5, 0.5, 0.5, 9.5]))
    [told] = replayed.predict(single_executors({"counter": 1.0}))
    # The second time the four come at 11.25: at 12.0 three ride until 12.4, at 13.0 the fourth until 13.2; the fifth
    # comes at 20.25 and rides from 21.0 to 21.2.
    assert told.seconds == pytest.approx((3 * 1.15 + 1.95 + 0.95) / 5)


@pytest.mark.parametrize("load", [0.4, 0.7])
def test_a_replayed_batch_queue_meets_what_its_model_predicts(load: float) -> None:
    """On a long Poisson window the replay agrees with the solved micro-batch queue."""
    model = PipelineModel([OperatorModel("counter", BatchDemand(0.2, load / 50.0))], Objective("p95", 2.0))
    [met] = ReplayedLatency(model, poisson(50.0, 60_000)).predict(single_executors({"counter": 1.0}))
    [told] = PipelineLatency(model, {"calm": MAP.poisson(50.0)}).predict(single_executors({"counter": 1.0}))
    assert met.seconds == pytest.approx(told.seconds, rel=0.05)


def test_more_cpu_is_never_slower() -> None:
    """The same work is replayed under all shares, so a larger share never gives a longer time."""
    replayed = ReplayedLatency(one_queue(1.0, statistic="p95"), poisson(30.0, 2000))
    seconds = [
        replayed.predict(single_executors({"matcher": share}))[0].seconds for share in (0.3, 0.4, 0.55, 0.7, 1.0)
    ]
    assert seconds == sorted(seconds, reverse=True)


def test_what_cannot_be_replayed_is_refused() -> None:
    """Joins, and batches among single records, are not replayed."""
    single, batches = RecordDemand(PH.exponential(mean=0.001)), BatchDemand(0.1, 0.001)
    mixed = PipelineModel([OperatorModel("a", single), OperatorModel("b", batches, ("a",))], Objective("mean", 5.0))
    with pytest.raises(ConfigurationError, match="one by one"):
        ReplayedLatency(mixed, poisson(20.0, 100))


@pytest.mark.parametrize("arrivals", [[], [1.0], [1.0, 1.0]])
def test_a_window_without_time_is_refused(arrivals: list[float]) -> None:
    """Fewer than two instants have no rate."""
    with pytest.raises(ConfigurationError, match="arrivals"):
        ReplayedLatency(one_queue(1.0), np.array(arrivals))


def test_a_replay_that_has_rested_predicts_the_same() -> None:
    """Records and work are let go of, and made again alike when something is asked."""
    operators = [
        OperatorModel("first", RecordDemand(PH.exponential(mean=0.01))),
        OperatorModel("second", RecordDemand(PH.erlang(3, mean=0.02)), (Stream("first", "second"),)),
    ]
    arrivals = np.cumsum(np.random.default_rng(5).exponential(0.05, 2000))
    replayed = ReplayedLatency(PipelineModel(operators, Objective("p95", 1.0)), arrivals)
    has = {"first": Allocation(1, 0.6), "second": Allocation(2, 1.0)}
    before = replayed.predict(has)
    replayed.rest()
    kept = sum(value.nbytes for value in vars(replayed).values() if isinstance(value, np.ndarray))
    assert kept == arrivals.nbytes
    assert not replayed._passed
    assert not replayed._work
    assert replayed.predict(has) == before


def test_groups_of_records_are_replayed_as_their_records_are() -> None:
    """One point for 40 records gives what the records give, with a burst among them, a trigger and a cap."""
    rng = np.random.default_rng(3)
    lull, burst = rng.uniform(0.0, 60.0, 30_000), rng.uniform(20.0, 30.0, 60_000)
    arrivals = np.sort(np.concatenate([lull, burst]))
    for cap in (None, 8_000):
        one = OperatorModel("counter", BatchDemand(0.3, 0.0002, cap=cap, trigger_seconds=1.0))
        model = PipelineModel([one], Objective("p95", 9.0))
        each, groups = (
            ReplayedLatency(model, arrivals),
            ReplayedLatency(model, arrivals[20::40], records_each=40),
        )
        for share in (0.6, 0.85, 1.0):
            [wanted], [told] = (of.predict(single_executors({"counter": share})) for of in (each, groups))
            assert told.seconds == pytest.approx(wanted.seconds, rel=0.02)
            assert told.utilisation["counter"] == pytest.approx(wanted.utilisation["counter"], rel=0.01)


def test_records_that_are_served_one_by_one_are_not_replayed_in_groups() -> None:
    """A group that arrives at once would queue where its records do not."""
    with pytest.raises(ConfigurationError, match="records_each"):
        ReplayedLatency(one_queue(1.0), poisson(20.0), records_each=10)
