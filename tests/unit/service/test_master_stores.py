# SPDX-License-Identifier: Apache-2.0
"""The folder that masters of one host share."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from penstock.service.master_stores import TOKEN_FILE, StoreFolder


def test_masters_that_start_together_have_one_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one whose token came second takes that of the first: agents know one only."""
    first, second = StoreFolder(tmp_path), StoreFolder(tmp_path)
    draw, others = secrets.token_urlsafe, list[bytes]()

    def slowly(length: int) -> str:
        monkeypatch.setattr(secrets, "token_urlsafe", draw)
        others.append(first.token())  # after the second one has seen that there is none
        return draw(length)

    monkeypatch.setattr(secrets, "token_urlsafe", slowly)
    assert [second.token()] == others
    assert first.token() == second.token()
    assert (tmp_path / TOKEN_FILE).stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob(f".{TOKEN_FILE}*"))
    first.close()
    second.close()
