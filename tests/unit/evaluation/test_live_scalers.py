# SPDX-License-Identifier: Apache-2.0
"""Auto-scalers on a real cluster: what is run, what is kept, and what is made of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.evaluation.run_histories import a_history

from penstock.errors import ClusterError, ConfigurationError
from penstock.evaluation import reproduce_live_scalers as subject
from penstock.evaluation.delay_samples import DelaySample, add_sample
from penstock.evaluation.experiment_kinds import load_experiment
from penstock.evaluation.live_run import LiveRun
from penstock.evaluation.live_scalers_experiment import LiveScalersExperiment
from penstock.evaluation.reproduction import Call
from penstock.records import Allocation, ClusterState, Decision, Observation, Quality
from penstock.settings import parse_settings

EXPERIMENTS = Path(__file__).parents[3] / "experiments"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The shipped experiment, beside measurements of batches that take 0.2 s and 0.1 ms a record on one executor."""
    for name in ("gesscale-table-3-spark", "gesscale-law"):
        (tmp_path / name).mkdir()
        shutil.copy(EXPERIMENTS / name / "config.yaml", tmp_path / name)
    law = load_experiment(tmp_path / "gesscale-law")
    for one in law.configurations:  # type: ignore[attr-defined]
        waves = -(-4 // one.executors)
        rate = 40_000 / (0.2 + 1e-4 * 40_000 * waves / 4 + 4.0 * one.round_trip)
        sample = DelaySample("cap 40000", one.executors, one.round_trip, 1, rate, 9, 0.1, 1.0)
        add_sample(tmp_path / "gesscale-law" / "samples.csv", sample)
    return tmp_path / "gesscale-table-3-spark"


def experiment_in(folder: Path, **changes: Any) -> LiveScalersExperiment:
    """The experiment, with some of its fields changed."""
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changes, sort_keys=False))
    found = load_experiment(folder)
    assert isinstance(found, LiveScalersExperiment)
    return found


class FakeRuns:
    """Runs that end at once: one executor, and two from the second minute on."""

    def __init__(self, breaks_after: int = 100) -> None:
        self.settings: list[Mapping[str, Any]] = []
        self.breaks_after = breaks_after

    def __call__(self, settings: Mapping[str, Any], folder: Path) -> LiveRun:
        """Give a run of six minutes with one change."""
        if len(self.settings) >= self.breaks_after:
            raise ClusterError("interrupted", target="here")
        self.settings.append(settings)
        small, large = Allocation(1, nodes=(("node-5", 1),)), Allocation(2, nodes=(("node-2", 1), ("node-5", 1)))
        seen = [
            Observation(
                "rides", 1000.0 + at, 10.0, Quality.GOOD, arrival_rate_rows_per_second=20_000.0,
                processed_rows_per_second=19_000.0, backlog_records=0 if at > 365.0 else 10,
                cluster=ClusterState(*[small if at < 120.0 else large] * 3),
            )
            for at in range(0, 400, 5)
        ]  # fmt: skip
        change = Decision("rides", 1110.0, "gesscale", small, large, "more")
        return LiveRun(folder, {}, a_history([change], rides=seen), 0.5)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRuns:
    """In place of Spark."""
    fake = FakeRuns()
    monkeypatch.setattr(subject, "run_live", fake)
    monkeypatch.setattr(subject, "working_folder", lambda name: tmp_path / name)
    return fake


def test_every_scaler_is_run_kept_and_held_against_the_ideal(folder: Path, runs: FakeRuns) -> None:
    """With executors as they were seen, and the paper's row beside it."""
    result = subject.reproduce_live_scalers(experiment_in(folder), Call("live", folder))
    rows = result.document["rows"]
    assert [row["scaler"] for row in rows] == ["THR-NLAware", "Gesscale", "gesscale+"]
    for row in rows:
        assert row["reconfigurations"] == 1
        assert row["excess_time"] == pytest.approx(95.0 / 270.0)
        # One executor for two minutes, two for the next 245 s.
        assert row["cost"] == pytest.approx((120.0 + 2 * 245.0) / 60.0)
    assert rows[1]["published"]["reconfigurations"] == 12
    assert rows[2]["published"] is None
    sustained = result.document["sustained"]
    assert sustained[0] < sustained[1] < sustained[3]
    assert result.document["ideal"]["accuracy_under"] == 0.0
    assert result.picture().startswith(b"\x89PNG")
    kept = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    assert kept[0]["changes"] == [[110.0, 2, ["node-2", "node-5"]]]
    assert len(runs.settings) == 3


def test_an_interrupted_comparison_goes_on_where_it_ended(folder: Path, runs: FakeRuns) -> None:
    """A run that ended is never run again."""
    runs.breaks_after = 1
    with pytest.raises(ClusterError, match="interrupted"):
        subject.reproduce_live_scalers(experiment_in(folder), Call("live", folder))
    runs.breaks_after = 100
    subject.reproduce_live_scalers(experiment_in(folder), Call("live", folder))
    assert [one["policy"]["name"] for one in runs.settings] == ["threshold", "gesscale", "gesscale+"]


def test_one_scaler_can_be_run_alone(folder: Path, runs: FakeRuns) -> None:
    """Others that were run before are left out of its table; one that is not there is named."""
    whole = experiment_in(folder)
    subject.reproduce_live_scalers(whole.narrowed(["Gesscale"]), Call("live", folder))
    result = subject.reproduce_live_scalers(whole.narrowed(["gesscale+"]), Call("live", folder))
    assert [row["scaler"] for row in result.document["rows"]] == ["gesscale+"]
    assert len(runs.settings) == 2
    with pytest.raises(ConfigurationError, match="there is no scaler ideal"):
        whole.narrowed(["ideal"])


def test_each_run_is_a_settings_file_with_nodes_of_their_own(folder: Path, runs: FakeRuns) -> None:
    """The measured application on six nodes in a plane, all delays as drawn, and one executor to begin with."""
    subject.reproduce_live_scalers(experiment_in(folder), Call("live", folder))
    settings = parse_settings(dict(runs.settings[0]), "run")
    geo = settings.cluster.geo
    assert geo is not None
    assert len(geo.nodes) == 6
    assert len(geo.pairs) == 21
    assert max(geo.pairs.values()) == pytest.approx(0.1)
    assert settings.operators[0].first_executors == 1
    assert settings.operators[0].app.endswith("taxi_attractions")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"law": {"experiment": "gesscale-law", "variant": "none"}}, "cap 2000"),
        ({"executors": [1, 7]}, "do not fit"),
        ({"scalers": {"gesscale+": "gesscale+"}}, "published"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(folder: Path, changes: dict[str, Any], words: str) -> None:
    """The message says what there is."""
    with pytest.raises(ConfigurationError, match=words):
        subject.read_truth(experiment_in(folder, **changes), folder)
