# SPDX-License-Identifier: Apache-2.0
"""Whether the law of delay holds: measurements are kept, go on where they ended, and judge both laws."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.unit.evaluation.run_histories import a_history

from penstock.arrivals import parse_shape
from penstock.errors import ClusterError, ConfigurationError
from penstock.evaluation import reproduce_delay_law as subject
from penstock.evaluation.delay_law_experiment import DelayLawExperiment
from penstock.evaluation.delay_samples import DelaySample, add_sample, read_samples
from penstock.evaluation.experiment_kinds import load_experiment
from penstock.evaluation.live_run import LiveRun
from penstock.evaluation.reproduction import Call
from penstock.records import Allocation, ClusterState, Observation, Quality
from penstock.settings import parse_settings

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
CAP, FIXED, PER_RECORD, TRIPS = 1000, 0.2, 0.001, 3.0


def an_experiment(**more: Any) -> DelayLawExperiment:
    """Nine configurations of one query, measured once each."""
    plain = {
        "kind": "delay-law", "title": "try", "paper": "Eq. 1", "machine": "here", "cores_per_node": 0.5, "repeats": 1,
        "variants": [{"name": "capped", "rows_per_batch": CAP}], "warm_up_batches": 1,
        "calibration": [[1, "0ms"], [2, "0ms"], [4, "0ms"], [1, "200ms"], [4, "200ms"]],
        "predicted": [[2, "100ms"], [3, "200ms"]],
    }  # fmt: skip
    return DelayLawExperiment.model_validate(plain | more)


class FakeSpark:
    """Runs that end at once: batches as long as the law of micro-batches says, until `breaks_after` of them."""

    def __init__(self, breaks_after: int = 1000) -> None:
        self.runs: list[Mapping[str, Any]] = []
        self.breaks_after = breaks_after

    def __call__(self, settings: Mapping[str, Any], folder: Path) -> LiveRun:
        """Give a run with 20 batches."""
        if len(self.runs) >= self.breaks_after:
            raise ClusterError("interrupted", target="here")
        self.runs.append(settings)
        n = settings["operators"][0]["executors"][0]
        delay = next(iter(settings["cluster"]["geo"]["round_trips"].values()))
        seconds = FIXED + PER_RECORD * CAP / n + TRIPS * delay
        has = Allocation(n)
        seen = [
            Observation(
                "measured", i * seconds, 15.0, Quality.GOOD, cluster=ClusterState(has, has, has), last_batch_id=i,
                records_done=CAP * (i + 1),
            )
            for i in range(20)
        ]  # fmt: skip
        return LiveRun(folder, {}, a_history(measured=seen), 0.5)


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeSpark:
    """In place of a cluster."""
    fake = FakeSpark()
    monkeypatch.setattr(subject, "run_live", fake)
    monkeypatch.setattr(subject, "working_folder", lambda name: tmp_path / name)
    return fake


def test_the_law_of_batches_is_found_and_predicts_where_it_was_not_calibrated(spark: FakeSpark, tmp_path: Path) -> None:
    """On batches that follow it; the published law is farther off, and the document says whether each holds."""
    said: list[str] = []
    result = subject.reproduce_delay_law(an_experiment(), Call("law", tmp_path, say=said.append))
    assert len(spark.runs) == 7
    assert "7 of 7: capped, 3 x 200 ms" in said[-1]
    assert "left" in said[0]
    worst = result.document["worst_error_beyond_spread_percent"]
    assert worst["batch-time"] < 1.0 < worst["power-law"]
    assert result.document["holds"]["batch-time"]
    found = result.document["parameters"]["capped"]["batch-time"]
    assert found == pytest.approx(
        {"per_record_seconds": PER_RECORD, "fixed_seconds": FIXED, "round_trips": TRIPS}, rel=0.02
    )
    assert [row["is_calibration"] for row in result.document["rows"]] == [True] * 5 + [False] * 2
    assert result.picture().startswith(b"\x89PNG")


def test_an_interrupted_measurement_goes_on_where_it_ended(spark: FakeSpark, tmp_path: Path) -> None:
    """What was measured is kept at once, and never measured again."""
    spark.breaks_after = 3
    call = Call("law", tmp_path)
    with pytest.raises(ClusterError, match="interrupted"):
        subject.reproduce_delay_law(an_experiment(), call)
    assert len(read_samples(tmp_path / "samples.csv")) == 3
    spark.breaks_after = 1000
    subject.reproduce_delay_law(an_experiment(), call)
    assert len(spark.runs) == len(read_samples(tmp_path / "samples.csv")) == 7
    subject.reproduce_delay_law(an_experiment(), call)
    assert len(spark.runs) == 7


def test_the_spread_of_repeated_measurement_is_taken_off_the_error(tmp_path: Path) -> None:
    """An error within it says nothing against a law; without repetition there is none to take off."""
    experiment = an_experiment(calibration=[[1, "0ms"]], predicted=[[2, "0ms"]], repeats=2)
    for repeat, rates in enumerate([(100.0, 190.0), (100.0, 210.0)], start=1):
        for n, rate in zip((1, 2), rates, strict=True):
            add_sample(tmp_path / "samples.csv", DelaySample("capped", n, 0.0, repeat, rate, 9, 0.1, 1.0))
    row = subject.reproduce_delay_law(experiment, Call("law", tmp_path)).document["rows"][1]
    assert row["spread_percent"] == pytest.approx(7.07, abs=0.01)
    assert row["error_beyond_spread_percent"]["power-law"] == 0.0


def test_too_few_batches_are_no_measurement(spark: FakeSpark, tmp_path: Path) -> None:
    """The message says what to change, and nothing is kept."""
    with pytest.raises(ClusterError, match="raise `longest`"):
        subject.reproduce_delay_law(an_experiment(warm_up_batches=30), Call("law", tmp_path))
    assert len(spark.runs) == 1
    assert not (tmp_path / "samples.csv").exists()


def test_every_measurement_is_a_settings_file_that_can_be_run() -> None:
    """Just these nodes, all as far from each other and from home, and batches that are always full."""
    experiment = an_experiment()
    settings = parse_settings(experiment.settings(experiment.variants[0], experiment.predicted[0]))
    geo = settings.cluster.geo
    assert geo is not None
    assert len(geo.nodes) == settings.operators[0].executors[0] == 2
    assert set(geo.pairs.values()) == {0.1}
    assert len(geo.pairs) == 3
    assert parse_shape(str(settings.arrivals.shape)).total == CAP * 31


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
