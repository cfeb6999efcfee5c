# SPDX-License-Identifier: Apache-2.0
"""All cells as a table, and the bars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from benchmarks.spark_latency.cells import EXECUTORS, KINDS, LOADS, SHARES, Measured

MEAN_BAR, P95_BAR = 0.15, 0.20
OF_EACH_KIND, LEAST_WITHIN = len(EXECUTORS) * len(SHARES) * len(LOADS), 16
COVERAGE_BAR = (0.85, 0.95)


def is_within(one: Measured) -> bool:
    """Whether mean and 95th percentile were both predicted well enough."""
    mean, p95 = one.errors
    return abs(mean) <= MEAN_BAR and abs(p95) <= P95_BAR


def table(measured: Sequence[Measured]) -> list[str]:
    """Markdown: a row for each cell."""
    lines = [
        "| arrivals | allocation | load | batch | mean: seen, predicted | p95: seen, predicted | fitted | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    by = sorted(measured, key=lambda one: (KINDS.index(one.cell.kind), one.cell.allocation.capacity, one.cell.load))
    for one in by:
        mean, p95 = one.errors
        lines.append(
            f"| {one.cell.kind} | {one.cell.allocation} | {one.cell.load:g} | {one.batch_seconds:.2f} s | "
            f"{one.mean:.2f} s, {one.predicted_mean:.2f} s ({mean:+.0%}) | "
            f"{one.p95:.2f} s, {one.predicted_p95:.2f} s ({p95:+.0%}; {one.low:.2f} s to {one.high:.2f} s) | "
            f"{one.fitted_mean:.2f} s, {one.fitted_p95:.2f} s | "
            f"{'' if is_within(one) else 'off'}{'' if one.is_covered else ', above'} |"
        )
    return lines


def verdicts(measured: Sequence[Measured], rounds: int = 1) -> list[tuple[str, bool | None]]:
    """The bars over all that was measured, and whether they were kept.

    None: cells of these rounds, or of one that was begun, are missing, and what is there does not settle it.
    """
    found: list[tuple[str, bool | None]] = []
    rounds = max(rounds, *Counter(one.cell for one in measured).values()) if measured else rounds
    of_each_kind, least_within = rounds * OF_EACH_KIND, rounds * LEAST_WITHIN
    for kind in KINDS:
        mine = [one for one in measured if one.cell.kind == kind]
        good = sum(map(is_within, mine))
        can_still_be = good + of_each_kind - len(mine) >= least_within
        text = (
            f"{kind}: mean within {MEAN_BAR:.0%} and p95 within {P95_BAR:.0%} in {least_within} of {of_each_kind} "
            f"cells ({good} of {len(mine)} measured)"
        )
        found.append((text, good >= least_within or (None if can_still_be else False)))
    covered, n, every = sum(one.is_covered for one in measured), len(measured), len(KINDS) * of_each_kind
    low, high = COVERAGE_BAR
    is_so = low <= covered / n <= high if n == every else None
    text = f"{low:.0%} to {high:.0%} of all cells at or below the upper end at 90 % ({covered} of {n} measured)"
    found.append((text, is_so))
    return found


def told(found: Sequence[tuple[str, bool | None]]) -> list[str]:
    """Verdicts as lines."""
    return [f"- {text}: {'not known' if is_so is None else 'yes' if is_so else 'NO'}" for text, is_so in found]


def versions(measured: Sequence[Measured]) -> str:
    """What they were measured with."""
    each = sorted({f"{one.version} ({one.commit})" for one in measured})
    return f"measured with {', '.join(each) or 'nothing yet'}"
