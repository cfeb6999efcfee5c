# SPDX-License-Identifier: Apache-2.0
"""Pipelines as models: graphs that can be, paths with objectives, bounds that are possible."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigurationError
from penstock.markov import PH
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.records import Objective
from penstock.topology import ARRIVALS, Stream

QUICK = RecordDemand(PH.erlang(2, mean=0.01))
WITHIN = Objective("p95", 0.5)


def operator(name: str, *inputs: str, selectivity: float = 1.0) -> OperatorModel:
    """An operator with a small demand."""
    return OperatorModel(name, QUICK, inputs, selectivity)


def test_paths_order_and_visits_follow_the_graph() -> None:
    """Operators come after those they read from, each way to a sink is a path, and selectivities multiply and add."""
    pipeline = PipelineModel(
        [
            operator("d", "b", "c"),
            operator("b", "a"),
            operator("a", selectivity=0.5),
            operator("c", "a", selectivity=3.0),
        ],
        WITHIN,
    )
    assert pipeline.order == ("a", "b", "c", "d")
    assert set(pipeline.paths) == {("a", "b", "d"), ("a", "c", "d")}
    assert pipeline.visits == {"a": 1.0, "b": 0.5, "c": 0.5, "d": 0.5 + 1.5}


@pytest.mark.parametrize(
    ("operators", "named"),
    [
        ([], "operators: give at least one"),
        ([operator("a"), operator("a")], "'a' is named twice"),
        ([operator("a", "z")], "z -> a: 'z' is not one of"),
        ([operator("a", "c"), operator("b", "a"), operator("c", "b")], "is a cycle"),
        ([operator("a", "a")], "a -> a is a cycle"),
    ],
)
def test_graphs_that_cannot_be_are_refused(operators: list[OperatorModel], named: str) -> None:
    """Cycles are shown in the direction of the records; names must be known and unique."""
    with pytest.raises(ConfigurationError, match=named):
        PipelineModel(operators, WITHIN)


def test_every_path_needs_an_objective_and_only_paths_have_one() -> None:
    """Missing and unknown paths are all listed at once."""
    fork = [operator("a"), operator("b", "a"), operator("c", "a")]
    with pytest.raises(ConfigurationError) as caught:
        PipelineModel(fork, {("a", "b"): WITHIN, ("b", "c"): WITHIN})
    assert "path a -> c has no objective" in str(caught.value)
    assert "objective of b -> c: there is no such path" in str(caught.value)
    with pytest.raises(ConfigurationError, match="give a latency bound"):
        PipelineModel(fork, Objective())
    both = PipelineModel(fork, {("a", "b"): Objective("mean", 0.2), ("a", "c"): WITHIN})
    assert (both.bound(("a", "b")), both.probability(("a", "b"))) == (0.2, None)
    assert (both.bound(("a", "c")), both.probability(("a", "c"))) == (0.5, 0.95)


def test_a_bound_below_the_serving_time_is_impossible() -> None:
    """The message names the path, the bound, and what serving alone takes at full share."""
    slow = [OperatorModel("a", RecordDemand(PH.exponential(mean=0.1))), operator("b", "a")]
    PipelineModel(slow, Objective("mean", 0.12)).require_possible()
    with pytest.raises(
        ConfigurationError, match=r"a -> b: mean within 100 ms is impossible: serving alone takes 110 ms"
    ):
        PipelineModel(slow, Objective("mean", 0.1)).require_possible()
    # At 40 % CPU the same takes 275 ms.
    with pytest.raises(ConfigurationError, match="275 ms at 40%"):
        PipelineModel(slow, Objective("mean", 0.2)).require_possible(share=0.4)


def test_possible_percentiles_are_those_of_the_serving_time() -> None:
    """An exponential time of mean 0.1 s has its 95th percentile at 0.3 s: below it nothing helps."""
    alone = [OperatorModel("a", RecordDemand(PH.exponential(mean=0.1)))]
    PipelineModel(alone, Objective("p95", 0.3)).require_possible()
    with pytest.raises(ConfigurationError, match="300 ms"):
        PipelineModel(alone, Objective("p95", 0.299)).require_possible()


def test_a_batch_takes_its_fixed_time_at_least() -> None:
    """Micro-batches cannot be faster than a batch of one record."""
    batches = [OperatorModel("a", BatchDemand(fixed_seconds=0.4, per_record_seconds=0.1))]
    PipelineModel(batches, Objective("p95", 0.5)).require_possible()
    with pytest.raises(ConfigurationError, match="500 ms"):
        PipelineModel(batches, Objective("p95", 0.45)).require_possible()


def test_selectivity_must_be_positive() -> None:
    """An operator that gives nothing on has no readers."""
    with pytest.raises(ConfigurationError, match="operator a: selectivity"):
        operator("a", selectivity=0.0)


def test_streams_may_have_a_selectivity_of_their_own() -> None:
    """It multiplies the operator's; the arrivals may be one input of several; other operators' streams are refused."""
    fork = [
        operator("a", selectivity=2.0),
        OperatorModel("b", QUICK, (Stream("a", "b", 0.25),)),
        OperatorModel("c", QUICK, (Stream("a", "c"), ARRIVALS)),
    ]
    assert PipelineModel(fork, WITHIN).visits == {"a": 1.0, "b": 0.5, "c": 3.0}
    with pytest.raises(ConfigurationError, match=r"a -> b leads to another operator; give streams into c"):
        OperatorModel("c", QUICK, (Stream("a", "b"),))
