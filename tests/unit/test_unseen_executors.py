# SPDX-License-Identifier: Apache-2.0
"""A job whose executors cannot be seen is not scaled, and says so when it is attached."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock._wiring import unseen_executors


@pytest.mark.parametrize(("page", "notes"), [("http://127.0.0.1:4040", 0), (None, 1)])
def test_a_job_without_a_web_page_is_noted_with_the_remedy(page: str | None, notes: int) -> None:
    """The note names the setting of Spark that is missing."""
    said = unseen_executors(cast("Any", SimpleNamespace(uiWebUrl=page)))
    assert len(said) == notes
    assert all("spark.ui.enabled=true" in note for note in said)
