# SPDX-License-Identifier: Apache-2.0
"""What `mead` would plan with: its own analysis of the arrivals so far, for an allocation that is given."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.spark_latency.cells import OBJECTIVE, Cell

from penstock.monitor.arrival_memory import RememberedArrivals
from penstock.performance.adaptive_interval import Margin
from penstock.performance.demand import BatchDemand
from penstock.performance.pipeline_model import OperatorModel
from penstock.policies.mead.analysis import AnalysisTask, analyse
from penstock.policies.mead.options import mead_options
from penstock.ports import AnalysisMemo, FloatArray
from penstock.records import Limits, Objective, Prediction

_NAME = "logs"


@dataclass(frozen=True, eq=False, slots=True)
class Question:
    """All that is known when a cell is predicted."""

    cell: Cell
    at: float
    iats: FloatArray
    windows: tuple[float, ...]
    remembered: RememberedArrivals | None
    demand: BatchDemand
    margin: Margin


@dataclass(frozen=True, slots=True)
class Predicted:
    """The answer."""

    mean: float
    p95: float
    low: float
    high: float
    fitted_mean: float
    fitted_p95: float


def predict(question: Question) -> Predicted:
    """Predict the cell's latency with the defaults of `mead`, and once more with fitted processes."""
    memo = AnalysisMemo()
    p95 = _analysed(question, OBJECTIVE, "auto", memo)
    assert p95.low_seconds is not None
    assert p95.high_seconds is not None
    mean = replace(OBJECTIVE, statistic="mean")
    return Predicted(
        mean=_analysed(question, mean, "auto", memo).seconds,
        p95=p95.seconds,
        low=p95.low_seconds,
        high=p95.high_seconds,
        fitted_mean=_analysed(question, mean, "map", memo).seconds,
        fitted_p95=_analysed(question, OBJECTIVE, "map", memo).seconds,
    )


def _analysed(question: Question, objective: Objective, queues: str, memo: AnalysisMemo) -> Prediction:
    """The only plan that there is where one allocation is allowed, and what is predicted for it.

    A rise is not extrapolated: the load is the same before and after.
    """
    cell, path = question.cell, (_NAME,)
    task = AnalysisTask(
        at=question.at,
        iats=question.iats,
        windows=question.windows,
        remembered=question.remembered,
        growth=1.0,
        are_exact=True,
        operators=(OperatorModel(_NAME, question.demand),),
        objectives={path: objective},
        current={_NAME: cell.allocation},
        limits={_NAME: Limits(cell.executors, cell.executors, (cell.share,))},
        options=mead_options(queues=queues),  # type: ignore[arg-type]  # one of two that there are
        margins={path: question.margin},
    )
    (predicted,) = analyse(task, memo).plan.predictions
    return predicted
