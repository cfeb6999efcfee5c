# SPDX-License-Identifier: Apache-2.0
"""What holds for all arrivals, whatever the rates, the seeds and the speeds."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.arrivals import Arrivals, Constant, Periodic, ReplayArrivals, Sampled, Shape, Steps, Trace
from penstock.errors import ConfigurationError
from penstock.records import SourceProgress

rates = st.one_of(st.just(0.0), st.floats(0.01, 300.0))
seconds = st.floats(0.01, 20.0)


@st.composite
def shapes(draw: st.DrawFn) -> Shape | None:
    """Some shape; None where these parameters give no record."""
    kind = draw(st.sampled_from(["constant", "periodic", "steps"]))
    try:
        if kind == "constant":
            return Constant(draw(rates), draw(seconds))
        if kind == "steps":
            return Steps(tuple(draw(st.lists(st.tuples(seconds, rates), min_size=1, max_size=5))), draw(seconds))
        period = draw(seconds)
        width = period * draw(st.floats(0.01, 1.0))
        return Periodic(draw(rates), draw(rates), period, width, draw(seconds), draw(st.booleans()))
    except ConfigurationError:
        return None


@st.composite
def arrivals(draw: st.DrawFn) -> Arrivals | None:
    """A shape, random arrivals at its rate, or a trace."""
    kind = draw(st.sampled_from(["shape", "sampled", "trace"]))
    if kind == "trace":
        gaps = draw(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=50))
        return Trace(np.cumsum(gaps))
    shape = draw(shapes())
    if shape is None or kind == "shape":
        return shape
    try:
        return Sampled(shape, draw(st.integers(0, 2**64 - 1)))
    except ConfigurationError:
        return None


@settings(max_examples=150, deadline=None)
@given(arrivals(), st.data())
def test_counts_times_and_ranges_agree(process: Arrivals | None, data: st.DataObject) -> None:
    """Times never fall and stay within the duration, counts are the number of times, ranges are slices."""
    if process is None:
        return
    times = process.times(0, process.total)
    assert len(times) == process.total >= 1
    assert np.all(np.diff(times) >= 0)
    assert 0 <= times[0] <= times[-1] <= process.duration_seconds
    t = data.draw(st.one_of(st.floats(-1, 25), st.sampled_from(times.tolist())))
    assert process.count_until(t) == np.searchsorted(times, t, side="right")
    start = data.draw(st.integers(0, process.total))
    stop = data.draw(st.integers(start, process.total))
    assert np.array_equal(process.times(start, stop), times[start:stop])


@settings(max_examples=100, deadline=None)
@given(shapes(), st.floats(0, 20))
def test_a_shape_s_inverse_undoes_its_count(shape: Shape | None, t: float) -> None:
    """The time at which a count is reached is never after the moment that has it, but for rounding."""
    if shape is None:
        return
    count = shape.cumulative(t)
    earliest = float(shape.inverse(np.array([count]))[0])
    assert earliest <= t + 1e-6
    # Less than the tolerated millionth of a record, and the rounding of the sums, lies between.
    assert abs(shape.cumulative(earliest) - count) <= 1e-5


@settings(max_examples=100, deadline=None)
@given(arrivals(), st.floats(0.01, 100.0), st.integers(0, 2**51), st.data())
def test_batches_cover_each_arrival_once(
    process: Arrivals | None, speed: float, epoch_us: int, data: st.DataObject
) -> None:
    """However a replay is cut into batches, their arrival times together are the whole replay's."""
    if process is None:
        return
    replay = ReplayArrivals(process, speed)
    cuts = sorted(data.draw(st.lists(st.integers(0, process.total), max_size=5)))
    edges = [0, *cuts, process.total]
    parts = []
    for first, stop in pairwise(edges):
        offsets = [json.dumps({"epoch_us": epoch_us, "index": index}) for index in (first, stop)]
        part = replay.of(SourceProgress("", offsets[0], offsets[1], None, stop - first))
        assert part is not None
        parts.append(part)
    whole = np.concatenate(parts)
    assert np.array_equal(whole, epoch_us / 1e6 + process.times(0, process.total) / speed)
    assert replay.arrived_by(float(whole[-1]) + 1.0) == process.total
    assert replay.arrived_by(epoch_us / 1e6 - 1.0) == 0
