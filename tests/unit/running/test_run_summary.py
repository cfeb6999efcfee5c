# SPDX-License-Identifier: Apache-2.0
"""A restart in the summary of a run."""

from __future__ import annotations

from penstock.account import RunSummary
from penstock.records import Allocation, ExecutorSize
from penstock.testing import a_decision

LARGE = ExecutorSize(2, "1g", worth=2.0)


def test_the_size_of_a_restart_is_written_out_also_where_it_is_the_operators_own() -> None:
    """Readers of `--json` need not know that the own size is none; live changes have no size."""
    has, larger = Allocation(1), Allocation(1, 1.0, LARGE)
    decisions = (a_decision(has, larger), a_decision(larger, has), a_decision(has, Allocation(2)))
    summary = RunSummary(
        name="p", folder="", mode="act", started_at=0.0, ended_at=1.0, paths=(), records_due=None, records_read=None,
        records_done=None, executor_seconds=0.0, capacity_seconds=0.0, static_capacity_seconds=0.0,
        decisions=decisions, own_sizes={"operator": ExecutorSize(1, "700m")},
    )  # fmt: skip
    written = summary.to_json()["decisions"]
    assert [d["size"] for d in written] == ["2 cores, 1g", "1 core, 700m", None]
    assert [d["verb"] for d in written] == ["restart larger", "restart smaller", "scale out"]
