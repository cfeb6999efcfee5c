# SPDX-License-Identifier: Apache-2.0
"""The table of round trips between nodes."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from penstock.errors import ConfigurationError
from penstock.latency_map import FreshLatencyMap, LatencyMap, read_latency_map


def test_directions_that_differ_count_by_the_longer_one() -> None:
    """A round trip is one time; of two measurements the larger is believed, whoever asks."""
    apart = LatencyMap.of([("a", "b", 0.02), ("b", "a", 0.05)])
    assert apart.between("a", "b") == apart.between("b", "a") == 0.05


def test_a_hole_is_as_far_as_the_farthest_known_pair() -> None:
    """What nobody measured never looks near, and stays visible as a hole."""
    apart = LatencyMap.of([("a", "b", 0.02), ("b", "c", 0.2)])
    assert apart.between("a", "c") == 0.2
    assert apart.known("a", "c") is None
    assert apart.holes == (("a", "c"),)


def test_a_node_that_is_in_no_table_is_far() -> None:
    """A node that joined later is taken to be as far as any."""
    assert LatencyMap.of([("a", "b", 0.02)]).between("a", "new") == 0.02


def test_where_nothing_was_measured_no_pair_is_farther_than_another() -> None:
    """A map without a single time says nothing about nodes."""
    assert LatencyMap(("a", "b", "c")).largest(["a", "b", "c"]) == 0.0


def test_one_node_has_no_delay() -> None:
    """Executors on one node do not wait for each other."""
    assert LatencyMap(("a",)).largest(["a", "a"]) == 0.0


def test_a_map_can_be_pickled() -> None:
    """Models that hold it are sent to other processes."""
    apart = LatencyMap.of([("a", "b", 0.02)])
    assert pickle.loads(pickle.dumps(apart)) == apart


def test_a_table_is_read_with_comments_units_and_holes(tmp_path: Path) -> None:
    """Rows are pairs; what is not in the list of nodes is left out."""
    file = tmp_path / "trips.csv"
    file.write_text("# measured on Monday\nfrom,to,round_trip\na,b,120ms\nb,c,0.3\nc,z,1s\n")
    apart = read_latency_map(file, ["a", "b", "c", "d"])
    assert apart.nodes == ("a", "b", "c", "d")
    assert apart.between("a", "b") == 0.12
    assert apart.assumed_seconds == 0.3
    assert ("a", "d") in apart.holes


def test_a_table_of_a_spreadsheet_is_read(tmp_path: Path) -> None:
    """Its file may begin with a byte order mark, and end lines as Windows does."""
    file = tmp_path / "trips.csv"
    file.write_bytes(b"\xef\xbb\xbffrom,to,round_trip\r\na,b,120ms\r\n")
    assert read_latency_map(file).between("a", "b") == 0.12


def test_every_mistake_of_a_table_is_reported_with_its_line(tmp_path: Path) -> None:
    """One run shows all that is wrong, and what to write."""
    file = tmp_path / "trips.csv"
    file.write_text("from,to,round_trip\na,b,-5ms\na,b\n,b,1s\na,a,20ms\nb,c,1s\na,c,900d\n")
    with pytest.raises(ConfigurationError) as fault:
        read_latency_map(file)
    assert len(fault.value.faults) == 5
    for words in (
        "line 2: round_trip",
        "line 3: 2 cells",
        "line 4: from and to",
        "line 5: round_trip: a is 0.02 s away",
        "line 7: round_trip: 77760000.0 between a and c",
    ):
        assert words in str(fault.value)


@pytest.mark.parametrize(("text", "words"), [("a,b,c\n", "its first line"), ("", "its first line")])
def test_another_table_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """The message names the columns."""
    file = tmp_path / "trips.csv"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        read_latency_map(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """And so is what would be right."""
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_latency_map(tmp_path / "none.csv")


def test_a_map_that_contradicts_itself_is_refused() -> None:
    """Nodes stand once, times are times, and pairs are of nodes that are listed."""
    with pytest.raises(ConfigurationError) as fault:
        LatencyMap(("a", "a", " "), (("a", "q", float("nan")),))
    assert len(fault.value.faults) == 4


def test_the_drivers_node_takes_part_in_every_set() -> None:
    """A single executor is as far away as it is from the driver; no executor at all is not."""
    apart = LatencyMap.of([("home", "a", 0.01), ("home", "b", 0.2), ("a", "b", 0.05)], driver="home")
    assert (apart.largest(["a"]), apart.largest(["b"]), apart.largest(["a", "b"])) == (0.01, 0.2, 0.2)
    assert apart.largest([]) == 0.0


def test_a_driver_that_is_no_node_is_refused() -> None:
    """The message names it."""
    with pytest.raises(ConfigurationError, match="driver: 'home' is not one of the nodes"):
        LatencyMap(("a",), driver="home")


def test_a_table_keeps_the_pairs_of_the_driver(tmp_path: Path) -> None:
    """Where nodes are named, those and the driver's count."""
    file = tmp_path / "trips.csv"
    file.write_text("from,to,round_trip\nhome,a,10ms\nhome,b,20ms\n")
    apart = read_latency_map(file, ("a",), "home")
    assert (apart.nodes, apart.largest(["a"])) == (("a", "home"), 0.01)


def test_a_fresh_map_follows_what_was_measured_last() -> None:
    """Every question is answered as of now, but for some seconds, in which the answer stays."""
    known, clock = [0.1], [0.0]
    fresh = FreshLatencyMap(
        lambda: LatencyMap.of([("home", "a", known[-1])], driver="home"), keep_seconds=5.0, monotonic=lambda: clock[-1]
    )
    before = fresh.largest(["a"])
    known.append(0.3)
    clock.append(4.0)
    meanwhile = fresh.largest(["a"])
    clock.append(5.0)
    assert (before, meanwhile, fresh.largest(["a"]), fresh.between("a", "home")) == (0.1, 0.1, 0.3, 0.3)
    assert fresh.driver == "home"
