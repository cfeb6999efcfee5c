# SPDX-License-Identifier: Apache-2.0
"""The loop: `cycle` is one pass of the data's way, `runner` repeats it on time."""

from penstock.loop.cycle import Cycle, CycleReport
from penstock.loop.patient_source import PatientSource
from penstock.loop.runner import Runner

__all__ = ["Cycle", "CycleReport", "PatientSource", "Runner"]
