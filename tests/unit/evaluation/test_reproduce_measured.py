# SPDX-License-Identifier: Apache-2.0
"""Kept samples of measured applications, predicted at sizes never trained on."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigurationError
from penstock.evaluation.experiment_kinds import load_experiment, run_experiment
from penstock.evaluation.measured_experiment import MeasuredExperiment
from penstock.evaluation.reproduce_measured import judge
from penstock.evaluation.reproduction import Call
from penstock.records import Allocation, ThroughputSample

SIZES = (1, 2, 4, 6, 8)
CONFIG = """
kind: measured-throughput
title: a few applications
paper: some paper
samples: samples
measure: measure.sh
machine: here
largest: 6
published: {selected model at most: 15.8}
"""


def rows_of(each: float, bend: float = 1.0) -> list[tuple[int, float]]:
    """Two samples of each size around a power law, 2 % apart."""
    return [(size, each * size**bend * factor) for size in SIZES for factor in (0.99, 1.01)]


def an_experiment(folder: Path, applications: dict[str, list[tuple[int, float]]]) -> MeasuredExperiment:
    """The experiment with these samples on the disk."""
    (folder / "samples").mkdir()
    (folder / "config.yaml").write_text(CONFIG)
    for name, rows in applications.items():
        lines = [f"{name},{size},0.2,{rate}" for size, rate in rows]
        text = "\n".join(["application,executors,cpu_share,throughput", *lines])
        (folder / "samples" / f"{name}.csv").write_text(text + "\n")
    experiment = load_experiment(folder)
    assert isinstance(experiment, MeasuredExperiment)
    return experiment


def test_the_largest_size_is_predicted_from_smaller_ones(tmp_path: Path) -> None:
    """Applications in proportion are predicted within their spread, at sizes that were not trained on."""
    applications = {"a": rows_of(100.0), "b": rows_of(5.0), "c": rows_of(40.0, 0.9)}
    experiment = an_experiment(tmp_path, applications)
    result = run_experiment(experiment, Call("mine", tmp_path))
    rows = {row["application"]: row for row in result.document["rows"]}
    assert set(rows) == {"a", "b", "c"}
    for row in rows.values():
        assert len(row["trained_on"]) == 3
        assert max(row["trained_on"]) <= 6
        assert set(row["mape_percent_by_size"]) == {str(size) for size in SIZES} - set(map(str, row["trained_on"]))
        # Two samples at 0.99 and 1.01 of their mean: a standard deviation of 0.01 * sqrt(2).
        assert row["spread_percent"] == pytest.approx(1.414, abs=0.01)
        assert row["mean_value_mape_percent"] == pytest.approx(1.0, abs=0.01)
    assert rows["a"]["mape_percent"] < 3.0
    assert rows["a"]["efficiency"] == pytest.approx(1.0)
    assert rows["c"]["efficiency"] == pytest.approx(8**-0.1)
    assert result.document["ours"]["worst_mape_percent"] == max(row["mape_percent"] for row in rows.values())
    assert result.document["ours"]["unseen_samples"] == sum(
        len(row["mape_percent_by_size"]) * 2 for row in rows.values()
    )
    every = result.document["every_choice_of_sizes"]
    # Four sizes up to 6, three of them to train on: four choices, each with two unseen sizes of two samples.
    assert every["unseen_samples"] == 3 * 4 * 2 * 2
    assert every["worst_mape_percent"] == max(every["mape_percent"].values())
    assert every["inside_interval"] > 0.9
    assert result.picture().startswith(b"\x89PNG")


def test_what_is_judged_has_no_part_in_training(tmp_path: Path) -> None:
    """Other values at the unseen sizes change the errors and the coverage, not the sizes nor the model."""
    experiment = an_experiment(tmp_path, {"a": rows_of(100.0), "b": rows_of(5.0), "c": rows_of(40.0, 0.9)})
    samples = experiment.load(tmp_path)
    before = judge(experiment, samples, "a")
    halved = [
        s if s.allocation.executors in before.trained_on
        else ThroughputSample(s.allocation, 0.5 * s.records_per_second)
        for s in samples["a"]
    ]  # fmt: skip
    after = judge(experiment, {**samples, "a": halved}, "a")
    assert after.trained_on == before.trained_on
    eight = Allocation(8, 0.2)
    assert after.model.predict(eight) == before.model.predict(eight)
    assert after.error_percent() > 80.0
    assert (before.inside_share, after.inside_share) == (1.0, 0.0)


def test_missing_samples_are_named_with_the_command(tmp_path: Path) -> None:
    """Without samples the message says how to measure them."""
    experiment = an_experiment(tmp_path, {"a": rows_of(100.0)})
    with pytest.raises(ConfigurationError, match=r"samples of 1 applications.*measure\.sh"):
        experiment.load(tmp_path)


def test_kept_samples_cannot_be_narrowed(tmp_path: Path) -> None:
    """There are no seeds and no traces to choose from."""
    experiment = an_experiment(tmp_path, {"a": rows_of(100.0), "b": rows_of(5.0)})
    assert experiment.narrowed() is experiment
    with pytest.raises(ConfigurationError, match="--seeds"):
        experiment.narrowed(seeds=2)
    with pytest.raises(ConfigurationError, match="--trace"):
        experiment.narrowed(["x"])
