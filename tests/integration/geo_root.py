# SPDX-License-Identifier: Apache-2.0
"""Whether network namespaces can be made here, for the tests that need them."""

from __future__ import annotations

import pytest

from penstock.adaptors.geo.namespaces import check_can_be_made
from penstock.errors import ConfigurationError


def _missing() -> str | None:
    try:
        check_can_be_made()
    except ConfigurationError as fault:
        return str(fault)
    return None


MISSING = _missing()
needs_namespaces = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
