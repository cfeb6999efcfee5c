# SPDX-License-Identifier: Apache-2.0
"""The promise keeps every run as it ends, and goes on where it was."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.marked_part import BEGIN, END, marked_part
from benchmarks.promise import run as promise

from penstock.knowledge.notebook import StoreNotebook
from penstock.knowledge.sqlite import SqliteStore
from penstock.loop import CycleReport
from penstock.records import LatencySummary
from penstock.settings import RunSettings
from penstock.testing import an_observation

COMMAND = ("promise", "--loads", "waves", "--machine", "alone", "--rivals", "static", "mead")


class RecordingPipeline:
    """Stands in for `run_pipeline`: takes note of the folders, and fails as it is told."""

    def __init__(self, fault: BaseException) -> None:
        self.folders: list[Path] = []
        self.fault = fault

    def __call__(self, settings: Any, folder: Path, **_: Any) -> Any:
        """Leave something behind, then fail."""
        assert not folder.exists()
        folder.mkdir()
        (folder / "checkpoint").write_text("of this run")
        self.folders.append(folder)
        raise self.fault


def _start(monkeypatch: pytest.MonkeyPatch, folder: Path, pipeline: RecordingPipeline, *options: str) -> int:
    monkeypatch.setattr(promise, "run_pipeline", pipeline)
    monkeypatch.setattr(
        sys, "argv", [*COMMAND, "--folder", str(folder / "work"), "--file", str(folder / "runs.jsonl"), *options]
    )
    return promise.main()


def _kept(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]


def test_a_run_that_fails_in_any_way_is_kept_and_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fault that nobody thought of is a broken promise too; what the run wrote stays."""
    pipeline = RecordingPipeline(RuntimeError("it fell over"))
    assert _start(monkeypatch, tmp_path, pipeline, "--runs", "1") == 1
    assert [run["failure"] for run in _kept(tmp_path)] == ["RuntimeError: it fell over"] * 2
    assert all(run["version"] for run in _kept(tmp_path))
    assert all(run["cpu_seconds"] is None for run in _kept(tmp_path))
    assert "| waves | alone | mead | 0 of 1 |" in capsys.readouterr().out
    assert all(folder.exists() for folder in pipeline.folders)


@pytest.mark.parametrize("rival", ["static", "threshold", "mead", "dynamic allocation", "dynamic allocation, 20 s"])
def test_a_stall_is_a_violation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rival: str) -> None:
    """While nothing is done nothing can be late, and still the records that wait break the bound, for every rival."""

    def stall(settings: Any, folder: Path, *, listener: promise.Watched, **_: Any) -> Any:
        for at in range(40):
            latency = LatencySummary(1000, 1.0, 1.0, 1.0, 1.0, 1.0) if at < 20 else None
            done = 100 * min(at, 10)
            seen = an_observation(at=at, latency=latency, records_arrived=100 * at, backlog_records=100 * at - done)
            listener.report(CycleReport(seen))
        assert listener.violation_share(0.0, next(iter(settings.path_objectives().values()))) == pytest.approx(23 / 39)
        raise RuntimeError("that is all")

    monkeypatch.setattr(promise, "run_pipeline", stall)
    chosen = ["--rivals", rival, "--loads", "waves", "--machine", "alone", "--runs", "1"]
    files = ["--folder", str(tmp_path / "work"), "--file", str(tmp_path / "runs.jsonl")]
    monkeypatch.setattr(sys, "argv", ["promise", *chosen, *files])
    promise.main()
    assert [run["failure"] for run in _kept(tmp_path)] == ["RuntimeError: that is all"]


def test_it_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Round after round, of each as many as were asked for, whether run at once or in pieces."""
    pipeline = RecordingPipeline(RuntimeError("it fell over"))
    for _ in range(4):
        _start(monkeypatch, tmp_path, pipeline, "--runs", "3", "--most", "2")
    rounds = [(run["number"], run["rival"]) for run in _kept(tmp_path)]
    assert rounds == [(n, rival) for n in (1, 2, 3) for rival in ("static", "mead")]
    assert len(pipeline.folders) == 6


def test_runs_of_another_length_are_not_mixed_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Violation times of two minutes and of four are not those of one thing; the table can still be made."""
    pipeline = RecordingPipeline(RuntimeError("it fell over"))
    _start(monkeypatch, tmp_path, pipeline, "--runs", "1", "--minutes", "4")
    assert [run["minutes"] for run in _kept(tmp_path)] == [4.0, 4.0]
    with pytest.raises(SystemExit, match="has runs of 4 min of waves"):
        _start(monkeypatch, tmp_path, pipeline, "--runs", "2")
    assert _start(monkeypatch, tmp_path, pipeline, "--most", "0") == 1
    assert _start(monkeypatch, tmp_path, pipeline, "--runs", "2", "--minutes", "4") == 1
    assert len(_kept(tmp_path)) == 4


def test_what_was_learnt_is_handed_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A rival begins its next run with what its last one knew, whatever the load; others do not get it."""
    began_with: list[tuple[str, str | None]] = []

    def run_pipeline(settings: RunSettings, folder: Path, **_: Any) -> Any:
        folder.mkdir(mode=0o700, exist_ok=True)
        store = SqliteStore(folder / "knowledge.sqlite")
        notebook = StoreNotebook(store)
        began_with.append((str(settings.policy.name), notebook.read("demand")))
        if settings.policy.name == "mead":
            notebook.write("demand", f"learnt in run {len(began_with)}")
        store.close()
        return SimpleNamespace(
            worst=None, executor_seconds=1.0, capacity_seconds=1.0, static_capacity_seconds=1.0, records_due=1,
            records_done=1,
        )  # fmt: skip

    monkeypatch.setattr(promise, "run_pipeline", run_pipeline)
    files = ["--folder", str(tmp_path / "work"), "--file", str(tmp_path / "runs.jsonl")]
    chosen = ["--rivals", "static", "mead", "--loads", "waves", "--machine", "alone", "--runs", "2"]
    monkeypatch.setattr(sys, "argv", ["promise", *chosen, *files])
    promise.main()
    assert began_with == [("fixed", None), ("mead", None), ("fixed", None), ("mead", "learnt in run 2")]


def test_a_run_that_was_interrupted_is_run_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is not kept, and the next one does not go on with its checkpoint."""
    with pytest.raises(KeyboardInterrupt):
        _start(monkeypatch, tmp_path, RecordingPipeline(KeyboardInterrupt()), "--runs", "1")
    assert not (tmp_path / "runs.jsonl").exists()
    _start(monkeypatch, tmp_path, RecordingPipeline(RuntimeError("it fell over")), "--runs", "1")
    assert len(_kept(tmp_path)) == 2


def test_the_table_goes_into_the_readme_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Between the markers stands what the runs in the file say; all else stays."""
    monkeypatch.setattr(promise, "HERE", tmp_path)
    readme, front = tmp_path / "README.md", tmp_path / "front.md"
    monkeypatch.setattr(promise, "FRONT_PAGE", front)
    for page in (readme, front):
        page.write_text(f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    for options in (("--runs", "1", "--readme"), ("--most", "0", "--readme")):
        _start(monkeypatch, tmp_path, RecordingPipeline(RuntimeError("it fell over")), *options)
        assert marked_part(readme) == promise.readme_part(promise.read(tmp_path / "runs.jsonl"))
        assert marked_part(front) == promise.front_page_part(promise.read(tmp_path / "runs.jsonl"))
    assert "| waves | alone | kept 0 of 1; violated 100.0% |  | kept 0 of 1" in front.read_text()
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\n\nafter\n")
    assert "old" not in text
    assert text.count("| waves | alone | mead | 0 of 1 |") == 1
    readme.write_text("no markers")
    with pytest.raises(SystemExit, match="are not there"):
        _start(monkeypatch, tmp_path, RecordingPipeline(RuntimeError("")), "--most", "0", "--readme")


def test_the_readme_has_the_runs_that_are_kept_in_the_repository() -> None:
    """No run of the file is missing in the tables; `--most 0 --readme` writes them."""
    runs = promise.read(promise.HERE / "runs.jsonl")
    assert marked_part(promise.HERE / "README.md") == promise.readme_part(runs)
    assert marked_part(promise.FRONT_PAGE) == promise.front_page_part(runs)
