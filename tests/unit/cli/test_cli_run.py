# SPDX-License-Identifier: Apache-2.0
"""`penstock run`: settings files, the run's course, and how it ends."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli import main
from penstock.errors import ClusterError, ConfigurationError

GOOD = """
name: words
arrivals: {shape: "constant:rate=500,duration=2m"}
operators:
  - {name: log-analysis, app: "penstock.apps.log_analysis:log_analysis", executors: [1, 2]}
objective: {p95: 2s}
"""
BAD = """
name: Words!
arrivals: {shape: "constant:rate=500,duration=2m", trace: x.txt}
operators:
  - {name: analysis, app: nowhere, executors: [3, 1]}
  - {name: more, app: "a:b", input: nobody}
objectiv: {p95: 2s}
"""


@pytest.fixture
def settings_file(here: Path) -> Path:
    """A settings file that is in order."""
    file = here / "pipeline.yaml"
    file.write_text(GOOD)
    return file


def test_a_bad_file_shows_all_its_mistakes(invoke: Callable[..., Any], here: Path) -> None:
    """Every mistake is named by its path in one message; nothing is made."""
    (here / "bad.yaml").write_text(BAD)
    result = invoke("run", "bad.yaml")
    assert result.exit_code == 2
    for words in (
        "name: use up to 40 small letters", "give either `trace` or `shape`", "operators.0.app",
        "operators.0.executors", "operators.1.input: 'nobody'",
        "objectiv: is not a setting; did you mean `objective`",
    ):  # fmt: skip
        assert words in result.stderr
    assert [path.name for path in here.iterdir()] == ["bad.yaml"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        (b"a: [", "is not YAML"),
        (b"- 1", "needs `name:`"),
        (b"\xff\xfe\x00", "is not a text"),
    ],
)
def test_unreadable_files(invoke: Callable[..., Any], here: Path, content: bytes | None, words: str) -> None:
    """A file that is missing, no YAML or no text is named."""
    if content is not None:
        (here / "odd.yaml").write_bytes(content)
    result = invoke("run", "odd.yaml")
    assert result.exit_code == 2
    assert "odd.yaml" in result.stderr
    assert words in result.stderr


def test_check_says_what_would_run(invoke: Callable[..., Any], settings_file: Path, pipeline: Any) -> None:
    """--check names the pipeline's parts, starts nothing and makes no folder."""
    result = invoke("run", "--check", str(settings_file))
    assert result.exit_code == 0
    for words in (
        "words",
        "2:00",
        "operator log-analysis",
        "1 to 2 executors",
        "p95 <= 2.00 s",
        "nothing was started",
    ):
        assert words in result.stdout
    assert not (settings_file.parent / "runs").exists()


def test_a_failed_check_as_json(invoke: Callable[..., Any], tmp_path: Path) -> None:
    """--check --json lists every mistake as data, with exit code 2."""
    path = tmp_path / "wrong.yaml"
    path.write_text("name: x\narrivals: {shape: 'constant:rate=1,duration=1s', payload: log}\noperators: []\n")
    result = invoke("run", "--check", "--json", str(path))
    found = json.loads(result.stdout)
    assert (result.exit_code, found["ok"]) == (2, False)
    assert any("arrivals.payload" in text and "under `options`" in text for text in found["mistakes"])
    assert any("operators" in text for text in found["mistakes"])


def test_check_as_json(invoke: Callable[..., Any], settings_file: Path, pipeline: Any) -> None:
    """--check --json gives the settings with all defaults, and the mode that was asked for."""
    found = json.loads(invoke("run", "--check", "--json", "--mode", "recommend", str(settings_file)).stdout)
    assert found["ok"] is True
    assert found["settings"]["mode"] == "recommend"
    assert found["settings"]["interval"] == 1.0


def test_a_run_in_plain_lines(invoke: Callable[..., Any], settings_file: Path, pipeline: Any) -> None:
    """Without a terminal the run goes by in plain lines, and ends with its summary and where the report is."""
    result = invoke("run", str(settings_file), "--folder", "here")
    assert result.exit_code == 0, result.output
    for words in (
        "starting the Spark cluster", "log-analysis: scale up: 1 executor x 40% CPU -> 1 executor x 55% CPU",
        "the operator did not answer", "1,000 due, 1,000 read, 1,000 done", "p95 <= 3.00 s: met",
        "45% of the top allocation", "here/report.html",
    ):  # fmt: skip
        assert words in result.stdout
    assert (settings_file.parent / "here" / "report.png").read_bytes().startswith(b"\x89PNG")


def test_penstocks_log_goes_to_the_run_folder(
    invoke: Callable[..., Any], settings_file: Path, pipeline: Any, no_pictures: None
) -> None:
    """What Penstock logs lands in a file of the run, not across the view; afterwards logging is as it was."""
    pipeline.before_end = lambda: logging.getLogger("penstock.loop").warning("a word for the log")
    result = invoke("run", str(settings_file), "--folder", "here")
    assert "a word for the log" not in result.output
    assert "a word for the log" in (settings_file.parent / "here/logs/controller.log").read_text()
    assert logging.getLogger("penstock").handlers == []


@pytest.mark.parametrize(
    ("fault", "code"), [(ClusterError("the worker died"), 1), (ConfigurationError("port: 80 is taken"), 2)]
)
def test_a_failed_run_names_its_logs(
    invoke: Callable[..., Any], settings_file: Path, pipeline: Any, fault: Exception, code: int
) -> None:
    """A run that fails says why and where to look, and gives no result."""
    pipeline.fault = fault
    result = invoke("run", str(settings_file), "--json", "--folder", "here")
    assert result.exit_code == code
    assert str(fault) in result.stderr
    assert "here/logs" in result.stderr
    assert result.stdout == ""


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_in_good_order(
    invoke: Callable[..., Any],
    settings_file: Path,
    pipeline: Any,
    number: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Ctrl-C and SIGTERM let the run end itself: summary and result come, then exit code 130."""

    def twice() -> None:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)

    pipeline.before_end = twice
    before = signal.getsignal(number)
    result = invoke("run", str(settings_file), "--json", "--folder", "here")
    assert result.exit_code == 130
    assert json.loads(result.stdout)["records_done"] == 1000
    told = capfd.readouterr().err
    assert told.index("stopping in order") < told.index("already stopping")
    assert signal.getsignal(number) is before


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(
    ("stopped_by", "is_left"),
    [((signal.SIGTERM,), True), ((signal.SIGTERM, "--end-on-stop"), False), ((signal.SIGINT,), False)],
)
def test_a_pipeline_that_is_left_can_be_found_again(
    invoke: Callable[..., Any], here: Path, pipeline: Any, stopped_by: tuple[Any, ...], is_left: bool
) -> None:
    """On a cluster of the user's own SIGTERM leaves it, and the last line says how it is taken over."""
    number, *options = stopped_by
    file = here / "own.yaml"
    file.write_text(GOOD + "cluster: {master: 'spark://elsewhere:7077'}\n")
    pipeline.before_end = lambda: os.kill(os.getpid(), number)
    result = invoke("run", str(file), "--json", "--folder", "here", *options)
    assert result.exit_code == 130
    assert json.loads(result.stdout)["is_left"] is is_left
    assert ("goes on without a controller" in result.output) is is_left
    assert ("--resume --folder here takes it over" in result.output) is is_left


def test_a_folder_with_a_run_is_not_used_again(
    invoke: Callable[..., Any], settings_file: Path, pipeline: Any, run_here: Path
) -> None:
    """A run never writes over another."""
    result = invoke("run", str(settings_file), "--folder", str(run_here))
    assert result.exit_code == 2
    assert "--folder" in result.stderr
    assert "already contains a run" in result.stderr


def test_a_file_is_no_folder(invoke: Callable[..., Any], settings_file: Path, pipeline: Any) -> None:
    """A run folder that cannot be made is told by its option."""
    result = invoke("run", str(settings_file), "--folder", str(settings_file))
    assert result.exit_code == 2
    assert "--folder" in result.stderr


def test_a_run_without_pictures_still_gives_its_result(
    invoke: Callable[..., Any], settings_file: Path, pipeline: Any, no_pictures: None
) -> None:
    """Where the packages for reports are missing, the run's result comes all the same, with the cause told."""
    result = invoke("run", str(settings_file), "--json", "--folder", "here")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["report"] is None
    assert "pip install 'penstock[report]'" in result.stderr


def test_resuming_needs_the_folder_of_a_run(tmp_path: Path) -> None:
    """Without a folder that holds a run there is nothing to take over; nothing is started."""
    path = tmp_path / "p.yaml"
    path.write_text(
        "name: p\narrivals: {shape: 'constant:rate=5,duration=5s'}\n"
        "operators: [{name: a, app: 'penstock.apps.log_analysis:log_analysis'}]\n"
    )
    nothing = str(tmp_path / "nothing")
    cases: tuple[tuple[list[str], str], ...] = (
        ([], "name the run to take over with --folder"),
        (["--folder", nothing], "nothing holds no run to take over"),
    )
    for options, said in cases:
        outcome = CliRunner().invoke(main, ["run", str(path), "--resume", *options])
        assert outcome.exit_code == 2
        assert said in outcome.output


@pytest.mark.parametrize("servers", ["embedded", "host:9092"])
def test_check_says_that_the_client_of_kafka_is_missing(
    servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipeline over Kafka is refused by --check, before a broker is started, where its client is not installed."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    path = tmp_path / "p.yaml"
    path.write_text(
        f"name: p\nbroker: {{servers: '{servers}'}}\narrivals: {{shape: 'constant:rate=5,duration=5s'}}\n"
        "operators: [{name: a, app: 'penstock.apps.log_analysis:log_analysis'}]\n"
    )
    outcome = CliRunner().invoke(main, ["run", str(path), "--check"])
    assert outcome.exit_code == 2
    assert "broker.servers: the package confluent-kafka is not installed; run: pip install" in outcome.output


def test_check_warns_of_an_objective_that_a_trigger_rules_out(
    invoke: Callable[..., Any], here: Path, pipeline: Any
) -> None:
    """Two operators with a trigger of 20 s cannot keep a p95 of 1 s: --check says so, as `attach` does."""
    (here / "slow.yaml").write_text(
        """
name: slow
arrivals: {shape: "constant:rate=5,duration=2m"}
operators:
  - {name: parse, app: "penstock.apps.log_analysis:log_analysis", trigger: 20s}
  - {name: totals, app: "penstock.apps.log_analysis:log_analysis", trigger: 20s}
objective: {p95: 1s}
"""
    )
    result = invoke("run", "--check", "slow.yaml")
    assert result.exit_code == 0, result.output
    for name in ("parse", "totals"):
        assert f"warning: {name}: p95 <= 1.00 s cannot be met with a trigger of 20 s" in result.stdout
    assert "in order" not in result.stdout
    found = json.loads(invoke("run", "--check", "--json", "slow.yaml").stdout)
    assert [line.partition(":")[0] for line in found["warnings"]] == ["parse", "totals"]


def test_check_names_what_it_did_not_ask(invoke: Callable[..., Any], here: Path, pipeline: Any) -> None:
    """A broker and a master of one's own may be down: --check contacts neither, and says so."""
    (here / "outside.yaml").write_text(f"{GOOD}cluster: {{master: 'spark://nowhere.example:7077'}}\n")
    result = invoke("run", "--check", "outside.yaml")
    assert result.exit_code == 0, result.output
    assert "nothing was started; the master spark://nowhere.example:7077 was not contacted." in result.stdout
    assert "contacted" not in invoke("run", "--check", str(here / "pipeline.yaml")).stdout


def test_mistakes_beside_mistakes_are_named_too(invoke: Callable[..., Any], here: Path) -> None:
    """A wrong shape beside an unknown setting, and a path that is none beside an input that is none, are both there."""
    (here / "bad.yaml").write_text(
        """
name: clicks
arrivals: {shape: "stepz:40s@50", option: {payload: log}}
operators:
  - {name: parse, app: "penstock.apps.log_analysis:log_analysis"}
  - {name: totals, app: "penstock.apps.log_analysis:log_analysis", input: prase}
objectives:
  - {path: parse > totals, objective: {p95: 4 lightyears}}
policy: {name: meed, options: {windw: 3}}
"""
    )
    result = invoke("run", "--check", "bad.yaml")
    assert result.exit_code == 2
    for words in (
        "arrivals.option: is not a setting", "arrivals.shape: unknown shape 'stepz'; did you mean steps?",
        "operators.1.input: 'prase' is none of", "objectives.0.objective.p95: unknown unit 'lightyears'",
        "objectives.0.path: 'parse > totals' is not a path", "unknown policy 'meed'; did you mean mead?",
    ):  # fmt: skip
        assert words in result.stderr


def test_a_path_that_is_none_is_named_beside_other_mistakes(invoke: Callable[..., Any], here: Path) -> None:
    """Where operators fit together, the paths that there are stand beside it, whatever else is wrong."""
    (here / "bad.yaml").write_text(f"{GOOD}windw: 3s\nobjectives: [{{path: a -> b, objective: {{p95: 1s}}}}]\n")
    result = invoke("run", "--check", "bad.yaml")
    assert "windw: is not a setting" in result.stderr
    assert "objectives.0.path: 'a -> b' is not a path; the paths are log-analysis" in result.stderr


def test_a_master_decides_where_one_is_named(
    invoke: Callable[..., Any], settings_file: Path, pipeline: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run gets a policy that does what the master asks, and no guards of its own; without a token it is refused."""
    for name in ("PENSTOCK_AGENT_TOKEN", "PENSTOCK_AGENT_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    refused = invoke("run", str(settings_file), "--no-view", "--master", "127.0.0.1:7071")
    assert refused.exit_code == 2, (refused.output, refused.exception)
    assert "PENSTOCK_AGENT_TOKEN_FILE" in refused.stderr
    monkeypatch.setenv("PENSTOCK_AGENT_TOKEN", "0123456789abcdef")
    result = invoke("run", str(settings_file), "--no-view", "--master", "127.0.0.1:7071")
    assert result.exit_code == 0, result.output
    assert pipeline.policy.name == "master"
    assert pipeline.has_own_policy
    assert pipeline.settings.guards is None
    assert pipeline.on_started is not None
