# SPDX-License-Identifier: Apache-2.0
"""Notices that the file under an open store was deleted or replaced: what is written to it then is read by nobody."""

from __future__ import annotations

from pathlib import Path


class OpenedFile:
    """A file as it was when it was opened.

    Parameters
    ----------
    path
        Where it is; it has to be there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self._identity = self._now()

    @property
    def is_in_place(self) -> bool:
        """Whether the path still leads to it."""
        return self._identity is not None and self._now() == self._identity

    def _now(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino
