# SPDX-License-Identifier: Apache-2.0
"""Whether the law of delay holds in real-time mode: what is measured together, and how three laws are judged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ClusterError, ConfigurationError
from penstock.evaluation import placed_run
from penstock.evaluation import reproduce_delay_law as subject
from penstock.evaluation.delay_samples import read_samples
from penstock.evaluation.experiment_kinds import load_experiment
from penstock.evaluation.placed_run import TakenTurn
from penstock.evaluation.real_time_law_experiment import RealTimeLawExperiment
from penstock.evaluation.reproduction import Call
from penstock.measuring.real_time_turns import RealTimeJob, RealTimeTurn

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
RECORD_BYTES, WORK, TRIPS = 100.0, 0.0005, 1.5


def an_experiment(**more: Any) -> RealTimeLawExperiment:
    """Seven configurations of a query with fetches of 1,000 records."""
    plain = {
        "kind": "delay-law-real-time", "title": "try", "paper": "Eq. 1", "machine": "here", "cores_per_node": 0.5,
        "repeats": 1, "record_bytes": RECORD_BYTES, "sink": {"linger.ms": "5"},
        "variants": [{"name": "fetches", "fetch_bytes": 100_000}],
        "calibration": [[1, "0ms"], [2, "0ms"], [4, "0ms"], [1, "200ms"], [4, "200ms"]],
        "predicted": [[2, "100ms"], [3, "200ms"]],
    }  # fmt: skip
    return RealTimeLawExperiment.model_validate(plain | more)


def of_one(tasks: int, wait: float) -> float:
    """Records a second of tasks that share a processor (the machine-repairman model, in closed form)."""
    ways = [math.perm(tasks, j) * (WORK / wait) ** j for j in range(tasks + 1)] if wait else [math.inf]
    return (1.0 - 1.0 / sum(ways)) / WORK


class FakeCluster:
    """Measurements that end at once, as the law of fetches has them; it breaks after so many."""

    def __init__(self) -> None:
        self.taken: list[RealTimeTurn] = []
        self.breaks_after = 1000

    def __call__(self, job: RealTimeJob, folder: Path) -> Iterator[TakenTurn]:
        """Give every turn."""
        for place, turn in enumerate(job.turns):
            if len(self.taken) >= self.breaks_after:
                raise ClusterError("interrupted", target="here")
            self.taken.append(turn)
            records = turn.fetch_bytes / RECORD_BYTES
            wait = max(0.0, TRIPS * turn.round_trip_seconds / records - WORK * min(1.0, 500 / records))
            n = turn.executors
            rate = sum(of_one(job.tasks // n + (i < job.tasks % n), wait) for i in range(n))
            yield TakenTurn(place, rate, 1, 0.5)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCluster:
    """In place of one."""
    fake = FakeCluster()
    monkeypatch.setattr(subject, "measure_live", fake)
    monkeypatch.setattr(subject, "geo_working_folder", lambda name: tmp_path / name)
    return fake


def test_the_law_of_fetches_is_found_where_the_others_are_far_off(cluster: FakeCluster, tmp_path: Path) -> None:
    """On fetches that follow it; all three laws are judged by the same configurations, in the table and the picture."""
    result = subject.reproduce_delay_law(an_experiment(), Call("law", tmp_path))
    assert len(cluster.taken) == 7
    worst = result.document["worst_error_beyond_spread_percent"]
    assert list(worst) == ["power-law", "batch-time", "fetch-time"]
    assert worst["fetch-time"] < 1.0 < min(worst["power-law"], worst["batch-time"])
    found = result.document["parameters"]["fetches"]["fetch-time"]
    assert found["per_record_seconds"] == pytest.approx(WORK, rel=0.01)
    # 100,000 bytes are 1,000 records, so the round trips of a fetch are a thousand times those of a record.
    assert 1000.0 * found["round_trips_per_record"] == pytest.approx(TRIPS, rel=0.01)
    assert result.picture().startswith(b"\x89PNG")


def test_an_interrupted_measurement_goes_on_where_it_ended(cluster: FakeCluster, tmp_path: Path) -> None:
    """What was measured is kept at once, and never measured again."""
    cluster.breaks_after = 3
    with pytest.raises(ClusterError, match="interrupted"):
        subject.reproduce_delay_law(an_experiment(), Call("law", tmp_path))
    cluster.breaks_after = 1000
    subject.reproduce_delay_law(an_experiment(), Call("law", tmp_path))
    assert len(cluster.taken) == len(read_samples(tmp_path / "samples.csv")) == 7


def test_fetches_of_one_application_share_a_cluster_one_after_the_other() -> None:
    """A query has one size of fetches, so its turns stand together, with the most executors first."""
    experiment = an_experiment(
        variants=[
            {"name": "small", "fetch_bytes": 1000}, {"name": "large", "fetch_bytes": 9000, "predicted": [[3, "50ms"]]},
            {"name": "words", "payload": "text"},
        ],
        repeats=2,
    )  # fmt: skip
    (keys, job), (_, words) = experiment.jobs([])
    assert [len(job.turns), len(words.turns)] == [26, 14]
    assert [turn.fetch_bytes for turn in job.turns] == [1000] * 14 + [9000] * 12
    for first, last in ((0, 14), (14, 26)):
        sizes = [turn.executors for turn in job.turns[first:last]]
        assert sizes == sorted(sizes, reverse=True)
    for (variant, executors, trip, _), turn in zip(keys, job.turns, strict=True):
        assert turn == RealTimeTurn(executors, trip, {"small": 1000, "large": 9000}[variant])
    assert (job.payload, words.payload, job.sink) == ("taxi-ride", "text", {"linger.ms": "5"})
    assert [len(left) for left, _ in experiment.jobs(keys)] == [14]


def test_the_shipped_experiment_can_be_read_and_its_jobs_have_a_program() -> None:
    """One that exists, so that a measurement can be started."""
    shipped = load_experiment(EXPERIMENTS / "gesscale-law-real-time")
    assert isinstance(shipped, RealTimeLawExperiment)
    for _, job in shipped.jobs([]):
        assert placed_run._PROGRAMS[type(job)] == "penstock.running.real_time_measurement"
    with pytest.raises(ConfigurationError, match="there is no variant nothing"):
        shipped.narrowed(["nothing"])
