# SPDX-License-Identifier: Apache-2.0
"""What arrives, as a model: windows of inter-arrival times in, Markovian arrival processes and their errors out.

==================  ==============================================================================================
Module              What it gives
==================  ==============================================================================================
moments, counts     a window or a series of counts in numbers, each with a standard error
sliding             moments and autocorrelation of a window that slides
replay_queue        the window replayed through a queue: what a fit has to predict
fit_map             the best processes for a window; `fitting`: in which order they are searched
estimate            several windows, one estimate
change              whether two windows differ by more than chance
simple_fits         windows that need no search
search              compositions (`product_form`)
cycle_search        chains of bursts and lulls (`staged`, `episodes`), where the queue of no composition will do
==================  ==============================================================================================
"""

from penstock.workload.candidates import FittedMap
from penstock.workload.change import Difference, WorkloadChange, detect_change
from penstock.workload.count_description import CountDescription, describe_counts
from penstock.workload.estimate import WindowFit, WorkloadEstimate, estimate_workload
from penstock.workload.fit_map import FitResult, fit_maps
from penstock.workload.moments import TraceDescription, describe_iats, spread_ties
from penstock.workload.replay_queue import ReplayedQueue, predicted_responses, replay
from penstock.workload.sliding import SlidingMoments, SlidingSummary

__all__ = [
    "CountDescription",
    "Difference",
    "FitResult",
    "FittedMap",
    "ReplayedQueue",
    "SlidingMoments",
    "SlidingSummary",
    "TraceDescription",
    "WindowFit",
    "WorkloadChange",
    "WorkloadEstimate",
    "describe_counts",
    "describe_iats",
    "detect_change",
    "estimate_workload",
    "fit_maps",
    "predicted_responses",
    "replay",
    "spread_ties",
]
