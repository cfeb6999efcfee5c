# SPDX-License-Identifier: Apache-2.0
"""The store of timestamps: exact for what was read, interpolated and told for what was passed over, bounded."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.adaptors.kafka.record_times import RecordTimes


def test_a_range_gives_its_records_times() -> None:
    """Times of an offset range are those of its records, in seconds, and exact."""
    known = RecordTimes(5, 100)
    known.add([5, 6, 7], [1000, 1500, 1500])
    found = known.between(6, 8)
    assert found is not None
    assert found.is_exact
    assert found.seconds.tolist() == [1.5, 1.5]
    assert known.position == 8
    assert known.newest_at == 1.5


def test_holes_hold_no_records() -> None:
    """Offsets without a record (transaction markers, compaction) add nothing and stay exact."""
    known = RecordTimes(0, 100)
    known.add([0, 1, 4], [1000, 2000, 3000])
    found = known.between(0, 5)
    assert found is not None
    assert found.is_exact
    assert found.seconds.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(("start", "end"), [(4, 6), (6, 9)])
def test_what_is_before_or_not_read_yet_is_not_known(start: int, end: int) -> None:
    """A range that begins before the tap or ends beyond it has no answer."""
    known = RecordTimes(5, 100)
    known.add([5, 6, 7], [1000, 2000, 3000])
    assert known.between(start, end) is None


def test_records_read_twice_count_once() -> None:
    """Records delivered again after a reconnection are not taken in again."""
    known = RecordTimes(0, 100)
    known.add([0, 1, 2], [1000, 2000, 3000])
    known.add([1, 2, 3], [2000, 3000, 4000])
    found = known.between(0, 4)
    assert found is not None
    assert found.seconds.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_times_never_fall() -> None:
    """A producer's clock that runs behind does not make a record older than the one ahead of it."""
    known = RecordTimes(0, 100)
    known.add([0, 1, 2], [2000, 1000, 3000])
    known.add([3], [2500])
    found = known.between(0, 4)
    assert found is not None
    assert found.seconds.tolist() == [2.0, 2.0, 3.0, 3.0]


def test_what_was_passed_over_is_interpolated_and_told() -> None:
    """Between two known records the passed ones lie evenly; the answer says that it is not exact."""
    known = RecordTimes(0, 100)
    known.add([0, 1], [0, 1000])
    known.skip_to(4)
    assert known.between(0, 4) is None  # nothing behind it yet
    assert known.known_to == 2
    known.add([4], [4000])
    found = known.between(0, 5)
    assert found is not None
    assert not found.is_exact
    assert found.seconds.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    whole = known.between(0, 2)
    assert whole is not None
    assert whole.is_exact


def test_the_oldest_are_forgotten_first() -> None:
    """Memory is bounded: ranges that reach into what was forgotten have no answer, newer ones are right."""
    known = RecordTimes(0, 10)
    for first in range(0, 200, 7):
        offsets = list(range(first, first + 7))
        known.add(offsets, [1000 * offset for offset in offsets])
    assert known.first == known.position - 10
    assert known.between(known.first - 1, known.position) is None
    found = known.between(known.first, known.position)
    assert found is not None
    assert found.seconds.tolist() == list(np.arange(known.first, known.position, dtype=float))


def test_more_at_once_than_is_kept_leaves_the_newest() -> None:
    """One large addition keeps as many of its newest as fit."""
    known = RecordTimes(0, 4)
    known.add(list(range(11)), [100 * n for n in range(11)])
    assert known.first == 7
    found = known.between(7, 11)
    assert found is not None
    assert found.seconds.tolist() == [0.7, 0.8, 0.9, 1.0]


def test_counts_by_instant() -> None:
    """The count at an instant is the offset after the last record up to then."""
    known = RecordTimes(10, 100, since=0.5)
    known.add([10, 11, 14], [1000, 2000, 3000])
    assert [known.count_by(at) for at in (0.7, 1.0, 1.5, 2.0, 2.9)] == [10, 11, 11, 12, 12]
    assert known.count_by(3.0) is None  # what came after, only the broker knows
    assert known.count_by(0.4) is None  # before it was watched


def test_counts_in_a_stretch_passed_over_are_interpolated() -> None:
    """Between known records the count rises evenly with time."""
    known = RecordTimes(0, 100)
    known.add([0], [0])
    known.skip_to(9)
    known.add([9], [10_000])
    assert known.count_by(5.0) == 5


def test_counts_among_the_forgotten_are_not_known() -> None:
    """Before the oldest record kept the count is None, never a guess."""
    known = RecordTimes(0, 2)
    known.add([0, 1, 2, 3], [0, 1000, 2000, 3000])
    assert known.count_by(1.5) is None
    assert known.count_by(2.5) == 3


def test_a_stretch_passed_over_at_the_very_beginning_lies_after_the_watch_began() -> None:
    """Records passed over before any was read lie between the beginning of the watch and the first that was."""
    known = RecordTimes(10, 100, since=1.0)
    known.skip_to(13)
    known.add([13], [5000])
    found = known.between(10, 14)
    assert found is not None
    assert not found.is_exact
    assert found.seconds.tolist() == [2.0, 3.0, 4.0, 5.0]
