# SPDX-License-Identifier: Apache-2.0
"""Where something that runs on its own keeps what it has, unless the user names another folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def state_folder(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The folder `penstock/NAME` in the user's state folder, by the XDG base directory specification."""
    base = environment.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "penstock" / name
