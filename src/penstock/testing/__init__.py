# SPDX-License-Identifier: Apache-2.0
"""For those who write a policy, a model, a store or an actuator of their own: fakes, builders and check-suites.

The suites are plain functions with plain asserts: run them in any test framework, or in none.
"""

from penstock.clock import VirtualClock
from penstock.testing.check_actuator import check_actuator
from penstock.testing.check_cluster import check_cluster
from penstock.testing.check_leases import check_leases
from penstock.testing.check_model import check_model
from penstock.testing.check_policy import check_policy
from penstock.testing.check_store import check_store
from penstock.testing.fake_cluster import FakeCluster
from penstock.testing.fakes import FakeActuator, FakeMetricSource, a_decision, a_request, an_observation

__all__ = [
    "FakeActuator",
    "FakeCluster",
    "FakeMetricSource",
    "VirtualClock",
    "a_decision",
    "a_request",
    "an_observation",
    "check_actuator",
    "check_cluster",
    "check_leases",
    "check_model",
    "check_policy",
    "check_store",
]
