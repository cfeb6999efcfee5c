# SPDX-License-Identifier: Apache-2.0
"""Samples on disk: kept at once, read back, gone on with."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import ConfigurationError
from penstock.measuring.disturbance import HostLoad
from penstock.measuring.plan import MeasurePlan, Turn
from penstock.measuring.sample import Mark, Sample
from penstock.measuring.sample_file import COLUMNS, SAMPLES, SampleFile
from penstock.measuring.summary import caps, kept_samples, source_limits, summarise
from penstock.measuring.throughput import Throughput

PLAN = MeasurePlan("app:f", (1, 2), cpu_share=0.2, repeats=2)


def a_sample(
    executors: int, repeat: int = 1, rate: float = 100.0, *, is_source: bool = False, **more: object
) -> Sample:
    """A sample of so many records per second."""
    sample = Sample(
        at=1.0, executors=executors, repeat=repeat, attempt=1, is_source=is_source, cpu_share=0.2,
        parallelism=executors, cap=300, seconds=20.0, throughput=Throughput(7, rate, rate, rate, rate, rate),
        batch_seconds=3.0, converged_after_seconds=15.0,
    )  # fmt: skip
    return replace(sample, **more)  # type: ignore[arg-type]


def disturbed(executors: int, rate: float, others: float, attempt: int) -> Sample:
    """A sample that others disturbed so much."""
    host = HostLoad(0.9, 0.0, others, 1.0)
    return a_sample(executors, rate=rate, attempt=attempt, host=host, disturbed_by="others", marks=(Mark.DISTURBED,))


def test_sizes_take_turns() -> None:
    """Each round has every size, the first one the source of each as well."""
    turns = [(t.executors, t.repeat, t.is_source) for t in PLAN.turns()]
    assert turns == [(1, 1, True), (1, 1, False), (2, 1, True), (2, 1, False), (1, 2, False), (2, 2, False)]
    assert len(replace(PLAN, source_check=False).turns()) == 4


def test_a_measurement_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """What is on the disk is not measured again; more repeats may be asked for."""
    first = SampleFile(tmp_path / "m", PLAN)
    taken = [a_sample(1, is_source=True), a_sample(1, host=HostLoad(0.5, 0.0, None, 1.0)), a_sample(2)]
    for sample in taken:
        first.add(sample)
    again = SampleFile(tmp_path / "m", replace(PLAN, repeats=3), resume=True)
    assert again.samples == taken
    left = replace(PLAN, repeats=3).left(again.samples)
    assert left == [Turn(2, 1, is_source=True), Turn(1, 2), Turn(2, 2), Turn(1, 3), Turn(2, 3)]


def test_a_start_with_too_few_samples_is_made_again(tmp_path: Path) -> None:
    """Of two samples of each start one is there: the start is left to do, and the newer of two first samples counts."""
    plan = replace(PLAN, executors=(1,), repeats=1, samples_each=2, source_check=False)
    file = SampleFile(tmp_path / "m", plan)
    file.add(a_sample(1, rate=90.0))
    assert plan.left(file.samples) == [Turn(1, 1)]
    file.add(a_sample(1, rate=100.0))
    file.add(a_sample(1, rate=110.0, part=2))
    assert plan.left(file.samples) == []
    assert [s.throughput.mean for s in kept_samples(file.samples)] == [100.0, 110.0]


def test_a_line_that_a_crash_cut_off_is_dropped(tmp_path: Path) -> None:
    """The samples before it count, and the next one stands on a line of its own."""
    file = SampleFile(tmp_path / "m", PLAN)
    file.add(a_sample(1))
    with (tmp_path / "m" / SAMPLES).open("a") as lines:
        lines.write('{"at": 2.0, "execu')
    again = SampleFile(tmp_path / "m", PLAN, resume=True)
    again.add(a_sample(2))
    assert [s.executors for s in SampleFile(tmp_path / "m", PLAN, resume=True).samples] == [1, 2]


def test_a_line_that_is_no_sample_is_named(tmp_path: Path) -> None:
    """A whole line that cannot be read is an error with its number, and the file stays as it is."""
    SampleFile(tmp_path / "m", PLAN)
    (tmp_path / "m" / SAMPLES).write_text("{}\n")
    with pytest.raises(ConfigurationError, match=r"line 1 of .*samples\.jsonl is not a sample"):
        SampleFile(tmp_path / "m", PLAN, resume=True)
    assert (tmp_path / "m" / SAMPLES).read_text() == "{}\n"


def test_other_settings_do_not_mix(tmp_path: Path) -> None:
    """Samples of another share and application cannot be gone on with; each difference is named."""
    SampleFile(tmp_path / "m", PLAN)
    with pytest.raises(ConfigurationError) as fault:
        SampleFile(tmp_path / "m", replace(PLAN, cpu_share=0.5, app="app:g"), resume=True)
    assert "cpu_share: was 0.2 and is now 0.5" in str(fault.value)
    assert "app: was 'app:f' and is now 'app:g'" in str(fault.value)


def test_a_folder_with_samples_is_not_overwritten(tmp_path: Path) -> None:
    """Without --resume a measurement that is there is refused, and with it there must be one."""
    SampleFile(tmp_path / "m", PLAN)
    with pytest.raises(ConfigurationError, match="holds a measurement"):
        SampleFile(tmp_path / "m", PLAN)
    with pytest.raises(ConfigurationError, match="has no measurement"):
        SampleFile(tmp_path / "other", PLAN, resume=True)
    assert not (tmp_path / "other").exists()


def test_the_table_has_the_samples_that_count(tmp_path: Path) -> None:
    """The source and disturbed tries are left out; an unknown value is an empty cell, a CPU left alone a share of 1."""
    file = SampleFile(tmp_path / "m", PLAN)
    for sample in (
        a_sample(1, rate=900.0, is_source=True),
        disturbed(1, 50.0, 0.5, 1),
        a_sample(1, rate=100.0, attempt=2, bytes_per_second=7000.0),
        a_sample(2, rate=180.0, cpu_share=None, marks=(Mark.SOURCE_BOUND, Mark.CPU_LEFT)),
    ):
        file.add(sample)
    with file.table.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert tuple(rows[0]) == COLUMNS
    columns = ("application", "executors", "cpu_share", "throughput", "bytes_per_second")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        ("app:f", "1", "0.2", "100.0", "7000.0"), ("app:f", "2", "1.0", "180.0", ""),
    ]  # fmt: skip
    assert rows[1]["marks"] == "source-bound CPU-left"


def test_the_summary_shows_the_spread_and_the_growth() -> None:
    """Mean, least, most and spread of each size; speed-up and efficiency against the smallest."""
    samples = [a_sample(1, 1, 90.0), a_sample(1, 2, 110.0), a_sample(2, 1, 150.0, marks=(Mark.CPU_LEFT,))]
    one, two = summarise(samples)
    assert (one.throughput, one.least, one.most, one.samples) == (100.0, 90.0, 110.0, 2)
    assert one.spread == pytest.approx(0.1414, abs=1e-4)  # standard deviation 14.14 over 100
    assert (two.speed_up, two.efficiency, two.spread, two.marks) == (1.5, 0.75, None, ("CPU left (1 of 1)",))
    assert summarise([]) == []


def test_of_disturbed_samples_the_calmest_counts() -> None:
    """Where no try was calm, the least disturbed stands for the turn, with its mark."""
    samples = [disturbed(1, 50.0, 0.5, 1), disturbed(1, 90.0, 0.2, 2), disturbed(1, 60.0, 0.4, 3)]
    assert [s.throughput.mean for s in kept_samples(samples)] == [90.0]
    assert summarise(samples)[0].marks == ("disturbed (1 of 1)",)


def test_limits_and_caps_are_remembered() -> None:
    """The source's throughput and the caps that were found come from the samples, also after a resume."""
    samples = [a_sample(1, rate=900.0, is_source=True, cap=5000), a_sample(1), a_sample(2, cap=600)]
    assert source_limits(samples) == {1: 900.0}
    assert (caps(samples, is_source=True), caps(samples, is_source=False)) == ({1: 5000}, {1: 300, 2: 600})


@pytest.mark.parametrize(
    ("changed", "field"),
    [({"executors": (2, 1)}, "executors"), ({"executors": ()}, "executors"), ({"executors": (0, 1)}, "executors"),
     ({"cpu_share": 1.5}, "cpu-share"), ({"repeats": 0}, "repeats"), ({"topic": "t"}, "topic")],
)  # fmt: skip
def test_impossible_plans_are_refused(changed: dict[str, object], field: str) -> None:
    """Each mistake names its option."""
    with pytest.raises(ConfigurationError, match=field):
        replace(PLAN, **changed)  # type: ignore[arg-type]
