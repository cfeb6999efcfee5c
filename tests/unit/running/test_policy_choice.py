# SPDX-License-Identifier: Apache-2.0
"""What a policy is told of the pipeline: the cap on a batch, wherever it is set."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.running.policy_choice import policy_context
from penstock.settings import parse_settings


def caps(**changes: Any) -> list[int | None]:
    """The caps of two operators in a row, the first of which reads the arrivals."""
    data = {
        "name": "caps",
        "arrivals": {"shape": "constant:rate=10,duration=60s", "options": {"maxRowsPerBatch": "500"}},
        "operators": [{"name": "first", "app": "a:f"}, {"name": "second", "app": "a:f", "input": "first"}],
        **changes,
    }
    return [site.cap for site in policy_context(parse_settings(data, "test")).operators.values()]


def test_the_cap_of_a_replay_is_that_of_its_reader() -> None:
    """An operator that reads another one does not have it."""
    assert caps() == [500, None]


@pytest.mark.parametrize("options", [{}, {"payload": "log"}])
def test_a_replay_without_a_cap_gives_none(options: dict[str, str]) -> None:
    """No number is invented."""
    assert caps(arrivals={"shape": "constant:rate=10,duration=60s", "options": options}) == [None, None]


def test_with_a_broker_the_reader_has_a_cap_of_its_own() -> None:
    """A replay that is sent into a topic caps nothing: the topic's reader does."""
    operators = [{"name": "first", "app": "a:f", "input_options": {"maxOffsetsPerTrigger": "70"}}]
    assert caps(broker={}, operators=operators) == [70]
    assert caps(broker={}, operators=[{"name": "first", "app": "a:f"}]) == [None]
