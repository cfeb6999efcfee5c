# SPDX-License-Identifier: Apache-2.0
"""Taxi rides: generated ones, the public ones prepared as a load, and the nearest attraction computed directly."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest

from penstock.adaptors.replay.options import ReplayOptions, open_arrivals
from penstock.apps.taxi_attractions.__main__ import main
from penstock.apps.taxi_attractions.attractions import ATTRACTIONS
from penstock.apps.taxi_attractions.check import expected_rows, nearest, pickup_of
from penstock.apps.taxi_attractions.rides import prepare_rides, replayed
from penstock.arrivals.taxi_ride_lines import TaxiRideLines
from penstock.errors import ConfigurationError

TIMES = np.zeros(3000, dtype=np.int64)
RIDE = "6,START,2013-01-01 00:00:00,1970-01-01 00:00:00,-73.866135,40.771091,-73.961334,40.764912,6,2013000006,1"


def test_each_generated_ride_comes_three_times_wherever_a_batch_begins() -> None:
    """Records 3k to 3k+2 are one ride; the same record has the same line in any batch; rides differ."""
    whole = TaxiRideLines(4).lines(0, TIMES)
    assert whole[0] == whole[1] == whole[2] != whole[3]
    assert TaxiRideLines(4).lines(1000, TIMES[:7]) == whole[1000:1007]
    assert len(set(whole)) == 1000
    assert TaxiRideLines(5).lines(0, TIMES) != whole


def test_generated_rides_are_rides() -> None:
    """Every line is read, its ride's number and time rise, and all attractions are the nearest of some."""
    lines = TaxiRideLines(1).lines(0, TIMES)
    rows = expected_rows(lines)
    assert len(rows) == len(lines)
    assert {attraction for _, _, attraction, _ in rows} == {attraction.name for attraction in ATTRACTIONS}
    assert [int(line.split(",")[0]) for line in lines[::3]] == list(range(1000))
    assert lines[0].split(",")[2] == "2013-05-01T00:00:00.000"
    assert lines[3].split(",")[2] == "2013-05-01T00:00:00.172"


def test_the_nearest_attraction_is_that_of_the_least_distance() -> None:
    """At an attraction the distance is none; elsewhere it is that of the plane, in degrees."""
    for attraction in ATTRACTIONS:
        assert nearest(attraction.longitude, attraction.latitude) == (attraction.name, 0.0)
    name, distance = nearest(-73.985130 + 0.003, 40.758896 + 0.004)
    assert name == "Times Square"
    assert math.isclose(distance, 0.005, rel_tol=1e-9)


@pytest.mark.parametrize(
    "line",
    ["", "6,START", RIDE.replace("-73.866135,40.771091", "0,0"), RIDE.replace("-73.866135", "west"),
     RIDE.replace("40.771091", "nan"), f"{RIDE},more", RIDE.replace("40.771091", "4_0.7")],
)  # fmt: skip
def test_lines_without_a_pickup_are_no_rides(line: str) -> None:
    """Other numbers of fields, no position, and what is no number."""
    assert pickup_of(RIDE) == (-73.866135, 40.771091)
    assert pickup_of(line) is None


def test_public_rides_are_cleaned_and_repeated(tmp_path: Path) -> None:
    """Ends of rides, duplicates and rides without a position go; the others come three times, in their order."""
    events = [RIDE, RIDE, RIDE.replace("6,START", "7,END"), RIDE.replace("6,START", "8,START"),
              RIDE.replace("6,START", "9,START").replace("-73.866135,40.771091", "0,0")]  # fmt: skip
    source, target = tmp_path / "rides.csv", tmp_path / "out" / "prepared.csv"
    source.write_text("\n".join(events))
    assert prepare_rides(source, target) == (2, 3)
    assert target.read_text().splitlines() == [events[0]] * 3 + [events[3]] * 3
    options = replayed(target, 10)
    assert options["options"]["speed"] == "10"
    arrivals = open_arrivals(ReplayOptions.parse({"trace": options["trace"], **options["options"]}))
    assert arrivals.total == 6


def test_a_missing_trace_says_where_it_comes_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the file, its origin and the way without it; nothing is written."""
    with pytest.raises(ConfigurationError, match=r"is not there; it is the file nycTaxiRides\.gz .* payload taxi-ride"):
        prepare_rides(tmp_path / "nycTaxiRides.gz", tmp_path / "out.csv")
    assert main([str(tmp_path / "nycTaxiRides.gz"), str(tmp_path / "out.csv")]) == 2
    assert "nycTaxiRides.gz" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.data
def test_the_public_trace_has_rides_for_all_three(tmp_path: Path) -> None:
    """The published events: more than half are starts with a position, near each of the attractions."""
    data = Path(os.environ.get("PENSTOCK_DATA", Path(__file__).parents[4] / "shared" / "data"))
    trace = data / "nyc-taxi-2013" / "nycTaxiRides.gz"
    if not trace.is_file():
        pytest.skip(f"no public trace: {trace} is not there (set PENSTOCK_DATA to the folder of the traces)")
    kept, dropped = prepare_rides(trace, tmp_path / "rides.csv", copies=1)
    assert kept + dropped == 100_000
    assert kept > 50_000
    names = [name for _, _, name, _ in expected_rows((tmp_path / "rides.csv").read_text().splitlines())]
    assert {attraction.name for attraction in ATTRACTIONS} == set(names)
