# SPDX-License-Identifier: Apache-2.0
"""The table of the promise counts every run, and its verdicts can come out against MEAD."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.promise.table import Run, table, verdicts

RUN = Run(
    load="waves",
    neighbour="alone",
    rival="mead",
    number=1,
    bound_seconds=6.0,
    p95_seconds=3.0,
    violation_share=0.01,
    executor_seconds=300.0,
    cpu_seconds=250.0,
    static_cpu_seconds=500.0,
    changes=4,
    records_due=10,
    records_done=10,
    version="1",
    commit=None,
)
STATIC = replace(RUN, rival="static", executor_seconds=500.0, cpu_seconds=500.0, violation_share=0.0)
DYNAMIC = replace(RUN, rival="dynamic allocation", executor_seconds=400.0, violation_share=0.01)
SHORT = replace(DYNAMIC, rival="dynamic allocation, 20 s")


def _answers(*runs: Run) -> list[bool | None]:
    """For the load and the machine of the runs above."""
    return [is_so for text, is_so in verdicts(runs) if text.startswith("waves, alone: ")]


def test_a_good_run_beside_all_others_keeps_every_promise() -> None:
    """Bound kept, less CPU than static, fewer executors than dynamic allocation for the same violations."""
    assert _answers(RUN, STATIC, DYNAMIC, SHORT) == [True, True, True, True]


def test_a_broken_bound_breaks_the_promise() -> None:
    """One run in two is less than nine in ten."""
    broken = replace(RUN, number=2, p95_seconds=7.0)
    assert _answers(RUN, broken, STATIC, replace(STATIC, number=2), DYNAMIC, SHORT)[0] is False


def test_a_run_that_failed_counts_as_broken_and_as_violated_all_the_time() -> None:
    """A failure has no latency, and is not left out."""
    failed = replace(RUN, p95_seconds=None, violation_share=None, failure="it fell over")
    assert _answers(failed, STATIC, DYNAMIC, SHORT)[0] is False
    assert _answers(failed, STATIC, DYNAMIC, SHORT)[2] is False
    assert "| mead | 0 of 1 | unknown |" in "\n".join(table([failed]))


def test_where_static_breaks_the_bound_nothing_is_promised() -> None:
    """Nobody could have kept it, so it is not known."""
    assert _answers(RUN, replace(STATIC, p95_seconds=9.0), DYNAMIC, SHORT)[0] is None


def test_as_many_executors_as_dynamic_allocation_need_half_its_violations() -> None:
    """The same cost is worth it only for half of the violations."""
    same = replace(DYNAMIC, executor_seconds=300.0, violation_share=0.019)
    half = replace(same, violation_share=0.02)
    assert _answers(RUN, STATIC, same, SHORT)[2] is False
    assert _answers(RUN, STATIC, half, SHORT)[2] is True


def test_what_was_not_run_is_not_known() -> None:
    """A missing rival gives no verdict, and the command ends with 1."""
    assert _answers(RUN, STATIC) == [True, True, None, None]


def test_every_load_is_promised_alone_and_beside_a_busy_core() -> None:
    """A load or a machine without any run is not known, so that the command ends with 1."""
    found = verdicts([RUN, STATIC, DYNAMIC, SHORT])
    assert len(found) == 4 * 3 * 2
    assert sum(is_so is None for _, is_so in found) == 4 * 5


def test_the_table_has_a_row_for_each_rival_with_all_its_runs() -> None:
    """Medians and worst over all runs of the row."""
    lines = table([RUN, replace(RUN, number=2, p95_seconds=7.0), STATIC])
    assert len(lines) == 4
    assert "| waves | alone | mead | 1 of 2 | 5.0 s (7.0 s) | 1.0% | 300 | 50% | 4.0 |" in lines
