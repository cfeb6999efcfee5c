# SPDX-License-Identifier: Apache-2.0
"""Experiments done again: tables over seeds with an oracle, curves over utilisation, and their files."""

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from penstock.errors import ConfigurationError
from penstock.evaluation.experiment_file import (
    CurveExperiment,
    Experiment,
    TableExperiment,
    TraceSource,
    experiment_names,
)
from penstock.evaluation.experiment_kinds import KINDS, load_experiment
from penstock.evaluation.reproduce import ORACLE, TableRun
from penstock.evaluation.reproduce_curve import curve
from penstock.evaluation.reproduce_pictures import curve_picture, table_picture

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
PNG = b"\x89PNG"


def tiny_table(**changed: Any) -> dict[str, Any]:
    """A table of one short trace and two bounds, one of which only more than the lowest level keeps."""
    return {
        "kind": "table", "title": "tiny", "paper": "none", "statistic": "mean", "seeds": 2, "main": "MEAD",
        "rows": {
            "MEAD": "mead:window=1000,best=1,max_states=2,every_seconds=30s",
            "M/G/1": "m/g/1:window=1000,every_seconds=30s",
            "static": "static",
            "oracle": "oracle",
        },
        "pipeline": {
            "operators": [{"name": "matcher", "service": {"distribution": "erlang", "phases": 2}}],
            "guards": "none",
        },
        "traces": [
            {
                "name": "short",
                "arrivals": {"shape": "sampled:constant:rate=20,duration=120s,seed=1"},
                "service": {"matcher": "16ms"},
                "cells": [{"bound": "60ms", "published": {"MEAD": [0.05, 50.0]}}, {"bound": "1s"}],
            }
        ],
        **changed,
    }  # fmt: skip


@pytest.fixture(scope="module")
def table() -> TableExperiment:
    """The tiny table."""
    return TableExperiment.model_validate(tiny_table())


def test_a_table_has_every_row_under_every_bound(table: TableExperiment) -> None:
    """All rows of all cells come back with a figure for each seed; the oracle keeps the bounds for the least CPU."""
    arrivals = {trace.name: trace.arrivals.times() for trace in table.traces}
    heard: list[float] = []
    results = TableRun(table, arrivals, seeds=2).results(heard.append)
    assert [(r.bound, r.row) for r in results] == [(b, row) for b in (0.06, 1.0) for row in table.rows]
    assert all(len(r.runs) == 2 for r in results)
    assert heard == sorted(heard)
    assert heard[-1] == 1.0
    by_cell = {(r.bound, r.row): r for r in results}
    for bound in (0.06, 1.0):
        oracle, static = by_cell[bound, "oracle"], by_cell[bound, "static"]
        assert oracle.policy == ORACLE
        assert oracle.met == static.met == 2
        assert static.cpu == 1.0
        assert oracle.cpu <= by_cell[bound, "static"].cpu
        assert oracle.seconds <= bound
    # 20 per second of 16 ms at a share of 0.4: utilisation 0.8, 0.04 + 0.8 x 0.04 x 0.75 / 0.2 = 0.16 s on average.
    assert by_cell[0.06, "oracle"].cpu > by_cell[1.0, "oracle"].cpu == 0.4
    assert table_picture(table, results).startswith(PNG)
    assert by_cell[0.06, "static"].to_json()["seeds_met"] == 2


def test_a_curve_finds_models_right_without_correlation() -> None:
    """Of Poisson arrivals every model predicts what the simulation shows."""
    experiment = CurveExperiment.model_validate(
        {
            "kind": "curve",
            "title": "tiny",
            "paper": "none",
            "phases": 2,
            "best": 1,
            "published": "all are right",
            "utilisations": [0.5],
            "traces": [{"name": "calm", "arrivals": {"shape": "sampled:constant:rate=100,duration=200s,seed=3"}}],
        }
    )
    arrivals = {trace.name: trace.arrivals.times() for trace in experiment.traces}
    (result,) = results = curve(experiment, arrivals, seeds=2)
    (point,) = result.points
    for predicted in (point.m_ph_1, point.kingman, *point.of_fits):
        assert predicted == pytest.approx(point.simulated, rel=0.15)
    assert curve_picture(results).startswith(PNG)


def test_the_experiments_of_the_repository_can_be_read() -> None:
    """Every folder under experiments has a file without mistakes, whose pipelines and policies exist."""
    names = experiment_names(EXPERIMENTS)
    assert {"mead-figure-3", "mead-table-1", "mead-table-2", "mead-table-3"} <= set(names)
    for name in names:
        experiment = load_experiment(EXPERIMENTS / name)
        if isinstance(experiment, TableExperiment):
            TableRun(experiment, {}, seeds=1)
            for trace in experiment.traces:
                assert experiment.pipeline_of(trace).pipeline.paths


def test_a_missing_trace_says_where_to_get_it(tmp_path: Path) -> None:
    """A file of public data that is not there names the file, its source and the variable to set."""
    source = TraceSource(file="bc/times.txt", get="Ask the archive.")
    with pytest.raises(ConfigurationError, match=r"(?s)times\.txt is not there\. Ask the archive.*PENSTOCK_DATA"):
        source.times(tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"main": "other"}, "no row is called other"),
        ({"statistic": "p42"}, "statistic"),
        ({"traces": []}, "traces"),
        ({"kind": "dance"}, "kind: 'dance' is none of .*curve.*table"),
        ({"kind": ["table"]}, "is none of"),
    ],
)
def test_mistakes_in_an_experiment_are_reported(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    """A wrong file names the field."""
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(tiny_table(**changed)), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=message):
        load_experiment(tmp_path)


def test_an_unknown_policy_of_a_row_is_reported(table: TableExperiment) -> None:
    """A row with a policy that does not exist is refused before anything is run."""
    wrong = table.model_copy(update={"rows": {"MEAD": "meat"}})
    with pytest.raises(ConfigurationError, match="MEAD: policy: unknown policy 'meat'"):
        TableRun(wrong, {}, seeds=1)


def test_every_kind_is_written_as_it_is_registered() -> None:
    """The name under which a kind is registered is the one that its files have to say."""
    for name, kind in KINDS.items():
        assert get_args(kind.file.model_fields["kind"].annotation) == (name,)


def test_options_that_an_experiment_cannot_use_are_refused() -> None:
    """An experiment without traces and seeds says so, where one of them is asked for."""
    plain = Experiment(kind="plain", title="runs", paper="none")
    assert plain.narrowed() is plain
    with pytest.raises(ConfigurationError, match="--trace"):
        plain.narrowed(traces=("BC",))
    with pytest.raises(ConfigurationError, match="--seeds"):
        plain.narrowed(seeds=3)
