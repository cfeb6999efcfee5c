# SPDX-License-Identifier: Apache-2.0
"""Finding the cap at which a batch takes about a set time."""

from __future__ import annotations

import pytest

from penstock.measuring.batch_cap import CapSearch, CapTrial, is_fitting, next_cap, scaled_cap


@pytest.mark.parametrize(("fixed", "each"), [(0.1, 1e-4), (1.0, 1e-3), (0.5, 5e-6), (0.0, 0.01)])
def test_a_fitting_cap_is_found_in_a_few_trials(fixed: float, each: float) -> None:
    """Whatever the fixed and the growing part of a batch, four trials lead to batches of about the set time."""
    wanted, cap = 3.0, 2000
    trials: list[CapTrial] = []
    for _ in range(4):
        trials.append(CapTrial(cap, fixed + each * cap))
        if is_fitting(trials[-1], wanted):
            break
        cap = next_cap(trials, wanted)
    assert is_fitting(CapTrial(cap, fixed + each * cap), wanted)


def test_a_single_trial_changes_the_cap_by_a_bounded_factor() -> None:
    """A batch that took next to no time does not lead to a cap without bound, a long one not to nothing."""
    assert next_cap([CapTrial(1000, 0.001)], 3.0) == 20_000
    assert next_cap([CapTrial(1000, 1e6)], 3.0) == 50
    assert next_cap([CapTrial(1, 100.0)], 3.0) == 1


def test_two_trials_that_contradict_the_line_fall_back_to_proportion() -> None:
    """Where the larger cap was the faster one, the last trial alone counts."""
    assert next_cap([CapTrial(1000, 2.0), CapTrial(2000, 1.0)], 3.0) == 6000


def test_a_size_begins_with_what_is_known_of_its_neighbour() -> None:
    """The nearest size that is known gives the cap in proportion; without any, each executor has its part."""
    assert scaled_cap({1: 1000, 2: 1900}, 4, 500) == 3800
    assert scaled_cap({8: 8000}, 1, 500) == 1000
    assert scaled_cap({}, 4, 500) == 2000


def test_a_cap_in_proportion_to_another_size_is_kept() -> None:
    """Batches half as long again are another cap's for the first size, and kept for one in proportion to it."""
    first = CapSearch(1000, 4.0, is_open=True)
    assert not first.judge([6.0])
    assert first.judge([6.0, 6.0])
    assert (first.cap_before, first.cap) == (1000, 667)
    scaled = CapSearch(1000, 4.0, is_open=True, is_scaled=True)
    assert not scaled.judge([6.0, 6.0])
    assert scaled.judge([9.0, 9.0])


def test_a_search_ends_after_its_trials() -> None:
    """Batches that never fit are measured as they are in the end."""
    search = CapSearch(1000, 4.0, is_open=True, trials=2)
    assert search.judge([40.0, 40.0])
    assert search.judge([40.0, 40.0])
    assert not search.is_open
    assert not search.judge([40.0, 40.0], is_last=True)


def test_batches_of_mostly_fixed_work_are_found_in_few_tunings() -> None:
    """Two seconds of fixed work and 10 us a record, from 2000 records: five seconds are reached in a few steps."""
    search = CapSearch(2000, 5.0, is_open=True)
    tunings = 0
    while search.tune([2.0 + 1e-5 * search.cap] * 2):
        tunings += 1
    assert tunings <= 6
    assert 0.75 * 5.0 <= 2.0 + 1e-5 * search.cap <= 1.35 * 5.0


def test_a_cap_is_not_made_smaller_for_batches_that_still_compile() -> None:
    """Batches half as long again are kept while an application warms up; they become shorter by themselves."""
    search = CapSearch(2000, 4.0, is_open=True)
    assert not search.tune([6.0, 6.0])
    assert search.tune([9.0, 9.0])
    assert search.cap == 889  # in proportion: 2000 * 4 / 9
