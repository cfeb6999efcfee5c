# SPDX-License-Identifier: Apache-2.0
"""`penstock characterize`: its table, files and JSON, with the job done here instead of on Spark; and bad input."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from penstock import _characterize
from penstock._characterize import Characterization
from penstock.apps.characterize import COLUMNS, WindowSettings, characterize_gaps
from penstock.arrivals import Reading, open_gaps


@pytest.fixture
def traces(tmp_path: Path) -> list[str]:
    """Two traces of 2,500 and 1,200 arrivals."""
    paths = []
    for seed, count in ((1, 2500), (2, 1200)):
        path = tmp_path / f"trace{seed}.npy"
        np.save(path, np.cumsum(np.random.default_rng(seed).exponential(0.1, count)))
        paths.append(str(path))
    return paths


@pytest.fixture
def job_here(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The job done in this process; what it was asked for is kept."""
    asked: dict[str, Any] = {}

    def run(
        streams: Mapping[str, Path], reading: Reading, settings: WindowSettings, **options: Any
    ) -> Characterization:
        asked.update(options, settings=settings, reading=reading)
        rows = [
            r for name, path in streams.items() for r in characterize_gaps(name, open_gaps(path, reading), settings)
        ]
        return Characterization(tuple(rows), 1.5, 2)

    monkeypatch.setattr(_characterize, "characterize_traces", run)
    return asked


def test_the_table_has_a_row_per_stream_and_window(
    traces: list[str], tmp_path: Path, invoke: Callable[..., Any], job_here: dict[str, Any]
) -> None:
    """Rows on stdout as JSON, in a file with the stated columns, and as a picture."""
    output, picture = tmp_path / "table.parquet", tmp_path / "burst.png"
    arguments = ("--window", "1000", "--no-fit", "--output", str(output), "--plot", str(picture), "--executors", "3")
    result = invoke("characterize", *traces, *arguments, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["streams"], document["windows"], document["cores"]) == (2, 5, 2)
    assert [(r["stream"], r["window"]) for r in document["rows"]] == [
        ("trace1.npy", 0), ("trace1.npy", 1), ("trace1.npy", 2), ("trace2.npy", 0), ("trace2.npy", 1),
    ]  # fmt: skip
    assert pyarrow.parquet.read_table(output).column_names == list(COLUMNS)
    assert pyarrow.parquet.read_table(output).num_rows == 5
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert (job_here["executors"], job_here["master"]) == (3, "embedded")
    assert "trace2.npy" in result.stderr


def test_the_table_as_csv(
    traces: list[str], tmp_path: Path, invoke: Callable[..., Any], job_here: dict[str, Any]
) -> None:
    """A csv file has the same columns; overlapping windows are asked for by their step."""
    output = tmp_path / "table.csv"
    result = invoke("characterize", traces[1], "--window", "600", "--step", "300", "--no-fit", "--output", str(output))
    assert result.exit_code == 0, result.output
    table = pyarrow.csv.read_csv(output)
    assert table.column_names == list(COLUMNS)
    assert table.column("first").to_pylist() == [0, 300, 600]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.npy"], "none.npy is not there; give the path of a file"),
        (["{trace}", "{trace}"], "a file is given twice"),
        (["{trace}", "--output", "table.xls"], "--output: table.xls is neither .parquet nor .csv"),
        (["{trace}", "--output", "none/t.csv"], "--output: none is not a folder"),
        (["{trace}", "--plot", "none/t.png"], "--plot: none is not a folder"),
        (["{trace}", "--master", "nosuch"], "cluster.master: unknown master 'nosuch'"),
        (
            ["{trace}", "--master", "local[2]", "--executors", "2"],
            "local[2] has threads instead of executors",
        ),
        (["{trace}", "--window", "0"], "0 is not in the range"),
        ([], "Missing argument 'TRACE...'"),
    ],
)
def test_wrong_arguments_end_with_code_2_and_start_nothing(
    traces: list[str], invoke: Callable[..., Any], here: Path, arguments: list[str], message: str
) -> None:
    """Each mistake is told before Spark is started."""
    result = invoke("characterize", *(a.format(trace=traces[0]) for a in arguments))
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())
