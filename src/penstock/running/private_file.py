# SPDX-License-Identifier: Apache-2.0
"""Files that hold a password or may."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file that nobody else may read (it may hold a password), whole or not at all."""
    draft = path.with_name(path.name + ".draft")
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # some file systems say only now that there is no room
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
