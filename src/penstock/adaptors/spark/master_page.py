# SPDX-License-Identifier: Apache-2.0
"""The workers of a standalone cluster, as the web page of its master lists them."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any

from penstock.errors import ClusterError

_TARGET = "Spark master"
LARGEST_PAGE_BYTES = 64 << 20
"""A page that is larger is cut off, and so cannot be read: it is none of a Spark master."""


def read_page(page: str, *, timeout_seconds: float = 5.0) -> dict[str, Any]:
    """Return the state of the master, its workers and applications.

    Parameters
    ----------
    page
        Its web page, such as ``http://host:8080``.
    timeout_seconds
        How long it may take to answer.

    Raises
    ------
    ClusterError
        It does not answer, or with something else.
    """
    address = f"{page.rstrip('/')}/json/"
    try:
        with urllib.request.urlopen(address, timeout=timeout_seconds) as answer:
            state = json.loads(answer.read(LARGEST_PAGE_BYTES))
    except (OSError, HTTPException, ValueError, RecursionError) as fault:  # the first also what urllib raises
        raise ClusterError(
            f"cluster.page: {address} cannot be read: {fault}; give the web page of the standalone master",
            target=_TARGET,
            retryable=True,
        ) from fault
    workers = state.get("workers") if isinstance(state, dict) else None
    if not isinstance(workers, list) or not all(_is_worker(worker) for worker in workers):
        raise ClusterError(
            f"cluster.page: {address} gives no list of workers; give the web page of the standalone master",
            target=_TARGET,
        )
    return dict(state)


def alive_workers(state: Mapping[str, Any]) -> dict[str, int]:
    """Return the hosts of the workers that are alive, each with the port on which one of them listens.

    Examples
    --------
    >>> workers = [{"host": "a", "port": 7, "state": "ALIVE"}, {"host": "b", "port": 8, "state": "DEAD"}]
    >>> alive_workers({"workers": workers})
    {'a': 7}
    """
    return {str(w["host"]): int(w["port"]) for w in state["workers"] if w["state"] == "ALIVE"}


def worker_cores(state: Mapping[str, Any]) -> dict[str, int]:
    """Return the cores of each host's workers that are alive; a host whose workers do not say theirs is left out.

    Examples
    --------
    >>> workers = [{"host": "a", "state": "ALIVE", "cores": 2}, {"host": "a", "state": "ALIVE", "cores": 4}]
    >>> worker_cores({"workers": [*workers, {"host": "b", "state": "DEAD", "cores": 2}]})
    {'a': 6}
    """
    alive = [(str(w["host"]), w.get("cores")) for w in state["workers"] if w["state"] == "ALIVE"]
    silent = {host for host, cores in alive if not isinstance(cores, int) or cores < 1}
    found: dict[str, int] = {}
    for host, cores in alive:
        if host not in silent and isinstance(cores, int):
            found[host] = found.get(host, 0) + cores
    return found


def _is_worker(given: Any) -> bool:
    return (
        isinstance(given, dict)
        and isinstance(given.get("host"), str)
        and isinstance(given.get("port"), int)
        and isinstance(given.get("state"), str)
    )
