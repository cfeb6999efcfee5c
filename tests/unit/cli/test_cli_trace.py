# SPDX-License-Identifier: Apache-2.0
"""`penstock trace`: info, cut, convert and sample, and what they say of bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.arrivals import load_trace
from penstock.workload.plain_words import LEGEND


@pytest.fixture
def stamps(tmp_path: Path) -> Path:
    """A thousand arrivals in milliseconds, ten each second, every hundredth shared by two."""
    times = np.arange(1000) * 100
    times[100::100] = times[99:-1:100]
    path = tmp_path / "stamps.txt"
    path.write_text("".join(f"{t}\n" for t in np.sort(times).tolist()))
    return path


def test_info_tells_size_rate_and_ties(stamps: Path, invoke: Callable[..., Any]) -> None:
    """How many, how long, how fast, how many share a stamp; as words and as JSON."""
    result = invoke("trace", "info", str(stamps), "--unit", "ms", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["arrivals"] == 1000
    assert facts["span_seconds"] == pytest.approx(99.9)
    assert facts["rate"] == pytest.approx(10.0)
    assert facts["ties"] == 9
    assert facts["largest_gap_seconds"] == pytest.approx(0.2)
    assert set(facts["rho"]) == {"1", "2", "5", "10", "100"}
    assert "shared time stamps" in result.stderr


def test_info_of_counts_and_of_coarse_clocks(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """A series of counts is told by its periods; a clock too coarse for the arrivals is told by its step."""
    counts = tmp_path / "counts.txt"
    counts.write_text("3\n0\n" * 100)
    facts = json.loads(invoke("trace", "info", str(counts), "--as", "counts", "--json").stdout)
    assert (facts["arrivals"], facts["periods"], facts["empty_share"]) == (300, 200, 0.5)
    coarse = tmp_path / "coarse.txt"
    coarse.write_text("".join(f"{i // 10}\n" for i in range(1000)))
    facts = json.loads(invoke("trace", "info", str(coarse), "--json").stdout)
    assert facts["coarse_step_seconds"] == 1.0
    assert any("coarse clock" in note for note in facts["notes"])


def test_info_of_few_arrivals_says_what_it_can(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """Too few to describe: the rest is told, and why no more is."""
    path = tmp_path / "few.txt"
    path.write_text("0\n1\n3\n")
    facts = json.loads(invoke("trace", "info", str(path), "--json").stdout)
    assert (facts["arrivals"], facts["scv"]) == (3, None)
    assert "too few to describe" in facts["notes"][0]


def test_cut_by_time_and_by_number(stamps: Path, tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """A part by time counts from where it begins, one by number from its first record."""
    out = tmp_path / "part.txt"
    by_time = ("--from", "10s", "--until", "20s", "--to-unit", "ms")
    result = invoke("trace", "cut", str(stamps), str(out), "--unit", "ms", *by_time, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["arrivals"] == 100
    assert out.read_text().split()[:2] == ["100", "200"]
    result = invoke("trace", "cut", str(stamps), str(out), "--unit", "ms", "--first", "10", "--count", "5")
    assert load_trace(out).times(0, 5) == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])


def test_convert_between_kinds_and_formats(stamps: Path, tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """Arrivals become gaps, gaps arrivals again, and both counts; the file's name says the format."""
    gaps, back, counts = tmp_path / "gaps.csv.gz", tmp_path / "back.parquet", tmp_path / "counts.csv"
    assert invoke("trace", "convert", str(stamps), str(gaps), "--unit", "ms", "--to", "iats").exit_code == 0
    assert invoke("trace", "convert", str(gaps), str(back), "--as", "iats", "--to-unit", "ms").exit_code == 0
    assert load_trace(back, unit="ms").times(0, 1000) == pytest.approx(load_trace(stamps, unit="ms").times(0, 1000))
    assert (
        invoke(
            "trace", "convert", str(back), str(counts), "--unit", "ms", "--to", "counts", "--to-period", "50s"
        ).exit_code
        == 0
    )
    assert sum(map(int, counts.read_text().split()[1:])) == 1000


def test_sample_draws_from_a_map_file(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """As many records as asked for, at the rate asked for, the same for a seed."""
    (tmp_path / "map.json").write_text('{"D0": [[-4]], "D1": [[4]]}')
    one, two = tmp_path / "1.npy", tmp_path / "2.npy"
    for out in (one, two):
        result = invoke(
            "trace", "sample", str(tmp_path / "map.json"), str(out), "--count", "20000", "--rate", "50/s", "--seed", "2"
        )
        assert result.exit_code == 0, result.output
    assert one.read_bytes() == two.read_bytes()
    assert load_trace(one).duration_seconds == pytest.approx(400.0, rel=0.05)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ('{"D0": [[-1]], "D1": [[2]]}', "is not an arrival process"),
        ('{"D0": [[-1, 0], [0, -1]], "D1": [[1, 0], [0, 1]]}', "is not an arrival process"),
        ('{"D0": [[-1, -1], [0, -1]], "D1": [[2, 0], [1, 0]]}', "D0"),
        ("[]", "has no D0 and D1"),
    ],
)
def test_a_pair_that_is_no_map_ends_with_code_2(
    tmp_path: Path, invoke: Callable[..., Any], document: str, message: str
) -> None:
    """Row sums, signs and reducible chains: the broken condition is named with the file, and nothing is written."""
    path = tmp_path / "map.json"
    path.write_text(document)
    result = invoke("trace", "sample", str(path), str(tmp_path / "out.txt"), "--count", "10")
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "out.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cut", "{file}", "out.txt"], "--from: give either times"),
        (["cut", "{file}", "out.txt", "--from", "1s", "--count", "3"], "--from: give either times"),
        (["cut", "{file}", "out.txt", "--unit", "ms", "--from", "1000s"], "the range has none"),
        (["cut", "{file}", "out.txt", "--from", "soon"], "--from: cannot read 'soon'"),
        (["cut", "{file}", "out.txt", "--from", "2m", "--until", "90s"], "--until: 90s is not after --from 2m"),
        (["cut", "{file}", "out.txt", "--until", "0s"], "--until: 0s is not after the beginning"),
        (["cut", "{file}", "out.json", "--from", "1s"], "OUTPUT: out.json has no suffix of a trace format"),
        (["convert", "{file}", "out"], "end its name with one of .txt, .csv, .npy, .parquet"),
        (["sample", "none.json", "out.json.gz", "--count", "5"], "OUTPUT: out.json.gz has no suffix of a trace format"),
        (["convert", "{file}", "out.npy.gz"], "only text and csv may be compressed"),
        (["convert", "{file}", "out.txt", "--to-period", "1s"], "only counts have periods"),
        (["convert", "none.txt", "out.txt"], "none.txt is not there"),
        (["info", "none.txt"], "none.txt"),
        (["sample", "none.json", "out.txt", "--count", "5"], "map: none.json cannot be read"),
    ],
)
def test_wrong_arguments_end_with_code_2(
    stamps: Path, invoke: Callable[..., Any], here: Path, arguments: list[str], message: str
) -> None:
    """Each mistake is told with the option and the fix, and no file is written."""
    result = invoke("trace", *(a.format(file=stamps) for a in arguments))
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())
    assert not list(here.glob("out*"))


@pytest.mark.parametrize("command", [("cut", "--from", "1s"), ("convert",)])
def test_a_trace_is_not_written_over_itself(stamps: Path, invoke: Callable[..., Any], command: tuple[str, ...]) -> None:
    """The file to write may not be the file that is read; it stays as it is."""
    before = stamps.read_bytes()
    result = invoke("trace", command[0], str(stamps), str(stamps), *command[1:], "--unit", "ms")
    assert result.exit_code == 2
    assert "is the input trace" in result.stderr
    assert stamps.read_bytes() == before


def test_counts_too_large_to_be_placed_are_refused(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """A count that no machine could turn into single arrivals is told, not tried."""
    path = tmp_path / "counts.txt"
    path.write_text("1000000000000\n1\n")
    result = invoke("fit", str(path), "--as", "counts")
    assert result.exit_code == 2
    assert "shorter periods" in result.stderr


def test_info_begins_with_a_sentence_and_explains_its_statistics(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """What arrives is said in plain words first; SCV, IDC and rho have a line each; JSON has the sentence."""
    rates = ([20] * 32 + [400] * 8) * 10
    rng = np.random.default_rng(5)
    times = np.concatenate([i + np.sort(rng.random(rate)) for i, rate in enumerate(rates)])
    path = tmp_path / "bursts.txt"
    path.write_text("".join(f"{t:.6f}\n" for t in times.tolist()))
    result = invoke("trace", "info", str(path), "--json")
    facts = json.loads(result.stdout)
    assert facts["summary"].startswith("mostly 20 a second; bursts of 400 a second for about ")
    assert "times as bursty as Poisson" in facts["summary"]
    words = result.stderr.splitlines()
    assert words[0].startswith("bursts.txt: mostly 20 a second; bursts of 400 a second")
    for name, meaning in LEGEND.items():
        assert any(line.startswith(name) and meaning[:20] in line for line in words), name


def test_info_reads_iso_timestamps(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """A log's own timestamps need no conversion, in a column of a table too."""
    stamps = [f"2026-01-31T12:{i // 600:02d}:{i // 10 % 60:02d}.{i % 10}00+01:00" for i in range(3000)]
    path = tmp_path / "requests.csv"
    path.write_text("time,path\n" + "".join(f"{stamp},/index\n" for stamp in stamps))
    result = invoke("trace", "info", str(path), "--column", "time", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["arrivals"], round(facts["rate"], 6)) == (3000, 10.0)
    assert facts["summary"].startswith("about 10 a second, steady, without bursts")
