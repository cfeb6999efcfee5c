# SPDX-License-Identifier: Apache-2.0
"""MEAD on simulated pipelines: it meets what it can, for less, and says why."""

import numpy as np
import pytest
from penstock.evaluation.simulated_mead import WorkloadAnalyst, simulated_mead
from penstock.evaluation.simulated_policies import simulated_policy, simulated_policy_names

from penstock.errors import ConfigurationError
from penstock.evaluation.simulation import simulate
from penstock.evaluation.simulation_result import SimulationResult
from penstock.markov import MAP
from penstock.records import Limits, Objective
from penstock.simulator import Operator, Pipeline, Stream
from penstock.simulator.service import erlang

LEVELS = Limits(cpu_shares=(0.4, 0.55, 0.7, 0.85, 1.0))


def two_operators() -> Pipeline:
    """A parser and a matcher, the matcher with most of the work."""
    return Pipeline(
        (
            Operator("parser", erlang(2, 0.002), limits=LEVELS),
            Operator("matcher", erlang(2, 0.010), limits=LEVELS),
        ),
        (Stream("arrivals", "parser"), Stream("parser", "matcher")),
    )


def bursty(count: int, seed: int = 3) -> np.ndarray:
    """Arrival times at 30 per second on average: 90 per second a quarter of the time, 10 otherwise."""
    process = MAP.mmpp([[-0.6, 0.6], [0.2, -0.2]], [90.0, 10.0])
    return np.cumsum(process.sample(count, np.random.default_rng(seed)))


def mean_of(result: SimulationResult) -> float:
    """Mean latency of the only path."""
    latency = result.paths[0].latency
    assert latency is not None
    return latency.mean_seconds


def test_mead_gives_more_for_bursts_than_a_model_that_sees_none() -> None:
    """On a bursty trace MEAD takes more CPU than its planning with M/G/1, keeps the bound where that breaks it."""
    times, objective = bursty(6000), Objective("mean", 0.1)
    options = "window=2000,best=1,max_states=4,every_seconds=50s"
    results = {
        name: simulate(times, two_operators(), simulated_policy(f"{name}:{options}"), objective, seed=1)
        for name in ("mead", "m/g/1")
    }
    mead, blind = results["mead"], results["m/g/1"]
    assert (mead.policy, blind.policy) == ("mead", "m/g/1")
    assert blind.cpu_share_mean < mead.cpu_share_mean < 1.0
    assert mean_of(mead) < mean_of(blind)
    assert all(change.reason and change.evidence["worst_model"] for change in mead.changes)


def test_the_same_arrivals_are_analysed_once() -> None:
    """Runs that share an analyst share its fits: a second one finds the very same processes."""
    analyst = WorkloadAnalyst(window=2000, best=1)
    times = bursty(3000)
    first, again = ({k: m for w in analyst.windows(times) for k, m in w.processes.items()} for _ in range(2))
    assert list(first) == ["window 2000, fit 1", "window 1000, fit 1"]
    assert all(first[label] is again[label] for label in first)


def test_without_arrivals_everything_stays_as_it_is() -> None:
    """Before there are enough arrivals for a fit the operators keep the top level."""
    times = np.linspace(0.0, 100.0, 50)
    result = simulate(times, two_operators(), simulated_mead(every_seconds=10.0), Objective("mean", 0.1), seed=0)
    assert result.changes == ()
    assert result.cpu_share_mean == 1.0


def test_wrong_options_are_told() -> None:
    """An unknown option or a wrong value names the policy and what is wrong."""
    assert {"mead", "m/g/1", "gi/g/1"} <= set(simulated_policy_names())
    with pytest.raises(ConfigurationError, match="speed"):
        simulated_policy("mead:speed=3")
    with pytest.raises(ConfigurationError, match="sub_windows"):
        simulated_policy("mead:sub_windows=99")


def test_a_backlog_between_plans_gets_the_top_level_until_it_is_gone() -> None:
    """A burst after the plan raises the matcher at the next look, and it goes back to the plan when that is over."""
    calm = np.arange(0.0, 200.0, 0.05)
    burst = np.linspace(121.0, 131.0, 800)
    times = np.sort(np.concatenate([calm, burst]))
    options = "window=1000,best=1,max_states=2,every_seconds=60s"
    objective = Objective("mean", 0.5)
    watched, published = (
        simulate(times, two_operators(), simulated_policy(f"{text}{options}"), objective, seed=1)
        for text in ("mead:", "mead:rescue_every=null,")
    )
    raised = [c for c in watched.changes if c.target.cpu_share == 1.0]
    assert [c.operator for c in raised] == ["matcher"]
    assert "records wait" in raised[0].reason
    assert raised[0].at % 60.0 != 0.0
    (back,) = (c for c in watched.changes if c.reason.startswith("no backlog any more"))
    assert back.at > raised[0].at
    assert all(c.at % 60.0 == 0.0 for c in published.changes)
    assert mean_of(watched) < mean_of(published)


def test_a_policy_starts_anew_with_every_run() -> None:
    """One policy object gives the same result in a second run, and so does its twin that shares its predictions."""
    times, objective = bursty(3000), Objective("mean", 0.1)
    policy = simulated_mead(window=1000, best=1, max_states=2, every_seconds=20.0)
    results = [simulate(times, two_operators(), one, objective, seed=1) for one in (policy, policy, policy.again())]
    assert len({result.cpu_share_mean for result in results}) == 1
    assert len({len(result.changes) for result in results}) == 1
