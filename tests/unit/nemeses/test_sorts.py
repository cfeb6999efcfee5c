# SPDX-License-Identifier: Apache-2.0
"""The short run of numbered records has a fault of each sort."""

from __future__ import annotations

from tests.e2e.nemeses.fault_plan import KINDS, plan_faults
from tests.e2e.nemeses.test_nemeses import OF_EACH_SORT


def test_the_short_run_kills_stops_fills_sets_and_cuts() -> None:
    """Whatever sort there is: one of it is in the tests that come before every change."""
    sorts = {kind.rpartition(" ")[2] for kind in KINDS}
    assert (
        {kind.rpartition(" ")[2] for kind in OF_EACH_SORT} == sorts == {"killed", "stopped", "full", "stepped", "cut"}
    )
    assert len(plan_faults(OF_EACH_SORT, 1, 60_000, seed=1)) == len(OF_EACH_SORT)
