# SPDX-License-Identifier: Apache-2.0
"""The public taxi rides as a load: cleaned, each ride several times, played faster than they happened."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

from penstock.apps.taxi_attractions.check import pickup_of
from penstock.arrivals.taxi_ride_lines import COPIES
from penstock.arrivals.trace_files import open_bytes
from penstock.errors import ConfigurationError
from penstock.units import parse_number, parse_whole_number

SPEED_FACTOR = 10.0
"""Of the paper: ten seconds of rides are played in one."""
_MOST_COPIES = 1000
WHERE = (
    "it is the file nycTaxiRides.gz of the training exercises for Apache Flink, made from New York City Taxi Trip Data "
    "(2010-2013) of Donovan and Work; put it there, or run on generated rides: payload taxi-ride"
)


def prepare_rides(rides: Path, target: Path, copies: int = COPIES) -> tuple[int, int]:
    """Write the starts of rides whose pickup is known, each ride once in the input and several times in the output.

    Parameters
    ----------
    rides
        Ride events in the published form, also ``.gz`` or ``.xz``.
    target
        The file to write; ``.gz`` compresses it.
    copies
        How many identical records each ride becomes.

    Returns
    -------
    kept, dropped
        How many lines of the input made it, and how many did not: ends of rides, invalid ones and duplicates.

    Raises
    ------
    ConfigurationError
        The rides are not there (says where they come from), or a value is wrong. Nothing is written.
    """
    parse_whole_number("copies", copies, least=1, most=_MOST_COPIES)
    if not rides.is_file():
        raise ConfigurationError(f"rides: {rides} is not there; {WHERE}", field="rides")
    kept = dropped = 0
    seen: set[str] = set()
    with io.TextIOWrapper(open_bytes(rides), encoding="utf-8") as events, _open_text(target) as out:
        for line in events:
            ride = line.rstrip("\r\n")
            number, _, rest = ride.partition(",")
            if not rest.startswith("START,") or number in seen or pickup_of(ride) is None:
                dropped += 1
                continue
            seen.add(number)
            kept += 1
            out.write(f"{ride}\n" * copies)
    return kept, dropped


def replayed(prepared: Path, speed_factor: float = SPEED_FACTOR, *, partitions: int = 2) -> dict[str, Any]:
    """Return `arrivals` of a settings file that plays prepared rides.

    Examples
    --------
    >>> replayed(Path("rides.csv"), 10)["options"]["speed"]
    '10'
    """
    speed = parse_number("speed_factor", speed_factor, above=0.0)
    options = {
        "format": "nyc-taxi",
        "payload": f"file:{prepared}",
        "speed": f"{speed:g}",
        "partitions": str(partitions),
    }
    return {"trace": str(prepared), "options": options}


def _open_text(target: Path) -> io.TextIOBase:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix == ".gz":
        return io.TextIOWrapper(gzip.open(target, "wb"), encoding="utf-8")
    return target.open("w", encoding="utf-8")
