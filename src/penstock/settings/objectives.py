# SPDX-License-Identifier: Apache-2.0
"""Latency bounds: of the pipeline, and of single paths through it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from penstock.errors import ConfigurationError
from penstock.records import STATISTICS, Objective
from penstock.settings.fields import Part, Seconds, said_of
from penstock.topology import Path, parse_path, path_text
from penstock.units import parse_seconds

CATCH_UP = "catch_up"
"""The key of an objective to keep up: how old a record may become."""


def make_objective(bounds: Mapping[str, str | float]) -> Objective:
    """An objective from ``{"p95": "2s"}``; ``{"catch_up": "60s"}`` or an empty mapping means to keep up."""
    if not bounds:
        return Objective()
    if set(bounds) == {CATCH_UP}:
        return Objective(catch_up_seconds=parse_seconds(bounds[CATCH_UP], f"objective.{CATCH_UP}"))
    if len(bounds) > 1:
        raise ConfigurationError(f"objective: give one statistic, not {', '.join(bounds)}", field="objective")
    ((statistic, bound),) = bounds.items()
    if statistic not in STATISTICS:
        raise ConfigurationError(
            f"objective: unknown statistic {statistic!r}; known: {', '.join(STATISTICS)}, and {CATCH_UP} to keep up",
            field="objective",
        )
    return Objective(statistic, parse_seconds(bound, f"objective.{statistic}"))


def objective_settings(objective: Objective) -> dict[str, float]:
    """An objective as a settings file has it; empty: to keep up, with the usual time to catch up."""
    if objective.statistic is not None and objective.seconds is not None:
        return {objective.statistic: objective.seconds}
    usual = objective.catch_up_seconds == Objective().catch_up_seconds
    return {} if usual else {CATCH_UP: objective.catch_up_seconds}


def _bound(value: dict[str, float]) -> dict[str, float]:
    said_of("objective", lambda: make_objective(value))
    return value


Bound = Annotated[dict[str, Seconds], AfterValidator(_bound)]


class PathBound(Part):
    """The objective of one path."""

    path: str = Field(description="its operators, such as `parser -> matcher`")
    objective: Bound = Field(description="latency bound, such as `p95: 500ms`")


def objectives_of(
    paths: Sequence[Path], objective: Mapping[str, float], bounds: Sequence[PathBound], where: str = "objectives"
) -> dict[Path, Objective]:
    """The objective of each path that has one: its own, else the one of all.

    Raises
    ------
    ConfigurationError
        With every bound whose path is none.
    """
    known = {path_text(path): path for path in paths}
    found = dict.fromkeys(paths, make_objective(objective)) if objective else {}
    faults: list[str] = []
    own: set[Path] = set()
    for i, bound in enumerate(bounds):
        path = known.get(path_text(parse_path(bound.path)))
        if path is not None and path in own:
            faults.append(f"objectives.{i}.path: {bound.path!r} has a bound already; give each path one")
        elif path is None:
            faults.append(f"objectives.{i}.path: {bound.path!r} is not a path; the paths are {', '.join(known)}")
        else:
            own.add(path)
            found[path] = make_objective(bound.objective)
    if faults:
        raise ConfigurationError.of_all(where, faults)
    return found


def objectives_text(objectives: Mapping[Path, Objective]) -> str:
    """Objectives for people: once where all paths have the same.

    Examples
    --------
    >>> objectives_text({("a", "b"): Objective("p95", 2.0), ("a", "c"): Objective("p95", 2.0)})
    'p95 <= 2.00 s'
    """
    each = {path_text(path): str(objective) for path, objective in objectives.items()}
    if len(set(each.values())) == 1:
        return next(iter(each.values()))
    return "; ".join(f"{path}: {objective}" for path, objective in each.items())


def tightest(objectives: Mapping[Path, Objective], operator: str) -> Objective:
    """What an operator alone is held against: the least bound of the paths through it."""
    through = [objective for path, objective in objectives.items() if operator in path]
    return min(through, key=lambda o: float("inf") if o.seconds is None else o.seconds, default=Objective())
