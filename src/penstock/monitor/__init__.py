# SPDX-License-Identifier: Apache-2.0
"""Monitor: telemetry becomes one `Observation` per operator and cycle.

`latency` joins arrival times with batch ends, `cpu` turns counters into utilisation, `quality` judges what can be
trusted, `observe` puts them together.
"""

from penstock.monitor.latency import LatencyHistogram, LatencyTracker
from penstock.monitor.observe import Monitor

__all__ = ["LatencyHistogram", "LatencyTracker", "Monitor"]
