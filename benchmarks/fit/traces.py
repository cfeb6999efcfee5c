# SPDX-License-Identifier: Apache-2.0
"""The windows the fit is measured on: real traces where there are any, and samples of known processes."""

from __future__ import annotations

import csv
import gzip
import lzma
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.arrivals import Reading
from penstock.arrivals.gaps import Gaps, MappedGaps, open_gaps
from penstock.markov import MAP, PH, map2_from_moments, superpose

FloatArray = npt.NDArray[np.float64]

KNOWN: dict[str, MAP] = {
    "slow bursts": MAP.mmpp([[-1 / 18, 1 / 18], [0.5, -0.5]], [100.0, 600.0]),
    "on and off": MAP.mmpp([[-1 / 9, 1 / 9], [1.0, -1.0]], [20.0, 400.0]),
    "hyperexponential": MAP.renewal(PH.hyperexponential([0.9, 0.1], [2.0, 0.2])),
    "MAP(2)": map2_from_moments(1.0, 5.0, 60.0, 0.9),
    "MAP(4)": superpose(
        MAP.mmpp([[-0.02, 0.02], [0.05, -0.05]], [0.3, 4.0]), MAP.mmpp([[-0.5, 0.5], [0.3, -0.3]], [0.1, 2.0])
    ),
    "MAP(8)": superpose(
        MAP.mmpp([[-0.002, 0.002], [0.006, -0.006]], [0.3, 3.0]),
        MAP.mmpp([[-0.05, 0.05], [0.03, -0.03]], [0.1, 2.0]),
        MAP.mmpp([[-1.0, 1.0], [0.5, -0.5]], [0.1, 2.0]),
    ),
}


def data_folder() -> Path | None:
    """Where the real traces are: PENSTOCK_DATA, or shared/data beside the repository."""
    named = os.environ.get("PENSTOCK_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"
    return folder if folder.is_dir() else None


def bc_paug89(folder: Path) -> FloatArray:
    """Inter-arrival times of the Bellcore trace, in seconds."""
    with lzma.open(folder / "bc-paug89" / "BC-pAug89.timestamps_us.txt.xz", "rt") as file:
        return np.diff(np.loadtxt(file)) / 1e6


def cloudphysics(folder: Path) -> FloatArray:
    """Inter-arrival times of the block I/O trace, in seconds."""
    with lzma.open(folder / "cloudphysics-io" / "cloudPhysicsIO.us.csv.xz", "rt") as file:
        rows = csv.reader(file)
        next(rows)
        return np.diff(np.array([float(row[0]) for row in rows])) / 1e6


def google_submits(folder: Path) -> FloatArray:
    """Inter-arrival times of the task submissions after time zero, in seconds."""
    with gzip.open(folder / "google-2011" / "task_events_part-00000-of-00500.csv.gz", "rt") as file:
        times = np.array([float(row[0]) for row in csv.reader(file) if row[5] == "0"])
    return np.diff(np.sort(times[times > 0])) / 1e6


REAL: dict[str, Callable[[Path], FloatArray]] = {
    "bc-paug89": bc_paug89,
    "cloudphysics-io": cloudphysics,
    "google-2011 submits": google_submits,
}


FILES = {
    "bc-paug89": "bc-paug89/BC-pAug89.timestamps_us.txt.xz",
    "cloudphysics-io": "cloudphysics-io/cloudPhysicsIO.us.csv.xz",
    "google-2011 submits": "google-2011/task_events_part-00000-of-00500.csv.gz",
    "nyc-taxi": "nyc-taxi-2013/nycTaxiRides.gz",
    "worldcup98": "worldcup98/wc98_requests_per_minute.csv.xz",
    "debs2015": "nyc-taxi-2013/debs2015_sorted_data_first10004.csv.xz",
    "ms-livemaps": "ms-livemaps-1030/LIVEMAPS-1030.values.txt.xz",
    "apache-logs": "apache-logs/elastic_apache_logs_10k.log.xz",
}
_PLACES = {"start": 0.0, "middle": 0.5, "end": 1.0}


def open_trace(folder: Path, trace: str) -> Gaps:
    """The inter-arrival times of a stream of `FILES`, as `penstock fit` reads it; access logs it does not read."""
    path = folder / FILES[trace]
    if trace == "apache-logs":
        return MappedGaps(web_log(path))
    # Bare numbers: the format cannot be recognised.
    return open_gaps(path, Reading(format=trace) if trace == "ms-livemaps" else Reading())


def web_log(path: Path) -> FloatArray:
    """Inter-arrival times of the requests in an access log, in seconds; its lines are in order to the minute only."""
    with lzma.open(path, "rt", encoding="utf-8", errors="replace") as file:
        stamps = [line.split("[", 1)[1].split("]", 1)[0] for line in file]
    return np.diff(np.sort([datetime.strptime(stamp, "%d/%b/%Y:%H:%M:%S %z").timestamp() for stamp in stamps]))


@dataclass(frozen=True, eq=False)
class Window:
    """Part of a trace, and what follows it (``None`` at the end)."""

    trace: str
    place: str
    iats: FloatArray
    following: FloatArray | None


def real_windows(folder: Path, most: int = 50_000, only: str = "") -> Iterator[Window]:
    """Give the start, the middle and the end of each trace; a third of a trace that is shorter than three windows.

    The published formats are read as `penstock fit` reads them. The next window is as long, and follows at once.
    With `only`, those are left out whose trace and place do not have it.
    """
    for trace in FILES:
        if not any(only in f"{trace}, {place}" for place in _PLACES):
            continue
        gaps = open_trace(folder, trace)
        size = min(most, gaps.total // 3)
        for place, share in _PLACES.items():
            if only not in f"{trace}, {place}":
                continue
            first = int(share * (gaps.total - size))
            after = first + 2 * size <= gaps.total
            following = np.asarray(gaps.window(first + size, first + 2 * size)) if after else None
            yield Window(trace, place, np.asarray(gaps.window(first, first + size)), following)
