# SPDX-License-Identifier: Apache-2.0
"""The table of the promise counts every run, and its verdicts can come out against MEAD."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.promise.table import Run, short_table, table, verdicts

RUN = Run(
    load="waves",
    neighbour="alone",
    rival="mead",
    number=1,
    minutes=2.0,
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


def _rounds(*runs: Run, count: int = 10) -> list[Run]:
    """The same runs in so many rounds."""
    return [replace(run, number=number) for number in range(1, count + 1) for run in runs]


def _answers(runs: list[Run]) -> list[bool | None]:
    """For the load and the machine of the runs above."""
    return [is_so for text, is_so in verdicts(runs) if text.startswith("waves, alone: ")]


def _changed(runs: list[Run], rival: str, numbers: range, **to: Any) -> list[Run]:
    """The same, but for some rounds of one rival."""
    return [replace(run, **to) if run.rival == rival and run.number in numbers else run for run in runs]


ALL = _rounds(RUN, STATIC, DYNAMIC, SHORT)
FAILED: dict[str, Any] = {
    "p95_seconds": None, "violation_share": None, "executor_seconds": None, "cpu_seconds": None,
    "static_cpu_seconds": None, "records_due": None, "records_done": None, "failure": "it fell over",
}  # fmt: skip


def test_good_runs_beside_all_others_keep_every_promise() -> None:
    """Bound kept, less CPU than static, fewer executors than dynamic allocation for the same violations."""
    assert _answers(ALL) == [True, True, True, True]


def test_a_verdict_needs_ten_runs() -> None:
    """One good run of one, or nine of nine, says nothing about nine in ten."""
    for count in (1, 9):
        assert _answers(_rounds(RUN, STATIC, DYNAMIC, SHORT, count=count)) == [None] * 4


def test_a_bound_that_is_broken_once_in_ten_is_kept_and_twice_is_not() -> None:
    """Nine in ten; and two broken of two cannot be mended by the eight that are missing."""
    assert _answers(_changed(ALL, "mead", range(1, 2), p95_seconds=7.0))[0] is True
    assert _answers(_changed(ALL, "mead", range(1, 3), p95_seconds=7.0))[0] is False
    assert _answers(_changed(_rounds(RUN, STATIC, count=2), "mead", range(1, 3), p95_seconds=7.0))[0] is False


def test_a_run_that_failed_counts_as_broken_and_as_violated_all_the_time() -> None:
    """A failure has no latency, and is not left out."""
    failed = _changed(ALL, "mead", range(1, 3), **FAILED)
    assert _answers(failed)[0] is False
    assert _answers(failed)[2] is False
    assert "| mead | 0 of 1 | unknown | 100.0% |  |  |  |" in "\n".join(table([replace(RUN, **FAILED)]))


def test_a_run_that_failed_costs_nothing_that_is_known() -> None:
    """It is not cheaper than static for having done nothing, neither with costs of zero nor without any."""
    dear = [replace(run, cpu_seconds=600.0) if run.rival == "mead" else run for run in ALL]
    for cost in (None, 0.0):
        failed = _changed(dear, "mead", range(1, 3), **{**FAILED, "cpu_seconds": cost})
        assert _answers(failed)[1] is None
        more = [*failed, *[replace(run, number=run.number + 10) for run in dear]]
        assert _answers(more)[1] is False
    all_failed = _changed(ALL, "mead", range(1, 11), **FAILED)
    assert _answers(all_failed) == [False, None, False, False]


def test_a_run_that_left_records_has_not_kept_its_bound() -> None:
    """What was never done was never late, and is still no success; neither is what nobody counted."""
    for done in (9, None):
        left = replace(RUN, records_done=done)
        assert not left.is_kept
        assert left.violations == 1.0
        assert "| mead | 0 of 1 | 3.0 s (3.0 s) | 100.0% |  |  |  |" in "\n".join(table([left]))
    assert replace(RUN, records_done=11).is_kept  # a batch was done again after a restart


def test_where_static_breaks_the_bound_nothing_is_promised() -> None:
    """Nobody could have kept it, so it is not known."""
    assert _answers(_changed(ALL, "static", range(1, 11), p95_seconds=9.0))[0] is None


def test_as_many_executors_as_dynamic_allocation_need_half_its_violations() -> None:
    """The same cost is worth it only for half of the violations."""
    same = replace(DYNAMIC, executor_seconds=300.0, violation_share=0.019)
    half = replace(same, violation_share=0.02)
    assert _answers(_rounds(RUN, STATIC, same, SHORT))[2] is False
    assert _answers(_rounds(RUN, STATIC, half, SHORT))[2] is True


def test_what_was_not_run_is_not_known() -> None:
    """A missing rival gives no verdict, and the command ends with 1."""
    assert _answers(_rounds(RUN, STATIC)) == [True, True, None, None]


def test_every_load_is_promised_alone_and_beside_a_busy_core() -> None:
    """A load or a machine without any run is not known, so that the command ends with 1."""
    found = verdicts(ALL)
    assert len(found) == 4 * 3 * 2
    assert sum(is_so is None for _, is_so in found) == 4 * 5


def test_the_table_has_a_row_for_each_rival_with_all_its_runs() -> None:
    """Medians and worst over all runs of the row."""
    lines = table([RUN, replace(RUN, number=2, p95_seconds=7.0), STATIC])
    assert len(lines) == 4
    assert "| waves | alone | mead | 1 of 2 | 5.0 s (7.0 s) | 1.0% | 300 | 50% | 4.0 |" in lines


def test_the_short_table_has_a_row_for_each_load_and_machine() -> None:
    """What was not run has no row; a part that is not known leaves the row not known, one that was not so says no."""
    cell = "kept 10 of 10; violated 1.0%; 300 executor-s, 50% CPU"
    (row,) = short_table(ALL)[2:]
    assert row.startswith("| waves | alone | kept 10 of 10; violated 0.0%; 500 executor-s, 100% CPU |  | ")
    assert f"| {cell} |" in row
    assert row.endswith("| yes |")
    assert short_table(_rounds(RUN, STATIC))[-1].endswith("| not known |")
    assert short_table(_changed(ALL, "mead", range(1, 3), **FAILED))[-1].endswith("| NO |")
