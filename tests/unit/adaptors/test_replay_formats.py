# SPDX-License-Identifier: Apache-2.0
"""The replay source reads what the loaders read: published traces, counts, and processes as shapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.adaptors.replay.options import ReplayOptions, open_arrivals
from penstock.errors import ConfigurationError


def test_published_traces_and_counts_can_be_replayed(tmp_path: Path) -> None:
    """A file is recognised, or read by its named format or kind, as the loaders do it."""
    path, cache = tmp_path / "io.csv", str(tmp_path / "cache")
    path.write_text("ts_us,op,len_bytes,lbn\n5000000,W,1,1\n6000000,R,1,2\n")
    for options in ({}, {"format": "cloudphysics-io"}, {"column": "ts_us", "unit": "us", "origin": "first"}):
        arrivals = open_arrivals(ReplayOptions.parse({"trace": str(path), "cacheDir": cache, **options}))
        assert arrivals.times(0, 2).tolist() == [0.0, 1.0]
    path = tmp_path / "counts.txt"
    path.write_text("2\n3\n")
    options = {"trace": str(path), "kind": "counts", "unit": "m", "seed": "4", "cacheDir": cache}
    assert open_arrivals(ReplayOptions.parse(options)).total == 5


def test_processes_are_shapes_of_the_replay_source() -> None:
    """`synt:` is a shape; a format belongs to files, and an unknown one is refused with those known."""
    assert open_arrivals(ReplayOptions.parse({"shape": "synt:rate=100,duration=10s"})).duration_seconds == 10.0
    with pytest.raises(ConfigurationError, match="format: applies only to a trace file"):
        ReplayOptions.parse({"shape": "constant:rate=5,duration=2s", "format": "plain"})
    with pytest.raises(ConfigurationError, match="format: unknown 'x'; known: auto, plain"):
        ReplayOptions.parse({"trace": "t.txt", "format": "x"})
