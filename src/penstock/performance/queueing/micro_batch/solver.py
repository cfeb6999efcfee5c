# SPDX-License-Identifier: Apache-2.0
"""The micro-batch queue: what Structured Streaming does by default, solved for MAP arrivals.

At each start all waiting records (up to a cap) form a batch, which takes f + c n seconds, more or less; the next
starts when it ends, or at the next trigger. A record's latency runs from its arrival to the end of its batch.
docs/background/micro-batch-queue.md has the derivation, its assumptions, and what was checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from penstock.errors import ConfigurationError, ConvergenceError
from penstock.markov import MAP
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.micro_batch.arrival_counts import is_uneven
from penstock.performance.queueing.micro_batch.backlog_grid import first_reach, plain_grid, refined_grid, tail_reach
from penstock.performance.queueing.micro_batch.batch_times import FINE
from penstock.performance.queueing.micro_batch.chain import Chain, Cycle, cycle_means, solve_chain
from penstock.performance.queueing.micro_batch.latency_law import LatencyLaw, latency_law
from penstock.performance.queueing.micro_batch.server import MicroBatch, batch_time_nodes
from penstock.performance.queueing.micro_batch.spectra import Spectra
from penstock.performance.queueing.response import Saturated, check_probability

EXACT, GRADED = "exact counts", "graded counts"

_TAIL = 1e-7
"""Share of the mass beyond the grid that is aimed at."""

_ACCEPTED_TAIL = 1e-4
"""Largest share of the records beyond the last two nodes but one; more, and the grid is made longer."""

_SELDOM = 1e-5
"""Share of batches that outlast the trigger below which all are taken to start at a trigger."""

_ACCEPTED_MOVE = 0.025
"""Largest share by which counts may be moved to have the right means; more, and they are sampled more finely."""

_ACCEPTED_IMBALANCE = 2e-3
"""Largest relative difference of records arrived and served in a cycle, times the share of capacity that is left.

More, and counts are sampled more finely: close to saturation a few records too many make long queues.
"""

_WORST_IMBALANCE = 0.05
"""Relative difference beyond which no answer is given."""

MOST_STATES = 64
"""Most states of an arrival process that is solved for; more would take minutes."""

MOST_SCV = 15.0
"""Largest SCV of what varies of a usual batch's time that is solved for."""

_LITTLE = 0.1
"""SCV of a usual batch's whole time below which it does not matter how what varies of it varies."""

_CHECKED_SHARES = (0.5, 0.95, 0.99)
_SLACK, _WORST_LAW, _WORST_ERROR = 0.01, 0.1, 0.5
"""Relative errors beyond which an answer is not given: of bounds, of the distribution's mean, and as estimated."""

_ACCEPTED_CHANGE = 0.015
"""Largest relative change of the mean from one grid to the next finer one; more, and a finer one yet is solved.

That is about the error of the coarser one; the finer one's is some times less.
"""

_NODES = (24, 40, 72, 128)
"""About how many numbers of records grids have, from the first to the finest."""

_EXACT_STATES = 320
"""Phases times numbers of records up to which every number is a state of its own, and no grid is needed."""

_FREQUENCIES, _MOST_FREQUENCIES = 64, 8192
"""Fewest samples of counts, and most times the phases."""

_FARTHEST = 1e11
"""Records waiting beyond which nothing is solved: rounding would decide."""

_ROUGH_ERROR = 0.1
"""Relative error to be feared of an answer on the first grid alone; up to 0.02 was seen (benchmarks/what_if)."""

_OFFSETS = 7
_MOST_ROUNDS = 24


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
    mean_coarse
        The mean on the grid before the last; None: the first grid said enough (`Suffices`).
    server
        What was solved for.
    nodes, by_node
        Numbers of records that the chain stands on, and the share of batch starts that find each waiting.
    cycle, law
        Means of a cycle, and the distribution of latency.
    """

    utilisation: float
    method: str
    left_out: float
    imbalance: float
    mean_coarse: float | None
    server: MicroBatch = field(repr=False)
    nodes: FloatArray = field(repr=False)
    by_node: FloatArray = field(repr=False)
    cycle: Cycle = field(repr=False)
    law: LatencyLaw = field(repr=False)

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
        if self.mean_coarse is None:
            return _ROUGH_ERROR
        return abs(self.mean_coarse / self.mean - 1.0)

    @property
    def variance(self) -> float:
        """Variance of a record's latency."""
        return self.law.variance

    def percentile(self, p: float) -> float:
        """The latency that a share `p` of the records stays within, 0 < p < 1."""
        return float(self.law.percentiles([check_probability(p)])[0])

    def percentiles(self, ps: Sequence[float]) -> FloatArray:
        """Several percentiles at once."""
        return self.law.percentiles([check_probability(p) for p in ps])

    def cdf(self, times: Sequence[float] | FloatArray) -> FloatArray:
        """Share of the records done within each of some times."""
        return self.law.cdf(np.asarray(times, dtype=float))

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
        return float(self.by_node @ self.nodes)

    def backlog_tail(self, records: Sequence[float] | FloatArray) -> FloatArray:
        """Share of batch starts that find more than each of some numbers of records waiting."""
        return np.array([float(self.by_node[self.nodes > r].sum()) for r in np.asarray(records, dtype=float)])

    @property
    def law_mean(self) -> float:
        """Mean of the distribution of latency, which is found apart from `mean` and differs slightly from it."""
        return self.law.mean


Suffices = Callable[[MicroBatchAnswer], bool]
"""Whether an answer from the first grid, with an error of up to a tenth to be feared, says enough."""


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
    ConfigurationError
        If the process has more than `MOST_STATES` states, or the time of usual batches an SCV above `MOST_SCV`.
    ConvergenceError
        If the process is too uneven to be solved, or the solution found is impossible; an answer that is given has
        its error estimated.

    Examples
    --------
    >>> answer = solve_micro_batch(MAP.poisson(500.0), MicroBatch(fixed=0.3, per_record=0.001))
    >>> round(answer.batch_seconds_mean, 2), round(answer.mean, 1)
    (0.6, 0.9)
    >>> solve_micro_batch(MAP.poisson(1200.0), MicroBatch(fixed=0.3, per_record=0.001)).is_stable
    False
    """
    return MicroBatchSolver(arrivals).solve(server)


class MicroBatchSolver:
    """Solves queues of one arrival process: what depends on the arrivals alone is found once.

    Parameters
    ----------
    arrivals
        The records, rates per second.

    Examples
    --------
    >>> solver = MicroBatchSolver(MAP.poisson(500.0))
    >>> [round(solver.solve(MicroBatch(fixed, 0.001)).mean, 1) for fixed in (0.3, 0.6)]
    [0.9, 1.8]
    """

    def __init__(self, arrivals: MAP) -> None:
        self.arrivals = arrivals
        self._known: dict[MicroBatch, MicroBatchAnswer | Saturated] = {}
        self._rough: dict[MicroBatch, MicroBatchAnswer | None] = {}

    @cached_property
    def _spectra(self) -> Spectra:
        return Spectra(self.arrivals)

    def solve(self, server: MicroBatch, suffices: Suffices | None = None) -> MicroBatchAnswer | Saturated:
        """Solve the queue for its record latency; see `solve_micro_batch`.

        Parameters
        ----------
        server
            Batch time, cap and trigger.
        suffices
            Asked about the answer from the first grid. If it says so, finer grids, which take most of the time, are
            not solved.
        """
        if server not in self._known:
            utilisation = server.utilisation(self.arrivals.rate)
            if utilisation >= 1:
                self._known[server] = Saturated(utilisation)
                return self._known[server]
            rough = self._rough.get(server)
            if rough is not None and suffices is not None and suffices(rough):
                return rough
            _require_solvable(self.arrivals, server)
            search = _Search(self._spectra, server, utilisation)
            if suffices is not None and server not in self._rough:
                rough = self._rough[server] = _rough_answer(search.first(), utilisation)
                if rough is not None and suffices(rough):
                    return rough
            self._known[server] = _answer(search, utilisation)
        return self._known[server]


def _answer(search: _Search, utilisation: float) -> MicroBatchAnswer:
    coarse, chain = search.solve()
    cycle = cycle_means(chain)
    if abs(cycle.imbalance) > _WORST_IMBALANCE:
        raise ConvergenceError(
            "records served and arrived do not balance: the process is too uneven for this grid",
            iterations=_MOST_ROUNDS, residual=abs(cycle.imbalance),
        )  # fmt: skip
    answer = _answer_on(chain, cycle, utilisation, cycle_means(coarse).latency)
    fault = _fault(answer)
    if fault is not None:
        raise ConvergenceError(
            f"the solution makes no sense ({fault}), so none is given: the queue is too near saturation or too "
            "uneven", iterations=_MOST_ROUNDS, residual=answer.error_estimate,
        )  # fmt: skip
    return answer


def _rough_answer(chain: Chain, utilisation: float) -> MicroBatchAnswer | None:
    """What the first grid says; None where it is known to be wrong."""
    cycle = cycle_means(chain)
    has_end = tail_reach(chain.nodes, chain.by_node, _ACCEPTED_TAIL) is not None
    if not has_end or abs(cycle.imbalance) > _WORST_IMBALANCE:
        return None
    answer = _answer_on(chain, cycle, utilisation, None)
    return answer if _fault(answer) is None else None


def _answer_on(chain: Chain, cycle: Cycle, utilisation: float, mean_coarse: float | None) -> MicroBatchAnswer:
    is_exact = bool(np.all(np.diff(chain.nodes) == 1) and np.all(chain.moves.counts.exact))
    # The answer keeps nothing of the chain's matrices: many are kept at a time.
    return MicroBatchAnswer(
        utilisation=utilisation,
        method=EXACT if is_exact and not chain.server.varies else GRADED,
        left_out=chain.left_out,
        imbalance=cycle.imbalance,
        mean_coarse=mean_coarse,
        server=chain.server,
        nodes=chain.nodes,
        by_node=chain.by_node,
        cycle=cycle,
        law=latency_law(chain, cycle),
    )


def _require_solvable(arrivals: MAP, server: MicroBatch) -> None:
    """Refuse what would take minutes or come out wrong."""
    if arrivals.order > MOST_STATES:
        raise ConfigurationError(
            f"arrivals: the process has {arrivals.order} states, the micro-batch queue is solved for {MOST_STATES} at "
            f"most; fit one of fewer states (an SCV below 1 / {MOST_STATES} makes no difference)", field="arrivals",
        )  # fmt: skip
    usual = np.array([server.usual_size(arrivals.rate)])
    mean, variance = (float(each[0]) for each in server.batch_moments(usual))
    varied = mean - float(server.batch_floor(usual)[0])
    if variance > max(MOST_SCV * varied**2, _LITTLE * mean**2):
        name = "fixed_scv" if server.fixed_scv * server.fixed**2 >= variance / 2 else "per_record_scv"
        raise ConfigurationError(
            f"{name}: {getattr(server, name):.6g} gives what varies of the time of a usual batch ({usual[0]:.3g} "
            f"records) an SCV of {variance / varied**2:.3g}; the micro-batch queue is solved up to {MOST_SCV:g}: "
            f"give a smaller {name}", field=name,
        )  # fmt: skip


def _fault(answer: MicroBatchAnswer) -> str | None:
    """Say what is impossible about an answer, if anything is."""
    server, size = answer.server, answer.batch_size_mean
    latency = answer.percentiles(_CHECKED_SHARES)
    if not np.all(np.isfinite([answer.mean, answer.variance, answer.error_estimate, *latency])):
        return "not all of it is a number"
    known = answer.cdf(latency) - np.array(_CHECKED_SHARES)
    most = math.inf if server.cap is None else float(server.cap)
    # A record rides with at least itself.
    least = server.fixed + server.per_record
    faults = {
        f"mean latency {answer.mean:.3g} s": answer.mean < (1 - _SLACK) * least,
        f"batches of {size:.3g} records": not 0 < size <= (1 + _SLACK) * most,
        "percentiles that do not rise": latency[0] <= 0 or np.any(np.diff(latency) < 0) or answer.variance < 0,
        "percentiles that do not belong to their shares": np.any(np.abs(known) > _SLACK),
        f"mean latency {answer.mean:.3g} s, but {answer.law_mean:.3g} s by its distribution": (
            abs(answer.law_mean - answer.mean) > _WORST_LAW * answer.mean
        ),
        f"relative error {answer.error_estimate:.3g}": answer.error_estimate > _WORST_ERROR,
    }
    return next((fault for fault, is_there in faults.items() if is_there), None)


class _Search:
    """Finds a grid, and samples of counts, that are fine enough for a queue."""

    def __init__(self, spectra: Spectra, server: MicroBatch, utilisation: float) -> None:
        self._spectra, self._server = spectra, server
        self._top = first_reach(spectra.arrivals, server, _TAIL)
        gap = server.usual_size(spectra.rate) / spectra.rate
        self._frequencies = _FREQUENCIES * (2 if is_uneven(spectra, gap, _FREQUENCIES, _TAIL) else 1)
        self._most = max(4 * _FREQUENCIES, _MOST_FREQUENCIES // spectra.arrivals.order)
        self._accepted = _ACCEPTED_IMBALANCE * (1.0 - utilisation)
        self._begun: Chain | None = None

    def solve(self) -> tuple[Chain, Chain]:
        """Give the last chain but one, and the last."""
        coarse, level = self.first(), 1
        for _ in range(_MOST_ROUNDS):
            chain = self._refined(coarse, _NODES[level])
            if tail_reach(chain.nodes, chain.by_node, _ACCEPTED_TAIL) is None:
                self._top *= 2
                coarse, level = self._plain(), 1
            elif self._finer_counts(chain):
                coarse = self._solve(coarse.nodes, _offsets(coarse))
            elif self._has_settled(coarse, chain) or level + 1 == len(_NODES):
                return coarse, chain
            else:
                coarse, level = chain, level + 1
        raise ConvergenceError("the backlog has no end within reach", iterations=_MOST_ROUNDS, residual=chain.left_out)

    def first(self) -> Chain:
        """The chain on the first grid, solved once."""
        if self._begun is None:
            self._begun = self._plain()
        return self._begun

    def _plain(self) -> Chain:
        """Solve on a plain grid, with the place of starts between triggers in the state if there is a trigger."""
        trigger = self._server.trigger
        offsets = None if trigger is None else trigger * np.linspace(0.0, 1.0, _OFFSETS)
        nodes = plain_grid(self._server, self._top, _NODES[0])
        while True:
            chain = self._solve(nodes, offsets)
            if not self._finer_counts(chain):
                return chain

    def _refined(self, coarse: Chain, count: int) -> Chain:
        reach = min(self._top, tail_reach(coarse.nodes, coarse.by_node, _TAIL / 10) or self._top)
        exact = max(count, min(_NODES[-2], _EXACT_STATES // self._spectra.arrivals.order))
        nodes = refined_grid(self._server, (coarse.nodes, coarse.by_node), reach, exact if reach <= exact else count)
        return self._solve(nodes, coarse.moves.offsets if _offsets_matter(coarse) else None)

    def _solve(self, nodes: FloatArray, offsets: FloatArray | None) -> Chain:
        if not self._top < _FARTHEST:
            raise ConvergenceError(
                "the backlog has no end within reach: the queue is too near saturation", iterations=0,
                residual=self._accepted / _ACCEPTED_IMBALANCE,
            )  # fmt: skip
        return solve_chain(self._spectra, self._server, nodes, self._frequencies, offsets)

    def _finer_counts(self, chain: Chain) -> bool:
        """Sample counts more finely if they had to be moved far, or do not balance: whether that was so."""
        off = max(chain.moved / _ACCEPTED_MOVE, abs(cycle_means(chain).imbalance) / self._accepted)
        if off <= 1.0 or self._frequencies >= self._most:
            return False
        self._frequencies *= 2
        return True

    @staticmethod
    def _has_settled(coarse: Chain, chain: Chain) -> bool:
        if np.all(np.diff(chain.nodes) == 1):
            return True
        return abs(cycle_means(coarse).latency / cycle_means(chain).latency - 1.0) <= _ACCEPTED_CHANGE


def _offsets(chain: Chain) -> FloatArray | None:
    return chain.moves.offsets if len(chain.moves.offsets) > 1 else None


def _offsets_matter(chain: Chain) -> bool:
    """Whether batches both outlast the trigger interval and stay below it, each more than seldom."""
    if chain.server.trigger is None:
        return False
    batch, q = batch_time_nodes(chain.server, chain.server.served(chain.nodes), FINE)
    size = np.abs(chain.by_node)
    late = float(size @ ((batch > chain.server.trigger) * q).sum(axis=1) / size.sum())
    return _SELDOM < late < 1 - _SELDOM
