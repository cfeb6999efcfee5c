# SPDX-License-Identifier: Apache-2.0
"""Nodes that do not give what was asked for: an executor never came there, or went away again.

A node that gave none is lost, one that gave fewer than were asked for is full at what it holds. A change that does not
come about is given up after the same time: a plan that waited for it would wait for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from penstock.records import Allocation, ClusterState

_AWAITED_SECONDS = 300.0
"""How long an executor may take to come to a node, a restart of all included."""
_AVOIDED_SECONDS = 1800.0
"""After that time a lost or full node is tried again."""


class _Held(NamedTuple):
    """So many executors on a node, since then."""

    executors: int
    since: float


class LostNodes:
    """Takes every look at one operator, and knows how many executors each of these nodes gives at most."""

    def __init__(self) -> None:
        self._short: dict[str, _Held] = {}
        """Nodes that hold fewer than were asked for."""
        self._room: dict[str, _Held] = {}
        """Nodes that were waited for in vain, with what they held then."""
        self._requested: Allocation | None = None
        self._unmet_since: float | None = None
        self._at = -inf

    def watch(self, at: float, cluster: ClusterState) -> Mapping[str, int]:
        """Take in one look; gives the nodes that are lost (0) or full from now on, with what each holds."""
        requested, observed = cluster.requested, cluster.observed
        self._follow_clock(at)
        self._room = {node: held for node, held in self._room.items() if at - held.since < _AVOIDED_SECONDS}
        if requested is None or observed is None:
            return {}
        if requested != self._requested:
            self._requested, self._unmet_since = requested, None
        is_unmet = not observed.satisfies(requested)
        self._unmet_since = None if not is_unmet else at if self._unmet_since is None else self._unmet_since
        there = dict(observed.nodes)
        self._room = {node: held for node, held in self._room.items() if there.get(node, 0) <= held.executors}
        self._short = {
            node: self._waited(node, there.get(node, 0), at)
            for node, wanted in requested.nodes
            if there.get(node, 0) < wanted
        }
        found = {
            node: held.executors
            for node, held in sorted(self._short.items())
            if at - held.since >= _AWAITED_SECONDS and not self._is_known(node, held.executors)
        }
        self._room |= {node: _Held(executors, at) for node, executors in found.items()}
        return found

    def _follow_clock(self, at: float) -> None:
        """Where the clock was set back nothing is waited for, or avoided, until it has caught up."""
        back = min(0.0, at - self._at)
        self._at = at
        if back == 0.0:
            return
        self._short, self._room = (
            {node: held._replace(since=held.since + back) for node, held in found.items()}
            for found in (self._short, self._room)
        )
        self._unmet_since = None if self._unmet_since is None else self._unmet_since + back

    def _waited(self, node: str, there: int, at: float) -> _Held:
        """What a node holds that is to hold more; the time begins anew with each executor that comes or goes."""
        before = self._short.get(node)
        return _Held(there, at if before is None or there != before.executors else before.since)

    def _is_known(self, node: str, executors: int) -> bool:
        known = self._room.get(node)
        return known is not None and known.executors <= executors

    def gave_up(self, at: float) -> bool:
        """Whether what was asked for last is not there, and is not waited for any longer."""
        return self._unmet_since is not None and at - self._unmet_since >= _AWAITED_SECONDS

    @property
    def room(self) -> Mapping[str, int]:
        """By node, how many executors it gives at most; 0: it is left out. Others give what the limits allow."""
        return {node: held.executors for node, held in sorted(self._room.items())}
