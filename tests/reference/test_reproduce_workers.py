# SPDX-License-Identifier: Apache-2.0
"""Experiments in several processes."""

import pytest

from penstock.evaluation.experiment_file import TableExperiment
from penstock.evaluation.reproduce import TableRun

pytestmark = pytest.mark.reference

TABLE = {
    "kind": "table", "title": "tiny", "paper": "none", "statistic": "mean", "main": "MEAD",
    "rows": {"MEAD": "mead:window=1000,best=1,max_states=2,every_seconds=30s", "static": "static"},
    "pipeline": {
        "operators": [{"name": "matcher", "service": {"distribution": "erlang", "phases": 2}}],
        "guards": "none",
    },
    "traces": [
        {
            "name": "short",
            "arrivals": {"shape": "sampled:constant:rate=20,duration=120s,seed=1"},
            "service": {"matcher": "16ms"},
            "cells": [{"bound": "60ms"}, {"bound": "1s"}],
        }
    ],
}  # fmt: skip


def test_workers_change_nothing() -> None:
    """Two processes give the figures that one gives."""
    table = TableExperiment.model_validate(TABLE)
    arrivals = {trace.name: trace.arrivals.times() for trace in table.traces}
    alone, together = (TableRun(table, arrivals, 1, workers).results() for workers in (1, 2))
    assert alone == together
