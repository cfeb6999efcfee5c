# SPDX-License-Identifier: Apache-2.0
"""Replies of an agent that stay below what a controller takes, however much a batch has to say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.adaptors.agent.client import RemoteOperator
from penstock.adaptors.agent.outbox import Outbox
from penstock.adaptors.agent.server import OperatorAgent
from penstock.adaptors.agent.wire import REPLY_LIMIT_BYTES, frame_of
from penstock.records import BatchProgress, SourceProgress, Telemetry
from penstock.testing.fakes import FakeActuator, FakeMetricSource


class OpenableActuator(FakeActuator):
    """An actuator whose shares can be opened."""

    def open_shares(self) -> None:
        """Nothing to open."""


def a_wide_batch(batch_id: int, partitions: int) -> BatchProgress:
    """A batch of a topic with so many partitions: its offsets name each of them, at both ends."""
    ends = [
        json.dumps({"a-topic-with-a-name": {str(p): 10_000_000 + batch_id + more for p in range(partitions)}})
        for more in (0, 100)
    ]
    source = SourceProgress("KafkaV2[Subscribe[a-topic-with-a-name]]", ends[0], ends[1], ends[1], partitions * 100)
    return BatchProgress("a", "q", "r", batch_id, 0.0, 1.0, partitions * 100, {}, (source,))


def test_batches_of_a_wide_topic_all_reach_the_controller(tmp_path: Path) -> None:
    """500 batches of 700 partitions are more than one reply may hold: they come in several, in order."""
    batches = tuple(a_wide_batch(number, 700) for number in range(500))
    source = FakeMetricSource([Telemetry("a", 1.0, batches)])
    path = tmp_path / "s" / "a.sock"
    with OperatorAgent("a", source, OpenableActuator(), path, on_stop=lambda: None):
        remote = RemoteOperator(path, timeout_seconds=60.0)
        seen: list[int] = []
        for _ in range(50):
            seen += [batch.batch_id for batch in remote.collect().batches]
            if len(seen) == 500:
                break
        remote.close()
    assert seen == list(range(500))


def an_outbox(*batches: BatchProgress, most_bytes: int) -> Outbox:
    """An outbox with batches that wait."""
    return Outbox(FakeMetricSource([Telemetry("a", 1.0, batches)]), 500, 10_000, bytes_per_reply=most_bytes)


def test_a_batch_that_no_reply_can_hold_is_left_out_and_named() -> None:
    """It would be offered for ever; those behind it are reported, with a fault in its place."""
    outbox = an_outbox(a_wide_batch(1, 2), a_wide_batch(2, 500), a_wide_batch(3, 2), most_bytes=3000)
    seen = outbox.next_reply(0).telemetry
    assert [batch.batch_id for batch in seen.batches] == [1, 3]
    assert any("batch 2" in fault for fault in seen.faults)


def test_a_reply_that_was_lost_comes_again_in_the_same_bounds() -> None:
    """What was not confirmed comes first, and the rest with the replies after."""
    outbox = an_outbox(*(a_wide_batch(number, 2) for number in range(6)), most_bytes=2000)
    first = outbox.next_reply(0)
    again = outbox.next_reply(0)
    ids = [[batch.batch_id for batch in reply.telemetry.batches] for reply in (first, again)]
    assert ids[0] == ids[1]
    assert 0 < len(ids[0]) < 6
    then = outbox.next_reply(again.number).telemetry
    assert then.batches[0].batch_id == len(ids[0])


@pytest.mark.parametrize("length", [10, 1_000_000])
def test_faults_without_end_are_bounded(length: int) -> None:
    """The newest are kept, each cut to a length that can be read; how many went is said."""
    outbox = an_outbox(most_bytes=1_000_000)
    for number in range(5000):
        outbox.add_fault(f"{number:04d} " + "x" * length if number > 4990 else f"{number:04d} x")
    reply = outbox.next_reply(0)
    faults = reply.telemetry.faults
    assert len(frame_of(reply)) < REPLY_LIMIT_BYTES // 8
    assert any(fault.startswith("4999 ") for fault in faults)
    assert any("4900 earlier faults" in fault for fault in faults)
