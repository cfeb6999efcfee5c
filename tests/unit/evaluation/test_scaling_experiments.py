# SPDX-License-Identifier: Apache-2.0
"""Static and dynamic scaling as experiments: their files, their figures and their words, without Spark."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.apps.google_cluster.check import expected_results
from penstock.apps.google_cluster.results import add_results
from penstock.errors import ClusterError, ConfigurationError
from penstock.evaluation import reproduce_dynamic, reproduce_static
from penstock.evaluation.experiment_kinds import load_experiment, run_experiment
from penstock.evaluation.history import RunHistory
from penstock.evaluation.live_experiment import StaticExperiment, TaskTrace
from penstock.evaluation.live_run import (
    LiveRun,
    Watcher,
    done_before,
    run_live,
    settled,
    throughput,
    while_counted,
)
from penstock.evaluation.reproduction import Call
from penstock.knowledge.sqlite import SqliteStore
from penstock.records import Allocation, ClusterState, Observation
from penstock.testing import an_observation

PNG = b"\x89PNG"
EXPERIMENTS = Path(__file__).parents[3] / "experiments"


def a_file(kind: str, **changed: Any) -> dict[str, Any]:
    """An experiment on a small generated trace."""
    of_kind: dict[str, dict[str, Any]] = {
        "static-scaling": {
            "executors": [1, 2],
            "published": {
                1: {"minutes": 129.69, "median": 18405, "p75": 1, "p90": 1, "p95": 1},
                2: {"minutes": 71.06, "median": 33779, "p75": 1, "p90": 1, "p95": 1},
            },
        },
        "dynamic-scaling": {"published": "it follows the load"},
    }
    return {
        "kind": kind, "title": "tiny", "paper": "none",
        "trace": {"generated": {"machines": 5, "tasks": 60, "seconds": 1000}, "rows_per_batch": 100},
        "pipeline": {
            "name": "tiny", "policy": {"name": "rules", "options": {"rules": "out.rules"}},
            "operators": [{"name": "machines", "app": "a:b"}, {"name": "cluster", "app": "a:c", "input": "machines"}],
        },
        **of_kind[kind], **changed,
    }  # fmt: skip


def written(folder: Path, data: dict[str, Any]) -> Path:
    """The file in its folder."""
    (folder / "config.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
    return folder


def batches(
    operator: str, rows: int, seconds: float, *, utilisation: float, count: int = 5, executors: int = 1
) -> list[Observation]:
    """Observations each half second of batches of so many rows and seconds."""
    looks = []
    for look in range(1, int(2 * seconds * count) + 1):
        ended = int(look * 0.5 / seconds + 1e-9)
        seen = an_observation(operator=operator, at=1000.0 + look * 0.5, utilisation=utilisation, backlog_records=9)
        seen = replace(seen, cluster=ClusterState(observed=Allocation(executors, 1.0)))
        last = None if ended == 0 else ended - 1
        looks.append(replace(seen, last_batch_id=last, records_done=None if last is None else ended * rows))
    return looks


class FakeRuns:
    """Stands in for `run_live`: twice the executors do as much again, less a tenth; the results are right."""

    def __init__(self, *, is_right: bool = True) -> None:
        self.settings: list[dict[str, Any]] = []
        self._is_right = is_right

    def __call__(self, settings: dict[str, Any], folder: Path, watcher: Watcher | None) -> LiveRun:
        """A run of these settings, half of which is done at the first look."""
        self.settings.append(settings)
        if watcher is not None:
            watcher.progress(0.5)
        executors = settings["operators"][0].get("executors", [1, 1])[0]
        rows = {1: 1000, 2: 1800}[executors]
        seen = {
            "machines": batches("machines", rows, 2.0, utilisation=0.9 / executors, executors=executors),
            "cluster": batches("cluster", 500, 2.0, utilisation=0.6),
        }
        history = RunHistory(seen, [], [], [], [], settings, {})
        run = LiveRun(folder, {}, history, 1.5)
        expected = expected_results(Path(settings["arrivals"]["trace"]))
        add_results(run.output_of("cluster"), expected if self._is_right else expected[:-1])
        return run


def test_throughput_leaves_out_the_first_batches() -> None:
    """Rates come from the ends of batches after the warm-up; too few batches give no figure."""
    slow, fast = batches("op", 100, 4.0, utilisation=1.0, count=2), batches("op", 300, 1.0, utilisation=1.0, count=4)
    later = [
        replace(o, at=o.at + 8.0, last_batch_id=None if o.last_batch_id is None else o.last_batch_id + 2,
                records_done=None if o.records_done is None else o.records_done + 200)
        for o in fast
    ]  # fmt: skip
    found = throughput([*slow, *later], skip=2)
    assert found is not None
    assert (found.batches, found.mean, found.median, found.p95) == (4, 300.0, 300.0, 300.0)
    assert throughput(slow, skip=2) is None
    assert throughput([], skip=1) is None
    rest = throughput([*slow, *later], skip=2, least_done=800)
    assert rest is not None
    assert rest.batches == 2
    assert (done_before([*slow, *later], skip=2), done_before([], skip=1)) == (200, 0)


def test_other_figures_are_of_the_batches_that_throughput_counts() -> None:
    """Looks from the end of the last batch that is left out to the end of the last batch; none, if no batch ended."""
    looks = batches("op", 100, 2.0, utilisation=1.0, count=4)
    assert [look.at for look in while_counted(looks, skip=2)] == [1004.5, 1005.0, 1005.5, 1006.0, 1006.5, 1007.0,
                                                                  1007.5, 1008.0]  # fmt: skip
    assert while_counted(looks[:2], skip=1) == []


def test_a_watcher_hears_what_part_is_done(tmp_path: Path) -> None:
    """It reads the newest look of its operator out of the run's store, and says nothing while there is none."""
    heard: list[float] = []
    watcher, path = Watcher("op", 200, heard.append), tmp_path / "knowledge.sqlite"
    watcher.look(path)
    path.touch()
    watcher.look(path)
    path.unlink()
    with closing(SqliteStore(path)) as store:
        watcher.look(path)
        for at, operator, done in ((1.0, "op", 10), (2.0, "op", 50), (3.0, "other", 999), (4.0, "op", None)):
            store.add_observation(replace(an_observation(operator=operator, at=at), records_done=done))
            watcher.look(path)
    assert heard == [0.05, 0.25, 0.25]


def test_only_what_an_operator_did_with_its_own_size_counts() -> None:
    """Looks at which it still had another share or number of executors, or none was seen, are left out."""
    small, large = (Allocation(n, share) for n, share in ((1, 0.25), (2, 0.25)))
    looks = [
        replace(an_observation(operator="op", at=float(at)), cluster=ClusterState(observed=observed))
        for at, observed in enumerate([None, Allocation(1, 1.0), small, large])
    ]
    assert [look.at for look in settled(looks, 1, (0.25,))] == [2.0]
    assert [look.at for look in settled(looks, None, (0.25,))] == [2.0, 3.0]


def test_static_scaling_gives_speed_up_and_efficiency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each size is run with its executors; figures stand beside the paper's, and the bottleneck moves."""
    runs = FakeRuns()
    monkeypatch.setattr(reproduce_static, "run_live", runs)
    monkeypatch.chdir(tmp_path)
    heard: list[float] = []
    experiment = load_experiment(written(tmp_path, a_file("static-scaling")))
    result = run_experiment(experiment, Call("tiny", tmp_path, progress=heard.append))
    assert [s["operators"][0]["executors"] for s in runs.settings] == [[1, 1], [2, 2]]
    # With one executor a run takes twice as long as with two: two thirds of the whole.
    assert heard == pytest.approx([1 / 3, 2 / 3, 5 / 6, 1.0])
    one, two = result.document["sizes"]
    assert (one["median"], one["speed_up"], one["efficiency"]) == (500.0, 1.0, 1.0)
    assert (two["median"], two["speed_up"], two["efficiency"]) == (900.0, 1.8, 0.9)
    assert two["published"]["speed_up"] == pytest.approx(129.69 / 71.06)
    assert (one["bottleneck"], two["bottleneck"]) == ("machines", "cluster")
    assert "to the last digit" in result.remarks[0]
    assert result.grids[0].rows[2:] == (
        ("2", "ours", "900", "900", "900", "900", "1.80", "0.90"),
        ("", "paper", "33,779", "1", "1", "1", "1.83", "0.91"),
    )
    # The operator that is not scaled does as much as before: there the whole has no gain.
    assert [row[1:4] for row in result.grids[1].rows if row is not None] == [
        ("machines", "500", "1.00"), ("cluster", "250", "1.00"),
        ("machines", "900", "1.80"), ("cluster", "250", "1.00"),
    ]  # fmt: skip
    assert result.picture().startswith(PNG)
    json.dumps(result.document)


def test_sizes_are_compared_over_the_same_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that one size did before its share was held count for no size: they may be cheaper than the others."""

    def run(settings: dict[str, Any], folder: Path, watcher: Watcher | None) -> LiveRun:
        result = FakeRuns()(settings, folder, watcher)
        executors = settings["operators"][0]["executors"][0]
        dear = batches("machines", 100, 4.0 / executors, utilisation=1.0, count=10, executors=executors)
        if executors == 1:
            # The first five batches take a second each: 3 s less for every one.
            cheap = batches("machines", 100, 1.0, utilisation=1.0, count=5)
            dear = [*cheap, *(replace(o, at=o.at - 15.0) for o in dear if (o.last_batch_id or 0) >= 5)]
        else:
            # Two executors had the whole CPU until these were done.
            whole = ClusterState(observed=Allocation(2, 2.0))
            dear = [replace(o, cluster=whole) if (o.last_batch_id or 0) < 4 else o for o in dear]
        seen = {**result.history.observations, "machines": dear}
        return replace(result, history=replace(result.history, observations=seen))

    monkeypatch.setattr(reproduce_static, "run_live", run)
    monkeypatch.chdir(tmp_path)
    experiment = load_experiment(written(tmp_path, a_file("static-scaling")))
    one, two = run_experiment(experiment, Call("tiny", tmp_path)).document["sizes"]
    assert one["batches"] == two["batches"] == 4
    assert (one["mean"], two["mean"], two["speed_up"]) == (25.0, 50.0, 2.0)


def test_wrong_results_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose statistics are not those of pandas is reported with the first difference."""
    monkeypatch.setattr(reproduce_static, "run_live", FakeRuns(is_right=False))
    monkeypatch.chdir(tmp_path)
    experiment = load_experiment(written(tmp_path, a_file("static-scaling")))
    result = run_experiment(experiment, Call("tiny", tmp_path))
    assert "1 results instead of 2" in result.remarks[0]


def test_dynamic_scaling_shows_the_run_over_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules are found beside the experiment's file; the table has a line for each step."""
    runs = FakeRuns()
    monkeypatch.setattr(reproduce_dynamic, "run_live", runs)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out.rules").write_text("", encoding="utf-8")
    experiment = load_experiment(written(tmp_path, a_file("dynamic-scaling", step="2s")))
    result = run_experiment(experiment, Call("tiny", tmp_path))
    assert runs.settings[0]["policy"]["options"]["rules"] == str(tmp_path / "out.rules")
    assert [row[0] for row in result.grids[0].rows if row is not None] == ["0", "2", "4", "6", "8"]
    assert result.picture().startswith(PNG)
    assert "it follows the load" in result.words[1]
    json.dumps(result.document)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"executors": [2, 1]}, "each larger than the one before"),
        ({"scaled": "racks"}, "no operator is called racks"),
        ({"trace": {"rows_per_batch": 10}}, "give either `file` or `generated`"),
    ],
)
def test_mistakes_are_reported(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    """A wrong file names what is wrong."""
    with pytest.raises(ConfigurationError, match=message):
        load_experiment(written(tmp_path, a_file("static-scaling", **changed)))


def test_a_missing_trace_says_where_to_get_it(tmp_path: Path) -> None:
    """A file of public data that is not there names the file, its source and the variable to set."""
    trace = TaskTrace(file="google/part.csv.gz", get="Ask Google.", rows_per_batch=10)
    with pytest.raises(ConfigurationError, match=r"(?s)part\.csv\.gz is not there\. Ask Google.*PENSTOCK_DATA"):
        trace.path(tmp_path, tmp_path)


def test_a_run_that_fails_says_what_it_printed(tmp_path: Path) -> None:
    """The exit code and the last lines of the command stand in the message."""
    with pytest.raises(ClusterError, match=r"(?s)ended with code 2.*operators"):
        run_live({"name": "nothing"}, tmp_path)


def test_the_published_figures_are_those_of_the_thesis() -> None:
    """From 129.69 to 26.15 minutes with eight instances is a speed-up of 4.96 and an efficiency of 0.62."""
    experiment = load_experiment(EXPERIMENTS / "rules-static")
    assert isinstance(experiment, StaticExperiment)
    one, eight = experiment.published[1], experiment.published[8]
    assert one.minutes / eight.minutes == pytest.approx(4.96, abs=0.005)
    assert one.minutes / eight.minutes / 8 == pytest.approx(0.62, abs=0.005)
