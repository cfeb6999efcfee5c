# SPDX-License-Identifier: Apache-2.0
"""The folder where what was fetched once is kept: PENSTOCK_CACHE, else the user's cache folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "PENSTOCK_CACHE"


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where fetched jars are kept; it need not be there yet.

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
