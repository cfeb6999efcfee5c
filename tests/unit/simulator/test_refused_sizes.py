# SPDX-License-Identifier: Apache-2.0
"""The simulated cluster has one executor size, and no nodes but those of the limits; it says so."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ActuationRejectedError
from penstock.records import Action, Allocation, ExecutorSize, Limits
from penstock.simulator import MicroBatch, Operator, Pipeline, Simulation
from penstock.simulator.ports import SimulatedActuator


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (Allocation(1, 1.0, ExecutorSize(2, "1g", worth=2.0)), "size: the simulator has one executor size"),
        (Allocation(1, 1.0, nodes=(("a", 1),)), "nodes: the simulated operator has no nodes"),
    ],
)
def test_what_it_does_not_know_is_refused(target: Allocation, words: str) -> None:
    """Nothing is asked of the operator."""
    pipeline = Pipeline.of_one(Operator("a", MicroBatch(0.1, 0.001), limits=Limits(1, 2)))
    simulation = Simulation(pipeline, np.array([0.0]))
    with pytest.raises(ActuationRejectedError, match=rf"^{words}"):
        SimulatedActuator(simulation, "a").request(Action("a", 0.0, target, None))
    assert simulation.operators["a"].asked == Allocation(2)


def test_a_node_that_is_not_among_the_limits_is_refused() -> None:
    """The message names the nodes that there are."""
    limits = Limits(1, 2, nodes=("a", "b"), executors_per_node=1)
    pipeline = Pipeline.of_one(Operator("a", MicroBatch(0.1, 0.001), limits=limits))
    with pytest.raises(ActuationRejectedError, match=r"may have \(a, b\)"):
        SimulatedActuator(Simulation(pipeline, np.array([0.0])), "a").request(
            Action("a", 0.0, Allocation(1, nodes=(("c", 1),)), None)
        )
