# SPDX-License-Identifier: Apache-2.0
"""Nodes that do not answer: an executor was asked for there, and never came or went away again.

A change that does not come about is given up after the same time: a plan that waited for it would wait for ever.
"""

from __future__ import annotations

from penstock.records import ClusterState

_AWAITED_SECONDS = 300.0
"""How long an executor may take to come to a node, a restart of all included."""
_AVOIDED_SECONDS = 1800.0
"""After that time a lost node is tried again."""


class LostNodes:
    """Takes every look at one operator, and knows which nodes to leave out."""

    def __init__(self) -> None:
        self._missing_since: dict[str, float] = {}
        self._lost_at: dict[str, float] = {}
        self._unmet_since: float | None = None

    def watch(self, at: float, cluster: ClusterState) -> tuple[str, ...]:
        """Take in one look; gives the nodes that are lost from now on."""
        requested, observed = cluster.requested, cluster.observed
        self._lost_at = {node: since for node, since in self._lost_at.items() if at - since < _AVOIDED_SECONDS}
        if requested is None or observed is None:
            return ()
        is_unmet = not observed.satisfies(requested)
        self._unmet_since = None if not is_unmet else at if self._unmet_since is None else self._unmet_since
        there = {node for node, _ in observed.nodes}
        missing = {node for node, _ in requested.nodes} - there
        self._lost_at = {node: since for node, since in self._lost_at.items() if node not in there}
        self._missing_since = {node: self._missing_since.get(node, at) for node in missing}
        found = tuple(
            node
            for node, since in sorted(self._missing_since.items())
            if at - since >= _AWAITED_SECONDS and node not in self._lost_at
        )
        self._lost_at.update(dict.fromkeys(found, at))
        return found

    def gave_up(self, at: float) -> bool:
        """Whether what was asked for last is not there, and is not waited for any longer."""
        return self._unmet_since is not None and at - self._unmet_since >= _AWAITED_SECONDS

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes to leave out."""
        return tuple(sorted(self._lost_at))
