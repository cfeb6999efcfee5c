# SPDX-License-Identifier: Apache-2.0
"""`penstock report`: page, picture and summary of a run on disk."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.adaptors.postgresql.address import StoreAddress
from penstock.cli.runs import Run
from penstock.knowledge import SqliteStore
from penstock.records import Allocation, ClusterState, Mode
from penstock.service.master_stores import StoreDatabase, StoreFolder, history_file
from penstock.testing.synthetic_run import fill_store, synthetic_reports, synthetic_settings


def test_page_and_picture_land_in_the_run_folder(invoke: Callable[..., Any], run_here: Path) -> None:
    """Without RUN the newest is reported on, into its own folder, with the summary shown."""
    result = invoke("report")
    assert result.exit_code == 0, result.output
    assert f"runs/{run_here.name} (the newest run)" in result.stdout
    assert "p95 <= 3.00 s: met" in result.stdout
    assert "380 executor-seconds at 70% mean CPU share" in result.stdout
    assert sorted(p.name for p in run_here.iterdir()) == ["knowledge.sqlite", "report.html", "report.png"]


def test_json_holds_figures_and_paths(invoke: Callable[..., Any], run_here: Path, tmp_path: Path) -> None:
    """--json gives the run's summary and where the files are; --folder puts them elsewhere."""
    other = tmp_path / "other"
    other.mkdir()
    found = json.loads(invoke("report", str(run_here), "--json", "--folder", str(other)).stdout)
    assert found["latency"]["p95"] == 2.5
    assert found["is_ended"] is True
    assert Path(found["report"]["html"]).parent == other
    assert Path(found["report"]["png"]).stat().st_size > 10_000
    assert [p.name for p in run_here.iterdir()] == ["knowledge.sqlite"]


FIGURES = {
    "accuracy_over", "accuracy_under", "timeshare_over", "timeshare_under", "excess_time", "reconfigurations", "cost"
}  # fmt: skip


def test_elasticity_is_in_the_summary_the_json_and_the_page(invoke: Callable[..., Any], run_here: Path) -> None:
    """Executors too many and too few, for how long, excess time, changes and cost: the same figures in all three."""
    text = " ".join(invoke("report").stdout.split())
    found = re.search(
        r"elasticity of log-analysis: (\+[\d.]+ / -[\d.]+) (executors above and below the estimated demand, "
        r"(\d+) % and (\d+) % of the time; excess time ([\d.]+), (\d+) changes, cost ([\d.]+) executor-minutes)",
        text,
    )
    assert found is not None, text
    figures = json.loads(invoke("report", "--json").stdout)["elasticity"]["log-analysis"]
    assert set(figures) == FIGURES
    assert found[1] == f"+{figures['accuracy_over']:.2f} / -{figures['accuracy_under']:.2f}"
    assert (int(found[3]), int(found[4])) == (round(figures["timeshare_over"]), round(figures["timeshare_under"]))
    assert float(found[5]) == pytest.approx(figures["excess_time"], abs=0.001)
    assert int(found[6]) == figures["reconfigurations"]
    assert float(found[7]) == pytest.approx(figures["cost"], abs=0.05)
    page = " ".join((run_here / "report.html").read_text().split())
    assert "Elasticity" in page
    assert found[1] in page
    assert found[2] in page


def test_a_run_in_which_nothing_became_another_had_no_changes(invoke: Callable[..., Any], here: Path) -> None:
    """What was only recommended, or failed, is in the list of decisions; executors stayed as they were."""
    store = SqliteStore(here / "knowledge.sqlite")
    store.set_fact("settings", json.dumps(synthetic_settings("log-analysis")))
    two = Allocation(2)
    for report in synthetic_reports(240):
        cluster = ClusterState(two, None, two)
        store.add_observation(replace(report.observation, cluster=cluster))
        if report.decision is not None:
            store.add_decision(replace(report.decision, mode=Mode.RECOMMEND))
    store.close()
    found = json.loads(invoke("report", str(here), "--json").stdout)["elasticity"]["log-analysis"]
    assert found["reconfigurations"] == 0


def test_elasticity_of_which_too_little_is_known_is_said_to_be_unknown(invoke: Callable[..., Any], here: Path) -> None:
    """Neither a line of zeros nor none: null in JSON, and no card."""
    store = SqliteStore(here / "knowledge.sqlite")
    fill_store(store, "log-analysis", seconds=1)
    store.close()
    result = invoke("report", str(here))
    assert "elasticity of log-analysis: not known: too little was seen" in result.stdout
    assert json.loads(invoke("report", str(here), "--json").stdout)["elasticity"] == {"log-analysis": None}
    assert "Elasticity" not in (here / "report.html").read_text()


def test_a_run_that_goes_on_gets_what_there_is(invoke: Callable[..., Any], here: Path) -> None:
    """A run without a summary is reported up to its newest record; latency over the run stays unknown."""
    store = SqliteStore(here / "knowledge.sqlite")
    try:
        fill_store(store, "log-analysis", seconds=60)
        result = invoke("report", str(here))
    finally:
        store.close()
    assert result.exit_code == 0, result.output
    assert re.search(r"in progress, or interrupted; newest record \d\d:\d\d:\d\d \(\+0:\d\d\)", result.stdout)
    assert "not known over the whole run" in result.stdout
    assert "still going, or was cut off" in (here / "report.html").read_text()


def test_an_empty_run_can_be_reported(invoke: Callable[..., Any], here: Path) -> None:
    """A run that was stopped before its first look has a page that says so, not an error."""
    SqliteStore(here / "knowledge.sqlite").close()
    result = invoke("report", str(here))
    assert result.exit_code == 0, result.output
    assert "Nothing was changed." in (here / "report.html").read_text()


def test_a_missing_target_folder_is_named(invoke: Callable[..., Any], run_here: Path) -> None:
    """--folder must be there."""
    result = invoke("report", "--folder", "nowhere")
    assert result.exit_code == 2
    assert "--folder: nowhere is not a folder" in result.stderr


def test_damaged_settings_and_summary_leave_the_run_to_be_reported(invoke: Callable[..., Any], run_here: Path) -> None:
    """What the kept settings and the summary lack is not known; the page is written all the same."""
    store = SqliteStore(run_here / "knowledge.sqlite")
    store.set_fact("settings", '{"operators": [5]}')
    store.set_fact("summary", "{}")
    store.close()
    result = invoke("report", str(run_here), "--json")
    assert result.exit_code == 0, result.output
    what_if = invoke("what-if", "--from", str(run_here))
    assert what_if.exit_code == 2
    assert "what a record costs at log-analysis is not known" in what_if.output


def test_queries_of_a_master_have_a_report_each(invoke: Callable[..., Any], here: Path) -> None:
    """Named as FOLDER/NAME or by its file; a second one leaves that of the first as it is."""
    stores = StoreFolder(here / "masters")
    for name in ("words", "pages"):
        store = stores.open(name)
        fill_store(store, name, seconds=30)
        store.close()
    stores.close()
    files = {name: history_file(here / "masters", name) for name in ("words", "pages")}
    places = {"words": here / "masters" / "words", "pages": files["pages"]}
    written = {name: json.loads(invoke("report", str(place), "--json").stdout) for name, place in places.items()}
    for name, found in written.items():
        page = Path(found["report"]["html"])
        assert page == files[name].with_suffix("") / "report.html"
        assert name in page.read_text()
        assert page.parent.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in (here / "masters" / "pipelines").glob("*.html")) == []


def test_queries_of_masters_in_a_database_have_a_report_each() -> None:
    """By the schema of each; that of a schema which people have named is written into the current folder."""
    masters = StoreDatabase.__new__(StoreDatabase)  # no database is there to connect to
    masters._address = StoreAddress.parse("postgresql://db/streams?schema=masters")
    folders = [Run(Path(), masters._of(name)).report_folder for name in ("words", "pages", "w" * 200)]
    assert len(set(folders)) == 3
    assert Path() not in folders
    assert Run(Path(), masters._address).report_folder == Path()
