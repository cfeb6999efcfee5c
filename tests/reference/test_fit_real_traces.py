# SPDX-License-Identifier: Apache-2.0
"""The fits of real traces against the bars they have to meet; needs the traces (folder PENSTOCK_DATA)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.fit.traces import REAL, data_folder

from penstock.workload import FitResult, fit_maps, predicted_responses, replay

pytestmark = pytest.mark.data

WINDOW = 50_000


@pytest.fixture(scope="module")
def folder() -> Path:
    """The folder of the traces."""
    found = data_folder()
    if found is None:
        pytest.skip("no real traces: set PENSTOCK_DATA to their folder")
    return found


def queue_errors(fit: FitResult, window: np.ndarray) -> np.ndarray:
    """Relative errors of all processes' queues against a replay the fit has not seen; one row per process."""
    queue = replay(window, np.random.default_rng(77), times=12)
    return np.array([predicted_responses(m.map, queue.utilisations) / queue.responses - 1.0 for m in fit.maps])


@pytest.mark.parametrize(
    ("name", "max_states"),
    [("bc-paug89", 16), ("google-2011 submits", 16), ("cloudphysics-io", 16), ("cloudphysics-io", 32)],
)
def test_bars_are_met(folder: Path, name: str, max_states: int) -> None:
    """Moments within 1 %, SCV 2 %, autocorrelation 0.02, queue 15 %, and all of the best within a factor 2."""
    window = REAL[name](folder)[:WINDOW]
    fit = fit_maps(window, max_states=max_states)
    best = fit.maps[0]
    for error, limit in (("m2", 0.01), ("m3", 0.01), ("scv", 0.02), ("acf_rmse", 0.02)):
        assert abs(best.errors[error] or 0.0) <= limit, error
    errors = queue_errors(fit, window)
    assert len(fit.maps) == 5
    assert np.all(np.abs(errors[0]) <= 0.15)
    assert np.all((errors > -0.5) & (errors < 1.0))


def test_more_stages_make_one_long_burst_more_regular(folder: Path) -> None:
    """With 32 states, cloudphysics-io's queue comes within 7 %."""
    window = REAL["cloudphysics-io"](folder)[:WINDOW]
    assert np.all(np.abs(queue_errors(fit_maps(window, max_states=32, best=1), window)) <= 0.07)


@pytest.mark.parametrize("name", sorted(REAL))
def test_a_window_moved_on_is_fitted_from_the_last(folder: Path, name: str) -> None:
    """A hundredth and a tenth further on, the last window's fit is gone on from, and the queue is within 20 %."""
    stream = REAL[name](folder)
    first = fit_maps(stream[:WINDOW])
    for moved in (WINDOW // 100, WINDOW // 10):
        window = stream[moved : WINDOW + moved]
        again = fit_maps(window, warm=first)
        assert again.is_warm
        assert np.all(np.abs(queue_errors(again, window)[0]) <= 0.2)
