# SPDX-License-Identifier: Apache-2.0
"""The plan of faults of a nemesis run: every kind as often as wanted, and the same from the same seed."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from tests.e2e.nemeses.fault_plan import KINDS, plan_faults, share_of


def test_every_kind_comes_as_often_as_wanted_while_records_flow() -> None:
    """In the order of their records, none before the first ones and none after the last ones."""
    plan = plan_faults(KINDS, 10, 1_000_000, seed=7)
    assert Counter(fault.kind for fault in plan) == dict.fromkeys(KINDS, 10)
    assert all(a.after_records < b.after_records for a, b in pairwise(plan))
    assert plan[0].after_records >= 40_000
    assert plan[-1].after_records <= 920_000
    assert all(0.0 <= fault.draw < 1.0 for fault in plan)
    assert [fault.number for fault in plan] == list(range(len(plan)))


def test_every_kind_comes_once_before_any_comes_again() -> None:
    """A run that is cut off early has tried many kinds, not one kind many times."""
    plan = plan_faults(KINDS, 3, 60_000, seed=1)
    for start in range(0, len(plan), len(KINDS)):
        assert {fault.kind for fault in plan[start : start + len(KINDS)]} == set(KINDS)


def test_the_seed_alone_decides() -> None:
    """A run that failed can be run again; another seed gives another order."""
    assert plan_faults(KINDS, 2, 60_000, seed=5) == plan_faults(KINDS, 2, 60_000, seed=5)
    assert plan_faults(KINDS, 2, 60_000, seed=5) != plan_faults(KINDS, 2, 60_000, seed=6)


def test_an_unknown_kind_is_refused() -> None:
    """A misspelt one would never come, and seem to be survived."""
    with pytest.raises(ValueError, match="'moon full'"):
        plan_faults(["moon full"], 1, 100, seed=1)


@pytest.mark.parametrize(("whole", "pieces"), [(10, 5), (10, 4), (1_000_000, 3), (10, 1)])
def test_pieces_make_up_the_whole(whole: int, pieces: int) -> None:
    """Runs that were done one after the other have all faults and records together."""
    shares = [share_of(piece, whole, pieces) for piece in range(pieces)]
    assert sum(shares) == whole
    assert max(shares) - min(shares) <= 1
