# SPDX-License-Identifier: Apache-2.0
"""`penstock reproduce`: lists, runs, and says what is missing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import penstock

CURVE = {
    "kind": "curve", "title": "a queue", "paper": "Figure 0", "phases": 2, "best": 1, "seeds": 1,
    "published": "all models agree", "utilisations": [0.5],
    "traces": [
        {"name": "calm", "arrivals": {"shape": "sampled:constant:rate=100,duration=60s,seed=3"}},
        {"name": "far", "arrivals": {"file": "nowhere/times.txt", "get": "Ask the archive."}},
    ],
}  # fmt: skip
TABLE = {
    "kind": "table", "title": "policies", "paper": "Table 0", "statistic": "mean", "seeds": 1, "main": "static",
    "rows": {"static": "static", "threshold": "threshold"},
    "pipeline": {
        "operators": [{"name": "matcher", "service": {"distribution": "erlang", "phases": 2}}],
        "guards": "none",
    },
    "traces": [
        {
            "name": "short",
            "arrivals": {"shape": "sampled:constant:rate=20,duration=60s,seed=1"},
            "service": {"matcher": "10ms"},
            "cells": [{"bound": "100ms", "published": {"static": [0.123, 45.6]}}],
        }
    ],
}  # fmt: skip


@pytest.fixture
def experiments(tmp_path: Path) -> Path:
    """A folder with a curve and a table."""
    for name, data in (("a-curve", CURVE), ("a-table", TABLE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
    return tmp_path


def test_the_list_names_every_experiment(invoke: Callable[..., Any], experiments: Path) -> None:
    """--list shows name, place in the paper and title of each."""
    result = invoke("reproduce", "--list", "--experiments", str(experiments))
    assert result.exit_code == 0
    assert "a-curve" in result.stdout
    assert "Table 0: policies" in result.stdout


def test_a_table_shows_published_figures_beside_ours(invoke: Callable[..., Any], experiments: Path) -> None:
    """The paper's figures stand in the row of ours, in words and in JSON, and the picture is written."""
    picture = experiments / "table.png"
    arguments = ("reproduce", "a-table", "--experiments", str(experiments))
    result = invoke(*arguments, "--plot", str(picture))
    assert result.exit_code == 0, result.output
    assert "0.123 s" in result.stdout
    assert "45.6 %" in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    document = json.loads(invoke(*arguments, "--json").stdout)
    static, threshold = document["cells"]
    assert static["published"] == {"seconds": 0.123, "cpu": 45.6}
    assert threshold["published"] is None
    assert static["seeds_met"] == 1


def test_a_curve_of_one_trace_alone(invoke: Callable[..., Any], experiments: Path) -> None:
    """--trace leaves the others out, so that what they lack does not matter."""
    result = invoke("reproduce", "a-curve", "--trace", "calm", "--experiments", str(experiments), "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [trace["trace"] for trace in document["traces"]] == ["calm"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a-curve",), "Ask the archive"),
        (("other",), "no experiment is called 'other'; there are a-curve, a-table"),
        (("a-table", "--trace", "LM"), "there is no LM in it; it has short"),
        (("a-table", "--plot", "nowhere/at/all.png"), "is not a folder"),
    ],
)
def test_wrong_input_is_told(
    invoke: Callable[..., Any], experiments: Path, arguments: tuple[str, ...], message: str
) -> None:
    """A missing trace, an unknown name and a folder that is not there end with code 2 and what to do."""
    result = invoke("reproduce", *arguments, "--experiments", str(experiments))
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_result_names_the_code_that_gave_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version always, the commit in a source tree, marked where the source was changed since."""
    from penstock.evaluation import source_version as module

    here = module.source_version()
    assert here["version"] == penstock.__version__
    answers = {"rev-parse": "abc123", "status": " M src/penstock/clock.py"}
    monkeypatch.setattr(module, "_git", lambda tree, command, *rest: answers[command])
    monkeypatch.setattr(module, "__file__", str(tmp_path / "src" / "penstock" / "evaluation" / "source_version.py"))
    assert module.source_version()["commit"] is None
    (tmp_path / ".git").mkdir()
    assert module.source_version()["commit"] == "abc123 with changes"
    answers["status"] = ""
    assert module.source_version()["commit"] == "abc123"
