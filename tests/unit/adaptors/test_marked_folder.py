# SPDX-License-Identifier: Apache-2.0
"""What belongs to a folder is started once, whoever asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.adaptors.process.marked_folder import starting_alone
from penstock.errors import ConfigurationError


def test_a_folder_that_has_none_beside_it_is_refused() -> None:
    """The lock would lie beside it."""
    with pytest.raises(ConfigurationError, match="--folder: / cannot be used"), starting_alone(Path("/")):
        pytest.fail("it was taken")
