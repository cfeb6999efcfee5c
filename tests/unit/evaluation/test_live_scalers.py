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
from penstock.evaluation.experiment_kinds import load_experiment
from penstock.evaluation.live_run import LiveRun
from penstock.evaluation.live_scalers_experiment import LiveScalersExperiment
from penstock.evaluation.reproduction import Call
from penstock.records import Allocation, ClusterState, Decision, Observation, Quality
from penstock.settings import parse_settings

EXPERIMENTS = Path(__file__).parents[3] / "experiments"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The shipped experiment."""
    found = tmp_path / "gesscale-table-3-spark"
    found.mkdir()
    shutil.copy(EXPERIMENTS / found.name / "config.yaml", found)
    return found


def experiment_in(folder: Path, **changes: Any) -> LiveScalersExperiment:
    """The experiment, with some of its fields changed."""
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changes, sort_keys=False))
    found = load_experiment(folder)
    assert isinstance(found, LiveScalersExperiment)
    return found


def _asked_and_there(there: Allocation, asked: Allocation | None) -> ClusterState:
    wanted = asked or there
    return ClusterState(wanted, wanted, there)


class FakeRuns:
    """Runs that end at once: one executor, two from two minutes after the lead on, and a third that never came.

    One under constant load shows one, two and three executors at their maximum, a minute and a half each.
    """

    def __init__(self, breaks_after: int = 100) -> None:
        self.settings: list[Mapping[str, Any]] = []
        self.breaks_after = breaks_after
        self.shows = 3

    def __call__(self, settings: Mapping[str, Any], folder: Path) -> LiveRun:
        """Give a run of seven minutes with one change, and a decision of which nothing came."""
        if len(self.settings) >= self.breaks_after:
            raise ClusterError("interrupted", target="here")
        self.settings.append(settings)
        if "," not in settings["arrivals"]["shape"]:
            return LiveRun(folder, {}, a_history([], rides=self.overloaded()), 0.5)
        small, large = Allocation(1, nodes=(("node-5", 1),)), Allocation(2, nodes=(("node-2", 1), ("node-5", 1)))
        on_three = Allocation(3, nodes=(("node-2", 1), ("node-3", 1), ("node-5", 1)))
        seen = [
            Observation(
                "rides", 1000.0 + at, 10.0, Quality.GOOD, arrival_rate_rows_per_second=20_000.0,
                processed_rows_per_second=19_000.0, backlog_records=0 if at > 425.0 else 400_000,
                cluster=_asked_and_there(small if at < 180 else large, on_three if 300 <= at < 330 else None),
                last_batch_id=at // 5,
                records_done=30_000 * min(at, 180) + 50_000 * max(0, at - 180),
            )
            for at in range(0, 460, 5)
        ]  # fmt: skip
        change = Decision("rides", 1170.0, "gesscale", small, large, "more")
        in_vain = Decision("rides", 1300.0, "gesscale", large, on_three, "more")
        return LiveRun(folder, {}, a_history([change, in_vain], rides=seen), 0.5)

    def overloaded(self) -> list[Observation]:
        """30,000, 50,000 and 60,000 records a second in batches of 300,000."""
        seen, done, at = list[Observation](), 0, 0.0
        for executors, rate in ((1, 30_000), (2, 50_000), (3, 60_000))[: self.shows]:
            there = Allocation(executors, nodes=tuple((f"node-{n + 1}", 1) for n in range(executors)))
            for _ in range(rate * 90 // 300_000):
                at, done = at + 300_000 / rate, done + 300_000
                seen.append(
                    Observation(
                        "rides", 1000.0 + at, 10.0, Quality.GOOD, arrival_rate_rows_per_second=60_000.0,
                        backlog_records=10**7, cluster=ClusterState(*[there] * 3), last_batch_id=len(seen),
                        records_done=done,
                    )
                )  # fmt: skip
        return seen


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRuns:
    """In place of Spark."""
    fake = FakeRuns()
    monkeypatch.setattr(subject, "run_live", fake)
    monkeypatch.setattr(subject, "geo_working_folder", lambda name: tmp_path / name)
    return fake


def test_every_scaler_is_run_kept_and_held_against_the_ideal(folder: Path, runs: FakeRuns) -> None:
    """With executors as they were seen, and the paper's row beside it; what these sustain was measured before."""
    result = subject.reproduce_live_scalers(experiment_in(folder), Call("live", folder))
    rows = result.document["rows"]
    assert [row["scaler"] for row in rows] == ["THR-NLAware", "Gesscale", "gesscale+"]
    for row in rows:
        assert row["reconfigurations"] == 1
        assert row["excess_time"] == pytest.approx((380.0 - 288.0) / 288.0)
        # One executor for 135 s, two for the next 245 s.
        assert row["cost"] == pytest.approx((135.0 + 2 * 245.0) / 60.0)
    assert rows[1]["published"]["reconfigurations"] == 12
    assert rows[2]["published"] is None
    sustained = result.document["sustained"]
    assert sustained == pytest.approx([30_000.0, 50_000.0, 60_000.0], rel=0.06)
    assert [(one["executors"], one["records_per_second"]) for one in result.document["measured"]] == [
        (1, pytest.approx(30_000.0)), (2, pytest.approx(50_000.0)), (3, pytest.approx(60_000.0)),
    ]  # fmt: skip
    assert [one["executors"] for one in result.document["seen_in_runs"]] == [1, 2]
    assert result.document["ideal"]["accuracy_under"] == 0.0
    assert result.picture().startswith(b"\x89PNG")
    kept = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    assert [one["scaler"] for one in kept] == ["measured", "THR-NLAware", "Gesscale", "gesscale+"]
    assert kept[1]["changes"] == [[135.0, 2, ["node-2", "node-5"]]]  # when it was asked for
    assert len(runs.settings) == 4


def test_an_interrupted_comparison_goes_on_where_it_ended(folder: Path, runs: FakeRuns) -> None:
    """A run that ended is never run again."""
    runs.breaks_after = 2
    with pytest.raises(ClusterError, match="interrupted"):
        subject.reproduce_live_scalers(experiment_in(folder), Call("live", folder))
    runs.breaks_after = 100
    subject.reproduce_live_scalers(experiment_in(folder), Call("live", folder))
    assert [one["policy"]["name"] for one in runs.settings] == ["gesscale", "threshold", "gesscale", "gesscale+"]


def test_a_first_run_that_does_not_show_what_each_size_does_is_not_kept(folder: Path, runs: FakeRuns) -> None:
    """The ideal would be a guess for the sizes that lack; the message says which, and what to change."""
    runs.shows = 1
    with pytest.raises(ClusterError, match=r"no maximum of 2 and 3 executors; make measuring\.duration longer"):
        subject.reproduce_live_scalers(experiment_in(folder), Call("live", folder))
    assert not (folder / "runs.jsonl").exists()


def test_the_load_follows_from_what_was_measured(folder: Path, runs: FakeRuns) -> None:
    """Its peak needs all three executors and is less than they do; at night one is enough."""
    experiment = experiment_in(folder)
    result = subject.reproduce_live_scalers(experiment, Call("live", folder))
    one, two, three = result.document["sustained"]
    shape = runs.settings[1]["arrivals"]["shape"]
    rates = [float(step.partition("@")[2]) for step in shape.partition(":")[2].split(",")]
    assert two < max(rates) < three
    assert rates[0] < 0.8 * one
    assert rates[-1] < 0.8 * one
    assert result.document["ideal"]["reconfigurations"] >= 4


def test_one_scaler_can_be_run_alone(folder: Path, runs: FakeRuns) -> None:
    """Others that were run before are left out of its table; one that is not there is named."""
    whole = experiment_in(folder)
    subject.reproduce_live_scalers(whole.narrowed(["Gesscale"]), Call("live", folder))
    result = subject.reproduce_live_scalers(whole.narrowed(["gesscale+"]), Call("live", folder))
    assert [row["scaler"] for row in result.document["rows"]] == ["gesscale+"]
    assert len(runs.settings) == 3  # measured once
    with pytest.raises(ConfigurationError, match="there is no scaler ideal"):
        whole.narrowed(["ideal"])


def test_each_run_is_a_settings_file_with_nodes_of_their_own(folder: Path, runs: FakeRuns) -> None:
    """The application on five nodes in a plane, all delays as drawn, one executor to begin with, and a calm start."""
    experiment = experiment_in(folder)
    subject.reproduce_live_scalers(experiment, Call("live", folder))
    measuring, settings = (parse_settings(dict(one), "run") for one in runs.settings[:2])
    assert measuring.arrivals is not None
    assert str(measuring.arrivals.shape) == "steps:300s@60000"
    assert measuring.drain == 1.0
    geo = settings.cluster.geo
    assert geo is not None
    assert len(geo.nodes) == 5
    assert len(geo.pairs) == 15
    assert max(geo.pairs.values()) == pytest.approx(0.06)
    assert settings.arrivals is not None
    assert str(settings.arrivals.shape).startswith("steps:45s@")
    assert settings.operators[0].first_executors == 1
    assert settings.operators[0].app.endswith("taxi_attractions")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"executors": [1, 6]}, "do not fit"),
        ({"minutes": [200, 100]}, "no part of the replay"),
        ({"scalers": {"gesscale+": "gesscale+"}}, "published"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(folder: Path, changes: dict[str, Any], words: str) -> None:
    """The message says what there is."""
    with pytest.raises(ConfigurationError, match=words):
        experiment_in(folder, **changes)
