# SPDX-License-Identifier: Apache-2.0
"""The loop: `cycle` is one pass of the data's way, `runner` repeats it on time, `helm` is where people steer it."""

from penstock.loop.cycle import Cycle, CycleReport
from penstock.loop.helm import Helm, PolicyChange
from penstock.loop.orders import Orders
from penstock.loop.patient_actuator import PatientActuator
from penstock.loop.patient_source import PatientSource
from penstock.loop.runner import Runner

__all__ = ["Cycle", "CycleReport", "Helm", "Orders", "PatientActuator", "PatientSource", "PolicyChange", "Runner"]
