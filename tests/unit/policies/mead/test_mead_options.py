# SPDX-License-Identifier: Apache-2.0
"""The settings of MEAD, from plain values."""

from __future__ import annotations

from typing import Any

import pytest
from penstock.plan.registry import make_pipeline_options, make_policy, pipeline_policy_names, policy_options

from penstock.errors import ConfigurationError
from penstock.policies.mead.options import MeadOptions, mead_options
from penstock.policies.mead.probing import safe_step_down
from penstock.records import Allocation, Limits


def test_plain_values_become_options() -> None:
    """Times are read as people write them, sub-windows become parts, null switches a part off."""
    made = mead_options(sub_windows=2, every_seconds="20s", rescue_every=None, believed=None)
    assert made.parts == (1.0, 0.5, 0.25)
    assert made.every_seconds == 20.0
    assert (made.rescue, made.believed, made.name) == (None, None, "mead")
    assert mead_options("m/g/1", rescue_every="2s").every_seconds == 2.0
    assert mead_options("m/g/1").name == "m/g/1"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("queues", "m/m/1"),
        ("window", 10),
        ("window", 2.5),
        ("sub_windows", 9),
        ("best", 0),
        ("best", True),
        ("max_states", 1),
        ("believed", 0.5),
        ("believed", float("nan")),
        ("errors", -1),
        ("errors", "one"),
        ("delta", "small"),
        ("rescue_at", 2.0),
        ("every_seconds", 0),
        ("search", "greedy"),
        ("costs", 3.0),
        ("costs", [1.0, "two"]),
        ("costs", [2.0, 1.0]),
        ("costs", []),
    ],
)
def test_a_wrong_value_names_its_field(field: str, value: Any) -> None:
    """Each mistake is told with the option that is wrong."""
    with pytest.raises(ConfigurationError) as told:
        mead_options(**{field: value})
    assert field in str(told.value) or told.value.field in (field, "bound_part")


def test_the_registry_knows_which_policies_decide_for_pipelines() -> None:
    """Their options are checked like those of any policy; as the policy of one operator they are refused."""
    assert pipeline_policy_names() == ("mead",)
    assert make_pipeline_options("mead", window=5000) == mead_options(window=5000)
    assert isinstance(make_pipeline_options("mead"), MeadOptions)
    assert make_pipeline_options("threshold", upper=0.8) is None
    assert "most_levels_down" in policy_options("mead")
    with pytest.raises(ConfigurationError, match="unknown option windows; known: queues, window"):
        make_pipeline_options("mead", windows=5)
    with pytest.raises(ConfigurationError, match="whole pipeline"):
        make_policy("mead")
    with pytest.raises(ConfigurationError, match="known: fixed, schedule, threshold, mead"):
        make_policy("meat")


@pytest.mark.parametrize("fixed_part", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("load", [0.05, 0.3, 0.5])
def test_a_probing_step_never_breaks_the_bound_however_the_time_is_split(fixed_part: float, load: float) -> None:
    """Whatever part of f runs under the share: where a step is allowed, two settled batches fit into half the bound."""
    limits, current, bound = Limits(1, 1, (0.4, 0.7, 1.0)), Allocation(1, 1.0), 2.0
    for batch in (0.1, 0.3, 1.0):
        below = safe_step_down(limits, current, batch, load, bound)
        if below is not None:
            fixed = batch * (1.0 - load)  # b = f / (1 - rho)
            slower = fixed * (fixed_part / below.cpu_share + 1.0 - fixed_part)
            assert 2.0 * slower / (1.0 - load / below.cpu_share) <= 0.5 * bound + 1e-12
    assert safe_step_down(limits, current, 0.1, 0.05, bound) == Allocation(1, 0.7)
    assert safe_step_down(limits, Allocation(1, 0.4), 0.1, 0.05, bound) is None
    assert safe_step_down(limits, current, 0.1, 0.8, bound) is None
