# SPDX-License-Identifier: Apache-2.0
"""Models of arrivals: turns windows of inter-arrival times into Markovian arrival processes with their errors.

==================  ==============================================================================================
Module              What it computes
==================  ==============================================================================================
moments             the statistics of a window, each with a standard error; `count_description`: of counts
sliding             moments and autocorrelation of a window that slides
replay_queue        the window replayed through a queue: what a fit must predict
load_curve          what a process predicts for that queue
fit_map             the best processes for a window; `fitting`: the order of the search
estimate            one estimate from several windows
change              whether two windows differ by more than chance
simple_fits         fits of windows that need no search
burst_search        chains of bursts (`burst_chain`) whose queue follows the replayed one along the load
course              the pieces of constant rate that tell a window's queue
course_queue        the queue of a course that repeats exactly; `rest_times`: of a piece where nothing is left to do
cycle_search        cycles of parts (`cycle_chain`) for windows of a few long bursts, by their fluid (`fluid_curve`)
turns               the period after which a window comes alike again, the course of a turn, and the levels of its turns
modulated_search    short cycles at a rate that changes slowly (`modulated_cycle`), for windows with turns and levels
minimax             steps that make the largest of many errors least
added_chance        what chance adds to the queue of a course
kpc                 compositions (`product_form`) that match moments and autocorrelation
alternating         chains of short and long times in turn (`free_chain`)
==================  ==============================================================================================
"""

from penstock.workload.candidates import FittedMap
from penstock.workload.change import Difference, WorkloadChange, detect_change
from penstock.workload.count_description import CountDescription, describe_counts
from penstock.workload.estimate import FittedWorkload, WindowFit, estimate_workload
from penstock.workload.fit_map import FitResult, fit_maps
from penstock.workload.load_curve import predicted_curve, predicted_responses
from penstock.workload.moments import TraceDescription, describe_iats, spread_ties
from penstock.workload.replay_queue import ReplayedQueue, replay
from penstock.workload.sliding import SlidingMoments, SlidingSummary

__all__ = [
    "CountDescription",
    "Difference",
    "FitResult",
    "FittedMap",
    "FittedWorkload",
    "ReplayedQueue",
    "SlidingMoments",
    "SlidingSummary",
    "TraceDescription",
    "WindowFit",
    "WorkloadChange",
    "describe_counts",
    "describe_iats",
    "detect_change",
    "estimate_workload",
    "fit_maps",
    "predicted_curve",
    "predicted_responses",
    "replay",
    "spread_ties",
]
