# SPDX-License-Identifier: Apache-2.0
"""`penstock measure`: its options, what it prints and writes, and how it ends; without a cluster."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli import main
from penstock.cli.measure_view import TimeLeft
from penstock.errors import ClusterError
from penstock.measuring.plan import MeasurePlan, Turn
from penstock.measuring.sample import Mark, Sample
from penstock.measuring.sample_file import SampleFile
from penstock.measuring.throughput import Throughput
from penstock.running import measurement

APP = "log-analysis"
PNG = b"\x89PNG"


def measured(*arguments: str) -> Result:
    """The command with two sizes."""
    return CliRunner().invoke(main, ["measure", APP, "--executors", "1,2", *arguments])


def as_if_measured(turn: Turn) -> Sample:
    """A sample: each executor does 100 records per second, less a tenth for each further one."""
    rate = 1000.0 if turn.is_source else 100.0 * turn.executors * 0.9 ** (turn.executors - 1)
    marks = (Mark.CPU_LEFT,) if turn.executors == 2 and not turn.is_source else ()
    return Sample(
        at=1.0, executors=turn.executors, repeat=turn.repeat, attempt=1, is_source=turn.is_source, cpu_share=None,
        parallelism=turn.executors, cap=300, seconds=20.0, throughput=Throughput(7, rate, rate, rate, rate, rate),
        batch_seconds=3.0, converged_after_seconds=15.0, bytes_per_second=80 * rate, source_limit=1000.0, marks=marks,
    )  # fmt: skip


class FakeMeasurement:
    """Stands in for `measure`: takes samples at once, fails or is stopped after some of them."""

    def __init__(self, *, most: int = 1000, fault: ClusterError | None = None, stops: bool = False) -> None:
        self.most, self.fault, self.stops = most, fault, stops
        self.plans: list[MeasurePlan] = []
        self.broker: Any = None
        self.taken: list[Turn] = []

    def __call__(
        self, plan: MeasurePlan, file: SampleFile, *, listener: Any, stop: threading.Event, broker: Any = None
    ) -> None:
        """Take what is left."""
        self.plans.append(plan)
        self.broker = broker
        for turn in plan.left(file.samples)[: self.most]:
            listener.phase("somewhere", 0.5)
            sample = as_if_measured(turn)
            file.add(sample)
            listener.sample(sample)
            self.taken.append(turn)
        if self.stops:
            stop.set()
        if self.fault is not None:
            raise self.fault


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeMeasurement]:
    """Put a measurement without a cluster in place."""

    def put(**how: Any) -> FakeMeasurement:
        made = FakeMeasurement(**how)
        monkeypatch.setattr(measurement, "measure", made)
        return made

    return put


def test_the_result_is_printed_kept_and_drawn(tmp_path: Path, fake: Callable[..., FakeMeasurement]) -> None:
    """JSON on the last line, the samples in the folder, a table for other programs and a picture."""
    fake()
    result = measured("--repeats", "2", "--folder", str(tmp_path / "m"), "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout.strip().splitlines()[-1])
    assert [(s["executors"], s["throughput"]) for s in data["sizes"]] == [(1, 100.0), (2, 180.0)]
    assert (data["sizes"][1]["efficiency"], data["left"], data["failure"]) == (0.9, 0, None)
    assert "CPU left (2 of 2)" in result.stderr
    assert "source alone: 1,000 records/s" in result.stderr
    assert Path(data["picture"]).read_bytes().startswith(PNG)
    assert Path(data["table"]).read_text().startswith("application,executors,cpu_share,throughput,bytes_")


def test_options_reach_the_plan(tmp_path: Path, fake: Callable[..., FakeMeasurement]) -> None:
    """Times, shares, the source, the application's options and Spark's arrive as they were given."""
    made = fake()
    lines = tmp_path / "lines.txt"
    lines.write_text("a line\n")
    result = measured(
        "--folder", str(tmp_path / "m"), "--cpu-share", "0.2", "--agree", "3/4", "--within", "0.1", "--batch", "500ms",
        "--sample", "5s", "--option", "pattern_count=3", "--payload", f"file:{lines}", "--source-option", "seed=7",
        "--shape", "constant:rate=9,duration=9s", "--spark", "spark.x=y", "--others", "0.3", "--no-source-check",
        "--each", "2", "--warm-up-most", "40s",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    (plan,) = made.plans
    assert (plan.samples_each, plan.warm_up_seconds, plan.warm_up_most_seconds) == (2, 15.0, 40.0)
    assert plan.app == "penstock.apps.log_analysis:log_analysis"
    assert (plan.cpu_share, plan.batch_seconds, plan.sample_seconds) == (0.2, 0.5, 5.0)
    assert (plan.convergence.agreeing, plan.convergence.window, plan.convergence.within) == (3, 4, 0.1)
    assert plan.source == {"shape": "constant:rate=9,duration=9s", "payload": f"file:{lines}", "seed": "7"}
    assert (plan.options, plan.spark, plan.disturbance.others) == ({"pattern_count": "3"}, {"spark.x": "y"}, 0.3)
    assert not any(turn.is_source for turn in made.taken)
    assert made.broker == {}


def test_options_of_a_broker_need_a_topic() -> None:
    """A replay has no broker: its options would be read by nobody."""
    result = measured("--broker-option", "a=b")
    assert result.exit_code == 2
    assert "--broker-option: is an option of a topic's broker" in result.stderr
    assert "give --topic" in result.stderr


def test_an_application_of_the_catalogue_brings_its_own_records(
    tmp_path: Path, fake: Callable[..., FakeMeasurement]
) -> None:
    """Without a payload, web logs are what an application of web logs reads, and log lines any other."""
    made = fake()
    arguments = ["measure", "page-view", "--executors", "1", "--option", f"output={tmp_path}"]
    result = CliRunner().invoke(main, [*arguments, "--folder", str(tmp_path / "m")])
    assert result.exit_code == 0, result.output
    assert measured("--folder", str(tmp_path / "n")).exit_code == 0
    assert [plan.source["payload"] for plan in made.plans] == ["web-log", "log"]


def test_a_failure_keeps_what_was_measured(tmp_path: Path, fake: Callable[..., FakeMeasurement]) -> None:
    """The samples so far are shown, and the message says how to go on; then only the rest is measured."""
    fake(most=2, fault=ClusterError("2 x: the source has run dry"))
    result = measured("--folder", str(tmp_path / "m"), "--json")
    assert result.exit_code == 1
    assert "run dry" in result.stderr
    assert "--resume" in result.stderr
    data = json.loads(result.stdout.strip().splitlines()[-1])
    assert (data["samples"], data["failure"]) == (2, "2 x: the source has run dry")
    again = fake()
    assert measured("--folder", str(tmp_path / "m"), "--resume").exit_code == 0
    assert again.taken[0] == Turn(2, 1, is_source=True)
    assert len(again.taken) == 6


def test_ctrl_c_ends_in_order(tmp_path: Path, fake: Callable[..., FakeMeasurement]) -> None:
    """A stopped measurement has its own exit code, and its result so far."""
    fake(most=3, stops=True)
    result = measured("--folder", str(tmp_path / "m"), "--json")
    assert result.exit_code == 130
    assert json.loads(result.stdout.strip().splitlines()[-1])["samples"] == 3


def test_the_check_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how many applications would be started and for how long, and leaves no folder."""
    monkeypatch.chdir(tmp_path)
    result = measured("--check", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["turns"] == 8
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--executors", "1,x"], "--executors: '1,x' are not whole numbers from 1 with commas; write them like 1,2,4"),
        (["--executors", "2,1"], "--executors: [2, 1] must rise"),
        (["--cpu-share", "1.5"], "--cpu-share: 1.5 is not a number above 0 to 1"),
        (["--agree", "4"], "--agree: cannot read '4'; write K/N"),
        (["--agree", "6/5"], "--agree: '6/5' asks for 6 of 5 batches; write K/N"),
        (["--check", "--resume"], "--resume: name the measurement"),
        (["--check", "--folder", __file__], "is not a folder; name another place"),
        (["--batch", "soon"], "--batch: cannot read 'soon'"),
        (["--option", "x"], "--option: one of them has no '='"),
        (["--source-option", "x"], "--source-option: one of them has no '='"),
        (["--topic", "lines"], "--topic: cannot read 'lines'; write kafka://HOST:PORT/TOPIC"),
        (["--topic", "kafka://h:1/t", "--shape", "s"], "leave --shape"),
        (["--resume"], "--resume: name the measurement"),
        (["--plot", "x.pdf"], "--plot: x.pdf is not a picture's name"),
        (["--option", "nonsense=1"], "--option nonsense: unknown option"),
        (["--shape", "nonsense"], "measure: --shape: unknown shape 'nonsense'"),
        (["--trace", "/nowhere"], "measure: --trace: /nowhere cannot be read"),
        (["--payload", "nonsense"], "measure: --payload: unknown 'nonsense'"),
        (["--payload", "file:/nowhere/lines"], "measure: --payload: /nowhere/lines is not a file"),
        (["--source-option", "speeed=2"], "unknown option 'speeed'"),
        (["--executor-memory", "10m"], "--executor-memory: too small"),
    ],
)
def test_wrong_options_start_nothing(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each mistake is named with its option, the exit code is 2, and no folder is made."""
    monkeypatch.chdir(tmp_path)
    result = measured(*arguments)
    assert result.exit_code == 2, result.output
    assert said in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("app", "said"),
    [("no-such-thing", "there are data-clean, google-cluster, grep, log-analysis"),
     ("nowhere:f", "module 'nowhere' cannot be imported"),
     ("nowhere:f", "put it in this folder, or on PYTHONPATH"),
     ("penstock.apps.log_analysis:nothing", "has no 'nothing'")],
)  # fmt: skip
def test_an_unknown_application_is_named(app: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be loaded is said before anything starts."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["measure", app, "--executors", "1"])
    assert (result.exit_code, said in result.output) == (2, True), result.output


def test_an_application_in_this_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: Callable[..., FakeMeasurement]
) -> None:
    """A module of the user's own beside him needs no PYTHONPATH."""
    made = fake()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "measured_by_me.py").write_text("def count(stream, options):\n    return stream\n")
    result = CliRunner().invoke(main, ["measure", "measured_by_me:count", "--executors", "1", "--folder", "m"])
    assert result.exit_code == 0, result.output
    assert made.plans[0].app == "measured_by_me:count"


def test_the_time_left_follows_the_turns_that_were_seen() -> None:
    """First the guess, then the mean of the turns; what an earlier call has done does not count as fast."""
    now = [0.0]
    left = TimeLeft(10, 60.0, lambda: now[0])
    assert left.seconds(0.5) == 300.0  # five turns are left of a resumed measurement
    now[0] = 100.0
    assert left.seconds(0.6) == pytest.approx(400.0)  # one turn took 100 s, four are left
