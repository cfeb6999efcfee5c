# SPDX-License-Identifier: Apache-2.0
"""Latency against CPU: rows, what is kept of them, and how they are judged."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from penstock.cli import main
from penstock.errors import ConfigurationError
from penstock.evaluation import frontier_runs
from penstock.evaluation.experiment_file import CONFIG, experiments_folder
from penstock.evaluation.experiment_kinds import load_experiment
from penstock.evaluation.frontier_experiment import Bursts, FrontierExperiment, FrontierTrace
from penstock.evaluation.frontier_judgement import better_in_both, distances, mean_of
from penstock.evaluation.frontier_runs import FrontierRow, run_frontier
from penstock.evaluation.reproduce_frontier import reproduce_frontier, verdict
from penstock.evaluation.reproduction import Call

SMALL: dict[str, Any] = {
    "kind": "frontier", "title": "Small", "paper": "none", "seeds": 2, "interval": "5s",
    "executors": [1, 1], "cpu_shares": [0.5, 1.0], "middle": [1, 1.0], "highest_load": [0.9, 0.3, 0.1],
    "demands": {"records": {"phases": 2, "bounds": ["0.1s", "5s"]}, "batches": {"fixed": "0.1s", "bounds": ["2s"]}},
    "main": "replay",
    "policies": {"replay": "mead:queues=replay", "gi/g/1": "gi/g/1"},
    "grid": {"threshold": "threshold"},
    "traces": [
        {"name": "bursts", "arrivals": {"bursts": {"rate": 50, "length": "5s", "share": 0.2, "times": 3}},
         "seconds": "90s", "loads": [0.3], "demands": ["records", "batches"]},
        {"name": "not there", "arrivals": {"file": "not/there.csv", "get": "Ask somebody."}, "seconds": "90s",
         "demands": ["records"]},
    ],
}  # fmt: skip


def small(folder: Path, **others: Any) -> FrontierExperiment:
    """The small experiment in a folder."""
    folder.mkdir(exist_ok=True)
    (folder / CONFIG).write_text(yaml.safe_dump({**SMALL, **others}))
    experiment = load_experiment(folder)
    assert isinstance(experiment, FrontierExperiment)
    return experiment


def row(name: str, violation: float, cpu: float, trace: str = "a", policy: str = "threshold") -> FrontierRow:
    """A run with these figures."""
    return FrontierRow(trace, "records", 0.3, 0.1, 0, name, policy, {}, 0.1, 0.2, violation, cpu, 0)


def test_the_command_prints_a_row_for_each_run_and_leaves_out_what_is_missing(tmp_path: Path) -> None:
    """Every policy, setting and constant stands there for every seed and bound, with what the contract names."""
    small(tmp_path / "small")
    called = ["reproduce", "small", "--experiments", str(tmp_path), "--json", "--plot", str(tmp_path / "p.png")]
    done = CliRunner().invoke(main, called, catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {"trace", "policy", "options", "seed", "p95", "p99", "violation_time_share", "cpu"} <= rows[0].keys()
    assert len(rows) == 2 * 3 * 5  # two seeds, three bounds, two policies, one setting and two constants
    assert {(r["policy"], r["seed"]) for r in rows} == {
        (policy, seed) for policy in ("mead", "gi/g/1", "threshold", "constant") for seed in (0, 1)
    }
    assert {json.dumps(r["options"]) for r in rows if r["policy"] == "constant"} == {
        '{"executors": 1, "cpu_share": 0.5}', '{"executors": 1, "cpu_share": 1.0}',
    }  # fmt: skip
    top = [r for r in rows if r["options"] == {"executors": 1, "cpu_share": 1.0}]
    assert {r["cpu"] for r in top} == {1.0}
    assert len({r["p95"] for r in top if r["demand"] == "records"}) == 2, "each seed has arrivals of its own"
    said = " ".join(done.stderr.split())  # whatever the width of the terminal
    assert "not there left out" in said
    assert "Ask somebody." in said
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_what_was_done_is_not_done_again_unless_the_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second call takes the rows it has kept, and says so; under other bounds it runs anew."""
    experiment = small(tmp_path / "small", traces=SMALL["traces"][:1], seeds=1)
    said: list[str] = []
    first = run_frontier(experiment, Call("small", tmp_path / "small"))
    calls: list[str] = []
    ran = frontier_runs.run_job

    def recorded(experiment: FrontierExperiment, trace: FrontierTrace, seed: int) -> list[FrontierRow]:
        calls.append(trace.name)
        return ran(experiment, trace, seed)

    monkeypatch.setattr(frontier_runs, "run_job", recorded)
    again = run_frontier(experiment, Call("small", tmp_path / "small", say=said.append))
    assert [asdict(one) for one in again] == [asdict(one) for one in first]
    assert not calls
    assert "1 of 1 traces and seeds were done before" in said[0]
    demands = {**SMALL["demands"], "records": {"phases": 2, "bounds": ["0.2s"]}}
    run_frontier(
        small(tmp_path / "small", traces=SMALL["traces"][:1], seeds=1, demands=demands),
        Call("small", tmp_path / "small"),
    )
    assert calls == ["bursts"]


def test_violations_are_counted_against_the_bound_of_the_row(tmp_path: Path) -> None:
    """A policy that reads no bound has the same latency under both, and no fewer violations under the tighter."""
    rows = run_frontier(
        small(tmp_path / "small", traces=SMALL["traces"][:1], seeds=1), Call("small", tmp_path / "small")
    )
    tight, loose = (
        next(r for r in rows if r.row == "1 executor x 50% CPU" and r.bound == bound) for bound in (0.1, 5.0)
    )
    assert tight.p95 == loose.p95
    assert tight.violation_time_share > loose.violation_time_share > 0.0


def test_a_load_by_rule_is_the_highest_that_the_top_sustains(tmp_path: Path) -> None:
    """Of 0.9, 0.3 and 0.1 bursts of three times the rate leave 0.3, at which the top is not yet overloaded."""
    trace = {**SMALL["traces"][0], "demands": ["batches"]}
    del trace["loads"]
    rows = run_frontier(small(tmp_path / "small", traces=[trace], seeds=1), Call("small", tmp_path / "small"))
    assert {r.load for r in rows} == {0.3}


def test_a_load_by_rule_is_one_at_which_the_bound_is_possible(tmp_path: Path) -> None:
    """Where records are few, a high load makes each of them longer than the bound: the next load is tried."""
    few = {"bursts": {"rate": 5, "length": "5s", "share": 0.2, "times": 3}}
    trace = {"name": "few", "arrivals": few, "seconds": "200s", "demands": ["records"]}
    demands = {"records": {"phases": 2, "bounds": ["0.1s"]}}
    experiment = small(tmp_path / "small", traces=[trace], seeds=1, demands=demands)
    # At 0.9 and 5 a second a record is 0.18 s of work, at 0.3 60 ms with a p95 of 0.14 s.
    assert {r.load for r in run_frontier(experiment, Call("small", tmp_path / "small"))} == {0.1}


def test_what_is_done_is_kept_though_another_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace that cannot be run ends the run, and those before it are not run again."""
    broken = {**SMALL["traces"][0], "name": "broken"}
    experiment = small(tmp_path / "small", traces=[SMALL["traces"][0], broken], seeds=1)
    ran, calls = frontier_runs.run_job, []

    def failing(experiment: FrontierExperiment, trace: FrontierTrace, seed: int) -> list[FrontierRow]:
        calls.append(trace.name)
        if trace.name == "broken":
            raise ConfigurationError("it cannot be run", field="traces")
        return ran(experiment, trace, seed)

    monkeypatch.setattr(frontier_runs, "run_job", failing)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="cannot be run"):
            run_frontier(experiment, Call("small", tmp_path / "small"))
    assert calls == ["bursts", "broken", "broken"]


def test_bursts_have_the_rate_and_the_share_they_are_asked_for() -> None:
    """Mean rate, time in bursts and their length are those of the process."""
    process = Bursts(rate=200.0, length=8.0, share=0.2, times=3.0).process
    assert 1.0 / process.mean == pytest.approx(200.0)
    generator = process.D0 + process.D1
    assert -generator[1, 1] == pytest.approx(1 / 8.0)
    assert process.D1[1, 1] == pytest.approx(600.0)
    share = np.linalg.solve(np.vstack([generator.T[:1], [1.0, 1.0]]), [0.0, 1.0])[1]
    assert share == pytest.approx(0.2)
    with pytest.raises(ConfigurationError, match="times"):
        _ = Bursts(rate=1.0, length=1.0, share=0.5, times=3.0).process


def test_better_in_both_is_judged_over_all_traces_and_hindsight_on_each(tmp_path: Path) -> None:
    """A setting that is cheaper and safer on the whole beats the row; on each trace the cheapest that is as safe."""
    experiment = small(tmp_path / "small")
    runs = [
        row("replay", 0.10, 0.60), row("replay", 0.00, 0.80, "b"),
        row("threshold", 0.30, 0.30), row("threshold", 0.00, 0.70, "b"),
        row("low", 0.00, 0.55, policy="constant"), row("low", 0.08, 0.55, "b", policy="constant"),
    ]  # fmt: skip
    mean = mean_of("replay", runs)
    assert mean is not None
    assert (mean.violation, mean.cpu, mean.late) == pytest.approx((0.05, 0.70, 1.0))
    # Threshold: 15 % and 0.5; the constant: 4 % and 0.55.
    assert [point.row for point in better_in_both(experiment, runs, "replay")] == ["low"]
    assert verdict(experiment, runs).startswith("better than replay")
    safer = [replace(r, violation_time_share=0.2) if r.row == "low" else r for r in runs]
    assert "no setting and no constant" in verdict(experiment, safer)
    a, b = distances(experiment, runs, "replay")
    assert a.best is not None
    assert b.best is not None
    assert (a.best.row, b.best.row) == ("low", "threshold")
    assert b.constant is None


def test_the_shipped_file_has_the_whole_ablation() -> None:
    """Replay (as `mead` ships), MAP and neither stand there with and without rescue, beside grid and comparisons."""
    experiment = load_experiment(experiments_folder() / "mead-frontier")
    assert isinstance(experiment, FrontierExperiment)
    parts = {part + rescue for part in ("mead (replay)", "map", "neither") for rescue in ("", ", no rescue")}
    assert parts | {"mead-published", "m/g/1", "gi/g/1"} == set(experiment.policies)
    assert experiment.policies[experiment.main] == "mead"  # with its defaults
    assert len(experiment.constants) == 10
    assert {"records", "batches"} <= set(experiment.demands)


def test_without_any_trace_there_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    """Where nothing is left to run, the reason is an error."""
    experiment = small(tmp_path / "small", traces=SMALL["traces"][1:])
    with pytest.raises(ConfigurationError, match="Ask somebody"):
        reproduce_frontier(experiment, Call("small", tmp_path / "small"))
