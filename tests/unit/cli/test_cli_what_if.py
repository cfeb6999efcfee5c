# SPDX-License-Identifier: Apache-2.0
"""`penstock what-if`: every allocation predicted, the cheapest that will do chosen with its reason, bad input told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.markov import MAP

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
        assert row["meets"] == (row["percentiles"]["0.95"] <= 0.5)
    first = next(row for row in rows if row["meets"])
    assert document["chosen"] == first
    assert document["reason"].startswith("cheapest: ")
    assert picture.read_bytes().startswith(b"\x89PNG")


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
