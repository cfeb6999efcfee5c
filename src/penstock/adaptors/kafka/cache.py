# SPDX-License-Identifier: Apache-2.0
"""The folder for fetched files: PENSTOCK_CACHE, or else the user's cache folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "PENSTOCK_CACHE"


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder for fetched jars. It need not exist yet.

    Examples
    --------
    >>> str(cache_folder({"PENSTOCK_CACHE": "/srv/penstock"}))
    '/srv/penstock'
    >>> str(cache_folder({"XDG_CACHE_HOME": "/home/ada/.cache"}))
    '/home/ada/.cache/penstock'
    """
    chosen = environment.get(VARIABLE)
    if chosen:
        return Path(chosen)
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "penstock"
