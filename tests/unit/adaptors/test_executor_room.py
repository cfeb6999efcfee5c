# SPDX-License-Identifier: Apache-2.0
"""What a cluster can give, asked in the background."""

from __future__ import annotations

import threading

from penstock.adaptors.executor_room import RoomWatch
from penstock.errors import MetricSourceError
from penstock.records import ExecutorRoom

ROOM = ExecutorRoom(3, "the queue is full")


class Cluster:
    """Answers as the test says."""

    def __init__(self) -> None:
        self.answer: ExecutorRoom | Exception | None = ROOM
        self.asked = threading.Semaphore(0)

    def __call__(self) -> ExecutorRoom | None:
        """One answer."""
        self.asked.release()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_the_last_answer_is_kept() -> None:
    """Known from the start, and asked for again."""
    cluster = Cluster()
    watch = RoomWatch(cluster, every_seconds=0.001)
    watch.start()
    assert watch.room() == ROOM
    assert all(cluster.asked.acquire(timeout=60.0) for _ in range(3))
    watch.stop()
    assert not any(thread.name == "penstock-room" for thread in threading.enumerate())


def test_silence_is_no_answer() -> None:
    """What was said before does not hold, and the fault is told until it is over."""
    cluster = Cluster()
    watch = RoomWatch(cluster)
    watch.look()
    cluster.answer = MetricSourceError("it does not answer", target="yarn")
    watch.look()
    assert (watch.room(), watch.fault) == (None, "it does not answer")
    cluster.answer = ROOM
    watch.look()
    assert (watch.room(), watch.fault) == (ROOM, None)


def test_a_defect_is_told_and_ends_nothing() -> None:
    """The thread lives on."""
    cluster = Cluster()
    cluster.answer = ZeroDivisionError("oh")
    watch = RoomWatch(cluster)
    watch.look()
    assert watch.fault == "what the cluster can give is not known: ZeroDivisionError: oh"
