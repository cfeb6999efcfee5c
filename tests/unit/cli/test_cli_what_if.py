# SPDX-License-Identifier: Apache-2.0
"""`penstock what-if`: every allocation predicted, the cheapest that will do chosen with its reason, bad input told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.arrivals.shape_text import parse_shape
from penstock.errors import ConvergenceError
from penstock.knowledge import SqliteStore
from penstock.markov import MAP
from penstock.performance.queueing.micro_batch import MicroBatch, MicroBatchSolver
from penstock.records import Allocation, ClusterState, Decision, Observation, Quality

BURSTY = MAP.mmpp([[-0.5, 0.5], [1.0, -1.0]], [20.0, 120.0])
POISSON = MAP.poisson(80.0)


@pytest.fixture
def maps(tmp_path: Path) -> str:
    """Processes fitted before: M/M/1 can be told by hand."""
    path = tmp_path / "map.json"
    path.write_text(json.dumps(POISSON.to_json()))
    return str(path)


def strict(text: str) -> Any:
    """JSON without the literals that JSON does not have."""

    def refuse(literal: str) -> None:
        raise AssertionError(f"{literal} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_a_trace_is_fitted_and_every_allocation_predicted(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """From a file of gaps to one row for each allocation, by cost, with bounds around every value; and a picture."""
    trace, picture = tmp_path / "gaps.txt", tmp_path / "what-if.png"
    gaps = BURSTY.sample(3000, np.random.default_rng(1)) * 1e3
    trace.write_text("".join(f"{gap!r}\n" for gap in gaps.tolist()))
    result = invoke(
        "what-if", str(trace), "--as", "iats", "--unit", "ms", "--best", "2", "--max-states", "4",
        "--service", "erlang:2:10ms", "--executors", "1-3", "--cpu-shares", "0.4,1.0", "--objective", "p95=500ms",
        "--error", "0.05", "--plot", str(picture), "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    document = strict(result.stdout)
    rows = document["allocations"]
    assert len(rows) == 6
    assert [row["cost"] for row in rows] == sorted(row["cost"] for row in rows)
    assert document["arrival_rate"] == pytest.approx(1e3 / gaps.mean(), rel=0.05)
    assert document["model"] == "MAP/PH/1"
    assert rows[0]["stable"] is False
    assert rows[0]["mean"] is None
    for row in rows[1:]:
        low, high = row["bounds"]["percentiles"]["0.95"]
        assert low <= row["percentiles"]["0.95"] <= (high or float("inf"))
        met = row["replayed"]["percentiles"]["0.95"]
        assert row["meets"] == (met <= 0.5)
        assert row["meets_by_model"] == (row["percentiles"]["0.95"] <= 0.5)
        assert row["meets_replayed"] == (met <= 0.5)
    assert document["judged_by"] == "replay"
    first = next(row for row in rows if row["meets"])
    assert document["chosen"] == first
    assert document["replay"] == {
        "records": 3000, "seconds": pytest.approx(gaps[1:].sum() / 1e3), "arrivals": "of gaps.txt", "exact": True,
    }  # fmt: skip
    assert document["demand"] == {"service": pytest.approx(0.01), "service_scv": pytest.approx(0.5)}
    assert document["reason"].startswith("cheapest: ")
    assert picture.read_bytes().startswith(b"\x89PNG")


def bursts(path: Path) -> Path:
    """Mostly 20 records a second, and 400 for 8 s of every 40."""
    shape = parse_shape("sampled:periodic:base=20,peak=400,period=40s,width=8s,duration=4m,smooth=false,seed=7")
    path.write_text("".join(f"{time!r}\n" for time in shape.times(0, shape.total).tolist()))
    return path


def test_what_if_and_simulate_agree(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """Same trace, demand and allocation: the replayed p95 is that of `penstock simulate` within 1 %."""
    trace, file = bursts(tmp_path / "bursts.txt"), tmp_path / "pipeline.yaml"
    asked = invoke(
        "what-if", str(trace), "--fixed", "300ms", "--per-record", "4ms", "--trigger", "1s", "--best", "1",
        "--max-states", "2", "--executors", "1-3", "--cpu-shares", "1.0", "--objective", "p95=4s", "--json",
    )  # fmt: skip
    assert asked.exit_code == 0, asked.output
    document = strict(asked.stdout)
    for row in document["allocations"]:
        size = row["executors"]
        file.write_text(
            "name: bursts\nobjective: {p95: 4s}\noperators:\n"
            "  - {name: counter, micro_batch: {fixed: 0s, driver: 300ms, per_record: 4ms}, trigger: 1s, "
            f"executors: [{size}, {size}], cpu_shares: [1.0]}}\n"
        )
        played = invoke("simulate", str(file), "--trace", str(trace), "--policy", "static", "--json")
        assert played.exit_code == 0, played.output
        found = json.loads(played.stdout)
        assert row["replayed"]["percentiles"]["0.95"] == pytest.approx(found["latency"]["p95"], rel=0.01)
        assert row["replayed"]["mean"] == pytest.approx(found["latency"]["mean"], rel=0.01)
        assert row["meets_replayed"] == found["met"]


def test_the_replay_is_shown_beside_the_model_and_decides(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """In 80 columns; two executors were enough for the trace, whatever the model says, unless it is asked about."""
    trace = bursts(tmp_path / "bursts.txt")
    common = (
        "what-if", str(trace), "--fixed", "300ms", "--per-record", "4ms", "--trigger", "1s", "--best", "1",
        "--max-states", "4", "--executors", "1-4", "--cpu-shares", "1.0", "--objective", "p99=2.72s",
    )  # fmt: skip
    document = strict(invoke(*common, "--json").stdout)
    two = document["allocations"][1]
    assert two["replayed"]["percentiles"]["0.99"] < 2.72 < two["percentiles"]["0.99"]
    assert (two["meets"], two["meets_replayed"], two["meets_by_model"]) == (True, True, False)
    assert document["chosen"]["executors"] == 2
    lines = invoke(*common).stdout.splitlines()
    heading = next(line for line in lines if "replayed" in line and "meets it" in line)
    assert len(heading.rstrip()) <= 80
    marked = next(line for line in lines if line.startswith("->"))
    assert "2 x 100%" in marked
    assert marked.rstrip().endswith("yes")
    told = next(line for line in lines if line.startswith("cheapest: 2 executors"))
    assert " replayed, " in told
    assert "by the model" in told
    blind = strict(invoke(*common, "--model", "m/g/1", "--json").stdout)
    assert blind["judged_by"] == "model"
    assert [row["meets"] for row in blind["allocations"]] == [row["meets_by_model"] for row in blind["allocations"]]


def test_the_cheapest_that_will_do_is_marked_with_its_reason(maps: str, invoke: Callable[..., Any]) -> None:
    """M/M/1 with 100 s per second at full share: p95 = ln 20 / (100 s - 80) for share s, 150 ms at s = 1."""
    common = ("what-if", "--map", maps, "--service", "exp:10ms", "--executors", "1", "--cpu-shares", "1.0,0.7,0.9")
    result = invoke(*common, "--objective", "p95=200ms")
    assert result.exit_code == 0, result.output
    marked = [line for line in result.stdout.splitlines() if line.startswith("->")]
    assert len(marked) == 1
    assert "1 x 100%" in marked[0]
    assert "150 ms" in marked[0]
    words = " ".join(result.stdout.split())
    assert "saturated" in words
    assert "cheapest: 1 executor x 100% CPU (cost 1): p95 150 ms" in words
    assert "within 200 ms" in words
    assert "of the 2 cheaper ones the best is 1 executor x 90% CPU: p95 300 ms" in words


def test_a_choice_that_is_not_sure_says_so(maps: str, invoke: Callable[..., Any]) -> None:
    """Where the upper bound misses the objective the value may still meet it; both are told."""
    result = invoke(
        "what-if", "--map", maps, "--service", "exp:10ms", "--executors", "1", "--cpu-shares", "1.0",
        "--objective", "p95=200ms", "--error", "0.05",
    )  # fmt: skip
    words = " ".join(result.stdout.split())
    assert "likely" in words
    # 2 standard errors: services of 11 ms, ln 20 / (1 / 0.011 - 80)
    assert "though not for sure: up to 275 ms" in words


def test_micro_batches_and_speed(maps: str, invoke: Callable[..., Any]) -> None:
    """f and c under each allocation; twice the speed is twice the load."""
    common = (
        "what-if", "--map", maps, "--fixed", "300ms", "--per-record", "5ms", "--executors", "1,2",
        "--cpu-shares", "1.0", "--json",
    )  # fmt: skip
    slow, fast = strict(invoke(*common).stdout), strict(invoke(*common, "--speed", "2").stdout)
    assert slow["model"] == "micro-batch queue, MAP arrivals"
    for one, other in zip(slow["allocations"], fast["allocations"], strict=True):
        assert other["utilisation"] == pytest.approx(2 * one["utilisation"], rel=1e-9)
        assert other["mean"] > one["mean"]
    # Half the per-record time: the settled batch time f / (1 - rate c) is 0.5 s with one, 0.375 s with two executors.
    assert slow["allocations"][0]["mean"] > slow["allocations"][1]["mean"] > 0.3


def test_without_an_objective_the_cheapest_that_keeps_up_is_chosen(maps: str, invoke: Callable[..., Any]) -> None:
    """Keep-up asks for stability alone, also of the model that gives means only."""
    for model in ("map", "gi/g/1"):
        result = invoke("what-if", "--map", maps, "--service", "exp:10ms", "--model", model, "--json")
        document = strict(result.stdout)
        assert (document["chosen"]["executors"], document["chosen"]["cpu_share"]) == (1, 0.85)
        assert document["objective"] == {"statistic": None, "seconds": None}


@pytest.mark.parametrize(("service", "told"), [("exp:10ms", "none meets p50 <= 1 ms"), ("exp:10s", "none keeps up")])
def test_that_none_will_do_is_an_answer(maps: str, invoke: Callable[..., Any], service: str, told: str) -> None:
    """Exit code 1, and all is told: that the objective is missed, the best there is, and why it is not enough."""
    common = ("what-if", "--map", maps, "--service", service, "--objective", "p50=1ms")
    result = invoke(*common)
    assert result.exit_code == 1, result.output
    words = " ".join(result.stdout.split())
    assert told in words
    assert "none meets p50 <= 1 ms" in words
    assert "4 executors x 100% CPU" in words
    assert "allow more executors" in words
    as_json = invoke(*common, "--json")
    assert as_json.exit_code == 1
    assert strict(as_json.stdout)["chosen"] is None
    if told == "none keeps up":  # asked for nothing, it has failed at nothing
        assert invoke("what-if", "--map", maps, "--service", service).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "--fixed: is missing"),
        (("--service", "exp:1", "--operator", "counter"), "--operator: says which operator of --from"),
        (("--from", "nowhere", "--objective", "p95=1s"), "--from: nowhere does not exist"),
        (("--fixed", "1"), "--per-record: is missing"),
        (("--fixed", "1", "--per-record", "1ms", "--service", "exp:1"), "--service: does not go with --fixed"),
        (("--fixed", "0", "--per-record", "1ms"), "--fixed: '0' must be above 0"),
        (("--fixed", "1", "--per-record", "1ms", "--fixed-cpu", "2"), "--fixed-cpu: is a part of --fixed"),
        (("--service", "exp:1", "--executors", "0-2"), "--executors: '0-2' is not a range"),
        (("--service", "exp:1", "--executors", "4-2"), "--executors: '4-2' is not a range"),
        (("--service", "exp:1", "--executors", "a"), "--executors: cannot read 'a'"),
        (("--service", "exp:1", "--cpu-shares", "0.5,1.5"), "--cpu-shares: 1.5 is outside (0, 1]"),
        (("--service", "exp:1", "--cpu-shares", "0"), "--cpu-shares: 0 is outside (0, 1]"),
        (("--service", "exp:1", "--objective", "p95"), "--objective: cannot read 'p95'; write it like p95=2s"),
        (("--service", "exp:1", "--objective", "p42=2s"), "--objective: unknown statistic 'p42'"),
        (("--service", "exp:1", "--objective", "p95=soon"), "--objective.p95: cannot read 'soon'"),
        (("--service", "exp:1", "--objective", "p95=0s"), "--objective: the bound must be a positive time"),
        (("--service", "exp:1", "--objective", "p95=1s", "--model", "gi/g/1"), "--objective: gi/g/1 (Kingman)"),
        (("--service", "exp:1", "--percentiles", "1.0"), "--percentiles: 1.0 is outside (0, 1)"),
        (("--service", "exp:1", "--speed", "0"), "--speed: 0 must be positive"),
        (("--fixed", "1", "--per-record", "1ms", "--model", "gi/g/1"), "gi/g/1 has no form for micro-batches"),
        (("--service", "exp:1", "--plot", "no/where.png"), "--plot: no is not a folder"),
        (
            ("--service", "exp:1", "--plot", "x.svg"),
            "--plot: x.svg is not a picture's name; end it with .png",
        ),
    ],
)
def test_bad_input_names_the_option_and_the_way_out(
    maps: str, here: Path, invoke: Callable[..., Any], arguments: tuple[str, ...], told: str
) -> None:
    """Exit code 2 and one clear message."""
    result = invoke("what-if", "--map", maps, *arguments)
    assert result.exit_code == 2, result.output
    assert told in " ".join(result.stderr.split())


def test_a_trace_too_short_or_missing_is_told(here: Path, invoke: Callable[..., Any]) -> None:
    """What `penstock fit` says of a file is said here too."""
    (here / "short.txt").write_text("1\n2\n3\n")
    short = invoke("what-if", "short.txt", "--service", "exp:1")
    assert short.exit_code == 2
    assert "give a longer trace" in " ".join(short.stderr.split())
    none = invoke("what-if", "--service", "exp:1")
    assert none.exit_code == 2
    assert "FILE: give either a trace, or --map" in none.stderr


def recorded_run(folder: Path, *, policy_learnt: bool = True) -> Path:
    """A run of some minutes under a trigger of 1 s, in batches of 300 ms and 4 ms a record."""
    folder.mkdir()
    store = SqliteStore(folder / "knowledge.sqlite")
    settings = {
        "name": "logs",
        "objective": {"p95": 4.0},
        "operators": [{"name": "counter", "executors": [1, 2], "cpu_shares": [1.0], "trigger": 1.0,
                       "input_options": {"maxOffsetsPerTrigger": "900"}}],
    }  # fmt: skip
    store.set_fact("settings", json.dumps(settings))
    one, arrived = Allocation(1, 1.0), 0
    evidence = {"fixed_seconds": 0.3, "fixed_cpu_seconds": 0.1, "per_record_seconds": 0.004} if policy_learnt else {}
    store.add_decision(Decision("counter", 1.0, "mead", one, one, "because", evidence))
    for second in range(400):
        rate = 100 if second // 40 % 2 else 20
        arrived += rate
        store.add_observation(
            Observation(
                "counter", float(second), 10.0, Quality.GOOD, ClusterState(one, one, one), records_arrived=arrived,
                records_done=arrived, last_batch_id=second, batch_seconds=0.3 + 0.004 * rate,
            )
        )  # fmt: skip
    store.close()
    return folder


@pytest.mark.parametrize("as_store", [False, True], ids=["folder", "file"])
def test_a_recorded_run_gives_demand_trigger_cap_and_arrivals(
    tmp_path: Path, invoke: Callable[..., Any], as_store: bool
) -> None:
    """Nobody has to know f and c: they are taken from the run, with its limits and objective, and all of it is said."""
    run = recorded_run(tmp_path / "logs-run")
    named = run / "knowledge.sqlite" if as_store else run
    fit = ("--best", "1", "--max-states", "2")
    result = invoke("what-if", "--from", str(named), *fit, "--json")
    assert result.exit_code == 0, result.output
    document = strict(result.stdout)
    assert document["demand"] == {"fixed": 0.3, "per_record": 0.004, "fixed_cpu": 0.1, "trigger": 1.0, "cap": 900}
    assert document["objective"] == {"statistic": "p95", "seconds": 4.0}
    assert [(row["executors"], row["cpu_share"]) for row in document["allocations"]] == [(1, 1.0), (2, 1.0)]
    assert document["replay"]["exact"] is False
    assert document["replay"]["records"] > 20_000
    words = result.stderr
    assert "300 ms a batch and 4 ms a record, as its policy has learnt; a trigger every 1 s" in words
    assert "counted from look to look, and spread at random over the 1.00 s between two looks" in words
    other = strict(invoke("what-if", "--from", str(named), *fit, "--trigger", "2s", "--cap", "500", "--json").stdout)
    assert (other["demand"]["trigger"], other["demand"]["cap"]) == (2.0, 500)
    own = invoke("what-if", "--from", str(named), *fit, "--fixed", "1s", "--per-record", "1ms", "--json")
    assert strict(own.stdout)["demand"]["fixed"] == 1.0


def test_a_run_under_a_policy_that_learns_nothing_shows_its_demand_in_its_batches(
    tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    """f and c are found from mean batch times and records, and where they come from is said."""
    run = recorded_run(tmp_path / "logs-run", policy_learnt=False)
    result = invoke("what-if", "--from", str(run), "--best", "1", "--max-states", "2", "--json")
    assert result.exit_code == 0, result.output
    demand = strict(result.stdout)["demand"]
    assert demand["per_record"] == pytest.approx(0.004, rel=0.05)
    assert demand["fixed"] == pytest.approx(0.3, rel=0.05)
    assert "from its mean batch times" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--fixed-scv", "1"), "--fixed-scv: says more about --fixed and --per-record"),
        (("--unit", "ms"), "--unit: says how FILE is read, and none is given"),
        (("--operator", "parser"), "--operator: logs-run has no operator 'parser'; it has counter"),
        (("--skip", "1000000"), "--skip: 1000000 leaves nothing"),
    ],
)
def test_what_does_not_go_with_a_run_is_said(
    tmp_path: Path, invoke: Callable[..., Any], arguments: tuple[str, ...], told: str
) -> None:
    """Exit code 2 and one clear message."""
    result = invoke("what-if", "--from", str(recorded_run(tmp_path / "logs-run")), *arguments)
    assert result.exit_code == 2, result.output
    assert told in " ".join(result.stderr.split())


def test_an_allocation_that_cannot_be_solved_keeps_its_row(
    tmp_path: Path, invoke: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is judged by its replay like the others, and the reason why the model has no answer is told."""
    known = MicroBatchSolver.solve

    def solve(solver: MicroBatchSolver, server: MicroBatch, suffices: Any = None) -> Any:
        if server.per_record == pytest.approx(0.004):
            raise ConvergenceError("the solution makes no sense", iterations=12, residual=0.5)
        return known(solver, server, suffices)

    monkeypatch.setattr(MicroBatchSolver, "solve", solve)
    common = (
        "what-if", str(bursts(tmp_path / "bursts.txt")), "--fixed", "300ms", "--per-record", "4ms", "--trigger", "1s",
        "--best", "1", "--max-states", "2", "--executors", "1-3", "--cpu-shares", "1.0", "--objective", "p95=4s",
    )  # fmt: skip
    shown = invoke(*common)
    assert shown.exit_code == 0, shown.output
    assert "not solved by the model" in " ".join(shown.stdout.split())
    assert "not solved: 1 executor x 100% CPU: the solution makes no sense" in shown.stdout
    document = strict(invoke(*common, "--json").stdout)
    first, second, _ = document["allocations"]
    assert first["unsolved"].startswith("the solution makes no sense")
    assert first["replayed"]["percentiles"]["0.95"] > 0.0
    assert (first["stable"], first["mean"], first["meets_by_model"]) == (True, None, None)
    assert first["meets"] == first["meets_replayed"]
    assert second["unsolved"] is None
    assert document["chosen"]["executors"] > 1
