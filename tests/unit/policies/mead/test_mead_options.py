# SPDX-License-Identifier: Apache-2.0
"""The settings of MEAD, from plain values."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from penstock.errors import ConfigurationError
from penstock.policies.mead.options import AS_PUBLISHED, MEANINGS, mead_options
from penstock.policies.mead.probing import safe_step_down
from penstock.records import Allocation, Limits


def test_plain_values_become_options() -> None:
    """Times are read as people write them, sub-windows become parts, null switches a part off."""
    made = mead_options(sub_windows=2, every_seconds="20s", rescue_every=None)
    assert made.windows == (1.0, 0.5, 0.25)
    assert made.every_seconds == 20.0
    assert (made.rescue, made.name, made.queues) == (None, "mead", "auto")
    assert mead_options("blind", queues="m/g/1", rescue_every="2s").every_seconds == 2.0
    named = mead_options("blind", queues="m/g/1")
    assert (named.name, named.planner.name, named.queues) == ("blind", "blind", "m/g/1")


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
        ("rescue", "yes"),
        ("extrapolate_rises", None),
        ("hold_while_rising", 1),
        ("drop_overtaken", "off"),
        ("probe", "false"),
    ],
)
def test_a_wrong_value_names_its_field(field: str, value: Any) -> None:
    """Each mistake is reported with the option that is wrong."""
    with pytest.raises(ConfigurationError) as caught:
        mead_options(**{field: value})
    assert field in str(caught.value) or caught.value.field in (field, "bound_part")


def test_every_option_is_explained() -> None:
    """The meanings are those of the options there are, and each is a sentence."""
    options = [name for name in inspect.signature(mead_options).parameters if name != "name"]
    assert list(MEANINGS) == options
    assert all(MEANINGS.values())


def test_as_published_switches_off_whatever_is_a_switch() -> None:
    """Every switch that is on by default is off in the published policy, and so is all that has a value instead."""
    defaults = {name: p.default for name, p in inspect.signature(mead_options).parameters.items()}
    switches = {name for name, default in defaults.items() if default is True}
    assert {name for name, value in AS_PUBLISHED.items() if value is False} == switches
    made = mead_options(**AS_PUBLISHED)
    assert (made.rescue, made.queues, made.errors, made.planner.search) == (None, "map", 0.0, "published")
    assert not any((made.extrapolate_rises, made.hold_while_rising, made.drop_overtaken, made.probe))
    # What the paper has too stays as it is.
    assert (made.planner.most_levels_down, made.every_seconds) == (1, 60.0)


def test_a_switch_and_its_value_agree() -> None:
    """`rescue: false` and `rescue_every: null` are the same."""
    assert mead_options(rescue=False) == mead_options(rescue_every=None)
    watched = mead_options(rescue_every="5s", rescue_at=0.25).rescue
    assert watched is not None
    assert (watched.every_seconds, watched.bound_part) == (5.0, 0.25)


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


def test_all_wrong_options_are_reported_at_once_by_the_names_that_settings_use() -> None:
    """Each has its own line, in the order of the options."""
    wrong: dict[str, Any] = {
        "queues": "x", "window": 3, "search": "fast", "delta": -1, "most_levels_down": 0, "every_seconds": "0s",
        "probe": "yes", "rescue_every": "never", "rescue_at": 2, "errors": "few", "costs": [2, 1],
    }  # fmt: skip
    with pytest.raises(ConfigurationError) as caught:
        mead_options(**wrong)
    assert [text.split(":")[0] for text in caught.value.faults] == list(wrong)
    assert str(caught.value).startswith("policy mead: 11 mistakes")
