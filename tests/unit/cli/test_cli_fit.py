# SPDX-License-Identifier: Apache-2.0
"""`penstock fit`: the contract of its JSON, its table and files, and what it says of bad input."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.arrivals import TRACE_FORMATS, load_map
from penstock.arrivals.trace_times import KINDS
from penstock.cli import trace_options
from penstock.markov import MAP
from penstock.workload.plain_words import LEGEND

BURSTY = MAP.mmpp([[-0.05, 0.05], [0.2, -0.2]], [1.0, 15.0])
IATS = BURSTY.sample(6000, np.random.default_rng(1))


@pytest.fixture
def iats(tmp_path: Path) -> Path:
    """A file of inter-arrival times in seconds, one per line."""
    path = tmp_path / "iats.txt"
    path.write_text("".join(f"{x!r}\n" for x in IATS.tolist()))
    return path


def test_the_json_is_what_other_tools_read(iats: Path, invoke: Callable[..., Any]) -> None:
    """One object on stdout with trace, maps, seconds and summary, and in them exactly the named fields; best first."""
    options = ("--window", "5000", "--best", "2", "--max-states", "4", "--seed", "3", "--json")
    result = invoke("fit", str(iats), "--as", "iats", *options)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert set(document) == {"trace", "maps", "seconds", "summary"}
    assert result.stderr.splitlines()[0] == f"iats.txt: {document['summary']}."
    assert document["summary"].endswith("times as bursty as Poisson")
    assert all(f"{name}: {meaning}" in result.stderr for name, meaning in LEGEND.items())
    trace, maps = document["trace"], document["maps"]
    assert set(trace) == {"n", "mean", "scv", "skewness", "acf"}
    window = IATS[:5000]
    assert trace["n"] == 5000
    assert trace["mean"] == pytest.approx(window.mean(), rel=1e-12)
    assert trace["scv"] == pytest.approx(window.var() / window.mean() ** 2, rel=1e-9)
    d = window - window.mean()
    assert trace["acf"][0] == pytest.approx((d[1:] * d[:-1]).sum() / (d * d).sum(), abs=1e-9)
    assert 1 <= len(maps) <= 2
    assert [m["loss"] for m in maps] == sorted(m["loss"] for m in maps)
    for one in maps:
        assert set(one) == {
                "D0", "D1", "states", "loss", "family", "worst_error", "mean", "scv", "skewness", "acf",
            }  # fmt: skip
        process = MAP(one["D0"], one["D1"])
        assert one["states"] == process.order <= 4
        assert one["mean"] == pytest.approx(process.mean, rel=1e-9)
        assert one["scv"] == pytest.approx(process.scv, rel=1e-9)
        assert one["skewness"] == pytest.approx(process.skewness, rel=1e-9)
        assert len(one["acf"]) == len(trace["acf"])
        assert one["acf"][:3] == pytest.approx(process.autocorrelation([1, 2, 3]).tolist(), abs=1e-9)
    assert document["seconds"] > 0
    again = json.loads(invoke("fit", str(iats), "--as", "iats", *options).stdout)
    assert again["maps"] == maps


def test_kinds_and_units_describe_the_same_trace(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """Arrivals in microseconds, packed, give the numbers of their inter-arrival times in seconds."""
    stamps = 10**15 + np.cumsum(np.round(IATS * 1e6)).astype(np.int64)
    packed = tmp_path / "stamps.txt.xz"
    packed.write_bytes(lzma.compress("".join(f"{t}\n" for t in stamps.tolist()).encode()))
    document = json.loads(
        invoke("fit", str(packed), "--unit", "us", "--best", "1", "--max-states", "2", "--json").stdout
    )
    gaps = np.diff(stamps) / 1e6
    assert document["trace"]["n"] == 5999
    assert document["trace"]["mean"] == pytest.approx(gaps.mean(), rel=1e-12)
    assert document["maps"][0]["mean"] == pytest.approx(gaps.mean(), rel=1e-6)


def test_table_map_and_picture(iats: Path, tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """For people: a table of trace against model; the process as a file that is read back; a picture."""
    png, out = tmp_path / "fit.png", tmp_path / "map.json"
    result = invoke(
        "fit", str(iats), "--as", "iats", "--best", "1", "--max-states", "4", "--plot", str(png), "--map", str(out)
    )
    assert result.exit_code == 0, result.output
    for words in ("6000 inter-arrival times", "SCV", "rho, lag 10", "IDC", "response, load 0.8", "states", "loss"):
        assert words in result.output
    assert load_map(out).mean == pytest.approx(IATS.mean(), rel=1e-6)
    assert set(json.loads(out.read_text())) == {"D0", "D1"}
    assert png.read_bytes().startswith(b"\x89PNG")


def test_counts_are_fitted_by_their_spread_records(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """A series of Poisson counts is, spread at random, a Poisson process of its rate."""
    path = tmp_path / "counts.csv"
    counts = np.random.default_rng(5).poisson(30.0, 400)
    path.write_text("minute,n\n" + "".join(f"{i},{n}\n" for i, n in enumerate(counts.tolist())))
    arguments = ("--as", "counts", "--column", "n", "--unit", "m", "--best", "1", "--json")
    result = invoke("fit", str(path), *arguments)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["trace"]["mean"] == pytest.approx(60 / counts.mean(), rel=0.02)
    assert document["maps"][0]["states"] == 1


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", ["--as", "iats"], "has fewer than two arrivals"),
        ("1\n-2\n3\n", ["--as", "iats"], "line 2: -2.0: negative; a time between arrivals is never below 0"),
        ("-1\n2\n", [], "line 1: -1.0: negative"),
        ("1\nnan\n", ["--as", "iats"], "line 2: nan: not a finite number; remove or replace it"),
        ("1\nx\n", [], "not a number in line 2: 'x'; write one number or one ISO timestamp per line"),
        ("3\n2\n", [], "line 2: 2.0: smaller than the one before; sort the trace, or give --as iats"),
        ("0\n" * 300, ["--as", "iats"], "every time is 0, so there is no rate; use a finer clock"),
        ("1\n2\n" * 50, ["--as", "iats"], "100 inter-arrival times are too few to fit a process; 256 are needed"),
        ("1\n2\n" * 50, ["--as", "iats", "--skip", "100"], "has 100 inter-arrival times, none after the first 100"),
        ("1.5\n", ["--as", "counts"], "line 1: 1.5: not a whole number of at least 0"),
        ("1\n", ["--unit", "weeks"], "'weeks' is not one of"),
        ("1\n", ["--format", "nosuch"], "'nosuch' is not one of"),
        ("1\n", ["--column", "at"], "--column: "),
        ("1\n", ["--period", "5m"], "--period: "),
        ("1\n", ["--as", "counts", "--period", "soon"], "--period: cannot read 'soon'"),
        ("1\n", ["--best", "0"], "0 is not in the range"),
        ("1\n", ["--plot", "none/x.png"], "--plot: none is not a folder; create it first"),
        ("1\n", ["--plot", "x.pdf"], "--plot: x.pdf is not a picture's name; end it with .png"),
        ("1\n", ["--map", "none/x.json"], "--map: none is not a folder; create it first"),
    ],
)  # fmt: skip
def test_bad_input_is_told_and_ends_with_code_2(
    tmp_path: Path, invoke: Callable[..., Any], text: str, options: list[str], message: str
) -> None:
    """Each mistake gives one message that names where it is and the fix, no traceback, and exit code 2."""
    path = tmp_path / "x.txt"
    path.write_text(text)
    result = invoke("fit", str(path), *options)
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_a_missing_column_names_those_there_are(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """A table needs a column: none or a wrong one is told with the columns of the file; so is a missing file."""
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    for options, message in (([], "--column: not given"), (["--column", "c"], "--column: no column 'c'")):
        result = invoke("fit", str(path), *options)
        assert result.exit_code == 2
        assert message in result.output
        assert "columns: a, b" in result.output
    assert invoke("fit", str(tmp_path / "none.txt")).exit_code == 2


def test_a_constant_series_is_fitted_with_a_note(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """No process of few states is constant: the closest is given, and said to be so; skewness is null."""
    path = tmp_path / "x.txt"
    path.write_text("2\n" * 500)
    result = invoke("fit", str(path), "--as", "iats", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["trace"]["skewness"] is None
    assert document["trace"]["acf"] == []
    assert document["maps"][0]["mean"] == pytest.approx(2.0)
    assert "note: all inter-arrival times are the same" in result.stderr


def test_the_options_name_every_kind_and_format() -> None:
    """The choices, written out so that --help loads nothing, are those the loaders know."""
    assert ("auto", "plain", *TRACE_FORMATS) == trace_options.FORMATS
    assert trace_options.KINDS == KINDS


def test_a_best_process_without_the_least_loss_says_why(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """Where Poisson comes first though others fit closer, one line tells; where the least loss is first, none does."""
    rng, told = np.random.default_rng(4), []
    for count in (3000, 2000):
        path = tmp_path / "poisson.txt"
        path.write_text("".join(f"{t:.9f}\n" for t in rng.exponential(1.0, count).tolist()))
        result = invoke("fit", str(path), "--as", "iats", "--best", "3", "--max-states", "4", "--json")
        losses = [one["loss"] for one in json.loads(result.stdout)["maps"]]
        told.append("The best does not have the least loss" in result.stderr)
        assert told[-1] == (losses[0] > min(losses))
    assert told == [False, True]


def test_it_is_said_which_part_of_a_long_trace_is_fitted(iats: Path, invoke: Callable[..., Any]) -> None:
    """A window that does not take in all of a file is its beginning, and the heading says so."""
    result = invoke("fit", str(iats), "--as", "iats", "--window", "600", "--best", "1", "--max-states", "2")
    assert result.exit_code == 0, result.output
    assert "the first 600 inter-arrival times" in result.output
