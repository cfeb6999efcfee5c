# SPDX-License-Identifier: Apache-2.0
"""The simulated cluster has one executor size and one node, and says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.errors import ActuationRejectedError
from penstock.records import Action, Allocation, ExecutorSize
from penstock.simulator.ports import SimulatedActuator


@pytest.mark.parametrize(
    ("target", "part"),
    [(Allocation(1, 1.0, ExecutorSize(2, "1g", worth=2.0)), "size"), (Allocation(1, 1.0, nodes=(("a", 1),)), "nodes")],
)
def test_what_it_does_not_know_is_refused(target: Allocation, part: str) -> None:
    """Nothing is asked of the operator."""

    simulation = cast("Any", SimpleNamespace(operators={"a": None}))
    with pytest.raises(ActuationRejectedError, match=rf"^{part}: the simulator has one"):
        SimulatedActuator(simulation, "a").request(Action("a", 0.0, target, None))
