# SPDX-License-Identifier: Apache-2.0
"""`penstock forecast`: the sentence, the table, the contract of its JSON, and what it says of bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.workload.forecast import METHODS

RNG = np.random.default_rng(11)
MINUTES = np.arange(1200)


def written(path: Path, rates: np.ndarray) -> str:
    """A file of counts per minute."""
    path.write_text("count\n" + "".join(f"{count}\n" for count in RNG.poisson(rates)))
    return str(path)


@pytest.fixture
def periodic(tmp_path: Path) -> str:
    """A load that repeats itself every 50 minutes."""
    return written(tmp_path / "periodic.csv", 1000 + 600 * np.sin(2 * np.pi * MINUTES / 50))


COUNTS = ("--as", "counts", "--column", "count", "--unit", "m")


def test_it_begins_with_a_plain_sentence(periodic: str, tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """Period, horizon, the error of the forecast and that of "as now"; then a line for each method, and the picture."""
    picture = tmp_path / "out.png"
    result = invoke("forecast", periodic, *COUNTS, "--horizon", "5m", "--plot", str(picture))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("periodic.csv: The load repeats every 50 min; 5 min ahead the forecast is off by ")
    assert 'where "as now" is off by' in lines[0]
    assert lines[1].startswith("1200 readings of 60 s each")
    for method in (*METHODS, "answer"):
        assert any(line.startswith(method) for line in lines)
    assert "with padding, which adds" in result.stdout
    assert "After the last reading:" in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_json_is_what_other_tools_read(periodic: str, invoke: Callable[..., Any]) -> None:
    """One object on stdout with exactly the named fields; the answer is better than "as now", as the sentence says."""
    result = invoke("forecast", periodic, *COUNTS, "--horizon", "5m", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert set(document) == {
        "summary", "file", "readings", "every_seconds", "horizon_seconds", "mean", "repeats_after_seconds", "methods",
        "answer", "last",
    }  # fmt: skip
    assert result.stderr.splitlines()[0] == f"periodic.csv: {document['summary']}"
    assert (document["readings"], document["every_seconds"], document["horizon_seconds"]) == (1200, 60.0, 300.0)
    assert document["repeats_after_seconds"] == pytest.approx(3000.0, rel=0.01)
    assert document["mean"] == pytest.approx(1000 / 60, rel=0.05)
    assert [method["method"] for method in document["methods"]] == list(METHODS)
    answer = document["answer"]
    assert answer["error"] < 0.5 * answer["error_as_now"]
    assert 0.0 < answer["padded_too_low_share"] < answer["too_low_share"] < 1.0
    assert answer["mean_padding"] > 0.0
    assert set(document["last"]) == {
        "value", "low", "high", "padding", "method", "error_now", "error_as_now", "horizon_seconds",
    }  # fmt: skip


def test_it_says_when_nothing_beats_as_now(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """A random walk has no period, and no method is better for long."""
    walk = written(tmp_path / "walk.csv", 1e6 + np.cumsum(RNG.normal(0.0, 2e4, 1200)).clip(-9e5))
    result = invoke("forecast", walk, *COUNTS, "--horizon", "10m")
    assert result.exit_code == 0, result.output
    assert 'The load does not repeat itself; 10 min ahead no method is better for long than "as now"' in result.stdout


def test_readings_of_arrival_times_have_ten_seconds(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """Without --every; with it, they have as many as it says."""
    path = tmp_path / "arrivals.npy"
    np.save(path, np.sort(RNG.uniform(0.0, 2000.0, 20_000)))
    result = invoke("forecast", str(path))
    assert result.exit_code == 0, result.output
    assert "readings of 10 s each" in result.stdout
    assert "readings of 5 s each" in invoke("forecast", str(path), "--every", "5s").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--horizon", "6h"), "--horizon: 6 h is more than a quarter of the trace"),
        (("--horizon", "soon"), "--horizon: cannot read 'soon'"),
        (("--every", "0s"), "--every: '0s' must be above 0"),
        (("--every", "90s"), "--every: 90 s is not a multiple of 60 s"),
        (("--every", "1h"), "20 readings of 3600 s are too few"),
        (("--plot", "out.gif"), "is not a picture's name"),
    ],
)
def test_bad_input_is_refused_with_the_fix(
    arguments: tuple[str, ...], said: str, periodic: str, invoke: Callable[..., Any]
) -> None:
    """Exit code 2, and one message that names the option."""
    result = invoke("forecast", periodic, *COUNTS, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
