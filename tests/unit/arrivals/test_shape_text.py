# SPDX-License-Identifier: Apache-2.0
"""Shapes as text and mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.arrivals import Arrivals, Constant, Periodic, Sampled, Steps, parse_shape
from penstock.errors import ConfigurationError


@pytest.mark.parametrize(
    ("description", "shape"),
    [
        ("constant:rate=500,duration=5m", Constant(500.0, 300.0)),
        (" constant: rate = 60/min , duration = 500ms ,", None),
        (
            "periodic:base=500,peak=5000,period=60s,width=20s,duration=5m",
            Periodic(500.0, 5000.0, 60.0, 20.0, 300.0, True),
        ),
        (
            "periodic:base=5/s,peak=50,period=1m,width=20,duration=5m,smooth=false",
            Periodic(5.0, 50.0, 60.0, 20.0, 300.0, False),
        ),
        ("steps:30s@500,10s@5000", Steps(((30.0, 500.0), (10.0, 5000.0)), 40.0)),
        ("steps:30s@500,10s@5000,duration=10m", Steps(((30.0, 500.0), (10.0, 5000.0)), 600.0)),
        ("sampled:constant:rate=5,duration=9s,seed=4", Sampled(Constant(5.0, 9.0), 4)),
        ("sampled:constant:rate=5,duration=9s", Sampled(Constant(5.0, 9.0), 77)),
        ({"shape": "constant", "rate": 5, "duration": "9s"}, Constant(5.0, 9.0)),
        ({"shape": "constant", "rate": 5, "duration": 9, "sampled": True}, Sampled(Constant(5.0, 9.0), 77)),
        ({"shape": "steps", "steps": [["30s", 500], "10s@5000"]}, Steps(((30.0, 500.0), (10.0, 5000.0)), 40.0)),
    ],
)
def test_reads_shapes(description: str | Mapping[str, Any], shape: Arrivals | None) -> None:
    """Text and mappings give the same shapes, with units and defaults."""
    if shape is None:  # 1/s for half a second: no record
        with pytest.raises(ConfigurationError, match=r"no record arrives within 0\.5 s"):
            parse_shape(description, seed=77)
    else:
        assert parse_shape(description, seed=77) == shape


@pytest.mark.parametrize(
    ("description", "messages"),
    [
        ("ramp:rate=5", ["unknown shape 'ramp'", "constant, periodic, steps"]),
        ("", ["unknown shape ''"]),
        ("constant:rate=5,duration=9s,jitter=2", ["unknown field 'jitter'", "rate, duration"]),
        ("constant:rate=5,duration=9s,seed=2", ["unknown field 'seed'"]),
        ("constant:rat=5,duration=x", ["unknown field 'rat'", "rate is missing", "duration: cannot read 'x'"]),
        ("constant:5,duration=9s", ["cannot read '5'", "field=value"]),
        ("constant:rate=5,rate=6,duration=9s", ["rate is given twice"]),
        ("periodic:base=1,peak=2,period=9s,width=3s,duration=9s,smooth=maybe", ["smooth: 'maybe'"]),
        ("steps:duration=9s", ["steps is missing"]),
        ("steps:30s", ["cannot read '30s'", "30s@500"]),
        ("sampled:constant:rate=5,duration=9s,seed=x", ["seed: 'x' is not a whole number"]),
        ({"shape": "steps", "steps": "30s@5"}, ["steps: '30s@5' is not a list"]),
        ({"rate": 5}, ["unknown shape ''"]),
    ],
)
def test_faults_name_the_field_and_the_known_ones(description: str | Mapping[str, Any], messages: list[str]) -> None:
    """Every mistake is named at once, with what would be right."""
    with pytest.raises(ConfigurationError) as caught:
        parse_shape(description)
    for message in messages:
        assert message in str(caught.value)


def test_a_misspelt_shape_is_named_before_its_fields() -> None:
    """The form of the fields depends on the shape, so an unknown one is reported first, with the nearest name."""
    with pytest.raises(ConfigurationError, match=r"unknown shape 'stepz'; did you mean steps\? Known shapes: "):
        parse_shape("stepz:40s@50")
