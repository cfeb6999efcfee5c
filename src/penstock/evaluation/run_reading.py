# SPDX-License-Identifier: Apache-2.0
"""Reads a run out of its knowledge store, also while it is still going."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.errors import ConfigurationError
from penstock.evaluation.history import KeptLatency, RoundTrip, RunHistory, plain_number
from penstock.knowledge.run_facts import ROUND_TRIPS, SETTINGS, SUMMARY, run_start
from penstock.knowledge.run_notes import kept_notes
from penstock.loop.cycle import latency_fact
from penstock.ports import KnowledgeStore
from penstock.records import Observation, RunLatency, decode

_RECORDS_READ = 200_000


def read_history(store: KnowledgeStore) -> RunHistory:
    """Read what a store remembers of its newest run.

    Raises
    ------
    ConfigurationError
        The facts `settings` or `summary` are not the JSON a run leaves.
    """
    settings, summary = _json_fact(store, SETTINGS), _json_fact(store, SUMMARY)
    since = run_start(settings)
    if summary is not None and (plain_number(summary.get("started_at")) or 0.0) < since:
        summary = None  # of a run before
    observations: dict[str, list[Observation]] = {}
    for seen in store.observations(since=since, limit=_RECORDS_READ):
        observations.setdefault(seen.operator, []).append(seen)
    return RunHistory(
        observations=observations,
        decisions=store.decisions(since=since, limit=_RECORDS_READ),
        actions=store.actions(since=since, limit=_RECORDS_READ),
        outcomes=store.outcomes(since=since, limit=_RECORDS_READ),
        stage_times=store.stage_times(since=since, limit=_RECORDS_READ),
        settings=settings,
        final_summary=summary,
        latencies={o: kept for o in observations if (kept := _kept_latency(store, o, since)) is not None},
        round_trips=_round_trips(store),
        notes=[note for note in kept_notes(store) if note.at >= since],
    )


def _round_trips(store: KnowledgeStore) -> tuple[RoundTrip, ...]:
    """What was measured between nodes; nothing where nothing was, or what is there is no table."""
    try:
        return tuple((str(a), str(b), float(seconds)) for a, b, seconds in json.loads(store.fact(ROUND_TRIPS) or "[]"))
    except (TypeError, ValueError):
        return ()


def _kept_latency(store: KnowledgeStore, operator: str, since: float) -> KeptLatency | None:
    kept = _json_fact(store, latency_fact(operator))
    if kept is None or (plain_number(kept.get("at")) or 0.0) < since:
        return None  # of a run before
    of_operator, of_path = (
        None if kept.get(part) is None else decode(RunLatency, json.dumps(kept[part])) for part in ("operator", "path")
    )
    return KeptLatency(of_operator or RunLatency(), of_path)


def _json_fact(store: KnowledgeStore, name: str) -> Mapping[str, Any] | None:
    text = store.fact(name)
    if text is None:
        return None
    try:
        value = json.loads(text)
    except json.JSONDecodeError as fault:
        raise ConfigurationError(f"the run's {name} cannot be read: {fault}", field=name) from fault
    if value is None:
        return None  # it was taken back: the run goes on
    if not isinstance(value, dict):
        raise ConfigurationError(f"the run's {name} is not a JSON object", field=name)
    return value
