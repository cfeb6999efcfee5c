# SPDX-License-Identifier: Apache-2.0
"""Fits held against a replay of their windows, solved only as far as they can matter."""

import math
from collections.abc import Mapping

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH
from penstock.performance.checked_latency import CheckedLatency, CheckedWindow
from penstock.performance.demand import RecordDemand
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.performance.replayed_latency import ReplayedLatency
from penstock.records import Allocation, Objective, Prediction
from penstock.testing.path_latencies import single_executors

WILD = MAP.mmpp([[-0.01, 0.01], [0.1, -0.1]], [10.0, 120.0])


def one_queue(bound: float, mean: float = 0.01, statistic: str = "mean") -> PipelineModel:
    """A single operator with Erlang-2 service."""
    return PipelineModel([OperatorModel("matcher", RecordDemand(PH.erlang(2, mean=mean)))], Objective(statistic, bound))


def poisson(rate: float, count: int = 40_000) -> np.ndarray:
    """Arrival times."""
    return np.cumsum(np.random.default_rng(5).exponential(1.0 / rate, count))


class CountedNetwork(PipelineLatency):
    """A network that counts how often it is asked."""

    asked = 0

    def predict(self, allocations: Mapping[str, Allocation]) -> tuple[Prediction, ...]:
        """Count, and predict."""
        self.asked += 1
        return super().predict(allocations)


def checked(bound: float, fitted: MAP, believed: float = 2.0) -> CheckedLatency:
    """A Poisson window of 20 per second, beside a process that is said to fit it."""
    model = one_queue(bound)
    window = CheckedWindow("w", [PipelineLatency(model, {"fit": fitted})], ReplayedLatency(model, poisson(20.0)))
    return CheckedLatency([window], believed)


def test_fits_are_believed_up_to_a_factor() -> None:
    """A fit that predicts twenty times what its window met counts for twice that, a true one for what it says."""
    met = ReplayedLatency(one_queue(1.0), poisson(20.0)).predict(single_executors({"matcher": 0.4}))[0].seconds
    [told] = checked(1.5 * met, WILD).predict(single_executors({"matcher": 0.4}))
    assert told.seconds == pytest.approx(2.0 * met)
    assert not told.is_met
    [true] = checked(1.5 * met, MAP.poisson(20.0)).predict(single_executors({"matcher": 0.4}))
    assert met * 0.9 < true.seconds < met * 1.1
    assert true.is_met


def test_a_fit_below_its_window_counts_for_what_the_window_met() -> None:
    """A fit that is too calm cannot make a bound look kept that the window itself would have broken."""
    met = ReplayedLatency(one_queue(1.0), poisson(20.0)).predict(single_executors({"matcher": 0.4}))[0].seconds
    [told] = checked(1.1 * met, MAP.poisson(5.0)).predict(single_executors({"matcher": 0.4}))
    assert told.seconds == pytest.approx(met)
    assert told.worst == "w, replayed"


def test_what_cannot_keep_up_takes_for_ever() -> None:
    """Beyond utilisation one the answer is infinite, though a finite window always comes to an end."""
    [told] = checked(1.0, MAP.poisson(20.0)).predict(single_executors({"matcher": 0.15}))
    assert math.isinf(told.seconds)
    assert told.utilisation["matcher"] > 1.0


def test_times_fall_as_shares_rise() -> None:
    """Whether the replay alone decides or the fits do, a larger share is never told a longer time."""
    latency = checked(0.05, WILD)
    seconds = [latency.predict(single_executors({"matcher": share}))[0].seconds for share in np.linspace(0.25, 1.0, 16)]
    assert seconds == sorted(seconds, reverse=True)


def test_what_is_not_replayed_is_predicted_by_its_fits() -> None:
    """The fits of a window without a replay are taken as they are, in the worst case over its networks."""
    calm, busy = (PipelineLatency(one_queue(1.0), {"fit": MAP.poisson(rate)}) for rate in (20.0, 30.0))
    unchecked = CheckedLatency([CheckedWindow("w", [calm, busy], None)])
    assert unchecked.predict(single_executors({"matcher": 0.4})) == busy.predict(single_executors({"matcher": 0.4}))
    assert (unchecked.operators, unchecked.paths) == (calm.operators, calm.paths)


def test_a_network_is_not_solved_beside_one_that_is_beyond_belief() -> None:
    """Once a fit is at the most that is believed, no other process of the window can make the time longer."""
    share = single_executors({"matcher": 0.4})
    met = ReplayedLatency(one_queue(1.0), poisson(20.0)).predict(share)[0].seconds
    model = one_queue(1.5 * met)
    wild, calm = CountedNetwork(model, {"wild": WILD}), CountedNetwork(model, {"calm": MAP.poisson(20.0)})
    replayed = ReplayedLatency(model, poisson(20.0))
    [told] = CheckedLatency([CheckedWindow("w", [wild, calm], replayed)]).predict(share)
    assert told.seconds == pytest.approx(2.0 * met)
    assert (wild.asked, calm.asked) == (1, 0)
    [same] = CheckedLatency([CheckedWindow("w", [calm, wild], replayed)]).predict(share)
    assert same.seconds == told.seconds


def test_a_window_that_cannot_be_the_worst_is_not_solved() -> None:
    """A window whose replay times the factor is below what another window came to needs no queue."""
    share = single_executors({"matcher": 0.4})
    long, short = (ReplayedLatency(one_queue(1.0), poisson(rate)).predict(share)[0].seconds for rate in (24.0, 20.0))
    assert short < long
    model = one_queue(1.2 * long)
    assert 2.0 * short > 1.2 * long  # the bound is undecided for both
    first, second = CountedNetwork(model, {"fit": MAP.poisson(20.0)}), CountedNetwork(model, {"fit": WILD})
    windows = [
        CheckedWindow("calm", [first], ReplayedLatency(model, poisson(20.0))),
        CheckedWindow("busy", [second], ReplayedLatency(model, poisson(24.0))),
    ]
    [told] = CheckedLatency(windows).predict(share)
    assert told.seconds == pytest.approx(2.0 * long)
    assert (first.asked, second.asked) == (0, 1)


@pytest.mark.parametrize(("windows", "believed"), [([], 2.0), (None, 0.5)])
def test_no_window_and_no_belief_are_refused(windows: list[CheckedWindow] | None, believed: float) -> None:
    """There must be a window, and a fit is believed at least as far as its window went."""
    model = one_queue(1.0)
    one = CheckedWindow("w", [PipelineLatency(model, {"fit": MAP.poisson(20.0)})], None)
    with pytest.raises(ConfigurationError, match="windows: give at least one" if windows == [] else "at least 1"):
        CheckedLatency([one] if windows is None else windows, believed)
