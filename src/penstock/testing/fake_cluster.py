# SPDX-License-Identifier: Apache-2.0
"""A cluster in memory."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import ActuationRejectedError
from penstock.ports import Census, NodeChoice
from penstock.records import Allocation, ExecutorRoom


class FakeCluster:
    """A cluster that does at once what it is asked (a `ports.Cluster`).

    Parameters
    ----------
    executors
        How many the application begins with.
    most
        How many can be had; None: that is not known, and there is no bound.
    nodes
        Its nodes; executors come to the first that is chosen.
    why_no_nodes, why_no_shares
        Why nodes cannot be chosen, and CPU shares not set.
    """

    def __init__(
        self,
        executors: int = 1,
        *,
        most: int | None = None,
        nodes: Sequence[str] = ("node1", "node2"),
        why_no_nodes: str | None = None,
        why_no_shares: str | None = None,
    ) -> None:
        self.on: dict[str, str] = {}
        """The node of each executor."""
        self.share: float | None = None
        """What executors are held to; None: nothing."""
        self.total = executors
        self.can_drain = True
        self._most = most
        self._chosen = tuple(nodes)
        self._names = tuple(nodes)
        self._why_no_nodes, self._why_no_shares = why_no_nodes, why_no_shares
        self._started = 0
        self._start_missing()

    def refusal(self) -> str | None:
        """Nothing is refused."""
        return None

    def room(self) -> ExecutorRoom | None:
        """What the test says."""
        return None if self._most is None else ExecutorRoom(self._most, f"the cluster has room for {self._most}")

    @property
    def nodes(self) -> NodeChoice:
        """All, or none."""
        if self._why_no_nodes is not None:
            return NodeChoice(why_none=self._why_no_nodes)
        return NodeChoice(self._names)

    @property
    def why_no_shares(self) -> str | None:
        """What the test says."""
        return self._why_no_shares

    def census(self) -> Census:
        """All take tasks."""
        return Census(tuple(self.on))

    def asked(self) -> int | None:
        """The last total."""
        return self.total

    def ask(self, executors: int) -> None:
        """Start those that are missing."""
        self.total = executors
        self._start_missing()

    def choose(self, nodes: Sequence[str]) -> None:
        """Take the nodes for the next executors."""
        if self._why_no_nodes is not None:
            raise ActuationRejectedError(f"nodes cannot be chosen here: {self._why_no_nodes}")
        self._chosen = tuple(nodes)

    def drain(self, executor_id: str, reason: str) -> None:  # noqa: ARG002 - nobody reads it here
        """End it."""
        self.kill([executor_id])

    def kill(self, executor_ids: Sequence[str]) -> None:
        """End them; others come in their place."""
        for executor_id in executor_ids:
            self.on.pop(executor_id, None)
        self._start_missing()

    def resize(self, allocation: Allocation | None, *, is_starting: bool = False) -> None:
        """Take the share; while executors start all are free."""
        if self._why_no_shares is not None:
            raise ActuationRejectedError(f"CPU shares cannot be set here: {self._why_no_shares}")
        self.share = None if allocation is None or is_starting else allocation.cpu_share

    def share_refusal(self) -> str | None:
        """Every share comes about."""
        return None

    def release(self) -> None:
        """Lift the cap."""
        self.share = None

    def _start_missing(self) -> None:
        while len(self.on) < self.total and (self._most is None or len(self.on) < self._most):
            self.on[str(self._started)] = self._chosen[0]
            self._started += 1
