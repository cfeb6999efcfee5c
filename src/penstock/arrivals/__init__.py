# SPDX-License-Identifier: Apache-2.0
"""What the world sends: recorded traces, generated shapes of load, and when replayed records were due."""

from penstock.arrivals.contract import Arrivals
from penstock.arrivals.due import ReplayArrivals, ReplayOffset
from penstock.arrivals.sampled import Sampled
from penstock.arrivals.shape_text import parse_shape
from penstock.arrivals.shapes import Constant, Periodic, Shape, Steps
from penstock.arrivals.trace import Trace, load_trace

__all__ = [
    "Arrivals",
    "Constant",
    "Periodic",
    "ReplayArrivals",
    "ReplayOffset",
    "Sampled",
    "Shape",
    "Steps",
    "Trace",
    "load_trace",
    "parse_shape",
]
