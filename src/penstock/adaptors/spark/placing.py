# SPDX-License-Identifier: Apache-2.0
"""Brings executors to chosen nodes on a cluster that cannot be asked for nodes, one step at a time.

A standalone master starts executors where cores are free, and takes no wishes. What can be done is to ask for more than
are wanted, keep those that came to the wrong nodes until the right ones are there, and let them go then. Meanwhile they
hold their places, so that the next one comes to another node, and do their share of the work. So a change costs at most
as many executors in vain as there are free places on unwanted nodes; each is a JVM that starts and ends, and on
average half of them are needed.

`spark.cores.max` bounds all executors together: it has to have room for those in vain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from penstock.adaptors.spark.executors import choose_to_remove
from penstock.records import ExecutorState


@dataclass(frozen=True, slots=True)
class PlacingStep:
    """What to do next.

    Attributes
    ----------
    total
        The number of executors to ask the cluster for, those on their way out included.
    remove
        Executors to let go.
    missing
        How many executors each wanted node lacks.
    holding
        Executors on other nodes that stay until nothing is missing.
    """

    total: int
    remove: tuple[str, ...] = ()
    missing: Mapping[str, int] | None = None
    holding: tuple[str, ...] = ()

    @property
    def is_placed(self) -> bool:
        """Whether every wanted node has its executors."""
        return not self.missing


def next_step(
    executors: Sequence[ExecutorState],
    leaving: Collection[str],
    wanted: Mapping[str, int],
    *,
    may_ask: bool = True,
) -> PlacingStep:
    """Return the step from the present executors towards those wanted on each node.

    Parameters
    ----------
    executors
        Those that take tasks, with their hosts.
    leaving
        Those on their way out: the cluster still counts them.
    wanted
        How many executors each node shall have.
    may_ask
        False: nothing more is asked for, and what is on other nodes goes, whatever is missing. At least one stays.
    """
    on: dict[str, list[ExecutorState]] = defaultdict(list)
    for executor in executors:
        on[executor.host].append(executor)
    missing = {node: count - len(on[node]) for node, count in wanted.items() if count > len(on[node])}
    surplus = tuple(
        executor_id
        for node, there in sorted(on.items())
        for executor_id in choose_to_remove(there, len(there) - wanted.get(node, 0), leaving)
    )
    if missing and may_ask:
        return PlacingStep(len(executors) + len(leaving) + sum(missing.values()), (), missing, surplus)
    if missing and len(surplus) == len(executors):
        surplus = surplus[:-1]  # no wanted node has one: a running query needs at least one somewhere
    return PlacingStep(len(executors) - len(surplus), surplus, missing)


class PlacingProgress:
    """How placing goes on: what is wanted since when, what came, and what came in vain."""

    def __init__(self) -> None:
        self._wanted: dict[str, int] = {}
        self._known: set[str] = set()
        self._since = 0.0
        self._held: set[str] = set()

    def goes_on(
        self, wanted: Mapping[str, int], executors: Sequence[ExecutorState], now: float, patience_seconds: float
    ) -> bool:
        """Whether more executors may be asked for: not when none has come for a while."""
        ids = {executor.executor_id for executor in executors}
        if dict(wanted) != self._wanted:
            self._wanted, self._known, self._since, self._held = dict(wanted), ids, now, set()
        elif ids - self._known:
            self._known |= ids
            self._since = now
        is_placed = next_step(executors, (), wanted).is_placed
        if is_placed:
            self._since = now
        return is_placed or now - self._since <= patience_seconds

    def take_in_vain(self, step: PlacingStep) -> int:
        """Return how many executors were held on other nodes, once nothing is missing any more."""
        self._held |= set(step.holding)
        if not step.is_placed or not self._held:
            return 0
        count, self._held = len(self._held), set()
        return count
