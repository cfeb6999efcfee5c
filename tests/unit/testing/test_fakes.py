# SPDX-License-Identifier: Apache-2.0
"""The fakes, and the actuator suite that they pass."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from penstock.errors import ActuationError, MetricSourceError
from penstock.records import Action, Allocation, ExecutorSize, Objective, Quality, Telemetry
from penstock.testing import (
    FakeActuator,
    FakeMetricSource,
    VirtualClock,
    a_request,
    an_observation,
    check_actuator,
)


def test_the_script_is_played_in_order_and_then_says_it_is_over() -> None:
    """Each call gives the next line, an exception is raised, and past the end a fault is named, not zeros."""
    clock = VirtualClock(50.0)
    first = Telemetry("parser", 1.0)
    source = FakeMetricSource([first, MetricSourceError("gone")], operator="parser", clock=clock)
    assert source.collect() is first
    with pytest.raises(MetricSourceError, match="gone"):
        source.collect()
    assert source.collect() == Telemetry("parser", 50.0, faults=("the script is over",))
    source.push(first)
    assert source.collect() is first
    assert source.calls == 4


def test_the_actuator_gets_there_late() -> None:
    """A request is in force after its lateness, not before."""
    clock = VirtualClock()
    actuator = FakeActuator(Allocation(1), clock=clock, lateness_seconds=5.0)
    actuator.request(Action("operator", 0.0, Allocation(2), None))
    clock.advance(4.9)
    assert actuator.observed == Allocation(1)
    clock.advance(0.1)
    assert actuator.observed == Allocation(2)


def test_a_failing_actuator_does_nothing() -> None:
    """With a failure set, a request raises it and leaves no trace."""
    actuator = FakeActuator()
    actuator.fail_with = ActuationError("refused")
    with pytest.raises(ActuationError, match="refused"):
        actuator.request(Action("operator", 0.0, Allocation(2), None))
    assert (actuator.requests, actuator.observed) == ([], Allocation(1))


@pytest.mark.parametrize("can_set_cpu_share", [True, False])
def test_the_fake_actuator_keeps_the_contract(can_set_cpu_share: bool) -> None:
    """The fake passes the suite that real actuators pass, with and without CPU shares."""
    clock = VirtualClock()
    check_actuator(
        lambda: FakeActuator(
            Allocation(1, 0.5), clock=clock, lateness_seconds=5.0, can_set_cpu_share=can_set_cpu_share
        ),
        lambda actuator: actuator.observed,
        lambda actuator: clock.advance(10.0),
        sizes=(Allocation(3, 0.7), Allocation(2, 1.0)),
    )


class Twice(FakeActuator):
    """Takes a repeated request id for a new request."""

    def request(self, action: Action) -> None:
        """Forget what was asked before."""
        self.requests.clear()
        super().request(action)


class Stays(FakeActuator):
    """Does not go back."""

    def release(self) -> None:
        """Leave all as it is."""


class FirstWins(FakeActuator):
    """Hears nothing while a request is on its way."""

    def request(self, action: Action) -> None:
        """Only when idle."""
        if self._pending is None:
            super().request(action)


@pytest.mark.parametrize(
    ("make", "words"), [(Twice, "repeated request id"), (Stays, "release left"), (FirstWins, "after")]
)
def test_the_suite_notices_broken_actuators(make: Callable[..., FakeActuator], words: str) -> None:
    """The suite itself can fail: each broken promise is reported."""
    clock = VirtualClock()
    with pytest.raises(AssertionError, match=words):
        check_actuator(
            lambda: make(clock=clock, lateness_seconds=5.0),
            lambda actuator: actuator.observed,
            lambda actuator: clock.advance(10.0),
        )


def test_a_request_agrees_with_its_observation() -> None:
    """What is given once stands in both request and observation."""
    request = a_request(at=7.0, operator="parser", current=Allocation(2), quality=Quality.STALE, utilisation=None)
    assert (request.observation.at, request.observation.operator) == (7.0, "parser")
    assert request.observation.cluster.observed == Allocation(2)
    assert (request.observation.quality, request.observation.utilisation) == (Quality.STALE, None)
    assert a_request(objective=Objective()).objective == Objective()
    with pytest.raises(TypeError, match="either observation or its fields"):
        a_request(observation=request.observation, utilisation=0.5)


def test_the_suites_need_no_test_framework() -> None:
    """Importing the testing package loads neither pytest nor hypothesis."""
    code = "import sys, penstock.testing; sys.exit(bool({'pytest', 'hypothesis'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_request_may_have_a_history() -> None:
    """Observations before the present one are the request's own, not a field of its observation."""
    before = an_observation(at=990.0)
    request = a_request(history=(before,), utilisation=0.9)
    assert request.history == (before,)
    assert request.observation.utilisation == 0.9


def test_the_actuator_keeps_size_and_nodes() -> None:
    """Whatever is chosen for an operator is observed again, not only executors and share."""
    wanted = Allocation(2, 0.5, ExecutorSize(4, "8g", worth=4.0), (("one", 1), ("two", 1)))
    actuator = FakeActuator()
    actuator.request(Action("operator", 0.0, wanted, None))
    assert actuator.observed == wanted
