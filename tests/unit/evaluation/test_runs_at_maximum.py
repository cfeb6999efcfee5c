# SPDX-License-Identifier: Apache-2.0
"""Throughput that a run itself shows: only batches behind which a full one waits, on nodes that stay the same."""

from __future__ import annotations

from penstock.evaluation.runs_at_maximum import samples_at_maximum
from penstock.records import Allocation, ClusterState, Observation, Quality

ONE, TWO = Allocation(1, nodes=(("a", 1),)), Allocation(2, nodes=(("a", 1), ("b", 1)))
CAP = 100


def look(at: float, batch: int, done: int, has: Allocation | None, backlog: int | None = 500) -> Observation:
    """One at which this was the newest batch."""
    return Observation(
        "rides", at, 10.0, Quality.GOOD, backlog_records=backlog, last_batch_id=batch, records_done=done,
        cluster=ClusterState(has, has, has),
    )  # fmt: skip


def test_batches_of_the_same_nodes_make_a_sample_every_few_seconds() -> None:
    """Ten records a second from the third batch on; the two before, which are slower, do not count."""
    ends = [(0.0, 0), (20.0, 20), *((20.0 + 2.0 * n, 20 + 20 * n) for n in range(1, 15))]
    found = samples_at_maximum([look(at, n, done, ONE) for n, (at, done) in enumerate(ends)], CAP)
    assert [(sample.allocation, sample.records_per_second) for sample in found] == [(ONE, 10.0), (ONE, 10.0)]


def test_what_is_done_with_little_waiting_or_on_changing_nodes_is_none() -> None:
    """A batch after which less than a full one waits, looks without executors, and too short a time on the same."""
    calm = [look(2.0 * n, n, 20 * n, ONE, backlog=50) for n in range(20)]
    unknown = [look(2.0 * n, n, 20 * n, None) for n in range(20)]
    changing = [look(2.0 * n, n, 20 * n, (ONE, TWO)[n // 5 % 2]) for n in range(20)]
    nothing = [look(2.0 * n, n, 20 * n, ONE, backlog=None) for n in range(20)]
    assert [samples_at_maximum(seen, CAP) for seen in (calm, unknown, changing, nothing)] == [[]] * 4
