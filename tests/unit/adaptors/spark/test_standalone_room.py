# SPDX-License-Identifier: Apache-2.0
"""How many executors a standalone cluster can give, from what its master says."""

from __future__ import annotations

from typing import Any, cast

import pytest
from py4j.protocol import Py4JError

from penstock.adaptors.spark.standalone_room import FreeWorker, MasterState, StandaloneRoom, executor_room
from penstock.errors import MetricSourceError
from penstock.records import ExecutorRoom


def test_each_worker_counts_for_itself_and_by_what_it_lacks() -> None:
    """Three cores on two workers are no executor of two cores on each; the second worker has no memory."""
    state = MasterState([FreeWorker(3, 9000), FreeWorker(8, 1000)], 2, None)
    assert executor_room(state, 2, 1024) == ExecutorRoom(
        3, "no worker has room for one more; an executor takes 2 cores and 1024 MB"
    )


def test_an_application_that_is_bounded_gets_no_more() -> None:
    """The least bound counts, and is named."""
    state = MasterState([FreeWorker(100, 100_000)], 1, 5)
    assert executor_room(state, 2, 512) == ExecutorRoom(2, "spark.cores.max is 5; an executor takes 2 cores and 512 MB")


def test_executors_that_it_has_are_counted_where_nothing_is_free() -> None:
    """A full cluster, and one without workers."""
    assert executor_room(MasterState([FreeWorker(0, 0)], 4, None), 1, 512).executors == 4
    assert executor_room(MasterState([], 0, None), 1, 512).executors == 0


class Context:
    """An application with two masters, whose answers the test gives by their hosts."""

    applicationId = "app-1"  # noqa: N815  # Spark's name

    def __init__(self, master: str) -> None:
        self.master = master
        self._jsc = self

    def sc(self) -> Context:
        """The Scala context, which is this too."""
        return self

    def executorMemory(self) -> int:  # Spark's name
        """In MiB."""
        return 512

    def schedulerBackend(self) -> Context:  # Spark's name
        """And so is this."""
        return self

    def rpcEnv(self) -> None:  # Spark's name
        """Not looked at here."""


class Answer:
    """What a master says of itself, no more."""

    def __init__(self, status: str) -> None:
        self._status = status

    def status(self) -> Answer:
        """An enumeration's value."""
        return self

    def toString(self) -> str:  # Java's name
        """Its name."""
        return self._status


class Room(StandaloneRoom):
    """Asks no real master."""

    def __init__(self, master: str, answers: dict[str, str | Exception]) -> None:
        super().__init__(cast("Any", Context(master)), 1)
        self.answers = answers
        self.read: list[str] = []

    def _ask(self, rpc: Any, place: str) -> Any:
        answer = self.answers[place]
        if isinstance(answer, Exception):
            raise answer
        return Answer(answer)

    def _read(self, answer: Any) -> MasterState:
        return MasterState([FreeWorker(4, 4096)], 1, None)


def test_of_several_masters_the_one_that_leads_is_believed() -> None:
    """One is away, one waits."""
    answers = {"a:1": Py4JError("away"), "b:2": "STANDBY", "c:3": "ALIVE"}
    found = Room("spark://a:1,b:2,c:3", answers)()
    assert found is not None
    assert found.executors == 5


def test_where_none_leads_nothing_is_known() -> None:
    """That is a fault, and no answer."""
    with pytest.raises(MetricSourceError, match=r"no master of spark://a:1 leads"):
        Room("spark://a:1", {"a:1": "RECOVERING"})()
    with pytest.raises(MetricSourceError, match=r"spark://a:1,b:2 does not say what it can give: away"):
        Room("spark://a:1,b:2", {"a:1": Py4JError("away\nat x"), "b:2": "STANDBY"})()
