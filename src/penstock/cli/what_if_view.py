# SPDX-License-Identifier: Apache-2.0
"""How the answers of `penstock what-if` are shown: the choice with its reason, the table, the JSON object."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.cli.queue_options import format_time
from penstock.performance.candidate_replay import JudgedCandidate
from penstock.performance.demand import BatchDemand, Demand
from penstock.records import Bounded, CandidateLatency, Objective

if TYPE_CHECKING:
    from rich.table import Table

    from penstock.cli.what_if_input import Load

_FAR_APART = 2.0
"""Factor between model and replay from which on it is said that the processes are not true at that load."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The cheapest allocation that meets the objective, and why; None where none does."""

    chosen: JudgedCandidate | None
    reason: str


def choose(judged: Sequence[JudgedCandidate], objective: Objective, processes: int) -> Choice:
    """Find the first of the candidates, which come by rising cost, that meets the objective."""

    def shown(one: JudgedCandidate) -> str:
        return _has(one, objective, processes)

    place = next((i for i, one in enumerate(judged) if one.meets(objective)), None)
    if place is None:
        return Choice(None, _none_will_do(judged, objective, shown))
    chosen = judged[place]
    words = f"cheapest: {chosen.allocation} (cost {chosen.allocation.capacity:.3g}): {shown(chosen)}"
    if objective.seconds is not None:
        words += f", within {format_time(objective.seconds)}"
        predicted = _of(chosen.counted, objective)
        if predicted.high > objective.seconds:
            words += f", though not for sure: up to {format_time(predicted.high)}"
    cheaper = [one for one in judged[:place] if one.allocation.capacity < chosen.allocation.capacity]
    if cheaper:
        nearest = min(cheaper, key=lambda one: (_of(one.counted, objective).value, -one.allocation.capacity))
        words += f"\nof the {len(cheaper)} cheaper ones the best is {nearest.allocation}: {shown(nearest)}"
    return Choice(chosen, words)


def far_apart(judged: Sequence[JudgedCandidate], objective: Objective) -> str | None:
    """Say where the model is far from the replay, if it is: there the fitted processes are not true."""
    name = objective.statistic or "mean"
    worst: tuple[float, JudgedCandidate] | None = None
    for one in judged:
        if one.replayed is None or not one.predicted.is_stable or one.predicted.unsolved is not None:
            continue
        model, met = _of_name(one.predicted, name).value, _of_name(one.replayed, name).value
        factor = max(model, met) / max(min(model, met), 1e-300)
        if factor > _FAR_APART and (worst is None or factor > worst[0]):
            worst = factor, one
    if worst is None:
        return None
    _, one = worst
    assert one.replayed is not None
    return (
        f"model and replay differ by up to a factor of {worst[0]:.2g} ({one.allocation}: {name} "
        f"{format_time(_of_name(one.predicted, name).value)} and {format_time(_of_name(one.replayed, name).value)}): "
        "the fitted processes are not true at that load"
    )


def unsolved_text(judged: Sequence[JudgedCandidate]) -> str | None:
    """Name the allocations that the model has no answer for, with the reason; None where it has all."""
    lines = [f"not solved: {one.allocation}: {one.predicted.unsolved}" for one in judged if one.predicted.unsolved]
    return "\n".join(lines) or None


def table_of(judged: Sequence[JudgedCandidate], objective: Objective, choice: Choice) -> Table:
    """One row for each allocation, by cost; the chosen one marked."""
    from rich.table import Table

    statistic = objective.statistic
    first = judged[0]
    names = ["mean", *(f"p{100 * p:.10g}" for p in first.predicted.percentile_seconds or {})]
    bounded = statistic or names[-1]
    is_replayed = first.replayed is not None
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("", no_wrap=True)
    last = "replayed" if is_replayed else f"{bounded}, bounds"
    for heading in ("size", "cost", "load", *names, last):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("meets it" if statistic else "keeps up", no_wrap=True)
    for one in judged:
        is_chosen = one is choice.chosen
        predicted = one.predicted
        if one.replayed is not None:
            shown = _time(_of_name(one.replayed, bounded).value) if one.replayed.is_stable else "-"
        else:
            shown = _bounds(_of_name(predicted, bounded))
        table.add_row(
            "->" if is_chosen else "",
            f"{one.allocation.executors} x {one.allocation.cpu_share:.0%}",
            f"{one.allocation.capacity:.3g}",
            f"{predicted.utilisation.value:.2f}",
            *(_time(_of_name(predicted, name).value) for name in names),
            shown,
            _verdict(one, objective),
            style="bold green" if is_chosen else "" if one.meets(objective) else "dim",
        )
    if is_replayed:
        table.caption = f"{', '.join(names)}: by the model; replayed: {bounded}"
        table.caption_justify = "left"
    return table


def document_of(
    judged: Sequence[JudgedCandidate],
    objective: Objective,
    choice: Choice,
    *,
    demand: Demand,
    load: Load,
) -> dict[str, Any]:
    """What `--json` prints."""
    arrivals = load.arrivals
    return {
        "objective": {"statistic": objective.statistic, "seconds": objective.seconds},
        "model": judged[0].predicted.model,
        "arrival_rate": load.maps[0].rate,
        "processes": len(load.maps),
        "demand": _plain_demand(demand),
        "replay": None if arrivals is None else {
            "records": len(arrivals),
            "seconds": float(arrivals[-1] - arrivals[0]),
            "arrivals": load.arrivals_text,
            "exact": load.are_exact,
        },
        "judged_by": "model" if judged[0].counted is judged[0].predicted else "replay",
        "allocations": [_plain(one, objective) for one in judged],
        "chosen": None if choice.chosen is None else _plain(choice.chosen, objective),
        "reason": choice.reason,
    }  # fmt: skip


def _plain_demand(demand: Demand) -> dict[str, Any]:
    if isinstance(demand, BatchDemand):
        return {
            "fixed": demand.fixed_seconds, "per_record": demand.per_record_seconds,
            "fixed_cpu": demand.fixed_cpu_seconds, "trigger": demand.trigger_seconds, "cap": demand.cap,
        }  # fmt: skip
    return {"service": demand.service.mean, "service_scv": demand.service.scv}


def _plain(one: JudgedCandidate, objective: Objective) -> dict[str, Any]:
    predicted, replayed = one.predicted, one.replayed
    percentiles = predicted.percentile_seconds
    return {
        "executors": one.allocation.executors,
        "cpu_share": one.allocation.cpu_share,
        "cost": one.allocation.capacity,
        "stable": predicted.is_stable,
        "utilisation": predicted.utilisation.value,
        **_plain_times(predicted),
        "worst_case": {
            "mean": predicted.mean_seconds.worst_case,
            "percentiles": None if percentiles is None
            else {f"{p:.10g}": t.worst_case for p, t in percentiles.items()},
        },
        "unsolved": predicted.unsolved,
        "replayed": None if replayed is None else _plain_times(replayed),
        "meets": one.meets(objective),
        "meets_by_model": None if predicted.unsolved is not None else predicted.meets(objective),
        "meets_replayed": None if replayed is None else bool(replayed.meets(objective)) and replayed.is_stable,
    }  # fmt: skip


def _plain_times(one: CandidateLatency) -> dict[str, Any]:
    percentiles = one.percentile_seconds
    return {
        "mean": one.mean_seconds.value,
        "percentiles": None if percentiles is None else {f"{p:.10g}": t.value for p, t in percentiles.items()},
        "bounds": {
            "utilisation": [one.utilisation.low, one.utilisation.high],
            "mean": [one.mean_seconds.low, one.mean_seconds.high],
            "percentiles": None if percentiles is None
            else {f"{p:.10g}": [t.low, t.high] for p, t in percentiles.items()},
        },
    }  # fmt: skip


def _of_name(one: CandidateLatency, name: str) -> Bounded:
    found = one.statistic(name)
    if found is None:
        raise LookupError(f"{name} was not predicted")
    return found


def _of(one: CandidateLatency, objective: Objective) -> Bounded:
    """What the objective is about: its statistic, or where it is to keep up the utilisation."""
    return one.utilisation if objective.statistic is None else _of_name(one, objective.statistic)


def _has(one: JudgedCandidate, objective: Objective, processes: int) -> str:
    predicted = one.predicted
    if not one.counted.is_stable:
        return f"saturated (utilisation {one.counted.utilisation.value:.2f})"
    if objective.statistic is None:
        return f"keeps up at utilisation {one.counted.utilisation.value:.2f}"
    model = _of(predicted, objective)
    worst = f" (worst of the processes: no. {model.worst_case + 1})" if processes > 1 else ""
    by_model = "not solved" if predicted.unsolved is not None else f"{_time(model.value)}{worst}"
    if one.replayed is None:
        return by_model if predicted.unsolved is not None else f"{objective.statistic} {by_model}"
    met = f"{_time(_of(one.replayed, objective).value)} replayed"
    first, second = (f"{by_model} by the model", met) if one.counted is predicted else (met, f"{by_model} by the model")
    return f"{objective.statistic} {first}, {second}"


def _time(seconds: float) -> str:
    return "-" if math.isinf(seconds) else format_time(seconds)


def _bounds(predicted: Bounded) -> str:
    """Both bounds, the unit once where it is the same: 42.1 - 62.1 ms."""
    if math.isinf(predicted.low):
        return "-"
    if predicted.low == predicted.high:
        return "none"
    low, high = format_time(predicted.low), "inf" if math.isinf(predicted.high) else format_time(predicted.high)
    number, _, unit = low.partition(" ")
    return f"{number} - {high}" if high.endswith(f" {unit}") and high.count(" ") == 1 else f"{low} - {high}"


def _verdict(one: JudgedCandidate, objective: Objective) -> str:
    if not one.counted.is_stable:
        return "saturated"
    if not one.meets(objective):
        return "no" if one.counted.unsolved is None else "not solved"
    bound = 1.0 if objective.seconds is None else objective.seconds
    return "yes" if _of(one.counted, objective).high <= bound else "likely"


def _none_will_do(
    judged: Sequence[JudgedCandidate], objective: Objective, shown: Callable[[JudgedCandidate], str]
) -> str:
    if not any(one.counted.is_stable for one in judged):
        best = min(judged, key=lambda one: one.counted.utilisation.value)
        words = f"none keeps up: even {best.allocation} is {shown(best)}; allow more executors, or make records cheaper"
        return words if objective.statistic is None else f"none meets {objective}: {words}"
    best = min(judged, key=lambda one: (_of(one.counted, objective).value, one.allocation.capacity))
    return f"none meets {objective}: the best is {best.allocation}: {shown(best)}; allow more executors or time"
