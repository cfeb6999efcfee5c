# SPDX-License-Identifier: Apache-2.0
"""Windows of traces: which there are, and what is said of each without Spark."""

from __future__ import annotations

import json

import numpy as np
import pytest

from penstock.apps.characterize import COLUMNS, WindowSettings, characterize_gaps, describe_window, plan_windows
from penstock.arrivals.gaps import MappedGaps
from penstock.errors import ConfigurationError
from penstock.markov import MAP
from penstock.workload import describe_iats, fit_maps

IATS = np.random.default_rng(1).exponential(0.5, 2500)
GAPS = MappedGaps(IATS)


def test_windows_cover_the_trace() -> None:
    """Side by side, windows hold every time once; the last has what is left; each starts where the one before ends."""
    windows = plan_windows(GAPS, WindowSettings(1000))
    assert [(w["first"], w["n"]) for w in windows] == [(0, 1000), (1000, 1000), (2000, 500)]
    assert [w["start"] for w in windows] == pytest.approx([0.0, IATS[:1000].sum(), IATS[:2000].sum()], rel=1e-12)


def test_overlapping_windows_end_with_the_trace() -> None:
    """With a step below the size windows overlap, and none only repeats the end of the one before."""
    windows = plan_windows(GAPS, WindowSettings(1000, 600))
    assert [(w["first"], w["n"]) for w in windows] == [(0, 1000), (600, 1000), (1200, 1000), (1800, 700)]


def test_a_row_says_what_the_description_of_its_window_says() -> None:
    """Every number of a row is the description's of the same inter-arrival times, to the last digit."""
    rows = characterize_gaps("s", GAPS, WindowSettings(1000, fit=False))
    told = describe_iats(IATS[1000:2000])
    row = rows[1]
    assert list(row) == [*list(COLUMNS)[:5], "end", *list(COLUMNS)[6:]]
    assert (row["stream"], row["window"], row["n"]) == ("s", 1, 1000)
    assert (row["mean"], row["scv"], row["skewness"]) == (told.mean, told.scv, told.skewness)
    assert (row["rho1"], row["rho10"], row["rho100"]) == (told.acf[0], told.acf[9], told.acf[99])
    assert (row["idc"], row["idc_seconds"]) == (told.idc[-1], told.idc_widths[-1])
    assert row["end"] == pytest.approx(rows[2]["start"], rel=1e-12)
    assert row["states"] is None


def test_a_row_holds_the_best_fit() -> None:
    """With a fit, kind, states, loss and matrices are those of the best process for the window."""
    bursty = MAP.mmpp([[-0.05, 0.05], [0.2, -0.2]], [1.0, 15.0]).sample(4000, np.random.default_rng(1))
    row = describe_window(bursty, WindowSettings(max_states=4, seed=2))
    fit = fit_maps(bursty, best=1, max_states=4, seed=2)
    assert (row["kind"], row["states"], row["loss"]) == (fit.kind, fit.maps[0].states, fit.maps[0].loss)
    assert MAP.from_json(json.loads(row["map"])) == fit.maps[0].map
    assert row["scv"] == fit.trace.scv


@pytest.mark.parametrize(
    ("iats", "note", "has_mean"),
    [
        (np.ones(10), "10 inter-arrival times are too few to fit", False),
        (np.linspace(1, 2, 100), "100 inter-arrival times are too few to fit", True),
        (np.zeros(500), "every time is 0", False),
    ],
)
def test_a_window_without_numbers_says_why(iats: np.ndarray, note: str, has_mean: bool) -> None:
    """Too short for a fit, too short at all, or without a rate: nothing is made up, and the note says why."""
    row = describe_window(iats, WindowSettings())
    assert note in row["notes"]
    assert (row["mean"] is not None) == has_mean
    assert row["states"] is None


def test_windows_of_nothing_are_refused() -> None:
    """A size or a step below 1 is told with its field."""
    for arguments in ({"size": 0}, {"step": 0}, {"max_states": 0}):
        with pytest.raises(ConfigurationError, match="too small"):
            WindowSettings(**arguments)  # type: ignore[arg-type]
