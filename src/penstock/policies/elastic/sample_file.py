# SPDX-License-Identifier: Apache-2.0
"""Measured throughputs out of a CSV file, to start with."""

from __future__ import annotations

import csv
from pathlib import Path

from penstock.errors import ConfigurationError, Mistakes
from penstock.records import LEAST_THROUGHPUT, MOST_THROUGHPUT, Allocation, ThroughputSample
from penstock.units import parse_number, parse_whole_number

_NEEDED = ("executors", "throughput")
_KNOWN = (*_NEEDED, "cpu_share", "application")
_MOST_FAULTS = 10
_MOST_EXECUTORS = 1_000_000
"""As `penstock predict` reads them: beyond it, models lose their digits."""


def read_samples(path: str | Path) -> tuple[ThroughputSample, ...]:
    """The samples of a CSV file with the columns `executors`, `throughput` and, where it has one, `cpu_share`.

    Lines that begin with # are left out. A column `application` may be there; all lines then have the same one.

    Raises
    ------
    ConfigurationError
        The file cannot be read, or with every fault in it.
    """
    try:
        table = csv.reader(Path(path).read_text(encoding="utf-8-sig").splitlines())
        rows = [(table.line_num, [cell.strip() for cell in row]) for row in table if any(map(str.strip, row))]
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        raise ConfigurationError(f"samples: cannot read {str(path)!r}: {fault}", field="samples") from fault
    rows = [(line, row) for line, row in rows if not row[0].startswith("#")]
    columns = [name.lower() for name in rows[0][1]] if rows else []
    missing = [column for column in _NEEDED if column not in columns]
    if missing:
        raise ConfigurationError(
            f"samples: {str(path)!r} has no column {' and no column '.join(missing)}; its first line names columns, "
            "such as executors,cpu_share,throughput",
            field="samples",
        )
    twice = [column for column in _KNOWN if columns.count(column) > 1]
    if twice:
        raise ConfigurationError(f"samples: {str(path)!r} has the column {twice[0]} twice; keep one", field="samples")
    longer = [line for line, row in rows[1:] if any(row[len(columns) :])]
    if longer:  # such as 1,200 for twelve hundred: its first part alone would pass for a throughput
        raise ConfigurationError(
            f"samples: {str(path)!r}, line {longer[0]}: there are more values than columns; write one for each, and "
            "thousands without a mark",
            field="samples",
        )
    cells = [(line, dict(zip(columns, row, strict=False))) for line, row in rows[1:]]
    applications = sorted({row["application"] for _, row in cells if "application" in row})
    if len(applications) > 1:
        raise ConfigurationError(
            f"samples: {str(path)!r} has samples of {', '.join(applications)}; give those of one application",
            field="samples",
        )
    mistakes, found = Mistakes(), list[ThroughputSample]()
    for line, row in cells:
        sample = mistakes.of(lambda row=row, line=line: _sample(row, f"samples, line {line}"))  # type: ignore[misc]
        if sample is not None:
            found.append(sample)
        if len(mistakes.found) >= _MOST_FAULTS:
            break
    mistakes.raise_all(f"samples {str(path)!r}")
    if not found:
        raise ConfigurationError(f"samples: {str(path)!r} has no sample; leave the option out instead", field="samples")
    return tuple(found)


def _sample(row: dict[str, str], where: str) -> ThroughputSample:
    share = row.get("cpu_share")
    allocation = Allocation(
        parse_whole_number(f"{where}: executors", row.get("executors", ""), least=1, most=_MOST_EXECUTORS),
        1.0 if share in (None, "") else parse_number(f"{where}: cpu_share", share, above=0.0, most=1.0),
    )
    throughput = parse_number(
        f"{where}: throughput", row.get("throughput", ""), least=LEAST_THROUGHPUT, most=MOST_THROUGHPUT
    )
    return ThroughputSample(allocation, throughput)
