# SPDX-License-Identifier: Apache-2.0
"""Several windows as one estimate, and windows compared."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConfigurationError, NotReadyError
from penstock.markov import MAP, PH, map2_from_moments
from penstock.workload import describe_iats, detect_change, estimate_workload

BURSTY = map2_from_moments(1.0, 5.0, 60.0, 0.9)


def test_windows_are_the_newest_parts() -> None:
    """Whole, half and quarter of the buffer are fitted, each its newest part."""
    buffer = BURSTY.sample(12_000, np.random.default_rng(1))
    told = estimate_workload(buffer, best=2)
    assert [window.n for window in told.windows] == [12_000, 6_000, 3_000]
    for window in told.windows:
        assert window.fit.trace.mean == pytest.approx(buffer[-window.n :].mean())
    assert len(told.maps) == sum(len(window.fit.maps) for window in told.windows)
    assert not told.is_changing
    assert told.rate == pytest.approx(1.0 / buffer.mean())


def test_abrupt_change_moves_the_estimate_to_the_newer_window() -> None:
    """When the rate triples in the buffer's last quarter, the estimate is that of the steady newest window."""
    rng = np.random.default_rng(2)
    buffer = np.concatenate([rng.exponential(3.0, 12_000), rng.exponential(1.0, 4_000)])
    told = estimate_workload(buffer, best=1)
    assert told.is_changing
    assert told.current.n == 4_000
    assert told.rate == pytest.approx(1.0, rel=0.1)


def test_short_windows_are_skipped_and_named() -> None:
    """Windows too short to fit are left out with a reason; none at all is NotReadyError."""
    told = estimate_workload(np.random.default_rng(3).exponential(1.0, 600))
    assert [window.n for window in told.windows] == [600, 300]
    assert told.skipped == ("a window of 150 is too short; 256 are needed",)
    with pytest.raises(NotReadyError) as caught:
        estimate_workload(np.ones(100))
    assert caught.value.needed == 256


def test_warm_estimates_follow_window_by_window() -> None:
    """Each window goes on from the window of its place."""
    stream = BURSTY.sample(12_200, np.random.default_rng(4))
    first = estimate_workload(stream[:12_000], best=2)
    second = estimate_workload(stream[200:], best=2, warm=first)
    assert all(window.fit.is_warm for window in second.windows)


def test_shares_out_of_range_are_refused() -> None:
    """A share of more than the buffer is an error."""
    with pytest.raises(ConfigurationError, match="shares"):
        estimate_workload(np.ones(1000), shares=(1.5,))


def test_no_change_is_seen_where_there_is_none() -> None:
    """Pairs of windows of one bursty process are told apart only rarely."""
    rng = np.random.default_rng(5)
    alarms = 0
    for _ in range(40):
        halves = BURSTY.sample(8_000, rng).reshape(2, -1)
        alarms += detect_change(describe_iats(halves[0]), describe_iats(halves[1])).is_changed
    assert alarms <= 3


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("rate", BURSTY.time_scaled(0.5)),
        ("scv", MAP.renewal(PH.erlang(4, mean=1.0))),
        ("correlation", map2_from_moments(1.0, 5.0, 60.0, 0.2)),
    ],
)
def test_each_kind_of_change_is_seen(name: str, other: MAP) -> None:
    """Twice the rate, another variability, another correlation are each found by name."""
    rng = np.random.default_rng(6)
    before, after = describe_iats(BURSTY.sample(20_000, rng)), describe_iats(other.sample(20_000, rng))
    change = detect_change(before, after)
    assert name in change.changed
    assert name in change.explain()


def test_constant_windows_compare_without_correlation() -> None:
    """Constant windows have no correlation to compare; equal ones are unchanged, others changed in rate."""
    one, two = describe_iats(np.full(200, 1.0)), describe_iats(np.full(200, 2.0))
    assert detect_change(one, one).explain() == "no change beyond chance"
    change = detect_change(one, two)
    assert change.correlation is None
    assert change.changed == ("rate",)
