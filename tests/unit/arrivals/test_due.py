# SPDX-License-Identifier: Apache-2.0
"""Arrival times of replayed records from their offsets."""

from __future__ import annotations

import pytest

from penstock.arrivals import ReplayArrivals, ReplayOffset, Trace
from penstock.errors import ConfigurationError
from penstock.records import SourceProgress

TRACE = Trace([1.0, 2.0, 4.0, 8.0])
EPOCH_US = 1_790_000_000_250_000


def _progress(start: str | None, end: str | None) -> SourceProgress:
    return SourceProgress("replay", start, end, end, rows=0)


def _offset(index: int) -> str:
    return f'{{"epoch_us": {EPOCH_US}, "index": {index}}}'


def test_a_batch_gives_its_arrival_times() -> None:
    """The offset range says which records, the epoch and the speed say when."""
    arrivals = ReplayArrivals(TRACE, speed=2.0)
    times = arrivals.of(_progress(_offset(1), _offset(3)))
    assert times is not None
    assert times.tolist() == [1_790_000_000.25 + 1.0, 1_790_000_000.25 + 2.0]
    assert arrivals.done_index(_progress(_offset(1), _offset(3))) == 3


@pytest.mark.parametrize("start", [None, "null", ""])
def test_the_first_batch_starts_at_zero(start: str | None) -> None:
    """A batch without a start offset begins with the first record."""
    times = ReplayArrivals(TRACE).of(_progress(start, _offset(2)))
    assert times is not None
    assert len(times) == 2


def test_an_empty_batch_has_no_times() -> None:
    """A batch that took nothing has zero arrival times, which is not the same as unknown."""
    times = ReplayArrivals(TRACE).of(_progress(_offset(2), _offset(2)))
    assert times is not None
    assert len(times) == 0


def test_arrived_is_unknown_before_the_first_offset() -> None:
    """How many have arrived is None until time zero is known, by an offset or from the start."""
    arrivals = ReplayArrivals(TRACE)
    assert arrivals.arrived_by(2e9) is None
    assert arrivals.epoch_us is None
    arrivals.done_index(_progress(None, _offset(0)))
    assert arrivals.arrived_by(EPOCH_US / 1e6 + 4.0) == 3
    assert arrivals.arrived_by(EPOCH_US / 1e6 - 1.0) == 0
    assert ReplayArrivals(TRACE, epoch_us=EPOCH_US).arrived_by(2e9) == 4


@pytest.mark.parametrize(
    "end",
    [None, "", "nonsense", "5", "[1]", '{"index": 2}', '{"epoch_us": 1.5, "index": 2}', _offset(5), _offset(-1)],
)
def test_other_sources_are_unknown(end: str | None) -> None:
    """Offsets that are not this replay's give None and teach nothing."""
    arrivals = ReplayArrivals(TRACE)
    assert arrivals.of(_progress(None, end)) is None
    assert arrivals.done_index(_progress(None, end)) is None
    assert arrivals.epoch_us is None


def test_a_range_that_runs_backwards_is_unknown() -> None:
    """A start beyond the end gives None."""
    assert ReplayArrivals(TRACE).of(_progress(_offset(3), _offset(2))) is None


def test_offsets_go_through_their_text() -> None:
    """An offset is read back as written."""
    offset = ReplayOffset(EPOCH_US, 7)
    assert ReplayOffset.parse(_offset(7)) == offset
    assert offset.as_dict() == {"epoch_us": EPOCH_US, "index": 7}


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), float("inf")])
def test_speed_must_be_positive(speed: float) -> None:
    """A replay that stands still or runs backwards is refused."""
    with pytest.raises(ConfigurationError, match="speed"):
        ReplayArrivals(TRACE, speed)
