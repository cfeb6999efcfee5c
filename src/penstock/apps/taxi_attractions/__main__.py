# SPDX-License-Identifier: Apache-2.0
"""`python -m penstock.apps.taxi_attractions`: prepare the public taxi rides as a load."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from penstock.apps.taxi_attractions.rides import prepare_rides
from penstock.arrivals.taxi_ride_lines import COPIES
from penstock.errors import PenstockError


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if all is well, 2 if the command is wrong."""
    parser = argparse.ArgumentParser(prog="python -m penstock.apps.taxi_attractions", description=__doc__)
    parser.add_argument("rides", type=Path, help="ride events as published, nycTaxiRides.gz")
    parser.add_argument("target", type=Path, help="the file to write; .gz compresses it")
    parser.add_argument("--copies", type=int, default=COPIES, help=f"identical records of each ride (default {COPIES})")
    chosen = parser.parse_args(arguments)
    try:
        kept, dropped = prepare_rides(chosen.rides, chosen.target, chosen.copies)
    except PenstockError as fault:
        print(fault, file=sys.stderr)
        return 2
    print(f"{kept} rides, {kept * chosen.copies} records; {dropped} events were ends, duplicates or without a position")
    return 0


if __name__ == "__main__":
    sys.exit(main())
