# SPDX-License-Identifier: Apache-2.0
"""Whether the law of delay holds: measurements are kept, go on where they ended, and judge both laws."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ClusterError, ConfigurationError
from penstock.evaluation import reproduce_delay_law as subject
from penstock.evaluation.delay_law_experiment import DelayLawExperiment
from penstock.evaluation.delay_samples import DelaySample, add_sample, read_samples
from penstock.evaluation.experiment_kinds import load_experiment
from penstock.evaluation.placed_run import TakenTurn
from penstock.evaluation.reproduction import Call
from penstock.measuring.placed_turns import PlacedJob, PlacedTurn
from penstock.records import decode, encode

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
CAP, FIXED, PER_RECORD, TRIPS, WAVE_TRIPS = 1000, 0.2, 0.001, 3.0, 0.5


def an_experiment(**more: Any) -> DelayLawExperiment:
    """Nine configurations of one query, measured once each."""
    plain = {
        "kind": "delay-law", "title": "try", "paper": "Eq. 1", "machine": "here", "cores_per_node": 0.5, "repeats": 1,
        "variants": [{"name": "capped", "rows_per_batch": CAP}],
        "calibration": [[1, "0ms"], [2, "0ms"], [4, "0ms"], [1, "200ms"], [4, "200ms"]],
        "predicted": [[2, "100ms"], [3, "200ms"]],
    }  # fmt: skip
    return DelayLawExperiment.model_validate(plain | more)


class FakeCluster:
    """Measurements that end at once: batches as long as the law says, until `breaks_after` of them."""

    def __init__(self, breaks_after: int = 1000) -> None:
        self.jobs: list[PlacedJob] = []
        self.taken: list[PlacedTurn] = []
        self.breaks_after = breaks_after

    def __call__(self, job: PlacedJob, folder: Path) -> Iterator[TakenTurn]:
        """Give every turn."""
        self.jobs.append(job)
        for place, turn in enumerate(job.turns):
            if len(self.taken) >= self.breaks_after:
                raise ClusterError("interrupted", target="here")
            self.taken.append(turn)
            even = job.tasks / turn.executors
            waves = 0.5 * (even + math.ceil(even))
            trips = TRIPS + WAVE_TRIPS * math.ceil(even)
            besides, each = FIXED + trips * turn.round_trip_seconds, PER_RECORD * waves / job.tasks
            rows = turn.cap if turn.batch_seconds is None else (turn.batch_seconds - besides) / each
            yield TakenTurn(place, rows / (besides + each * rows), 9, 0.5)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCluster:
    """In place of one."""
    fake = FakeCluster()
    monkeypatch.setattr(subject, "measure_live", fake)
    monkeypatch.setattr(subject, "geo_working_folder", lambda name: tmp_path / name)
    return fake


def test_the_law_of_batches_is_found_and_predicts_where_it_was_not_calibrated(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """On batches that follow it; the published law is farther off, and the document says whether each holds."""
    said: list[str] = []
    result = subject.reproduce_delay_law(an_experiment(), Call("law", tmp_path, say=said.append))
    assert len(cluster.taken) == 7
    assert len(cluster.jobs) == 1
    assert "7 of 7: capped, 1 x 200 ms" in said[-1]
    worst = result.document["worst_error_beyond_spread_percent"]
    assert worst["batch-time"] < 1.0 < worst["power-law"]
    assert result.document["holds"]["batch-time"]
    assert result.document["worst_by_variant_percent"]["power-law"] == {"capped": worst["power-law"]}
    found = result.document["parameters"]["capped"]["batch-time"]
    assert found == pytest.approx(
        {
            "per_record_seconds": PER_RECORD, "fixed_seconds": FIXED, "round_trips": TRIPS,
            "round_trips_per_wave": WAVE_TRIPS, "evenness": 0.5,
        },
        rel=0.02,
    )  # fmt: skip
    assert [row["is_calibration"] for row in result.document["rows"]] == [True] * 5 + [False] * 2
    assert result.picture().startswith(b"\x89PNG")


def test_a_variant_may_be_bounded_by_time_and_predict_configurations_of_its_own(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """Batches of two seconds follow the law of a trigger; a variant with both bounds, or none, is refused."""
    timed = {"name": "timed", "batch": "2s", "predicted": [[2, "100ms"]]}
    result = subject.reproduce_delay_law(an_experiment(variants=[timed]), Call("law", tmp_path))
    assert [turn.batch_seconds for turn in cluster.taken] == [2.0] * 6
    assert result.document["worst_error_beyond_spread_percent"]["batch-time"] < 1.0
    for wrong in ({"name": "none"}, {"name": "both", "batch": "2s", "rows_per_batch": 5}):
        with pytest.raises(ValueError, match="give either"):
            an_experiment(variants=[wrong])


def test_without_root_it_says_so_in_one_line_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before anything is started; what was measured is computed by anybody."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ConfigurationError, match="need root; run it as root") as fault:
        subject.reproduce_delay_law(an_experiment(), Call("law", tmp_path))
    assert "\n" not in str(fault.value)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_measurement_goes_on_where_it_ended(cluster: FakeCluster, tmp_path: Path) -> None:
    """What was measured is kept at once, and never measured again."""
    cluster.breaks_after = 3
    call = Call("law", tmp_path)
    with pytest.raises(ClusterError, match="interrupted"):
        subject.reproduce_delay_law(an_experiment(), call)
    assert len(read_samples(tmp_path / "samples.csv")) == 3
    cluster.breaks_after = 1000
    subject.reproduce_delay_law(an_experiment(), call)
    assert len(cluster.taken) == len(read_samples(tmp_path / "samples.csv")) == 7
    subject.reproduce_delay_law(an_experiment(), call)
    assert len(cluster.taken) == 7


def test_a_query_that_is_to_be_of_one_application_is_begun_anew_after_an_interruption(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """What an application that ended early gave is set aside, and that of other queries is kept."""
    variants = [
        {"name": "capped", "rows_per_batch": CAP, "payload": "text"},
        {"name": "whole", "rows_per_batch": CAP, "one_application": True},
    ]
    experiment, path = an_experiment(variants=variants), tmp_path / "samples.csv"
    cluster.breaks_after = 10
    with pytest.raises(ClusterError, match="interrupted"):
        subject.reproduce_delay_law(experiment, Call("law", tmp_path))
    assert Counter(sample.variant for sample in read_samples(path)) == {"capped": 7, "whole": 3}
    cluster.breaks_after = 1000
    said: list[str] = []
    subject.reproduce_delay_law(experiment, Call("law", tmp_path, say=said.append))
    assert [len(job.turns) for job in cluster.jobs] == [7, 7, 7]
    assert Counter(sample.variant for sample in read_samples(path)) == {"capped": 7, "whole": 7}
    assert [sample.variant for sample in read_samples(tmp_path / "unfinished-samples.csv")] == ["whole"] * 3
    assert said[0] == "whole: measured anew as a whole; what there was is in unfinished-samples.csv"
    subject.reproduce_delay_law(experiment, Call("law", tmp_path))
    assert len(cluster.jobs) == 3, "a whole one is left as it is"


def test_what_was_begun_is_kept_where_nothing_can_be_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without root the file of samples stays as it is; a query of several applications cannot be asked to have one."""
    experiment = an_experiment(variants=[{"name": "whole", "rows_per_batch": CAP, "one_application": True}])
    path = tmp_path / "samples.csv"
    add_sample(path, DelaySample("whole", 1, 0.0, 1, 5.0, 3, 0.0, 1.0))
    before = path.read_bytes()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ConfigurationError, match="need root"):
        subject.reproduce_delay_law(experiment, Call("law", tmp_path))
    assert [one.name for one in tmp_path.iterdir()] == ["samples.csv"]
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match="needs `repeats_each` of at least its `repeats`"):
        an_experiment(variants=[variant.model_dump() for variant in experiment.variants], repeats=2)


def test_the_spread_of_repeated_measurement_is_taken_off_the_error(tmp_path: Path) -> None:
    """An error within it says nothing against a law; without repetition there is none to take off."""
    experiment = an_experiment(calibration=[[1, "0ms"]], predicted=[[2, "0ms"]], repeats=2)
    for repeat, rates in enumerate([(100.0, 190.0), (100.0, 210.0)], start=1):
        for n, rate in zip((1, 2), rates, strict=True):
            add_sample(tmp_path / "samples.csv", DelaySample("capped", n, 0.0, repeat, rate, 9, 0.1, 1.0))
    row = subject.reproduce_delay_law(experiment, Call("law", tmp_path)).document["rows"][1]
    assert row["spread_percent"] == pytest.approx(7.07, abs=0.01)
    assert row["error_beyond_spread_percent"]["power-law"] == 0.0


def test_variants_of_one_application_are_measured_on_one_cluster() -> None:
    """With the most executors first, so that none has to be started; another application has one of its own."""
    experiment = an_experiment(
        variants=[
            {"name": "small", "rows_per_batch": 10}, {"name": "large", "rows_per_batch": 20},
            {"name": "words", "rows_per_batch": 10, "payload": "text"},
        ],
        repeats=3, repeats_each=2,
    )  # fmt: skip
    jobs = list(experiment.jobs([]))
    assert [len(keys) for keys, _ in jobs] == [28, 14, 14, 7]
    keys, job = jobs[0]
    assert {variant for variant, *_ in keys} == {"small", "large"}
    sizes = [turn.executors for turn in job.turns]
    assert sizes == sorted(sizes, reverse=True)
    caps = {"small": 10, "large": 20}
    for (variant, executors, trip, _), turn in zip(keys, job.turns, strict=True):
        assert turn == PlacedTurn(executors, trip, caps[variant])
    assert sorted({repeat for *_, repeat in keys}) == [1, 2]
    assert [len(left) for left, _ in experiment.jobs(keys)] == [14, 14, 7]
    assert decode(PlacedJob, encode(job)) == job


def test_a_variant_may_be_measured_less_often() -> None:
    """One that takes long has fewer measurements than the others, of the first rounds."""
    variants = [{"name": "often", "rows_per_batch": 10}, {"name": "once", "rows_per_batch": 20, "repeats": 1}]
    wanted = [key for keys, _ in an_experiment(variants=variants, repeats=3).jobs([]) for key in keys]
    assert Counter(variant for variant, *_ in wanted) == {"often": 21, "once": 7}
    assert {repeat for variant, *_, repeat in wanted if variant == "once"} == {1}


def test_an_application_warms_up_for_the_largest_batches_that_it_is_measured_with() -> None:
    """A variant may warm up with more records than the others; once it is measured, the others do not."""
    variants = [{"name": "capped", "rows_per_batch": CAP}, {"name": "timed", "batch": "5s", "warm_up_rows": 300_000}]
    experiment = an_experiment(variants=variants)
    [(keys, job)] = experiment.jobs([])
    assert job.warm_up_cap == 300_000
    assert {turn.cap for turn in job.turns} == {CAP, 300_000}
    [(_, job)] = experiment.jobs([key for key in keys if key[0] == "timed"])
    assert job.warm_up_cap == experiment.warm_up_rows
    assert {turn.cap for turn in job.turns} == {CAP}


def test_the_shipped_experiment_can_be_read_and_narrowed() -> None:
    """To one variant and one measurement of each configuration."""
    shipped = load_experiment(EXPERIMENTS / "gesscale-law")
    assert isinstance(shipped, DelayLawExperiment)
    narrow = shipped.narrowed([shipped.variants[0].name], 1)
    assert (len(narrow.variants), narrow.repeats) == (1, 1)
    with pytest.raises(ConfigurationError, match="there is no variant nothing"):
        shipped.narrowed(["nothing"])


def test_a_file_of_samples_that_is_none_is_refused(tmp_path: Path) -> None:
    """With its line."""
    path = tmp_path / "samples.csv"
    path.write_text("a,b\n")
    with pytest.raises(ConfigurationError, match="its first line"):
        read_samples(path)
    path.unlink()
    add_sample(path, DelaySample("v", 1, 0.0, 1, 5.0, 3, 0.0, 1.0))
    path.write_text(path.read_text() + "v,one,0,1,5,3,0,1\n")
    with pytest.raises(ConfigurationError, match="line 3"):
        read_samples(path)


def test_a_configuration_stands_once() -> None:
    """Else it would be predicted from itself."""
    with pytest.raises(ValueError, match="stands once"):
        an_experiment(predicted=[[1, "0ms"]])
