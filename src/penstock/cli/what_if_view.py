# SPDX-License-Identifier: Apache-2.0
"""How the answers of `penstock what-if` are shown: the choice with its reason, the table, the JSON object."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.cli.queue_options import format_time
from penstock.records import Bounded, CandidateLatency, Objective

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class Choice:
    """The cheapest allocation that meets the objective, and why; None where none does."""

    chosen: CandidateLatency | None
    reason: str


def choose(predictions: Sequence[CandidateLatency], objective: Objective, processes: int) -> Choice:
    """Find the first of the predictions, which come by rising cost, that meets the objective."""

    def shown(one: CandidateLatency) -> str:
        return _has(one, objective, processes)

    place = next((i for i, one in enumerate(predictions) if one.meets(objective)), None)
    if place is None:
        return Choice(None, _none_will_do(predictions, objective, shown))
    chosen = predictions[place]
    words = f"cheapest: {chosen.allocation} (cost {chosen.allocation.capacity:.3g}): {shown(chosen)}"
    if objective.seconds is not None:
        words += f", within {format_time(objective.seconds)}"
        predicted = _of(chosen, objective)
        if predicted.high > objective.seconds:
            words += f", though not for sure: up to {format_time(predicted.high)}"
    cheaper = [one for one in predictions[:place] if one.allocation.capacity < chosen.allocation.capacity]
    if cheaper:
        nearest = min(cheaper, key=lambda one: (_of(one, objective).value, -one.allocation.capacity))
        words += f"\nof the {len(cheaper)} cheaper ones the best is {nearest.allocation}: {shown(nearest)}"
    return Choice(chosen, words)


def table_of(predictions: Sequence[CandidateLatency], objective: Objective, choice: Choice) -> Table:
    """One row for each allocation, by cost; the chosen one marked."""
    from rich.table import Table

    statistic = objective.statistic
    names = ["mean", *(f"p{100 * p:.10g}" for p in predictions[0].percentile_seconds or {})]
    bounded = statistic or names[-1]
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("", no_wrap=True)
    for heading in ("size", "cost", "load", *names, f"{bounded}, bounds"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("meets it" if statistic else "keeps up", no_wrap=True)
    for one in predictions:
        is_chosen = one is choice.chosen
        times = [_of_name(one, name) for name in names]
        table.add_row(
            "->" if is_chosen else "",
            f"{one.allocation.executors} x {one.allocation.cpu_share:.0%}",
            f"{one.allocation.capacity:.3g}",
            f"{one.utilisation.value:.2f}",
            *("-" if math.isinf(t.value) else format_time(t.value) for t in times),
            _bounds(_of_name(one, bounded)),
            _verdict(one, objective),
            style="bold green" if is_chosen else "" if one.meets(objective) else "dim",
        )
    return table


def document_of(
    predictions: Sequence[CandidateLatency], objective: Objective, choice: Choice, rates: Sequence[float]
) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "objective": {"statistic": objective.statistic, "seconds": objective.seconds},
        "model": predictions[0].model,
        "arrival_rate": rates[0],
        "processes": len(rates),
        "allocations": [_plain(one, objective) for one in predictions],
        "chosen": None if choice.chosen is None else _plain(choice.chosen, objective),
        "reason": choice.reason,
    }


def _plain(one: CandidateLatency, objective: Objective) -> dict[str, Any]:
    percentiles = one.percentile_seconds
    return {
        "executors": one.allocation.executors,
        "cpu_share": one.allocation.cpu_share,
        "cost": one.allocation.capacity,
        "stable": one.is_stable,
        "utilisation": one.utilisation.value,
        "mean": one.mean_seconds.value,
        "percentiles": None if percentiles is None else {f"{p:.10g}": t.value for p, t in percentiles.items()},
        "bounds": {
            "utilisation": [one.utilisation.low, one.utilisation.high],
            "mean": [one.mean_seconds.low, one.mean_seconds.high],
            "percentiles": None if percentiles is None
            else {f"{p:.10g}": [t.low, t.high] for p, t in percentiles.items()},
        },
        "worst_case": {
            "mean": one.mean_seconds.worst_case,
            "percentiles": None if percentiles is None
            else {f"{p:.10g}": t.worst_case for p, t in percentiles.items()},
        },
        "meets": one.meets(objective),
    }  # fmt: skip


def _of_name(one: CandidateLatency, name: str) -> Bounded:
    found = one.statistic(name)
    if found is None:
        raise LookupError(f"{name} was not predicted")
    return found


def _of(one: CandidateLatency, objective: Objective) -> Bounded:
    """What the objective is about: its statistic, or where it is to keep up the utilisation."""
    return one.utilisation if objective.statistic is None else _of_name(one, objective.statistic)


def _has(one: CandidateLatency, objective: Objective, processes: int) -> str:
    if not one.is_stable:
        return f"saturated (utilisation {one.utilisation.value:.2f})"
    if objective.statistic is None:
        return f"keeps up at utilisation {one.utilisation.value:.2f}"
    predicted = _of(one, objective)
    worst = f" (worst of the processes: no. {predicted.worst_case + 1})" if processes > 1 else ""
    return f"{objective.statistic} {format_time(predicted.value)}{worst}"


def _bounds(predicted: Bounded) -> str:
    """Both bounds, the unit once where it is the same: 42.1 - 62.1 ms."""
    if math.isinf(predicted.low):
        return "-"
    if predicted.low == predicted.high:
        return "none"
    low, high = format_time(predicted.low), "inf" if math.isinf(predicted.high) else format_time(predicted.high)
    number, _, unit = low.partition(" ")
    return f"{number} - {high}" if high.endswith(f" {unit}") and high.count(" ") == 1 else f"{low} - {high}"


def _verdict(one: CandidateLatency, objective: Objective) -> str:
    if not one.is_stable:
        return "saturated"
    if not one.meets(objective):
        return "no"
    bound = 1.0 if objective.seconds is None else objective.seconds
    return "yes" if _of(one, objective).high <= bound else "likely"


def _none_will_do(
    predictions: Sequence[CandidateLatency], objective: Objective, shown: Callable[[CandidateLatency], str]
) -> str:
    if not any(one.is_stable for one in predictions):
        best = min(predictions, key=lambda one: one.utilisation.value)
        words = f"none keeps up: even {best.allocation} is {shown(best)}; allow more executors, or make records cheaper"
        return words if objective.statistic is None else f"none meets {objective}: {words}"
    best = min(predictions, key=lambda one: (_of(one, objective).value, one.allocation.capacity))
    return f"none meets {objective}: the best is {best.allocation}: {shown(best)}; allow more executors or time"
