# SPDX-License-Identifier: Apache-2.0
"""Arrivals: recorded traces, generated shapes of load, and when replayed records were due."""

from penstock.arrivals.contract import Arrivals
from penstock.arrivals.count_series import CountSeries
from penstock.arrivals.cut import Cut
from penstock.arrivals.due import ReplayArrivals, ReplayOffset
from penstock.arrivals.from_map import MapArrivals, load_map
from penstock.arrivals.gaps import Gaps, open_gaps, read_window
from penstock.arrivals.sampled import Sampled
from penstock.arrivals.shape_text import parse_shape
from penstock.arrivals.shapes import Constant, Periodic, Shape, Steps
from penstock.arrivals.synt import SYNT_STRETCHES, Joined, Stretch, synt
from penstock.arrivals.trace import Trace, load_trace
from penstock.arrivals.trace_formats import TRACE_FORMATS, TraceFormat
from penstock.arrivals.trace_times import Reading
from penstock.arrivals.trace_writing import write_trace

__all__ = [
    "SYNT_STRETCHES",
    "TRACE_FORMATS",
    "Arrivals",
    "Constant",
    "CountSeries",
    "Cut",
    "Gaps",
    "Joined",
    "MapArrivals",
    "Periodic",
    "Reading",
    "ReplayArrivals",
    "ReplayOffset",
    "Sampled",
    "Shape",
    "Steps",
    "Stretch",
    "Trace",
    "TraceFormat",
    "load_map",
    "load_trace",
    "open_gaps",
    "parse_shape",
    "read_window",
    "synt",
    "write_trace",
]
