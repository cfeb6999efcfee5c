# SPDX-License-Identifier: Apache-2.0
"""The folder that masters of one host share."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from penstock.adaptors.agent.master_address import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from penstock.errors import ConfigurationError
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


@pytest.mark.parametrize("variable", [TOKEN_FILE_VARIABLE, TOKEN_VARIABLE])
def test_a_token_of_the_environment_comes_before_that_of_the_folder(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that master and agents in containers can be given one secret; no other is made."""
    token, file = "a" * 40, tmp_path / "secret"
    file.write_text(f"{token}\n")
    monkeypatch.setenv(variable, str(file) if variable == TOKEN_FILE_VARIABLE else token)
    store = StoreFolder(tmp_path / "masters")
    assert store.token() == token.encode()
    assert not (store.folder / TOKEN_FILE).exists()
    store.close()


def test_a_token_file_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A master that made a token of its own in its place would refuse all agents."""
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(tmp_path / "missing"))
    store = StoreFolder(tmp_path / "masters")
    with pytest.raises(ConfigurationError, match="missing cannot be read"):
        store.token()
    store.close()


def test_the_file_of_the_folder_may_be_named_before_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever starts agents and master in one shell has it in the environment of both."""
    store = StoreFolder(tmp_path / "masters")
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(store.folder / TOKEN_FILE))
    token = store.token()
    assert (store.folder / TOKEN_FILE).read_bytes().strip() == token
    store.close()
