# SPDX-License-Identifier: Apache-2.0
"""What is special about the store in memory."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigurationError
from penstock.knowledge import MemoryStore
from penstock.testing import a_decision


def test_a_bound_below_one_is_refused() -> None:
    """A store that may keep nothing is refused, and the error names the field."""
    with pytest.raises(ConfigurationError, match="bound") as caught:
        MemoryStore(0)
    assert caught.value.field == "bound"


def test_it_can_be_read_after_closing() -> None:
    """Closing forgets nothing: a run's decisions are still there to be printed."""
    store = MemoryStore()
    decision = a_decision()
    store.add_decision(decision)
    store.close()
    assert store.decisions() == [decision]
