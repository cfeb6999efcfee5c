# SPDX-License-Identifier: Apache-2.0
"""The worst case over many models of the arrivals, of which only those that decide are solved everywhere.

A search over allocations predicts dozens of times, and each prediction solves a queue for each operator and process.
Nearly always one or two processes are the worst wherever one looks. So a search begins with one, the likely worst, and
all are solved where it ends. If another is worse there and the bounds are broken, the search goes on with that one too.
The last search ends where all processes agree. Its plan holds for all of them, as if all had always been solved: what
breaks a bound for some breaks it for all, and what is cheapest for some is so for all if it keeps the bounds for all.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ConfigurationError
from penstock.ports import RestingPathLatency
from penstock.records import Allocation, Prediction
from penstock.topology import Path


class NarrowedLatency:
    """Predicts path latencies under the worst of the models looked at so far; a `ports.NarrowedPathLatency`.

    Parameters
    ----------
    each
        The same pipeline under one process each, by its label.
    first
        The label of the one to begin with; the nearer to the worst, the sooner a search ends.

    Examples
    --------
    >>> from penstock.markov import MAP, PH
    >>> from penstock.performance.demand import RecordDemand
    >>> from penstock.performance.pipeline_latency import PipelineLatency
    >>> from penstock.performance.pipeline_model import OperatorModel, PipelineModel
    >>> from penstock.records import Objective
    >>> pipeline = PipelineModel([OperatorModel("a", RecordDemand(PH.exponential(mean=0.01)))], Objective("mean", 0.1))
    >>> rates = {"calm": 20.0, "busy": 40.0}
    >>> each = {k: PipelineLatency(pipeline, {k: MAP.poisson(v)}) for k, v in rates.items()}
    >>> latency = NarrowedLatency(each, first="calm")
    >>> latency.predict({"a": Allocation(1, 1.0)})[0].worst
    'calm'
    >>> latency.widen({"a": Allocation(1, 1.0)}), latency.used
    (True, ('calm', 'busy'))
    >>> latency.predict({"a": Allocation(1, 1.0)})[0].worst
    'busy'
    """

    def __init__(self, each: Mapping[str, RestingPathLatency], first: str) -> None:
        if first not in each:
            raise ConfigurationError(f"first: {first!r} is none of the models {', '.join(each)}", field="first")
        self._each = dict(each)
        self._used = [first]

    @property
    def used(self) -> tuple[str, ...]:
        """The models that predictions are the worst of."""
        return tuple(self._used)

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators, each after those it reads from."""
        return self._first.operators

    @property
    def paths(self) -> tuple[Path, ...]:
        """The source-to-sink paths."""
        return self._first.paths

    def predict(self, allocations: Mapping[str, Allocation]) -> tuple[Prediction, ...]:
        """Predict every path under the worst of the models used."""
        of_models = zip(*(self._each[label].predict(allocations) for label in self._used), strict=True)
        return tuple(max(paths, key=_badness) for paths in of_models)

    def widen(self, allocations: Mapping[str, Allocation]) -> bool:
        """Look at all models here, and use those that are the worst of a path; True: predictions may be higher."""
        before = len(self._used)
        predicted = {label: one.predict(allocations) for label, one in self._each.items()}
        # Of models that are as bad as each other one that is in use already.
        order = sorted(predicted, key=lambda label: label not in self._used)
        worst = {max(order, key=lambda label: _badness(predicted[label][place])) for place in range(len(self.paths))}
        self._used += [label for label in self._each if label in worst.difference(self._used)]
        return len(self._used) > before

    def rest(self) -> None:
        """Let go of what takes much memory until something is asked again."""
        for one in self._each.values():
            one.rest()

    @property
    def _first(self) -> RestingPathLatency:
        return next(iter(self._each.values()))


def _badness(path: Prediction) -> tuple[float, float]:
    """Orders predictions of a path; of endless ones that with the highest utilisation is the worst."""
    return path.seconds, max(path.utilisation.values())
