# SPDX-License-Identifier: Apache-2.0
"""Options of the replay source."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.adaptors.replay.options import ReplayOptions, open_arrivals, replay_arrivals
from penstock.arrivals import Constant
from penstock.errors import ConfigurationError

SHAPE = "constant:rate=10,duration=3s"


def test_defaults() -> None:
    """Only what is replayed must be named."""
    options = ReplayOptions.parse({"shape": SHAPE})
    assert options == ReplayOptions(shape=SHAPE)
    assert (options.speed, options.partitions, options.payload, options.epoch_us) == (1.0, 2, "none", None)


def test_names_in_any_case() -> None:
    """Spark hands options on in lower case; users write camelCase."""
    parsed = ReplayOptions.parse(
        {"TRACE": "t.csv", "Column": "at", "unit": "ms", "kind": "iats", "origin": "first", "speed": "2.5",
         "partitions": "3", "payload": "file:/x", "malformed": "0.5", "seed": "9", "maxrowsperbatch": "100",
         "startAt": "1790000000.25", "cachedir": "/tmp/c"}
    )  # fmt: skip
    assert parsed == ReplayOptions(
        trace="t.csv", column="at", unit="ms", kind="iats", origin="first", speed=2.5, partitions=3,
        payload="file:/x", malformed=0.5, seed=9, max_rows_per_batch=100,
        start_at=1790000000.25, cache_dir="/tmp/c",
    )  # fmt: skip
    assert parsed.epoch_us == 1_790_000_000_250_000


def test_path_is_the_trace() -> None:
    """What load(path) sets names the trace; both at once are refused."""
    assert ReplayOptions.parse({"path": "t.txt"}).trace == "t.txt"
    with pytest.raises(ConfigurationError, match="trace is given twice"):
        ReplayOptions.parse({"path": "t.txt", "trace": "u.txt"})


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("spede", "2", "unknown option 'spede'; known options: trace, path, shape"),
        ("speed", "0", "speed: '0' is not a number above 0"),
        ("speed", "fast", "speed: 'fast' is not a number"),
        ("speed", "nan", "speed: 'nan' is not a number"),
        ("partitions", "0", "partitions: '0' is not a whole number from 1"),
        ("partitions", "1.5", "partitions: '1.5' is not a whole number"),
        ("maxRowsPerBatch", "-1", "maxRowsPerBatch: '-1' is not a whole number from 1"),
        ("payload", "xml", "payload: unknown 'xml'; known: none, log, text, web-log, features, taxi-ride, file:PATH"),
        ("payload", "file:", "payload: unknown 'file:'"),
        ("malformed", "2", "malformed: '2' is not a number from 0 to 1"),
        ("seed", "-3", "seed: '-3' is not a whole number from 0"),
        ("startAt", "yesterday", "startAt: 'yesterday' is not a number"),
        ("unit", "s", "unit: applies only to a trace file, not to a shape"),
        ("trace", "t.txt", "give either trace"),
        ("cacheDir", " ", "cacheDir: is empty"),
    ],
)
def test_wrong_options_are_named(option: str, value: str, message: str) -> None:
    """Each wrong option is refused with its name and what would be right."""
    with pytest.raises(ConfigurationError) as caught:
        ReplayOptions.parse({"shape": SHAPE, option: value})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [("unit", "parsec", "unknown unit 'parsec'"), ("kind", "x", "kind: unknown 'x'"), ("origin", "x", "origin:")],
)
def test_wrong_readings_are_named(option: str, value: str, message: str) -> None:
    """How a trace file is to be read is checked before the file is opened."""
    with pytest.raises(ConfigurationError, match=message):
        ReplayOptions.parse({"trace": "t.txt", option: value})


def test_all_mistakes_at_once() -> None:
    """Every mistake is in one message."""
    with pytest.raises(ConfigurationError, match="3 mistakes") as caught:
        ReplayOptions.parse({"speed": "x", "partitions": "y", "nonsense": "1"})
    assert all(word in str(caught.value) for word in ("speed", "partitions", "nonsense"))


def test_nothing_to_replay_and_bad_shapes() -> None:
    """Neither trace nor shape is a mistake, and so is a shape that cannot be read."""
    with pytest.raises(ConfigurationError, match="give either trace"):
        ReplayOptions.parse({})
    with pytest.raises(ConfigurationError, match="duration is missing"):
        ReplayOptions.parse({"shape": "constant:rate=5"})


def test_arrivals_of_a_shape_and_of_a_trace(tmp_path: Path) -> None:
    """Both kinds open; a trace is converted into the cache once, and again when the file changes."""
    assert open_arrivals(ReplayOptions.parse({"shape": SHAPE})) == Constant(10.0, 3.0)
    trace = tmp_path / "t.txt"
    trace.write_text("1\n2\n")
    options = ReplayOptions.parse({"trace": str(trace), "cacheDir": str(tmp_path / "cache")})
    assert open_arrivals(options) is open_arrivals(options)
    trace.write_text("1\n2\n3\n")
    assert open_arrivals(options).total == 3
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_watcher_gets_the_same_arrivals() -> None:
    """The controller's arrival times come from the same options, with time zero where it is given."""
    arrivals = replay_arrivals({"shape": SHAPE, "speed": "2", "startAt": "100"})
    assert arrivals.speed == 2.0
    assert arrivals.arrived_by(101.0) == 20
    assert replay_arrivals(ReplayOptions(shape=SHAPE)).arrived_by(101.0) is None


def test_a_missing_trace_is_told_with_its_path(tmp_path: Path) -> None:
    """A trace that is not there is a configuration error that names it."""
    with pytest.raises(ConfigurationError, match=r"none\.txt cannot be read: No such file"):
        replay_arrivals({"trace": str(tmp_path / "none.txt")})
