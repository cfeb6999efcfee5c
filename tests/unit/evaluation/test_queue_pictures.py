# SPDX-License-Identifier: Apache-2.0
"""Pictures of queues and allocations: drawn for calm, heavy-tailed, saturated and bounded answers alike."""

from __future__ import annotations

import pytest

from penstock.evaluation.queue_pictures import allocations_picture, distribution_picture
from penstock.markov import MAP, PH, fit_mean_scv
from penstock.performance.demand import RecordDemand
from penstock.performance.operator_latency import predict
from penstock.performance.queueing.general import solve_m_g_1
from penstock.performance.queueing.response import Response, Saturated
from penstock.records import Allocation, Objective

PNG = b"\x89PNG"


@pytest.mark.parametrize(
    ("answer", "percentiles"),
    [
        (solve_m_g_1(80.0, PH.exponential(mean=0.01)), ()),
        (solve_m_g_1(1e-3, fit_mean_scv(1.0, 400.0).distribution), (0.99, 0.5)),
        (Saturated(1.2), (0.5,)),
    ],
    ids=["calm", "heavy tail", "saturated"],
)
def test_every_kind_of_answer_can_be_drawn(answer: Response, percentiles: tuple[float, ...]) -> None:
    """Percentiles in any order, or none; of a saturated queue the picture says that it is."""
    assert distribution_picture(answer, percentiles, "a queue").startswith(PNG)


@pytest.mark.parametrize("rate", [30.0, 150.0, 1e4], ids=["all keep up", "some keep up", "none keeps up"])
def test_allocations_can_be_drawn_whether_they_keep_up_or_not(rate: float) -> None:
    """With objective and choice or without; where nothing is finite there is still a picture."""
    demand = RecordDemand(PH.erlang(2, mean=0.01), spread=0.05)
    allocations = [Allocation(n, s) for n in (1, 2) for s in (0.5, 1.0)]
    answers = predict([MAP.poisson(rate)], demand, allocations)
    met = next((a for a in answers if a.is_stable), None)
    drawn = allocations_picture(answers, "p95", objective=Objective("p95", 0.1), chosen=met, title="a trace")
    assert drawn.startswith(PNG)
