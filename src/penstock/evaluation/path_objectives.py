# SPDX-License-Identifier: Apache-2.0
"""An objective for every path of a simulated pipeline, and whether any allocation could ever meet it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from penstock.errors import ConfigurationError
from penstock.records import Objective
from penstock.simulator.draws import IndexedDraws
from penstock.simulator.pipeline import Pipeline
from penstock.topology import Path, path_text
from penstock.units import format_seconds

_DRAWS = 1 << 16
_PROBABILITIES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


def path_objectives(
    pipeline: Pipeline, objective: Objective | Mapping[Path, Objective], *, allow_impossible: bool = False
) -> dict[Path, Objective]:
    """Give every path its objective.

    Parameters
    ----------
    pipeline
        Whose paths.
    objective
        One for all paths, or one for each; a path without one has to keep up.
    allow_impossible
        Whether a bound is taken that nothing could keep: one that was recorded, and is to be judged.

    Raises
    ------
    ConfigurationError
        With every fault: an objective for what is not a path, or a bound below what the path's operators need at
        the top of their limits without any waiting.
    """
    given = dict.fromkeys(pipeline.paths, objective) if isinstance(objective, Objective) else dict(objective)
    known = ", ".join(path_text(path) for path in pipeline.paths)
    strange = [path for path in given if path not in pipeline.paths]
    faults = [f"objective: {path_text(path)!r} is not a path; the paths are {known}" for path in strange]
    for path in pipeline.paths:
        why = None if allow_impossible else why_impossible(pipeline, path, given.get(path, Objective()))
        if why is not None:
            faults.append(f"objective: {why}; give a larger bound")
    if faults:
        raise ConfigurationError.of_all(pipeline.name, faults)
    return {path: given.get(path, Objective()) for path in pipeline.paths}


def why_impossible(pipeline: Pipeline, path: Path, wanted: Objective) -> str | None:
    """Why no allocation could ever meet an objective; None: one may."""
    if wanted.statistic is None or wanted.seconds is None:
        return None  # to keep up
    least = least_latency(pipeline, path, wanted.statistic)
    if wanted.seconds >= least:
        return None
    return (
        f"{wanted} is impossible on the path {path_text(path)}: its operators alone need {format_seconds(least)} "
        f"({wanted.statistic}) at the top of their limits, without any waiting"
    )


def least_latency(pipeline: Pipeline, path: Path, statistic: str) -> float:
    """Give a latency that the path cannot be below: that of a record which finds every server idle, at the top share.

    The mean is exact. A percentile comes from draws, from so far below its rank that chance alone leads there once in
    a thousand times: what is refused for it is impossible.
    """
    operators = [pipeline.by_name[name] for name in path]
    if statistic == "mean":
        return sum(o.server.mean / o.limits.cpu_shares[-1] for o in operators)
    total = np.zeros(_DRAWS)
    for operator in operators:
        draws = IndexedDraws(operator.server.draw, 0, f"{operator.name}/least latency").between(0, _DRAWS)
        total += draws / operator.limits.cpu_shares[-1]
    p = _PROBABILITIES[statistic]
    rank = math.floor(_DRAWS * (p - 3.1 * math.sqrt(p * (1.0 - p) / _DRAWS)))
    return float(np.partition(total, rank)[rank])
