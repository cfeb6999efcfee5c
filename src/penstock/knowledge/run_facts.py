# SPDX-License-Identifier: Apache-2.0
"""Which records of a store belong to its newest run: those since the start that the fact `settings` names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.ports import KnowledgeStore

SETTINGS = "settings"
SUMMARY = "summary"
"""Says how a run went; not there, or `null`, until it has ended."""
ROUND_TRIPS = "round trips"
"""Between nodes, as measured when the run began: triples of from, to and seconds."""
WORKERS = "workers"
"""Of a cluster that was asked for them when the run began: by host, the port on which its worker listened."""
WORKER_CORES = "worker cores"
"""Of the same workers: by host, its cores for executors."""
_STARTED_AT = "started_at"


def begin_run(store: KnowledgeStore, settings: Mapping[str, Any], at: float) -> float:
    """Keep the settings of a run that begins at `at`. Return the start of the run, from which on records are its own.

    Settings that are those of the run before, down to the query's run, belong to the same run: it goes on.
    """
    kept = _kept(store)
    if kept is not None and {name: kept[name] for name in kept if name != _STARTED_AT} == json.loads(
        json.dumps(settings)
    ):
        return run_start(kept)
    store.set_fact(SETTINGS, json.dumps({**settings, _STARTED_AT: at}))
    return at


def change_settings(store: KnowledgeStore, changes: Mapping[str, Any]) -> None:
    """Keep what was changed in the settings of the run that goes on."""
    store.set_fact(SETTINGS, json.dumps({**(_kept(store) or {}), **changes}))


def run_start(settings: Mapping[str, Any] | None) -> float:
    """When the run with these settings began, in seconds since the epoch; 0 where all of a store is one run."""
    found = (settings or {}).get(_STARTED_AT)
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else 0.0


def _kept(store: KnowledgeStore) -> Mapping[str, Any] | None:
    try:
        found = json.loads(store.fact(SETTINGS) or "null")
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and _STARTED_AT in found else None
