# SPDX-License-Identifier: Apache-2.0
"""The worst that any of several windows met."""

import math

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.markov import PH
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.performance.replayed_latency import ReplayedLatency
from penstock.performance.replayed_windows import ReplayedWindows
from penstock.records import Allocation, Objective


def one_queue(demand: RecordDemand | BatchDemand) -> PipelineModel:
    """A single operator under a bound on the mean."""
    return PipelineModel([OperatorModel("matcher", demand)], Objective("mean", 1.0))


def test_the_worst_window_counts_and_says_so() -> None:
    """Of a calm and a busy window the busy one decides, and a window that is too fast has no end."""
    model = one_queue(RecordDemand(PH.erlang(2, mean=0.01)))
    calm, busy = (np.cumsum(np.random.default_rng(1).exponential(1.0 / rate, 5000)) for rate in (20.0, 80.0))
    both = ReplayedWindows({"calm": ReplayedLatency(model, calm), "busy": ReplayedLatency(model, busy)})
    alone = ReplayedLatency(model, busy)
    [worst], [met] = both.predict({"matcher": Allocation(1)}), alone.predict({"matcher": Allocation(1)})
    assert worst.seconds == met.seconds
    assert worst.worst == "busy, replayed"
    [endless] = both.predict({"matcher": Allocation(1, 0.7)})
    assert endless.seconds == math.inf
    assert endless.worst == "busy, cannot keep up"
    both.rest()
    [again] = both.predict({"matcher": Allocation(1)})
    assert again.seconds == worst.seconds
    assert (both.operators, both.paths) == (("matcher",), (("matcher",),))


@pytest.mark.parametrize(
    ("learnt", "slower"),
    [
        (RecordDemand(PH.erlang(2, mean=0.01), spread=0.2), RecordDemand(PH.erlang(2, mean=0.012))),
        (
            BatchDemand(0.3, 0.005, fixed_error_seconds=0.03, per_record_error_seconds=0.0),
            BatchDemand(0.33, 0.005),
        ),
    ],
)
def test_an_uncertain_demand_is_replayed_on_its_slow_side(
    learnt: RecordDemand | BatchDemand, slower: RecordDemand | BatchDemand
) -> None:
    """One standard error more is a demand that is larger by it, for records and for batches."""
    arrivals = np.cumsum(np.random.default_rng(2).exponential(1.0 / 50.0, 5000))
    has = {"matcher": Allocation(1)}
    [moved] = ReplayedLatency(one_queue(learnt), arrivals, errors=1.0).predict(has)
    [known] = ReplayedLatency(one_queue(slower), arrivals).predict(has)
    assert moved.seconds == pytest.approx(known.seconds, rel=1e-6)
    assert moved.utilisation["matcher"] == pytest.approx(known.utilisation["matcher"], rel=1e-6)


def test_no_window_is_refused() -> None:
    """There must be something to replay."""
    with pytest.raises(ConfigurationError, match="windows"):
        ReplayedWindows({})
