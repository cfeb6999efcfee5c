# SPDX-License-Identifier: Apache-2.0
"""Traces: what they answer, what they refuse, and how they are kept."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest

from penstock.arrivals import Trace, load_trace
from penstock.errors import ConfigurationError


def test_answers_counts_and_times() -> None:
    """A trace counts the arrivals at or before a time and gives any range of them."""
    trace = Trace([0.0, 0.5, 0.5, 2.0])
    assert (trace.total, trace.duration_seconds) == (4, 2.0)
    assert [trace.count_until(t) for t in (-1.0, 0.0, 0.49, 0.5, 2.0, 9.0)] == [0, 1, 1, 3, 4, 4]
    assert trace.times(1, 3).tolist() == [0.5, 0.5]
    with pytest.raises(IndexError, match="outside 0 to 4"):
        trace.times(3, 5)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([], "has no arrivals"),
        ([1.0, 3.0, 2.0, 4.0, 3.5], r"index 2: 2.0, index 4: 3.5: smaller than the one before; sort"),
        ([-1.0, 0.0], "index 0: -1.0: negative"),
        ([0.0, float("nan"), 1.0], "index 1: nan: not a finite number"),
        ([0.0, float("inf"), float("inf")], "index 1: inf, index 2: inf: not a finite number"),
    ],
)
def test_refuses_bad_times(times: list[float], message: str) -> None:
    """Empty, unsorted, negative and non-finite times are refused with their places and the fix."""
    with pytest.raises(ConfigurationError, match=message) as caught:
        Trace(times)
    assert caught.value.field == "trace"


def test_lists_only_the_first_offenders() -> None:
    """A trace with many faults shows five of them and says that there are more."""
    with pytest.raises(ConfigurationError, match=r"(index \d+: -1.0, ){5}\.\.\.: negative"):
        Trace(np.full(100, -1.0))


def test_an_order_fault_between_chunks_is_seen(tmp_path: Path) -> None:
    """A time that falls exactly where a new chunk begins is found, with its line."""
    path = tmp_path / "long.txt"
    path.write_text("".join(f"{i}\n" for i in range(400_000)) + "7\n")
    with pytest.raises(ConfigurationError, match=r"long\.txt: line 400001: 7.0: smaller"):
        load_trace(path)
    with pytest.raises(ConfigurationError, match=r"index 65536: 1\.0: smaller"):
        Trace(np.concatenate((np.arange(1, 65537), [1.0])))


def test_saved_traces_load_again(tmp_path: Path) -> None:
    """What `save_npy` writes, `load_trace` reads back bit by bit."""
    times = np.cumsum(np.random.default_rng(1).exponential(size=1000))
    Trace(times).save_npy(tmp_path / "t.npy")
    assert np.array_equal(load_trace(tmp_path / "t.npy").times(0, 1000), times)


def test_units_are_exact_for_whole_numbers(tmp_path: Path) -> None:
    """Microseconds become the nearest doubles in seconds, and other units follow suit."""
    path = tmp_path / "t.txt"
    path.write_text("1340\n1508\n")
    assert load_trace(path, unit="us").times(0, 2).tolist() == [0.00134, 0.001508]
    assert load_trace(path, unit="m").times(0, 1).tolist() == [80400.0]


def test_iats_are_summed_up(tmp_path: Path) -> None:
    """Inter-arrival times give arrivals from the first gap on, or from zero with origin=first."""
    path = tmp_path / "gaps.txt"
    path.write_text("3\n1\n2\n")
    assert load_trace(path, kind="iats").times(0, 3).tolist() == [3.0, 4.0, 6.0]
    assert load_trace(path, kind="iats", origin="first").times(0, 3).tolist() == [0.0, 1.0, 3.0]
    path.write_text("3\n-1\n")
    with pytest.raises(ConfigurationError, match=r"line 2: -1\.0: negative"):
        load_trace(path, kind="iats")


def test_absolute_times_need_an_origin(tmp_path: Path) -> None:
    """Stamps that would be due in decades are refused, and origin=first keeps all digits of whole numbers."""
    path = tmp_path / "epoch_ns.npy"
    np.save(path, np.array([1_700_000_000_000_000_001, 1_700_000_000_000_000_101], dtype=np.uint64))
    with pytest.raises(ConfigurationError, match="origin=first"):
        load_trace(path, unit="ns")
    assert load_trace(path, unit="ns", origin="first").times(0, 2).tolist() == [0.0, 1e-7]


def test_unknown_choices_are_named(tmp_path: Path) -> None:
    """A wrong unit, kind or origin names the field and what is known."""
    for field, text in (("kind", "arrivals, iats"), ("origin", "zero, first"), ("unit", "known units: ns, us")):
        with pytest.raises(ConfigurationError, match=text) as caught:
            load_trace(tmp_path / "t.txt", **{field: "x"})  # type: ignore[arg-type]
        assert caught.value.field == field


def test_the_cache_follows_the_file(tmp_path: Path) -> None:
    """A converted trace is reused while the file is the same, and made anew when it or an option changes."""
    path, cache = tmp_path / "t.txt", tmp_path / "cache"
    path.write_text("1\n2\n")
    assert load_trace(path, cache_dir=cache).total == 2
    assert load_trace(path, cache_dir=cache).total == 2
    assert len(list(cache.iterdir())) == 1
    assert load_trace(path, unit="ms", cache_dir=cache).duration_seconds == 0.002
    path.write_text("1\n2\n3\n")
    assert load_trace(path, cache_dir=cache).total == 3
    assert len(list(cache.iterdir())) == 3


def test_a_bad_trace_leaves_nothing_in_the_cache(tmp_path: Path) -> None:
    """A refused or empty trace leaves no half-made file behind."""
    path, cache = tmp_path / "t.txt", tmp_path / "cache"
    for text in ("2\n1\n", "# nothing\n"):
        path.write_text(text)
        with pytest.raises(ConfigurationError):
            load_trace(path, cache_dir=cache)
        assert list(cache.iterdir()) == []


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_packed_files_that_end_early_are_refused(tmp_path: Path, suffix: str) -> None:
    """A truncated archive is a configuration error with the file's name, not a short trace."""
    pack = gzip.compress if suffix == ".gz" else lzma.compress
    path = tmp_path / f"t.txt{suffix}"
    path.write_bytes(pack(b"".join(b"%d\n" % i for i in range(10_000)))[:-20])
    with pytest.raises(ConfigurationError, match=r"t\.txt\.(gz|xz) cannot be read"):
        load_trace(path)


def test_a_trace_describes_itself(tmp_path: Path) -> None:
    """The text of a trace names it with its size and span."""
    assert repr(Trace([1.0, 2.5], name="two")) == "Trace('two': 2 arrivals in 2.5 s)"
