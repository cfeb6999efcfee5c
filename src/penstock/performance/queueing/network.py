# SPDX-License-Identifier: Apache-2.0
"""Open networks over a pipeline's graph: the time in each operator, along each path, and until all copies are done.

Operators are solved one after the other, each with what comes to it: streams merged (`streams.merge`), solved as
MAP/PH/1, and passed on with their bursts (`onward`), outputs dropped or multiplied (`streams.selected`).

**Along a path** two things are done better than by adding operators up:

* Servers in series are interchangeable. For exponential servers the time through all of them does not depend on their
  order, whatever the arrivals (Weber, "The interchangeability of ./M/1 queues in series", Journal of Applied
  Probability 16, 1979). So a run of operators that see the same records is solved in order of falling utilisation: the
  bottleneck meets the arrivals themselves, exactly, and what comes after it hardly matters. For other service times
  this is an approximation.
* Times in a burst are long in one operator after the other. With e_j = 1 - (mean time with Poisson arrivals) / (mean
  time), the part of an operator's time that bursts cause, parts are joined with the weight w_j = 0.4 sqrt(e_1 e_j)
  between independence and equal ranks (see `series`). The factor was set by simulation; with Poisson arrivals and
  exponential services w = 0 is exact (Reich 1957).

What an operator's own answer says is its time in its place; the parts of a path's answer belong to the path alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import sqrt

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH
from penstock.performance.queueing.fork_join import Branch, solve_fork_join
from penstock.performance.queueing.general import solve_m_g_1
from penstock.performance.queueing.graph import Path, PipelineGraph
from penstock.performance.queueing.onward import MOST_STATES, onward_process
from penstock.performance.queueing.response import Response, Saturated
from penstock.performance.queueing.series import Series
from penstock.performance.queueing.single_server import solve_map_ph_1
from penstock.performance.queueing.streams import check_selectivity, merge, selected

_TOGETHER = 0.4


@dataclass(frozen=True)
class Operator:
    """An operator of a network.

    Parameters
    ----------
    service
        Time in seconds one record takes. For an operator with a solver of its own it describes what it takes on
        average, and is used where several branches are joined.
    selectivity
        Outputs for each record, on average.
    solve
        Another model of the operator, such as the micro-batch queue: gives the response to these arrivals. Its
        records are passed on by `onward`.
    onward
        With `solve`: the process of departures. Where it is not given arrivals are passed on as they came.
    """

    service: PH
    selectivity: float = 1.0
    solve: Callable[[MAP], Response] | None = None
    onward: Callable[[MAP], MAP] | None = None

    def __post_init__(self) -> None:
        check_selectivity(self.selectivity)
        if self.onward is not None and self.solve is None:
            raise ConfigurationError("onward: give it together with `solve`", field="onward")


@dataclass(frozen=True)
class OperatorAnswer:
    """What comes to an operator, and how long records stay in it."""

    arrivals: MAP
    response: Response


@dataclass(frozen=True)
class NetworkAnswer:
    """The solved network: operators by name, paths, and for each source the time until all copies are done."""

    operators: Mapping[str, OperatorAnswer]
    paths: Mapping[Path, Response]
    completion: Mapping[str, Response]
    """By source stream: the time until the last copy of a record has left the pipeline (see `fork_join`)."""

    @property
    def is_stable(self) -> bool:
        """Whether every operator keeps up."""
        return all(answer.response.is_stable for answer in self.operators.values())


@dataclass(frozen=True)
class _Part:
    response: Response
    bursts: float
    service: PH


def solve_network(
    graph: PipelineGraph,
    operators: Mapping[str, Operator],
    arrivals: Mapping[str, MAP],
    *,
    most_states: int = MOST_STATES,
) -> NetworkAnswer:
    """Solve an open network.

    Parameters
    ----------
    graph
        Who reads what.
    operators
        Service times by operator.
    arrivals
        Records per second by source stream.
    most_states
        States that a stream between operators may have.

    Raises
    ------
    ConfigurationError
        If an operator or a source of the graph is missing, or one is given that the graph does not have.

    Examples
    --------
    >>> from penstock.performance.queueing.graph import Stream
    >>> graph = PipelineGraph(("a", "b"), (Stream("in", None, ("a",)), Stream("mid", "a", ("b",))))
    >>> both = {"a": Operator(PH.exponential(mean=0.5)), "b": Operator(PH.exponential(mean=0.5))}
    >>> answer = solve_network(graph, both, {"in": MAP.poisson(1.0)})
    >>> [(path.operators, round(response.mean, 9)) for path, response in answer.paths.items()]
    [(('a', 'b'), 2.0)]
    """
    _same("operators", "operator", operators, graph.operators)
    _same("arrivals", "source stream", arrivals, graph.sources)
    network = _Network(graph, operators, most_states)
    network.spread(arrivals)
    paths: dict[Path, Response] = {path: _joined(network.along(path.operators)) for path in graph.paths}
    completion: dict[str, Response] = {}
    for stream in graph.streams:
        if stream.writer is None:
            completion[stream.name] = _joined(network.until_done(stream.readers))
    return NetworkAnswer(dict(network.answers), paths, completion)


class _Network:
    """A network being solved."""

    def __init__(self, graph: PipelineGraph, operators: Mapping[str, Operator], most_states: int) -> None:
        self._graph, self._operators, self._most_states = graph, operators, most_states
        self.answers: dict[str, OperatorAnswer] = {}
        # Paths share their beginnings: nothing is solved twice.
        self._responses: dict[tuple[str, MAP], Response] = {}
        self._departures: dict[tuple[str, MAP], MAP] = {}

    def spread(self, arrivals: Mapping[str, MAP]) -> None:
        """Solve every operator with what comes to it."""
        leaving: dict[str, MAP] = {}
        for name in self._graph.order:
            inputs = [arrivals[s.name] if s.writer is None else leaving[s.writer] for s in self._graph.inputs(name)]
            coming = merge(inputs, most_states=self._most_states)
            operator = self._operators[name]
            self.answers[name] = OperatorAnswer(coming, self._response(name, coming))
            if self._graph.following(name):
                leaving[name] = selected(self._onward(name, coming), operator.selectivity)

    def along(self, path: tuple[str, ...]) -> list[_Part]:
        """Give the parts of the time along a path, runs of the same records in order of falling utilisation."""
        parts: list[_Part] = []
        for run in self._runs(path):
            coming = self.answers[run[0]].arrivals
            ordered = sorted(run, key=lambda name: -round(self.answers[name].response.utilisation, 9))
            for name in ordered:
                parts.append(_part(self._operators[name], coming, self._response(name, coming)))
                if name != ordered[-1]:
                    coming = self._onward(name, coming)
        return parts

    def until_done(self, readers: tuple[str, ...]) -> list[_Part]:
        """Give the parts of the time until all copies that these readers get are done."""
        if len(readers) > 1:
            ways = [self.until_done((reader,)) for reader in readers]
            branches = [_branch(way) for way in ways]
            heaviest = max(ways, key=lambda way: max(part.response.utilisation for part in way))[0]
            return [_Part(solve_fork_join(branches), heaviest.bursts, heaviest.service)]
        chain = [readers[0]]
        while len(following := self._graph.following(chain[-1])) == 1:
            chain.append(following[0])
        parts = self.along(tuple(chain))
        return [*parts, *self.until_done(following)] if following else parts

    def _runs(self, path: tuple[str, ...]) -> list[list[str]]:
        runs = [[path[0]]]
        for before, name in pairwise(path):
            one, other = self._operators[before], self._operators[name]
            alone = len(self._graph.inputs(name)) == 1 and one.selectivity == 1.0
            if alone and one.solve is None and other.solve is None:
                runs[-1].append(name)
            else:
                runs.append([name])
        return runs

    def _response(self, name: str, coming: MAP) -> Response:
        if (name, coming) not in self._responses:
            operator = self._operators[name]
            solve = operator.solve or partial(solve_map_ph_1, service=operator.service)
            self._responses[name, coming] = solve(coming)
        return self._responses[name, coming]

    def _onward(self, name: str, coming: MAP) -> MAP:
        if (name, coming) not in self._departures:
            self._departures[name, coming] = self._leaving(self._operators[name], name, coming)
        return self._departures[name, coming]

    def _leaving(self, operator: Operator, name: str, coming: MAP) -> MAP:
        if not self._response(name, coming).is_stable:
            return MAP.renewal(operator.service)  # always busy
        if operator.solve is None:
            return onward_process(coming, operator.service, most_states=self._most_states)
        return coming if operator.onward is None else operator.onward(coming)


def _part(operator: Operator, coming: MAP, response: Response) -> _Part:
    if operator.solve is not None or not response.is_stable:
        return _Part(response, 0.0, operator.service)
    smooth = solve_m_g_1(coming.rate, operator.service).mean
    return _Part(response, max(0.0, 1.0 - smooth / response.mean), operator.service)


def _joined(parts: list[_Part]) -> Response:
    if not all(part.response.is_stable for part in parts):
        return Saturated(max(part.response.utilisation for part in parts))
    weights = [_TOGETHER * sqrt(parts[0].bursts * part.bursts) for part in parts]
    return Series(tuple(part.response for part in parts), (0.0, *weights[1:]))


def _branch(parts: list[_Part]) -> Branch:
    heaviest = max(parts, key=lambda part: part.response.utilisation)
    return Branch(_joined(parts), heaviest.service.mean, heaviest.service.scv)


def _same(field: str, what: str, given: Mapping[str, object], wanted: tuple[str, ...]) -> None:
    faults = [f"the {what} {name!r} is missing" for name in wanted if name not in given]
    faults += [f"the pipeline has no {what} {name!r}" for name in given if name not in wanted]
    if faults:
        raise ConfigurationError.of_all(field, faults)
