# SPDX-License-Identifier: Apache-2.0
"""A query is ended between two batches, and in one only when that takes too long; its agent stays for the last word."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.adaptors.agent.client import RemoteOperator
from penstock.adaptors.agent.server import OperatorAgent
from penstock.adaptors.spark import border_stop
from penstock.adaptors.spark.border_stop import BorderStop, stop_at_border
from penstock.errors import ActuationRejectedError
from penstock.records import BatchProgress, Telemetry
from penstock.testing.fakes import FakeActuator, FakeMetricSource


class FakeQuery:
    """A query whose running batch ends after so many looks; infinite looks: it never does."""

    def __init__(
        self,
        looks: float,
        *,
        asleep: bool = False,
        thread: str = "TIMED_WAITING",
        knows_state: bool = True,
        committed: int = 4,
    ) -> None:
        self.left, self.asleep, self.stops, self.is_told = looks, asleep, 0, False
        self.thread = thread
        self.committed = committed
        self._jsq = SimpleNamespace(streamingQuery=lambda: self._execution() if knows_state else object())

    def _execution(self) -> Any:
        module = SimpleNamespace(getField=lambda _: SimpleNamespace(get=lambda _: "TERMINATED"))
        kind = SimpleNamespace(getPackage=lambda: SimpleNamespace(getName=lambda: "org.x"))
        loader = SimpleNamespace(loadClass=lambda _: module)
        return SimpleNamespace(
            state=lambda: SimpleNamespace(get=lambda: SimpleNamespace(getClass=lambda: kind), set=self._set),
            getClass=lambda: SimpleNamespace(getClassLoader=lambda: loader),
            queryExecutionThread=lambda: SimpleNamespace(
                isAlive=self._is_alive, getState=lambda: SimpleNamespace(name=lambda: self.thread)
            ),
            offsetLog=lambda: _log(5),
            commitLog=lambda: _log(self.committed),
        )

    def _set(self, state: str) -> None:
        self.is_told = state == "TERMINATED"

    def _is_alive(self) -> bool:
        self.left -= 1
        return self.left > 0

    @property
    def status(self) -> dict[str, bool]:
        """Whether a batch runs."""
        return {"isTriggerActive": not self.asleep}

    def stop(self) -> None:
        """Interrupt."""
        self.stops += 1


def _log(newest: int) -> Any:
    """A log of batches with its newest, which py4j gives as an object of Java's."""
    option = SimpleNamespace(number=newest, equals=lambda other: other.number == newest)
    return SimpleNamespace(getLatestBatchId=lambda: option)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look without waiting."""
    monkeypatch.setattr(border_stop, "_LOOK_EVERY_SECONDS", 0.0)


def end(query: FakeQuery, **options: Any) -> BorderStop:
    """Stop it under a clock that goes by a second a look."""
    ticks = iter(range(10_000))
    return stop_at_border(query, 20.0, monotonic=lambda: float(next(ticks)), **options)  # type: ignore[arg-type]


def test_the_running_batch_is_awaited() -> None:
    """The query is told first, and stopped only when its thread has ended."""
    query = FakeQuery(looks=8)
    assert end(query) is BorderStop.AT_BORDER
    assert (query.is_told, query.left, query.stops) == (True, 0, 1)


def test_a_batch_that_takes_too_long_is_stopped() -> None:
    """It will be run again, and that is said."""
    query = FakeQuery(looks=float("inf"))
    assert end(query) is BorderStop.IN_BATCH
    assert query.stops == 1


def test_a_batch_that_is_committed_although_it_was_stopped_will_not_be_run_again() -> None:
    """Spark may commit the batch that it interrupts; what is said follows the logs."""
    query = FakeQuery(looks=float("inf"), committed=5)
    assert end(query) is BorderStop.AT_BORDER
    assert query.stops == 1


def test_a_hurry_ends_the_wait() -> None:
    """Told to end at once, it does."""
    hurry = threading.Event()
    hurry.set()
    assert end(FakeQuery(looks=float("inf")), hurry=hurry) is BorderStop.IN_BATCH


def test_a_query_between_two_triggers_is_not_waited_for() -> None:
    """Asleep, it has no batch to lose."""
    query = FakeQuery(looks=float("inf"), asleep=True, committed=5)
    assert end(query) is BorderStop.AT_BORDER
    assert query.stops == 1


def test_a_query_that_began_a_batch_at_the_last_moment_is_reported_as_that() -> None:
    """It seemed asleep, and was stopped in a batch that it had just planned: the logs say so."""
    assert end(FakeQuery(looks=float("inf"), asleep=True, committed=4)) is BorderStop.IN_BATCH


def test_a_thread_that_only_got_no_cpu_is_waited_for() -> None:
    """Between two batches without a pause no trigger is active either, but the thread does not sleep."""
    query = FakeQuery(looks=12, asleep=True, thread="RUNNABLE")
    assert end(query) is BorderStop.AT_BORDER
    assert (query.is_told, query.stops) == (True, 1)
    assert query.left <= 0, "it ended by itself"


def test_a_spark_without_that_state_is_stopped_as_always() -> None:
    """Where the query's thread cannot be told, a batch may be run again, and that is said."""
    query = FakeQuery(looks=float("inf"), knows_state=False)
    assert end(query) is BorderStop.IN_BATCH
    assert query.stops == 1


# --- the agent ---


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short, for sockets."""
    return tmp_path_factory.mktemp("b") / "a"


@pytest.fixture
def asked() -> list[float]:
    """What the operator was told."""
    return []


class OpenActuator(FakeActuator):
    """With nothing to open."""

    def open_shares(self) -> None:
        """Nothing."""


@pytest.fixture
def remote(folder: Path) -> Iterator[RemoteOperator]:
    """A controller."""
    made = RemoteOperator(folder / "s", timeout_seconds=10)
    yield made
    made.close()


def an_agent(folder: Path, source: FakeMetricSource, **options: Any) -> OperatorAgent:
    """An agent that gives two batches a reply."""
    return OperatorAgent(
        "operator", source, OpenActuator(), folder / "s", on_stop=lambda: None, batches_per_reply=2, **options
    )


def test_the_operator_is_told_how_long_its_batch_may_take(
    folder: Path, remote: RemoteOperator, asked: list[float]
) -> None:
    """The seconds arrive; a time that is none is refused."""
    with an_agent(folder, FakeMetricSource(), on_stop_at_border=asked.append):
        remote.stop_at_border(12.5)
        assert asked == [12.5]
        with pytest.raises(ActuationRejectedError, match="seconds"):
            remote.stop_at_border(-1.0)


def test_an_operator_that_cannot_says_so(folder: Path, remote: RemoteOperator) -> None:
    """One whose query is not Penstock's own has no such verb."""
    with (
        an_agent(folder, FakeMetricSource()),
        pytest.raises(ActuationRejectedError, match="cannot be stopped at a batch border"),
    ):
        remote.stop_at_border(1.0)


def test_the_agent_waits_until_all_batches_were_collected(folder: Path, remote: RemoteOperator) -> None:
    """Three batches take two replies: after the first there is more to tell."""
    source = FakeMetricSource()
    with an_agent(folder, source) as agent:
        batches = tuple(BatchProgress("operator", "q", "r", i, 0.0, 1.0, 0, {}, ()) for i in range(3))
        source.push(Telemetry("operator", 1.0, batches))
        source.push(Telemetry("operator", 2.0))
        assert not agent.await_last_collect(0.0)
        assert [b.batch_id for b in remote.collect().batches] == [0, 1]
        assert not agent.await_last_collect(0.05)
        assert [b.batch_id for b in remote.collect().batches] == [2]
        assert agent.await_last_collect(10.0)
