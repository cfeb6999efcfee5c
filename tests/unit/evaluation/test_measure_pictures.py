# SPDX-License-Identifier: Apache-2.0
"""The picture of a measured throughput."""

from __future__ import annotations

import pytest

from penstock.evaluation.measure_pictures import throughput_picture
from penstock.measuring.sample import Mark, Sample
from penstock.measuring.summary import summarise
from penstock.measuring.throughput import Throughput


def samples(source_limit: float | None, marks: tuple[Mark, ...] = ()) -> list[Sample]:
    """Two samples each of one and four executors; the larger ones have the marks."""
    return [
        Sample(
            at=1.0, executors=executors, repeat=repeat, attempt=1, is_source=False, cpu_share=0.2,
            parallelism=executors, cap=300, seconds=20.0, throughput=Throughput(7, rate, rate, rate, rate, rate),
            batch_seconds=3.0, converged_after_seconds=15.0, source_limit=source_limit,
            marks=marks if executors == 4 else (),
        )
        for executors, repeat, rate in ((1, 1, 100.0), (1, 2, 110.0), (4, 1, 300.0), (4, 2, 360.0))
    ]  # fmt: skip


@pytest.mark.parametrize("source_limit", [None, 400.0, 90_000.0])
@pytest.mark.parametrize("marks", [(), (Mark.DISTURBED,)])
def test_a_measurement_is_drawn(source_limit: float | None, marks: tuple[Mark, ...]) -> None:
    """With and without marks; with a source that is near, far above, or was not measured."""
    taken = samples(source_limit, marks)
    assert throughput_picture("my:app", summarise(taken), taken).startswith(b"\x89PNG")


def test_one_size_alone_is_drawn() -> None:
    """What Ctrl-C left may be a single sample."""
    taken = samples(None)[:1]
    assert throughput_picture("my:app", summarise(taken), taken).startswith(b"\x89PNG")
