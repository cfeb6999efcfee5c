# SPDX-License-Identifier: Apache-2.0
"""Auto-scalers compared: the file, and a short run of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from matplotlib.figure import Figure

from penstock.errors import ConfigurationError
from penstock.evaluation.elasticity import elasticity
from penstock.evaluation.experiment_file import experiments_folder
from penstock.evaluation.experiment_kinds import load_experiment, run_experiment
from penstock.evaluation.reproduce_scalers import ScalerRun, bars_of
from penstock.evaluation.reproduction import Call
from penstock.evaluation.scaler_experiment import FIGURES, ScalersExperiment
from penstock.evaluation.scaler_pictures import scalers_picture


def shipped() -> dict[str, Any]:
    """The experiment's file as plain data."""
    data = yaml.safe_load((experiments_folder() / "gesscale-table-3" / "config.yaml").read_text())
    assert isinstance(data, dict)
    return data


def small(tmp_path: Path, **changes: Any) -> ScalersExperiment:
    """The experiment with its days in 24 minutes, a tenth of the records and short standstills."""
    operator = {**shipped()["operator"], "per_record": 1.25, "cap": 8, "standstill": "10s"}
    data = {**shipped(), "duration": "24m", "rate": 1.74, "seeds": 1, "operator": operator, **changes}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(data))
    experiment = load_experiment(tmp_path)
    assert isinstance(experiment, ScalersExperiment)
    return experiment


def test_every_row_has_the_figures_and_the_published_ones(tmp_path: Path) -> None:
    """What `penstock reproduce gesscale-table-3 --json` prints: a row for each scaler and seed."""
    experiment = small(tmp_path)
    result = run_experiment(experiment, Call("small", tmp_path))
    rows = result.document["rows"]
    assert [row["scaler"] for row in rows] == [*experiment.scalers, "ideal"]
    for row in rows:
        assert set(FIGURES) <= set(row)
        assert row["seed"] == 100
        assert (row["published"] is None) == (row["scaler"] in ("gesscale+", "ideal"))
    ideal = rows[-1]
    assert (ideal["accuracy_over"], ideal["accuracy_under"], ideal["excess_time"]) == (0.0, 0.0, 0.0)
    assert result.picture().startswith(b"\x89PNG")
    assert len(result.remarks) == len(result.document["bars"])


def test_seeds_differ_in_load_and_nodes(tmp_path: Path) -> None:
    """And the same seed is the same world."""
    experiment = small(tmp_path)
    assert experiment.round_trips(1) == experiment.round_trips(1) != experiment.round_trips(2)
    assert len(experiment.arrivals(1)) != len(experiment.arrivals(2))
    assert experiment.round_trips(5).assumed_seconds == pytest.approx(0.3)


def test_scalers_read_cpu_and_not_time_in_tasks(tmp_path: Path) -> None:
    """The paper's thresholds are of CPU; tasks that wait for the network use none."""
    (operator,) = small(tmp_path).pipeline(1).operators
    assert operator.cpu_is_read


def test_random_nodes_are_drawn_anew_for_each_seed(tmp_path: Path) -> None:
    """Scalers that choose have no seed."""
    experiment = small(tmp_path)
    assert experiment.choice("THR-NLUnaware", 7).options["seed"] == 7
    assert "seed" not in experiment.choice("Gesscale", 7).options


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"baseline": "nobody"}, "baseline"),
        ({"published": {"nobody": shipped()["published"]["Gesscale"]}}, "published"),
        ({"nodes": {"count": 2, "longest": "1s"}}, "do not fit"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    """The message names what does not fit."""
    with pytest.raises(ConfigurationError, match=words):
        small(tmp_path, **changes)


def test_a_bar_is_held_against_the_median_of_all_seeds(tmp_path: Path) -> None:
    """Of four seeds on which it costs 4, 2 and 0 percent less and 1 more: 1 percent less, on two of them."""
    figures = elasticity([(0.0, 1.0)], [(0.0, 1.0)], 60.0)

    def runs(name: str, *costs: float) -> list[ScalerRun]:
        changed = [replace(figures, cost=cost) for cost in costs]
        return [ScalerRun(name, seed, one, one, (), ()) for seed, one in enumerate(changed)]

    by_scaler = {"Gesscale": runs("Gesscale", 100, 100, 100, 100), "gesscale+": runs("gesscale+", 96, 98, 100, 101)}
    (cost,) = (bar for bar in bars_of(small(tmp_path), by_scaler) if bar["figure"] == "cost")
    assert (cost["less_percent"], cost["less_on"], cost["seeds"]) == (pytest.approx(1.0), 2, 4)
    assert (cost["less_percent_low"], cost["less_percent_high"]) == (pytest.approx(-0.5), pytest.approx(3.0))
    assert (cost["median"], cost["median_against"]) == (99.0, 100.0)
    assert cost["medians_less_percent"] == pytest.approx(1.0)
    assert "has 1.00 % less cost than Gesscale on the same seed" in cost["says"]
    assert "to 3.00 % less; less on 2 of 4), and 1.00 % less in the medians of each (99 and 100)" in cost["says"]
    assert cost["is_met"]


def test_a_bar_is_met_where_both_medians_are_better(tmp_path: Path) -> None:
    """By seed it costs less on two of three, and its own median is higher: neither hides the other."""
    figures = elasticity([(0.0, 1.0)], [(0.0, 1.0)], 60.0)

    def runs(name: str, *costs: float) -> list[ScalerRun]:
        changed = [replace(figures, cost=cost) for cost in costs]
        return [ScalerRun(name, seed, one, one, (), ()) for seed, one in enumerate(changed)]

    by_scaler = {"Gesscale": runs("Gesscale", 90, 100, 101), "gesscale+": runs("gesscale+", 110, 99.98, 100.9)}
    (cost,) = (bar for bar in bars_of(small(tmp_path), by_scaler) if bar["figure"] == "cost")
    assert cost["less_percent"] > 0.0 > cost["medians_less_percent"]
    assert not cost["is_met"]
    assert "has 0.02 % less cost than Gesscale on the same seed" in cost["says"]
    assert "0.90 % more in the medians of each (100.9 and 100)" in cost["says"]


def test_a_bar_that_is_missed_says_more_and_no_infinite_percentage(tmp_path: Path) -> None:
    """Ten percent more are not said to be -10 % less, and more than nothing has no percentage."""
    figures = elasticity([(0.0, 1.0)], [(0.0, 1.0)], 60.0)
    theirs, ours = replace(figures, cost=100.0, excess_time=0.0), replace(figures, cost=110.0, excess_time=0.1)
    by_scaler = {
        name: [ScalerRun(name, 0, one, one, (), ())] for name, one in (("Gesscale", theirs), ("gesscale+", ours))
    }
    said = {bar["figure"]: bar["says"] for bar in bars_of(small(tmp_path), by_scaler)}
    assert "gesscale+ has 10.0 % more cost than Gesscale" in said["cost"]
    assert "gesscale+ has more excess_time than Gesscale" in said["excess_time"]


def test_the_picture_shows_all_of_every_scaler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one that has more executors and does more than the first."""
    shown = list[Figure]()
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: shown.append(figure))
    figures = elasticity([(0.0, 1.0)], [(0.0, 1.0)], 60.0)
    runs = [
        ScalerRun(name, 1, figures, figures, ((0.0, most),), ((0.0, 1.0),), ((0.0, 5.0, 0.0), (60.0, 5.0, 10.0 * most)))
        for name, most in (("small", 1.0), ("large", 8.0))
    ]
    scalers_picture(runs, 60.0)
    load, executors = shown[0].axes[1], shown[0].axes[3]
    assert (load.get_ylim()[0], executors.get_ylim()[0]) == (0.0, 0.0)
    assert load.get_ylim()[1] >= 80.0
    assert executors.get_ylim()[1] >= 8.0


def test_there_is_no_trace_to_choose(tmp_path: Path) -> None:
    """Only seeds can be narrowed."""
    assert small(tmp_path).narrowed(seeds=3).seeds == 3
    with pytest.raises(ConfigurationError, match="--trace"):
        small(tmp_path).narrowed(traces=["x"])
