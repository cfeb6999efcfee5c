# SPDX-License-Identifier: Apache-2.0
"""Measured throughputs out of a CSV file, to start with."""

from __future__ import annotations

import csv
from pathlib import Path

from penstock.errors import ConfigurationError, Mistakes
from penstock.records import Allocation, ThroughputSample
from penstock.units import parse_number, parse_whole_number

_NEEDED = ("executors", "throughput")
_MOST_FAULTS = 10


def read_samples(path: str | Path) -> tuple[ThroughputSample, ...]:
    """The samples of a CSV file with the columns `executors`, `throughput` and, where it has one, `cpu_share`.

    Raises
    ------
    ConfigurationError
        The file cannot be read, or with every fault in it.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigurationError(f"samples: cannot read {str(path)!r}: {fault}", field="samples") from fault
    rows = csv.DictReader(line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    missing = [column for column in _NEEDED if column not in (rows.fieldnames or ())]
    if missing:
        raise ConfigurationError(
            f"samples: {str(path)!r} has no column {' and no column '.join(missing)}; its first line names columns, "
            "such as executors,cpu_share,throughput",
            field="samples",
        )
    mistakes, found = Mistakes(), list[ThroughputSample]()
    for row in rows:
        sample = mistakes.of(lambda row=row, line=rows.line_num: _sample(row, f"samples, line {line}"))  # type: ignore[misc]
        if sample is not None:
            found.append(sample)
        if len(mistakes.found) >= _MOST_FAULTS:
            break
    mistakes.raise_all(f"samples {str(path)!r}")
    if not found:
        raise ConfigurationError(f"samples: {str(path)!r} has no sample; leave the option out instead", field="samples")
    return tuple(found)


def _sample(row: dict[str, str | None], where: str) -> ThroughputSample:
    share = row.get("cpu_share")
    allocation = Allocation(
        parse_whole_number(f"{where}: executors", row["executors"], least=1),
        1.0 if share in (None, "") else parse_number(f"{where}: cpu_share", share, above=0.0, most=1.0),
    )
    return ThroughputSample(allocation, parse_number(f"{where}: throughput", row["throughput"], above=0.0))
