# SPDX-License-Identifier: Apache-2.0
"""The actuator and metric-source contracts, in process and over the agent's socket."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from penstock.adaptors.agent.client import RemoteOperator
from penstock.adaptors.agent.server import LeasedActuator, OperatorAgent
from penstock.adaptors.spark.actuator import SparkActuator
from penstock.adaptors.spark.scaling import ExecutorScaler
from penstock.errors import MetricSourceError
from penstock.ports import Actuator, MetricSource
from penstock.records import Allocation, BatchProgress, Telemetry
from penstock.testing.check_actuator import check_actuator
from penstock.testing.fake_cluster import FakeCluster
from penstock.testing.fakes import FakeActuator, FakeMetricSource


class World(FakeCluster):
    """A cluster whose allocation is seen from outside."""

    @property
    def allocation(self) -> Allocation:
        """What is in force."""
        return Allocation(len(self.on), 1.0 if self.share is None else self.share)


class OpenableActuator(FakeActuator):
    """A fake actuator that an agent can serve."""

    def open_shares(self) -> None:
        """Nothing is capped."""


class Made:
    """Makes actuators and sources of one kind, and remembers what is behind them."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self._folder = folder
        self._behind: dict[int, Callable[[], Allocation]] = {}
        self._closers: list[Callable[[], None]] = []

    def actuator(self) -> Actuator:
        """A new actuator in one known state."""
        inner: LeasedActuator
        if self.kind.startswith("spark"):
            world = World()
            inner = SparkActuator(ExecutorScaler(world), reconcile_every_seconds=0.005, warm_seconds=0.0)
            observe = self._allocation_of(world)
        else:
            fake = OpenableActuator()
            inner, observe = fake, lambda: fake.observed
        outer: Actuator = inner
        if self.kind.endswith("socket"):
            outer = self._serve(FakeMetricSource(), inner)
        self._behind[id(outer)] = observe
        return outer

    def source(self, script: Sequence[Telemetry | Exception]) -> MetricSource:
        """A source that plays a script."""
        fake = FakeMetricSource(script)
        return self._serve(fake, OpenableActuator()) if self.kind.endswith("socket") else fake

    def observe(self, actuator: Actuator) -> Allocation:
        """What is in force behind an actuator."""
        return self._behind[id(actuator)]()

    def settle(self, actuator: Actuator) -> None:
        """Wait until nothing has changed for a while: many rounds of the actuator's thread."""
        seen, since = self.observe(actuator), time.monotonic()
        while time.monotonic() - since < 0.1:
            threading.Event().wait(0.005)
            if self.observe(actuator) != seen:
                seen, since = self.observe(actuator), time.monotonic()

    def close(self) -> None:
        """End what was started."""
        for close in reversed(self._closers):
            close()

    def _serve(self, source: MetricSource, actuator: LeasedActuator) -> RemoteOperator:
        path = self._folder / f"{len(self._closers)}" / "agent.sock"
        agent = OperatorAgent("operator", source, actuator, path, on_stop=lambda: None).start()
        remote = RemoteOperator(path, timeout_seconds=10)
        self._closers += [agent.close, remote.close]
        return remote

    @staticmethod
    def _allocation_of(world: World) -> Callable[[], Allocation]:
        return lambda: world.allocation


@pytest.fixture(params=["fake", "fake over a socket", "spark", "spark over a socket"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """Each way an operator can be reached."""
    factory = Made(request.param, tmp_path_factory.mktemp("c"))
    yield factory
    factory.close()


def test_an_actuator_keeps_its_promises(made: Made) -> None:
    """Requests are one by their id, the newest wins, release puts all back."""
    check_actuator(made.actuator, made.observe, made.settle, sizes=(Allocation(3, 0.5), Allocation(2, 1.0)))


def test_a_source_gives_each_batch_once_and_in_order(made: Made) -> None:
    """Batches come in order, once, with everything else of a look; a failed look loses none."""
    batches = [BatchProgress("operator", "q", "r", i, float(i), i + 0.5, 3, {}, ()) for i in range(4)]
    looks: list[Telemetry | Exception] = [
        Telemetry("operator", 1.0, tuple(batches[:2]), is_running=True, faults=("a gap",)),
        MetricSourceError("no answer", retryable=True),
        Telemetry("operator", 3.0, tuple(batches[2:]), is_running=False),
    ]
    source = made.source(looks)
    first = source.collect()
    with pytest.raises(MetricSourceError, match="no answer"):
        source.collect()
    second = source.collect()
    assert [first, second] == [looks[0], looks[2]]
