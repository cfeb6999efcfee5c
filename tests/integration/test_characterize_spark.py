# SPDX-License-Identifier: Apache-2.0
"""The characterisation job on a real Spark: the numbers of one machine, and every bad file told."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

from penstock._characterize import characterize_traces
from penstock.apps.characterize import COLUMNS, WindowSettings, characterize_gaps
from penstock.arrivals import Reading, open_gaps
from penstock.errors import ConfigurationError
from penstock.markov import MAP
from penstock.workload import describe_iats

pytestmark = [pytest.mark.spark, pytest.mark.long]

BURSTY = MAP.mmpp([[-0.05, 0.05], [0.2, -0.2]], [1.0, 15.0])


def test_spark_gives_the_numbers_of_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell of two streams is what the same window gives here; bad files are told; nothing is left behind."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    paths = {}
    for seed in (1, 2):
        paths[f"s{seed}"] = tmp_path / f"{seed}.txt"
        stamps = np.cumsum(np.round(BURSTY.sample(2500, np.random.default_rng(seed)) * 1e6)).astype(np.int64)
        paths[f"s{seed}"].write_text("".join(f"{t}\n" for t in stamps.tolist()))
    reading, settings = Reading(unit="us"), WindowSettings(1000, max_states=4)
    told: list[str] = []
    result = characterize_traces(
        paths, reading, settings, master="local[2]", on_phase=lambda text, _: told.append(text)
    )
    expected = [
        row for name, path in paths.items() for row in characterize_gaps(name, open_gaps(path, reading), settings)
    ]
    assert len(result.rows) == len(expected) == 6
    for row, local in zip(result.rows, expected, strict=True):
        for column in COLUMNS:
            if column != "fit_seconds":
                same = pytest.approx(local[column], rel=1e-12) if isinstance(local[column], float) else local[column]
                assert row[column] == same, column
    direct = describe_iats(open_gaps(paths["s2"], reading).window(1000, 2000))
    assert result.rows[4]["scv"] == pytest.approx(direct.scv, rel=1e-12)
    assert result.rows[4]["rho10"] == pytest.approx(direct.acf[9], rel=1e-12)
    assert result.slots == 2
    assert told[0] == "starting Spark"

    (tmp_path / "bad.txt").write_text("1\nx\n")
    (tmp_path / "empty.txt").write_text("")
    bad = {"bad": tmp_path / "bad.txt", "empty": tmp_path / "empty.txt", **paths}
    with pytest.raises(ConfigurationError) as caught:
        characterize_traces(bad, reading, settings, master="local[2]")
    assert len(caught.value.faults) == 2
    assert "not a number in line 2" in str(caught.value)
    assert "has fewer than two arrivals" in str(caught.value)
    assert not list((tmp_path / "tmp").iterdir())
