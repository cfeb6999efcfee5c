# SPDX-License-Identifier: Apache-2.0
"""Arrivals drawn from processes: the same for a seed, of the process's statistics; SYNT; and MAP files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from penstock.arrivals import SYNT_STRETCHES, MapArrivals, Stretch, load_map, parse_shape, synt
from penstock.errors import ConfigurationError
from penstock.markov import MAP

BURSTY = MAP.mmpp([[-0.5, 0.5], [1.0, -1.0]], [20.0, 200.0])


def test_draws_have_the_rate_and_variability_of_the_process() -> None:
    """Mean and SCV of many drawn gaps are the process's, within what chance allows."""
    gaps = np.diff(MapArrivals(BURSTY, count=300_000, seed=1).times(0, 300_000))
    assert gaps.mean() == pytest.approx(BURSTY.mean, rel=0.03)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(BURSTY.scv, rel=0.05)


@pytest.mark.parametrize("size", [{"count": 100_000}, {"seconds": 1000.0}])
def test_any_range_in_any_order_gives_the_same_times(size: dict[str, float]) -> None:
    """Another object, asked for other ranges in another order, gives parts of the same times."""
    whole = MapArrivals(BURSTY, seed=7, **size)  # type: ignore[arg-type]
    times = whole.times(0, whole.total)
    assert (np.diff(times) >= 0).all()
    assert times[-1] <= whole.duration_seconds
    again = MapArrivals(BURSTY, seed=7, **size)  # type: ignore[arg-type]
    for start, stop in ((60_000, 70_000), (0, 5), (32_760, 32_775)):
        assert np.array_equal(again.times(start, stop), times[start:stop])
    for index in (0, 32_767, 32_768, 65_535, whole.total - 1):
        assert again.count_until(float(times[index])) == np.searchsorted(times, times[index], side="right")
    assert again.count_until(-1.0) == 0
    assert again.count_until(1e12) == whole.total


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "duration"),
        ({"count": 0}, "count"),
        ({"count": 5, "seconds": 1.0}, "duration"),
        ({"seconds": -1.0}, "duration"),
        ({"count": 1, "seed": -1}, "seed"),
        ({"seconds": 1e12}, "duration"),
        ({"seconds": 1e-9}, "seed"),
    ],
)
def test_wrong_sizes_name_their_field(arguments: dict[str, float], field: str) -> None:
    """Neither or both of count and duration, or one out of range, is refused with the field."""
    with pytest.raises(ConfigurationError) as caught:
        MapArrivals(BURSTY, **arguments)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_synt_changes_abruptly() -> None:
    """Each stretch has its own rate and variability, the whole has the rate asked for, and the seed decides."""
    trace = synt(1000.0, 600.0, seed=4)
    times = trace.times(0, trace.total)
    assert trace.total / 600.0 == pytest.approx(1000.0, rel=0.05)
    assert (np.diff(times) >= 0).all()
    for number, stretch in enumerate(SYNT_STRETCHES):
        inside = times[(times >= 100.0 * number) & (times < 100.0 * (number + 1))]
        gaps = np.diff(inside)
        assert len(inside) / 100.0 == pytest.approx(1000.0 * stretch.rate, rel=0.1)
        assert gaps.var() / gaps.mean() ** 2 == pytest.approx(stretch.scv, rel=0.15)
    assert np.array_equal(synt(1000.0, 600.0, seed=4).times(90_000, 90_100), times[90_000:90_100])
    assert synt(1000.0, 600.0, seed=5).total != trace.total
    for t in (-1.0, 0.0, 99.9999, 100.0, float(times[70_321]), 599.9, 700.0):
        assert trace.count_until(t) == np.searchsorted(times, t, side="right")


def test_stretches_that_no_process_has_are_told() -> None:
    """A decay of 1 or a rate of 0 is refused with the stretch or the field."""
    with pytest.raises(ConfigurationError, match=r"stretches\[1\]"):
        synt(10.0, 60.0, stretches=(Stretch(1, 1, 1.0), Stretch(1, 1, 4.0, 1.5)))
    with pytest.raises(ConfigurationError, match="rate: 0"):
        synt(0.0, 60.0)
    with pytest.raises(ConfigurationError, match="stretches: is empty"):
        synt(1.0, 60.0, stretches=())


def test_a_map_file_is_an_object_with_d0_and_d1(tmp_path: Path) -> None:
    """What a process writes is read back exactly, and of a fit's JSON the best process is taken."""
    path = tmp_path / "map.json"
    path.write_text(json.dumps(BURSTY.to_json()))
    assert load_map(path) == BURSTY
    path.write_text(json.dumps({"maps": [BURSTY.to_json(), {"D0": [[-1]], "D1": [[1]]}]}))
    assert load_map(path) == BURSTY


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "has no D0 and D1"),
        ('{"D0": [[-1]]}', "has no D0 and D1"),
        ('{"D0": [[-1, 2], [0, -1]], "D1": [[1]]}', "D0 has 2 phases and D1 1"),
        ('{"D0": [[-1]], "D1": [[2]]}', "row 0 of D0 \\+ D1"),
        ('{"D0": [[-1]], "D1": [[-1]]}', "D1"),
        ('{"D0": [[-1, 0], [0, -1]], "D1": [[1, 0], [0, 1]]}', "D0 \\+ D1"),
    ],
)
def test_what_is_no_map_is_told_with_the_broken_condition(tmp_path: Path, text: str, message: str) -> None:
    """No JSON, no matrices, or matrices that are no process: the file and the condition are named."""
    path = tmp_path / "map.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        load_map(path)
    with pytest.raises(ConfigurationError, match=r"map: .* cannot be read"):
        load_map(tmp_path / "none.json")


def test_processes_are_shapes_for_replay(tmp_path: Path) -> None:
    """`map:` and `synt:` are read from one line of text, with the seed and rate given or taken over."""
    path = tmp_path / "map.json"
    path.write_text(json.dumps(BURSTY.to_json()))
    assert parse_shape(f"map:file={path},duration=10s,seed=3") == MapArrivals(BURSTY, seconds=10.0, seed=3)
    scaled = parse_shape(f"map:file={path},rate=500,duration=10s", seed=9)
    assert isinstance(scaled, MapArrivals)
    assert (round(scaled.process.rate, 9), scaled.seed) == (500.0, 9)
    assert parse_shape("synt:rate=100,duration=60s,seed=2").total == synt(100.0, 60.0, seed=2).total
    for text, message in (
        ("map:duration=10s", "file is missing"),
        ("map:file=map.json,duration=10s", "not an absolute path"),
        (f"map:file={path},duration=10s,rate=0", "rate: 0"),
        ("sampled:synt:rate=1,duration=1s", "random already"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            parse_shape(text)
