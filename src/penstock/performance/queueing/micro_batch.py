# SPDX-License-Identifier: Apache-2.0
"""The micro-batch queue: what Structured Streaming does by default, solved for MAP arrivals.

At each start all waiting records (up to a cap) form a batch, which takes f + c n seconds, more or less; the next
starts when it ends, or at the next trigger. A record's latency runs from its arrival to the end of its batch.
docs/background/micro-batch-queue.md has the derivation, its assumptions, and what was checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from penstock.errors import ConvergenceError
from penstock.markov import MAP
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.micro_batch_chain import Chain, Cycle, cycle_means, solve_chain
from penstock.performance.queueing.micro_batch_fluid import Rates, backlog_after, drain_seconds
from penstock.performance.queueing.micro_batch_grid import first_reach, plain_grid, refined_grid, tail_reach
from penstock.performance.queueing.micro_batch_latency import LatencyLaw, latency_law
from penstock.performance.queueing.micro_batch_server import MicroBatch, batch_time_nodes
from penstock.performance.queueing.response import Saturated, check_probability

__all__ = ["MicroBatch", "MicroBatchAnswer", "Rates", "backlog_after", "drain_seconds", "solve_micro_batch"]

EXACT, GRADED = "exact counts", "graded counts"

_TAIL = 1e-7
"""Share of the mass beyond the grid that is aimed at."""

_ACCEPTED_TAIL = 1e-4
"""Largest share of the records beyond the last two nodes but one; more, and the grid is made longer."""

_SELDOM = 1e-5
"""Share of batches that outlast the trigger below which all are taken to start at a trigger."""

_ACCEPTED_IMBALANCE = 1e-3
"""Largest relative difference of records arrived and served in a cycle; more, and counts are sampled more finely."""

_WORST_IMBALANCE = 0.05
"""Relative difference beyond which no answer is given."""

_FIRST_NODES, _FIRST_FREQUENCIES = 40, 64
_NODES, _FREQUENCIES, _MOST_FREQUENCIES = 72, 128, 4096
_OFFSETS = 7
_MOST_ROUNDS = 16


@dataclass(frozen=True, eq=False)
class MicroBatchAnswer:
    """The latency of records in a stable micro-batch queue, and the batches they ride in.

    Attributes
    ----------
    utilisation
        Records that arrive over records that can be served for ever.
    method
        ``"exact counts"`` if every whole number of records was a state of its own, else ``"graded counts"``.
    left_out
        Share of batch starts that fell beyond the largest number of records considered, and were counted there.
    imbalance
        Records served over records arrived in a cycle, minus 1: zero in exact arithmetic on an exact grid.
    """

    utilisation: float
    method: str
    left_out: float
    imbalance: float
    mean_coarse: float
    chain: Chain = field(repr=False)
    cycle: Cycle = field(repr=False)

    @property
    def is_stable(self) -> bool:
        """True: it keeps up."""
        return True

    @property
    def mean(self) -> float:
        """Mean latency of a record, in seconds: by Little's law, from the means of a cycle."""
        return self.cycle.latency

    @property
    def error_estimate(self) -> float:
        """Relative error of the mean that is to be feared.

        With exact counts what is left out of balance; else the change from a grid of about half as many nodes, which
        is more than the error of this one, often much more.
        """
        if self.method == EXACT:
            return abs(self.imbalance) + self.left_out
        return abs(self.mean_coarse / self.mean - 1.0)

    @property
    def variance(self) -> float:
        """Variance of a record's latency."""
        return self._law.variance

    def percentile(self, p: float) -> float:
        """The latency that a share `p` of the records stays within, 0 < p < 1."""
        return float(self._law.percentiles([check_probability(p)])[0])

    def percentiles(self, ps: Sequence[float]) -> FloatArray:
        """Several percentiles at once."""
        return self._law.percentiles([check_probability(p) for p in ps])

    def cdf(self, times: Sequence[float] | FloatArray) -> FloatArray:
        """Share of the records done within each of some times."""
        return self._law.cdf(np.asarray(times, dtype=float))

    @property
    def batch_size_mean(self) -> float:
        """Mean number of records of a batch, empty ones at idle triggers included."""
        return self.cycle.served

    @property
    def batch_seconds_mean(self) -> float:
        """Mean time of a batch."""
        return self.cycle.batch_seconds

    @property
    def cycle_seconds_mean(self) -> float:
        """Mean time from a batch's start to the next one's."""
        return self.cycle.seconds

    @property
    def backlog_mean(self) -> float:
        """Mean number of records waiting when a batch starts, those of the batch included."""
        return float(self.chain.by_node @ self.chain.nodes)

    def backlog_tail(self, records: Sequence[float] | FloatArray) -> FloatArray:
        """Share of batch starts that find more than each of some numbers of records waiting."""
        by_node = self.chain.by_node
        return np.array([float(by_node[self.chain.nodes > r].sum()) for r in np.asarray(records, dtype=float)])

    @cached_property
    def _law(self) -> LatencyLaw:
        return latency_law(self.chain, self.cycle)


def solve_micro_batch(arrivals: MAP, server: MicroBatch) -> MicroBatchAnswer | Saturated:
    """Solve the micro-batch queue for its record latency.

    Parameters
    ----------
    arrivals
        The records, rates per second.
    server
        Batch time, cap and trigger.

    Raises
    ------
    ConvergenceError
        If the process is too uneven to be solved; an answer that is given has its error estimated.

    Examples
    --------
    >>> answer = solve_micro_batch(MAP.poisson(500.0), MicroBatch(fixed=0.3, per_record=0.001))
    >>> round(answer.batch_seconds_mean, 2), round(answer.mean, 1)
    (0.6, 0.9)
    >>> solve_micro_batch(MAP.poisson(1200.0), MicroBatch(fixed=0.3, per_record=0.001)).is_stable
    False
    """
    utilisation = server.utilisation(arrivals.rate)
    if utilisation >= 1:
        return Saturated(utilisation)
    top = first_reach(arrivals, server, _TAIL)
    coarse = _first(arrivals, server, top)
    most = max(_FREQUENCIES, _MOST_FREQUENCIES // arrivals.order)
    # A first answer out of balance has counts sharper than their samples near zero: they are sampled more finely.
    off = abs(cycle_means(coarse).imbalance)
    frequencies = min(_FREQUENCIES if off < 4 * _ACCEPTED_IMBALANCE else 4 * _FREQUENCIES, most)
    for _ in range(_MOST_ROUNDS):
        reach = min(top, tail_reach(coarse.nodes, coarse.by_node, _TAIL / 10) or top)
        nodes = refined_grid(server, (coarse.nodes, coarse.by_node), reach, _NODES)
        offsets = coarse.moves.offsets if _offsets_matter(coarse) else None
        chain = solve_chain(arrivals, server, nodes, frequencies, offsets)
        cycle = cycle_means(chain)
        if tail_reach(chain.nodes, chain.by_node, _ACCEPTED_TAIL) is None:
            top *= 2
            coarse = _first(arrivals, server, top)
        elif abs(cycle.imbalance) > _ACCEPTED_IMBALANCE and frequencies < most:
            frequencies = min(4 * frequencies, most)
        else:
            break
    else:
        raise ConvergenceError("the backlog has no end within reach", iterations=_MOST_ROUNDS, residual=chain.left_out)
    if abs(cycle.imbalance) > _WORST_IMBALANCE:
        raise ConvergenceError(
            "records served and arrived do not balance: the process is too uneven for this grid",
            iterations=_MOST_ROUNDS, residual=abs(cycle.imbalance),
        )  # fmt: skip
    is_exact = bool(np.all(np.diff(nodes) == 1) and np.all(chain.moves.counts.exact))
    return MicroBatchAnswer(
        utilisation=utilisation,
        method=EXACT if is_exact and not server.varies else GRADED,
        left_out=chain.left_out,
        imbalance=cycle.imbalance,
        mean_coarse=cycle_means(coarse).latency,
        chain=chain,
        cycle=cycle,
    )


def _first(arrivals: MAP, server: MicroBatch, top: float) -> Chain:
    """Solve on a plain grid, with the place of starts between triggers as part of the state if there is a trigger."""
    offsets = None if server.trigger is None else server.trigger * np.linspace(0.0, 1.0, _OFFSETS)
    return solve_chain(arrivals, server, plain_grid(server, top, _FIRST_NODES), _FIRST_FREQUENCIES, offsets)


def _offsets_matter(chain: Chain) -> bool:
    """Whether batches both outlast the trigger interval and stay below it, each more than seldom."""
    if chain.server.trigger is None:
        return False
    batch, q = batch_time_nodes(chain.server, chain.server.served(chain.nodes), 16)
    size = np.abs(chain.by_node)
    late = float(size @ ((batch > chain.server.trigger) @ q) / size.sum())
    return _SELDOM < late < 1 - _SELDOM
